"""Keys of clients and upstreams, which must never be printed.

In: a text of the configuration, which is a reference (`env:NAME`, `file:path`, `store:NAME`) or the key itself. Out: a
`Secret`.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path

from trilogue.config.folders import state_directory
from trilogue.config.problems import NAME
from trilogue.config.vault import Vault, VaultError

MAX_SECRET_BYTES = 64 * 1024
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_HIDDEN = "***"


class Secret:
    """A text that prints as `***`; only `reveal()` returns it."""

    __slots__ = ("_value", "literal")

    def __init__(self, value: str, *, literal: bool = False) -> None:
        self._value = value
        self.literal = literal
        """The key is in the configuration file itself, not referred to."""

    def reveal(self) -> str:
        """Return the secret as text. Never log or format it."""
        return self._value

    def derive(self) -> bytes:
        """Return a key of 32 bytes derived from the text, to seal with."""
        return blake2b(self._value.encode(), digest_size=32, person=b"trilogue-seal").digest()

    def fingerprint(self) -> str:
        """Return a short digest that differs from other texts' digests; too short to find or confirm a key with."""
        return blake2b(self._value.encode(), digest_size=4, person=b"trilogue-finger").hexdigest()

    def __repr__(self) -> str:
        return _HIDDEN

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(_HIDDEN, spec)

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(self._value.encode(), other._value.encode())

    def __hash__(self) -> int:
        return hash(self.derive())


class BadReference(ValueError):
    """A reference that cannot be resolved. The text names the variable or the file, never the value."""


def resolve(text: str, environ: Mapping[str, str], folder: Path) -> Secret:
    """Return the secret that a text of the configuration refers to. Relative paths start at `folder`.

    Raise BadReference.
    """
    scheme, _, rest = text.partition(":")
    if scheme == "env":
        value, literal = _from_environment(rest, environ), False
    elif scheme == "file":
        value, literal = _from_file(rest, folder), False
    elif scheme == "store":
        value, literal = _from_store(rest, environ), False
    else:
        value, literal = text, True
    if not value.isprintable() or not value.isascii():
        raise BadReference("must be printable ASCII without line breaks")
    return Secret(value, literal=literal)


def _from_environment(name: str, environ: Mapping[str, str]) -> str:
    if not _VARIABLE.fullmatch(name):
        raise BadReference("env: must be followed by the name of an environment variable")
    value = environ.get(name)
    if value is None:
        raise BadReference(f"environment variable {name} is not set")
    value = value.strip()
    if not value:
        raise BadReference(f"environment variable {name} is empty")
    return value


def _from_store(name: str, environ: Mapping[str, str]) -> str:
    if not NAME.fullmatch(name):
        raise BadReference("store: must be followed by the name that the key was added with")
    try:
        return Vault(state_directory(environ)).get(name)
    except VaultError as error:
        raise BadReference(str(error)) from None


def _from_file(name: str, folder: Path) -> str:
    if not name:
        raise BadReference("file: must be followed by a path")
    try:
        with (folder / Path(name).expanduser()).open("rb") as file:
            data = file.read(MAX_SECRET_BYTES + 1)
    except (OSError, ValueError, RuntimeError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or "not a path"
        raise BadReference(f"cannot read the file {name}: {reason}") from None
    if len(data) > MAX_SECRET_BYTES:
        raise BadReference(f"the file {name} is larger than {MAX_SECRET_BYTES} bytes")
    value = data.decode("utf-8", "replace").rstrip("\r\n")
    if not value:
        raise BadReference(f"the file {name} is empty")
    return value
