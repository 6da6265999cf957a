"""Keys of clients and upstreams, which must never be printed.

In: a text of the configuration, which is a reference (`env:NAME`, `file:path`, `store:NAME`, `cmd:…`) or the key
itself. Out: a `Secret`.
"""

from __future__ import annotations

import hmac
from hashlib import blake2b

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
        source: object = None,
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
