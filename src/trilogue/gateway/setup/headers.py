"""Which of a client's headers an upstream of the same protocol may see, and the one that counts gateways."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import unquote

from trilogue.headers import OF_CONNECTION
from trilogue.upstream import HeaderPairs

_PRIVATE = {
    "authorization",
    "x-api-key",
    "api-key",
    "x-goog-api-key",
    "cookie",
    "origin",
    "referer",
    # They belong to the client's key, and ours is not of the same organisation.
    "openai-organization",
    "openai-project",
    "chatgpt-account-id",
}
_REWRITTEN = {"accept-encoding", "accept", "content-type"}
_NOT_FORWARDED = OF_CONNECTION | _PRIVATE | _REWRITTEN
_OURS = ("x-forwarded-", "forwarded", "trilogue-", "sec-", "access-control-", "cf-", "x-real-ip", "via")


HOPS = "trilogue-hops"
MOST_HOPS = 10
"""gateways that a request may pass; nobody has so many one behind the other"""


def hops_of(headers: dict[str, str]) -> int:
    """How many gateways a request has passed before this one."""
    text = headers.get(HOPS, "")
    return int(text) if text.isdecimal() and text.isascii() and len(text) <= 2 else 0


def forwarded_headers(headers: dict[str, str], keys: Sequence[str]) -> HeaderPairs:
    """All but credentials, what belongs to one hop, and what is rewritten. `keys`: the client's, wherever they are."""
    return tuple(
        (name, value)
        for name, value in headers.items()
        if name not in _NOT_FORWARDED and not name.startswith(_OURS) and value.rpartition(" ")[2] not in keys
    )


def forwarded_query(query: bytes, keys: Sequence[str]) -> bytes:
    """A client's query without its keys: some put them there too."""
    if not query:
        return query
    return b"&".join(part for part in query.split(b"&") if unquote(part.rpartition(b"=")[2]) not in keys)


def with_query(url: str, query: bytes) -> str:
    """The client's query behind the one that the provider's address has."""
    return url + ("&" if "?" in url else "?") + query.decode("latin-1") if query else url
