"""Removes credentials, and the ids of the organisation that pays, from an upstream's errors.

Vendors name them in their texts ("Incorrect API key provided: sk-…", "in organization org-…"). They are the operator's,
and must not reach clients or the log. In: failures, and the bytes of failed responses. Out: the same with `***`. Only
failures are searched: HTTP errors, errors in a response with status 200, and errors inside a stream.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable

from msgspec.structs import replace

from trilogue.model import Failure, Json

_HIDDEN = b"***"
_SHORTEST = 8
_SURE = 12
"""Characters of a secret that must match inside other text: shorter matches are coincidences."""
_SHOWN = 4
"""Characters that vendors show of a key whose rest they mask: `gsk_a***`, `abcd…wxyz`."""
_MASK = rb"(?:\*\*|\.\.|\xe2\x80[\xa2\xa6]|\\u202[26])(?:[\w*.-]|\xe2\x80[\xa2\xa6]|\\u202[26])*"
_MOST = 200
"""Characters of a secret that are in the pattern. Longer ones are tokens, matched by their alphabet from there on."""
_MOST_SECRETS = 20
"""Secrets of one account: its keys of the last hours, and headers."""
_NAMES = rb"\b(?:sk|pk|rk|gsk|xai)-[\w*.-]{6,}|\bAIza[\w-]{8,}|\b(?:org|proj|acct|wrkspc)[-_][A-Za-z0-9]{12,}"


class Redactor:
    """Replaces some secrets, and everything else that looks like one, by `***`."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets = [secret for secret in secrets if len(secret) >= _SHORTEST]
        self._pattern: re.Pattern[bytes] | None = None

    def learn(self, secret: str) -> None:
        """Replace one more secret from now on: the key of the account has changed. The last few are remembered."""
        if len(secret) >= _SHORTEST and secret not in self._secrets:
            self._secrets = [*self._secrets[-_MOST_SECRETS:], secret]
            self._pattern = None

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secrets that it was made for."""
        return tuple(self._secrets)

    def body(self, body: bytes) -> bytes:
        """Return a body, or a part of a stream, without secrets."""
        if self._pattern is None:
            # Compile it at the first failure: there may be thousands of accounts, and most never fail.
            forms = [form for secret in self._secrets for form in _patterns(secret)]
            self._pattern = re.compile(b"|".join([*forms, _NAMES]), re.ASCII)
        return self._pattern.sub(_HIDDEN, body)

    def text(self, text: str) -> str:
        """Return a text without secrets."""
        return self.body(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def failure(self, failure: Failure) -> Failure:
        """Return a failure without secrets in any of its texts."""
        return replace(
            failure,
            message=self.text(failure.message),
            code=self._maybe(failure.code),
            type=self._maybe(failure.type),
            param=self._maybe(failure.param),
            request_id=self._maybe(failure.request_id),
            native=self._json(failure.native),
        )

    def _maybe(self, text: str | None) -> str | None:
        return None if text is None else self.text(text)

    def _json(self, value: Json) -> Json:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self._json(item) for item in value]
        if isinstance(value, dict):
            return {self.text(name): self._json(item) for name, item in value.items()}
        return value


def _patterns(secret: str) -> list[bytes]:
    """Return patterns for all ways in which an error may show a secret."""
    characters = _characters(secret[:_MOST].encode("latin-1", "replace"))
    rest = rb"[\w.~+/=-]*" if len(secret) > _MOST else b""
    found = [_from(characters, _SURE) + rest, *map(_encoded, range(3), [secret] * 3)]
    found.append(rb"(?<!\w)" + _beginning(characters, _SHOWN) + _MASK)
    if not secret[:_SHORTEST].isalpha():
        # For a key that consists of words, the first word may be in any text.
        found.append(rb"(?<!\w)" + _beginning(characters, _SHORTEST) + rb"(?!\w)")
    return found


def _characters(text: bytes) -> list[bytes]:
    r"""Return a pattern per character, for all ways to write it in JSON: `/` as `\/`, `<` as `\u003c`."""
    return [
        b"(?:%b|\\\\(?:%b|u00(?i:%02x)))" % (re.escape(character), re.escape(character), character[0])
        for character in (bytes([code]) for code in text)
    ]


def _from(characters: list[bytes], least: int) -> bytes:
    """Return a pattern for a text whose end may be missing, because vendors cut long messages."""
    return b"".join(characters[:least]) + b"".join(one + b"?" for one in characters[least:])


def _beginning(characters: list[bytes], least: int) -> bytes:
    """Return a pattern for the first characters of a text. It is nested, so that it cannot backtrack."""
    more = b""
    for one in reversed(characters[least:_SURE]):
        more = b"(?:%b%b)?" % (one, more)
    return b"".join(characters[:least]) + more


def _encoded(before: int, secret: str) -> bytes:
    """Return a pattern for a secret in base64, in both alphabets, at an offset of 0 to 2 bytes in a group of three.

    In `Basic …` a user name is before it. Characters that depend on the bytes around the secret are left out.
    """
    data = bytes(before) + secret[:_MOST].encode("latin-1", "replace")
    text = b64encode(data)[(0, 2, 3)[before] : len(data) * 8 // 6]
    characters = _characters(text)
    either = {b"+"[0]: rb"[+-]", b"/"[0]: rb"(?:\\?/|_)"}
    return _from([either.get(code, one) for code, one in zip(text, characters, strict=True)], _SURE) + rb"[\w+/=-]*"
