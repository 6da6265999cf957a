"""Where keys come from that change while the gateway runs: files, commands that print them, and requests.

A `Secret` has one of these if its value can change. Files are read here; commands are run by the gateway, which has an
event loop to do that in.
"""

from __future__ import annotations

import math
import shlex
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

MAX_SECRET_BYTES = 64 * 1024

_TOKENS = ("token", "access_token", "accessToken")
_SECONDS = ("expires_in", "expiresIn")
_TIMES = ("expires_on", "expires_at", "expiration", "expirationTimestamp", "expiresAt")

Stamp = tuple[int, int, int]


class BadReference(ValueError):
    """A reference that cannot be resolved. The text names the variable, the file or the program, never the value."""


class MissingSecret(BadReference):
    """A valid reference to something that is not there."""


class FileSource(Struct, frozen=True):
    """A file that holds a key. `name`: as the configuration has it."""

    path: Path
    name: str

    def stamp(self) -> Stamp | None:
        """Return what changes when the file is written or replaced; None if it is not there."""
        try:
            found = self.path.stat()
        except (OSError, ValueError):
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    def read(self) -> str:
        """Return the content without line breaks at its end. Raise BadReference."""
        try:
            with self.path.open("rb") as file:
                data = file.read(MAX_SECRET_BYTES + 1)
        except (OSError, ValueError) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or "not a path"
            raise MissingSecret(f"cannot read the file {self.name}: {reason}") from None
        if len(data) > MAX_SECRET_BYTES:
            raise BadReference(f"the file {self.name} is larger than {MAX_SECRET_BYTES} bytes")
        value = data.decode("utf-8", "replace").rstrip("\r\n")
        if not value:
            raise MissingSecret(f"the file {self.name} is empty")
        return sendable(value)


class CommandSource(Struct, frozen=True):
    """A command that prints a key, as words. It is run in `folder`, without a shell."""

    words: tuple[str, ...]
    folder: Path

    @property
    def program(self) -> str:
        """The first word, for messages: arguments may hold secrets."""
        return self.words[0]


class ClientSource(Struct, frozen=True):
    """The key that the client sends with its request."""


class Printed(NamedTuple):
    """A key that a command has printed. `seconds`: how long it can be used; None if the command does not say."""

    value: str
    seconds: float | None = None


def sendable(value: str) -> str:
    """Return a key that can be sent in a header. Raise BadReference."""
    if not value.isprintable() or not value.isascii():
        raise BadReference("must be printable ASCII without line breaks")
    return value


def file_source(name: str, folder: Path) -> FileSource:
    """Return the file that the text after `file:` means. Raise BadReference."""
    if not name:
        raise BadReference("file: must be followed by a path")
    try:
        return FileSource(folder / Path(name).expanduser(), name)
    except RuntimeError:
        raise MissingSecret(f"cannot read the file {name}: not a path") from None


def command_source(line: str, folder: Path) -> CommandSource:
    """Return the command that the text after `cmd:` means. Raise BadReference."""
    try:
        words = tuple(shlex.split(line))
    except ValueError:
        raise BadReference("cmd: the quotes in the command do not match") from None
    if not words:
        raise BadReference("cmd: must be followed by a command that prints the key")
    if shutil.which(words[0], path=None) is None and shutil.which(str(folder / words[0])) is None:
        raise MissingSecret(f"there is no program {words[0]}")
    return CommandSource(words, folder)


def read_printed(output: bytes, now: float) -> Printed:
    """Return the key in the output of a command: the output itself, or a field of a JSON object. Raise BadReference.

    `now`: seconds since 1970. The JSON that `az account get-access-token`, OAuth servers and Kubernetes' plugins print
    also says how long the key can be used.
    """
    text = output.decode("utf-8", "replace").strip()
    if not text.startswith("{"):
        return Printed(_not_empty(text))
    try:
        fields = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        raise BadReference("its output begins with { but is not JSON") from None
    # Kubernetes' plugins have it in `status`.
    found = {**(fields["status"] if isinstance(fields.get("status"), dict) else {}), **fields}
    value = next((found[name] for name in _TOKENS if isinstance(found.get(name), str)), "")
    if not value:
        raise BadReference(f"its output has none of the fields {', '.join(_TOKENS)}")
    return Printed(_not_empty(value), _lifetime(found, now))


def _not_empty(value: str) -> str:
    if not value:
        raise BadReference("it printed nothing")
    return sendable(value)


def _lifetime(fields: dict[str, Any], now: float) -> float | None:
    """Return for how many seconds the key can be used; None if no field says it."""
    for name in _SECONDS:
        if (seconds := _number(fields.get(name))) is not None:
            return seconds
    for name in _TIMES:
        value = fields.get(name)
        until = _number(value)
        if until is None and isinstance(value, str):
            until = _timestamp(value)
        if until is not None:
            return until - now
    return None


def _number(value: Any) -> float | None:
    try:
        number = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _timestamp(text: str) -> float | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
