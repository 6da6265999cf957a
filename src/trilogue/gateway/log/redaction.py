"""What an upstream's error may not tell a client or the log: credentials, and the ids of the organisation that pays.

Vendors name them in their texts ("Incorrect API key provided: sk-…", "in organization org-…"). They belong to who runs
the gateway. Only failures are looked at: HTTP errors, errors in an answer with status 200, and errors inside a stream.
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
"""match at least so many characters of a secret inside other text: shorter matches are coincidences"""
_SHOWN = 4
"""characters that vendors show of a key whose rest they mask: `gsk_a***`, `abcd…wxyz`"""
_MASK = rb"(?:\*\*|\.\.|\xe2\x80[\xa2\xa6]|\\u202[26])(?:[\w*.-]|\xe2\x80[\xa2\xa6]|\\u202[26])*"
_MOST = 200
"""signs that are looked at one by one; longer secrets are tokens without anything special in them"""
_NAMES = rb"\b(?:sk|pk|rk|gsk|xai)-[\w*.-]{6,}|\bAIza[\w-]{8,}|\b(?:org|proj|acct|wrkspc)[-_][A-Za-z0-9]{12,}"


class Redactor:
    """Blanks some secrets, and whatever else looks like one."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets = [secret for secret in secrets if len(secret) >= _SHORTEST]
        self._pattern: re.Pattern[bytes] | None = None

    def body(self, body: bytes) -> bytes:
        """A body or a part of a stream, in every part of it."""
        if self._pattern is None:
            # On the first failure: there may be thousands of accounts, and most never have one.
            forms = [form for secret in self._secrets for form in _patterns(secret)]
            self._pattern = re.compile(b"|".join([*forms, _NAMES]), re.ASCII)
        return self._pattern.sub(_HIDDEN, body)

    def text(self, text: str) -> str:
        """A text."""
        return self.body(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def failure(self, failure: Failure) -> Failure:
        """A failure, in every text that it holds."""
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
    """Every way in which an error may show a secret."""
    signs = _signs(secret[:_MOST].encode("latin-1", "replace"))
    rest = rb"[\w.~+/=-]*" if len(secret) > _MOST else b""
    found = [_from(signs, _SURE) + rest, *map(_encoded, range(3), [secret] * 3)]
    found.append(rb"(?<!\w)" + _beginning(signs, _SHOWN) + _MASK)
    if not secret[:_SHORTEST].isalpha():
        # A key of words must not blank the first of them.
        found.append(rb"(?<!\w)" + _beginning(signs, _SHORTEST) + rb"(?!\w)")
    return found


def _signs(text: bytes) -> list[bytes]:
    r"""A pattern for each character, as any JSON writer may write it: `/` as `\/`, `<` as `\u003c`."""
    return [
        b"(?:%b|\\\\(?:%b|u00(?i:%02x)))" % (re.escape(sign), re.escape(sign), sign[0])
        for sign in (bytes([code]) for code in text)
    ]


def _from(signs: list[bytes], least: int) -> bytes:
    """A pattern for a text whose end may be missing: long messages are cut."""
    return b"".join(signs[:least]) + b"".join(sign + b"?" for sign in signs[least:])


def _beginning(signs: list[bytes], least: int) -> bytes:
    """A pattern for the first characters, before something else. Nested: no way to match it in more than one way."""
    more = b""
    for sign in reversed(signs[least:_SURE]):
        more = b"(?:%b%b)?" % (sign, more)
    return b"".join(signs[:least]) + more


def _encoded(before: int, secret: str) -> bytes:
    """A pattern for a secret in base64, with so many bytes before it, of three: `Basic …` has a name there.

    What depends on the bytes around it is no part of the pattern. Both alphabets are.
    """
    data = bytes(before) + secret[:_MOST].encode("latin-1", "replace")
    text = b64encode(data)[(0, 2, 3)[before] : len(data) * 8 // 6]
    signs = _signs(text)
    either = {b"+"[0]: rb"[+-]", b"/"[0]: rb"(?:\\?/|_)"}
    return _from([either.get(code, sign) for code, sign in zip(text, signs, strict=True)], _SURE) + rb"[\w+/=-]*"
