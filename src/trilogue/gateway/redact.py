"""What an upstream's error may not tell a client or the log: credentials, and the ids of the organisation that pays.

Vendors name them in their texts ("Incorrect API key provided: sk-…", "in organization org-…"). They belong to who runs
the gateway. Only failures are looked at: HTTP errors, errors in an answer with status 200, and errors inside a stream.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec.structs import replace

from trilogue.model import Failure, Json

_HIDDEN = b"***"
_SHORTEST = 8
_SURE = 12
"""so many of its signs, and it is no accident"""
_MOST = 200
"""signs that are looked at one by one; longer secrets are tokens without anything special in them"""
_NAMES = rb"\b(?:sk|pk|rk|gsk|xai)-[\w*.-]{6,}|\bAIza[\w-]{8,}|\b(?:org|proj|acct|wrkspc)[-_][A-Za-z0-9]{12,}"


class Blank:
    """Blanks some secrets, and whatever else looks like one."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets = [secret for secret in secrets if len(secret) >= _SHORTEST]
        self._pattern: re.Pattern[bytes] | None = None

    def body(self, body: bytes) -> bytes:
        """A body or a part of a stream, in every part of it."""
        if self._pattern is None:
            # On the first failure: there may be thousands of accounts, and most never have one.
            self._pattern = re.compile(b"|".join([*map(_spelled, self._secrets), _NAMES]), re.ASCII)
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


def _spelled(secret: str) -> bytes:
    r"""A pattern for this text as any JSON writer may write it: `/` as `\/`, `<` as `\u003c`.

    Its end may be missing: long messages are cut.
    """
    signs = [
        b"(?:%b|\\\\(?:%b|u00(?i:%02x)))" % (re.escape(sign), re.escape(sign), sign[0])
        for sign in (bytes([code]) for code in secret[:_MOST].encode("latin-1", "replace"))
    ]
    rest = rb"[\w.~+/=-]*" if len(secret) > _MOST else b""
    return b"".join(signs[:_SURE]) + b"".join(sign + b"?" for sign in signs[_SURE:]) + rest
