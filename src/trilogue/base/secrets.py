"""Keys of clients and upstreams, which must never be printed.

In: a text of the configuration, which is a reference (`env:NAME`, `file:path`, `store:NAME`, `cmd:…`) or the key
itself. Out: a `Secret`.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path

from trilogue.config.problems import NAME
from trilogue.storage.folders import state_directory
from trilogue.storage.vault import Vault, VaultError
from trilogue.upstreams.sources import (
    BadReference,
    ClientSource,
    CommandSource,
    FileSource,
    MissingSecret,
    command_source,
    file_source,
    sendable,
)

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_FOREIGN = [
    re.compile(pattern.replace("NAME", f"({_VARIABLE.pattern})"))
    for pattern in (
        r"\$NAME",
        r"\$\{NAME(?::?-[^}]*)?\}",
        r"os\.environ/NAME",
        r"env\.NAME",
        r"\{env:NAME\}",
        r"\{\{ *env\.NAME *\}\}",
    )
]
"""how shells, compose files, LiteLLM, Bifrost and others refer to environment variables"""
_HIDDEN = "***"
CLIENT = "client"
"""as the key of an account: the one that the client sends"""


class Secret:
    """A text that prints as `***`; only `reveal()` returns it."""

    __slots__ = ("_value", "literal", "missing", "reference", "source")

    def __init__(
        self,
        value: str,
        *,
        literal: bool = False,
        reference: str = "",
        missing: str = "",
        source: FileSource | CommandSource | ClientSource | None = None,
    ) -> None:
        self._value = value
        self.literal = literal
        """The key is in the configuration file itself, not referred to."""
        self.reference = reference
        """How the configuration refers to it: `env:NAME`, `file:path`, `store:NAME`, `cmd:…`."""
        self.missing = missing
        """Why it could not be found, if the configuration allows that."""
        self.source = source
        """Where its value comes from, if that can change. The value of a command is not known until it is run."""

    def reveal(self) -> str:
        """Return the secret as text. Never log or format it."""
        return self._value

    def derive(self) -> bytes:
        """Return a key of 32 bytes derived from the text, to seal with."""
        return blake2b(self._value.encode(), digest_size=32, person=b"trilogue-seal").digest()

    def fingerprint(self) -> str:
        """Return a short digest that differs from other texts' digests; too short to find or confirm a key with."""
        text = self._value or self.reference
        return blake2b(text.encode(), digest_size=4, person=b"trilogue-finger").hexdigest()

    def __repr__(self) -> str:
        return _HIDDEN

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(_HIDDEN, spec)

    def __bool__(self) -> bool:
        return bool(self._value) or self.source is not None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret) or self.source != other.source:
            return False
        return hmac.compare_digest(self._value.encode(), other._value.encode())

    def __hash__(self) -> int:
        return hash(self.derive())


def resolve(text: str, environ: Mapping[str, str], folder: Path) -> Secret:
    """Return the secret that a text of the configuration refers to. Relative paths start at `folder`.

    Raise BadReference.
    """
    if hint := foreign_reference(text):
        raise BadReference(hint)
    if text == CLIENT:
        return Secret("", reference=text, source=ClientSource())
    scheme, _, rest = text.partition(":")
    if scheme == "cmd":
        return Secret("", reference=text, source=command_source(rest, folder))
    if scheme == "file":
        source = file_source(rest, folder)
        return Secret(source.read(), reference=text, source=source)
    if scheme == "env":
        return Secret(sendable(_from_environment(rest, environ)), reference=text)
    if scheme == "store":
        return Secret(sendable(_from_store(rest, environ)), reference=text)
    return Secret(sendable(text), literal=True)


def foreign_reference(text: str) -> str:
    """Return how to write a reference in the way of another program; "" if the text is not one.

    As a key it could only be a mistake, and an upstream would answer with a misleading 401.
    """
    for pattern in _FOREIGN:
        if found := pattern.fullmatch(text):
            return f"environment variables are written as env:{found[1]} here"
    return ""


def _from_environment(name: str, environ: Mapping[str, str]) -> str:
    if not _VARIABLE.fullmatch(name):
        raise BadReference("env: must be followed by the name of an environment variable")
    value = environ.get(name)
    if value is None:
        raise MissingSecret(f"environment variable {name} is not set")
    value = value.strip()
    if not value:
        raise MissingSecret(f"environment variable {name} is empty")
    return value


def _from_store(name: str, environ: Mapping[str, str]) -> str:
    if not NAME.fullmatch(name):
        raise BadReference("store: must be followed by the name that the key was added with")
    try:
        return Vault(state_directory(environ)).get(name)
    except VaultError as error:
        raise MissingSecret(str(error)) from None
