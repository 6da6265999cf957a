"""What an upstream's error may not tell a client: credentials, and the ids of the organisation that pays.

Vendors name them in their texts ("Incorrect API key provided: sk-…", "in organization org-…"). They belong to who runs
the gateway. Works on the bytes of an error body, so that every part of it is covered.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_HIDDEN = b"***"
_SHORTEST = 8
_CREDENTIALS = frozenset({"authorization", "x-api-key", "api-key"})
_NAMES = re.compile(
    rb"\b(?:sk|pk|rk|gsk|xai)-[\w*.-]{6,}|\bAIza[\w-]{8,}|\b(?:org|proj|acct|wrkspc)[-_][A-Za-z0-9]{12,}", re.ASCII
)


def redacted(body: bytes, sent: Iterable[tuple[str, str]]) -> bytes:
    """The body without them. `sent`: the headers of the request, whose credentials must not come back."""
    for name, value in sent:
        secret = value.removeprefix("Bearer ").encode("latin-1", "replace")
        if name in _CREDENTIALS and len(secret) >= _SHORTEST:
            body = body.replace(secret, _HIDDEN)
    return _NAMES.sub(_HIDDEN, body)
