"""Find the admin interface of a running gateway and ask it something, for commands.

The address and the key are found by the configuration, as the gateway finds them. Both are files in the state folder
that only the user can read: `admin.address` for each configuration file, and `admin.key` for all gateways of the user,
which is generated if the configuration has no key. All errors are one line for the user.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Callable, Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import click
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from trilogue.app.cli.configured import read_configuration
from trilogue.base.secrets import Secret
from trilogue.config.config import Config
from trilogue.gateway.admin.settings import AdminSettings, Role
from trilogue.storage.aside import set_aside
from trilogue.storage.locations import state_directory, state_file
from trilogue.storage.private_files import MAKE_SECONDS, make_once, write_private
from trilogue.upstreams.addresses import is_loopback

KEY_VARIABLE = "TRILOGUE_ADMIN_KEY"
"""the key for `--url`"""
SECONDS = 30.0
KEY_FILE = "admin.key"
ADDRESS_FILE = "admin.address"
KEY_BYTES = 32
_KEY = re.compile(r"[!-~]{16,}")
"""what can be an admin key: people may have put one of their own into the file"""
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


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
    found = [key for role in reversed(Role) for key, its in admin.all_keys().values() if its is role and key]
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


class AdminAddress(Struct, frozen=True):
    """Where the admin interface of a running gateway listens. `pid`: the process that has written this."""

    url: str
    pid: int


def key_file() -> Path:
    """Return the file with the generated key. It may not exist yet."""
    return state_directory(os.environ) / KEY_FILE


def wants_generated_key(config: Config) -> bool:
    """Return whether the admin interface is on without a configured key, which is allowed on this machine only."""
    admin = config.admin
    return admin.enabled and admin.key is None and is_loopback(admin.host)


def with_admin_key(config: Config) -> Config:
    """Return the configuration with a key for the admin interface, generated if it has none; without any if it is off.

    Raises OSError if the key cannot be kept.
    """
    if wants_generated_key(config):
        return replace(config, admin=replace(config.admin, key=generated_key()))
    return config if config.admin.enabled else replace(config, admin=AdminSettings(enabled=False))


def generated_key() -> Secret:
    """Return the key of the state folder, and make one if there is none yet. Raises OSError."""
    key = read_key()
    if key is not None:
        return key
    path = key_file()
    set_aside(path, lambda: path.is_dir() or _is_damaged(path), MAKE_SECONDS)
    # One that others could have read is replaced.
    make_once(path, lambda: read_key() is not None, _new_key)
    key = read_key()
    if key is None:
        raise OSError(errno.EPERM, "the file cannot be made private", str(path))
    return key


def read_key() -> Secret | None:
    """Return the generated key; None if there is none, if it is damaged, or if others could have read it."""
    try:
        with key_file().open("rb") as file:
            if os.fstat(file.fileno()).st_mode & _OTHERS:
                return None
            text = file.read(4096).decode("ascii", "replace").strip()
            return Secret(text) if _KEY.fullmatch(text) else None
    except (FileNotFoundError, IsADirectoryError):
        return None


def _is_damaged(path: Path) -> bool:
    """Return whether a key file has no key in it. A part of one would be easier to guess."""
    return _KEY.fullmatch(path.read_bytes()[:4096].decode("ascii", "replace").strip()) is None


def _new_key() -> bytes:
    return f"{secrets.token_urlsafe(KEY_BYTES)}\n".encode()


def address_file(config_file: Path | None) -> Path:
    """Return where a gateway with this configuration file writes its address."""
    return state_file(os.environ, ADDRESS_FILE, config_file)


def write_address(config_file: Path | None, url: str) -> None:
    """Write the address of this gateway, in place of an earlier one. Raises OSError."""
    path = address_file(config_file)
    write_private(path, msgspec.json.encode(AdminAddress(url, os.getpid())))


def read_address(config_file: Path | None) -> str | None:
    """Return the address of the gateway that was started last with this configuration file; None if it has ended."""
    try:
        address = msgspec.json.decode(address_file(config_file).read_bytes(), type=AdminAddress)
        os.kill(address.pid, 0)  # sends nothing; a gateway that was killed has left its address
    except PermissionError:  # it runs as another user
        return address.url
    except (OSError, UnicodeDecodeError, msgspec.MsgspecError):
        return None
    return address.url


def remove_address(config_file: Path | None) -> None:
    """Remove the address of this gateway, unless another one has replaced it."""
    path = address_file(config_file)
    try:
        if msgspec.json.decode(path.read_bytes(), type=AdminAddress).pid == os.getpid():
            path.unlink()
    except (OSError, UnicodeDecodeError, msgspec.MsgspecError):
        pass  # it is gone already, or was never written
