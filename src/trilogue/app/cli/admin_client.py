"""A client for the admin interface of a running gateway, for commands that ask it something.

The address and the key are found by the configuration, as the gateway finds them (`local_admin`). All errors are
one line for the user.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import click
import msgspec

from trilogue.app.cli.configured import read_configuration
from trilogue.app.cli.local_admin import key_file, read_address, read_key, wants_generated_key
from trilogue.config.config import Config
from trilogue.gateway.admin.settings import AdminRole, AdminSettings

KEY_VARIABLE = "TRILOGUE_ADMIN_KEY"
"""the key for `--url`"""
SECONDS = 30.0


class AdminRequestFailed(click.ClickException):
    """The gateway cannot be asked, or has refused the request. `status` and `code`: its response; 0 and "" if none."""

    exit_code = 2

    def __init__(self, message: str, status: int = 0, code: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class AdminClient:
    """Requests to one admin interface, or to the gateway itself with the key of a client."""

    def __init__(self, url: str, key: str) -> None:
        self.url = url.rstrip("/")
        self._key = key

    def get(self, path: str, query: Mapping[str, str | int] | None = None) -> Any:
        """Return the JSON of a GET request. Raises AdminRequestFailed."""
        return _parsed(self.read("GET", f"{path}?{urlencode(query)}" if query else path), self.url)

    def post(self, path: str, body: Any = None) -> Any:
        """Send JSON and return the JSON of the response. Raises AdminRequestFailed."""
        return _parsed(self.read("POST", path, b"" if body is None else msgspec.json.encode(body)), self.url)

    def delete(self, path: str) -> Any:
        """Return the JSON of a DELETE request. Raises AdminRequestFailed."""
        return _parsed(self.read("DELETE", path), self.url)

    def read(self, method: str, path: str, body: bytes | None = None, seconds: float = SECONDS) -> bytes:
        """Send a request and return the body of a successful response. Raises AdminRequestFailed.

        `seconds`: how long the gateway may be silent.
        """
        parts = urlsplit(self.url)
        connect = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        connection = connect(parts.hostname or "", parts.port, timeout=seconds)
        headers = {"authorization": f"Bearer {self._key}", "content-type": "application/json"}
        try:
            connection.request(method, f"{parts.path}{path}", body, headers)
            response = connection.getresponse()
            status, data = response.status, response.read()
        except ConnectionRefusedError:
            raise AdminRequestFailed(f"no gateway listens at {self.url}; `trilogue serve` starts one") from None
        except (OSError, HTTPException) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or type(error).__name__
            raise AdminRequestFailed(f"the gateway at {self.url} cannot be asked: {reason}") from None
        finally:
            connection.close()
        if status >= 400:
            raise _refusal(status, data, self.url)
        return data


def admin_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say which gateway is meant. The command gets `path` and `url` for `admin_client`."""
    config = click.option(
        "--config",
        "path",
        metavar="FILE",
        help="Configuration file of the gateway; default: ./trilogue.yaml, then the one in the user's config folder.",
    )
    address = click.option(
        "--url", metavar="URL", help=f"Admin interface of another gateway; its key is in {KEY_VARIABLE}."
    )
    return config(address(command))


def admin_client(path: str | None, url: str | None) -> AdminClient:
    """Return a client for the gateway of a configuration file, or at a URL.

    Raises AdminRequestFailed and UsageError.
    """
    if url is not None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise click.UsageError("--url must be an http or https URL")
        key = os.environ.get(KEY_VARIABLE, "").strip()
        if not key:
            raise click.UsageError(f"--url needs the admin key in the environment variable {KEY_VARIABLE}")
        return AdminClient(url, key)
    config, file = read_configuration(path)
    return AdminClient(read_address(file) or configured_url(config), _key(config, file))


def configured_url(config: Config) -> str:
    """Return the address of the admin interface according to the configuration."""
    host = config.admin.host
    return f"http://[{host}]:{config.admin.port}" if ":" in host else f"http://{host}:{config.admin.port}"


def _key(config: Config, file: Path | None) -> str:
    """Return the key of a gateway. Raises AdminRequestFailed with what to do if there is none."""
    admin = config.admin
    if not admin.enabled:
        raise AdminRequestFailed(
            f"the admin interface is off: remove `admin.enabled: false` from {file} and restart it"
        )
    if admin.key is not None and not admin.key:
        raise AdminRequestFailed("admin.key: the secret that the configuration refers to cannot be found")
    if admin.key is not None or not wants_generated_key(config):
        return _configured_key(admin)
    try:
        key = read_key()
    except OSError as error:
        raise AdminRequestFailed(f"cannot read {key_file()}: {error.strerror}") from None
    if key is None:
        raise AdminRequestFailed("no gateway has run here yet; `trilogue serve` starts one")
    return key.reveal()


def _configured_key(admin: AdminSettings) -> str:
    """Return the key with the highest role that the configuration has. Raises AdminRequestFailed if it has none."""
    found = [key for role in reversed(AdminRole) for key, its in admin.all_keys().values() if its is role and key]
    if found:
        return found[0].reveal()
    if admin.admits_somebody:
        raise AdminRequestFailed(
            "the configuration has no key that this command could use: set `admin.key` or `admin.keys`"
        )
    raise AdminRequestFailed("the admin interface is off: an address that others can reach needs `admin.key`")


def _refusal(status: int, data: bytes, url: str) -> AdminRequestFailed:
    """Return the error that a response reports."""
    try:
        error = msgspec.json.decode(data)["error"]
        message, code = str(error["message"]), str(error["code"])
    except (msgspec.MsgspecError, KeyError, TypeError):
        return AdminRequestFailed(
            f"{url} responded with status {status}; is this the admin interface of a gateway?", status
        )
    if status == 401:
        message = f"the gateway at {url} does not accept this admin key; was it started with another configuration?"
    return AdminRequestFailed(message, status, code)


def _parsed(data: bytes, url: str) -> Any:
    try:
        return msgspec.json.decode(data)
    except msgspec.MsgspecError:
        raise AdminRequestFailed(
            f"the response of {url} is not JSON; is this the admin interface of a gateway?"
        ) from None
