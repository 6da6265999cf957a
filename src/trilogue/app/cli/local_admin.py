"""The admin interface on this machine: the key that is generated for it, and the address that commands find it by.

Both are files in the state folder that only the user can read: `admin.key` for all gateways of the user, and
`admin.address` for each configuration file. The key is not used if the configuration has one. A gateway needs
only this and not `admin_client`, which would be a second HTTP client.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from trilogue.base.addresses import is_loopback
from trilogue.base.secrets import Secret
from trilogue.config.config import Config
from trilogue.gateway.admin.settings import AdminSettings
from trilogue.storage.locations import state_directory, state_file
from trilogue.storage.private_files import MAKE_SECONDS, make_once, set_aside, write_private

KEY_FILE = "admin.key"
ADDRESS_FILE = "admin.address"
KEY_BYTES = 32
_KEY = re.compile(r"[!-~]{16,}")
"""what can be an admin key: people may have put one of their own into the file"""
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


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
