"""Which of a client's headers and query parameters an upstream gets, and the header that counts gateways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import unquote

from trilogue.base.headers import OF_CONNECTION, named_by_connection
from trilogue.net.client.interface import HeaderPairs
from trilogue.protocols.registry import CODECS

_PRIVATE = {
    # Clients send these to some vendors whatever protocol they speak.
    "x-api-key",
    "api-key",
    "x-goog-api-key",
    "authorization",
    "cookie",
    "origin",
    "referer",
    # They belong to the client's key; ours is of another organisation.
    "openai-organization",
    "openai-project",
    "chatgpt-account-id",
}
_REWRITTEN = {"accept-encoding", "accept", "content-type"}
_NOT_FORWARDED = OF_CONNECTION | _PRIVATE | _REWRITTEN
_OURS = ("x-forwarded-", "forwarded", "trilogue-", "sec-", "access-control-", "cf-", "x-real-ip", "via")

OWN_KEY = "trilogue-key"
"""a header for the gateway's client keys only, for clients that need the others for a key of their own"""
HOPS = "trilogue-hops"
MOST_HOPS = 10
"""Gateways that a request may pass through. More than anyone chains: it is a circle."""


def key_headers() -> dict[str, None]:
    """Return the headers in which clients send keys, besides `authorization`, in the order in which they are read."""
    own = [one.endpoint.auth for one in CODECS.values() if one.endpoint.auth != "bearer"]
    return dict.fromkeys(["x-api-key", "api-key", OWN_KEY, *own])


def hops_of(headers: dict[str, str]) -> int:
    """Return how many gateways a request has passed before this one."""
    text = headers.get(HOPS, "")
    return int(text) if text.isdecimal() and text.isascii() and len(text) <= 2 else 0


def forwarded_headers(headers: dict[str, str], keys: Sequence[str]) -> HeaderPairs:
    """Return all headers but credentials, those of one connection, those we set, and any with one of these keys."""
    private = _NOT_FORWARDED.union(key_headers(), named_by_connection(headers.get("connection", "")))
    return tuple(
        (name, value)
        for name, value in headers.items()
        if name not in private and not name.startswith(_OURS) and value.rpartition(" ")[2] not in keys
    )


def forwarded_query(query: bytes, keys: Sequence[str]) -> bytes:
    """Return a client's query without its keys, which some clients put there too."""
    if not query:
        return query
    return b"&".join(part for part in query.split(b"&") if unquote(part.rpartition(b"=")[2]) not in keys)


def with_query(url: str, query: bytes) -> str:
    """Return a provider's URL with the client's query added to its own."""
    return url + ("&" if "?" in url else "?") + query.decode("latin-1") if query else url


def presented_keys(headers: Mapping[str, str]) -> list[str]:
    """Return the keys that a client sends. Some send a placeholder in one header and the key in another."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    bearer = token.strip() if scheme.lower() == "bearer" else ""
    return [key for key in (bearer, *(headers.get(name, "") for name in key_headers())) if key]
