"""Writes the head of an HTTP/1.1 request. Values that could end a line early are an error (header injection)."""

from __future__ import annotations

import re
from functools import lru_cache

from trilogue.errors import InternalError
from trilogue.headers import LEGAL_NAME, OF_CONNECTION
from trilogue.upstream.interface import HeaderPairs, UpstreamRequest
from trilogue.upstream.origin import Origin

_OURS = OF_CONNECTION | {"accept-encoding"}
"""Headers that the transport writes itself."""

_VALUE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")
_USER_AGENT = "trilogue"


def request_head(request: UpstreamRequest, origin: Origin, target: str, extra: HeaderPairs = ()) -> bytes:
    """Return the request line and headers, with the blank line. `extra` headers are our own and need no check."""
    method, body = request.method, request.body
    lines = _lines(method, target, origin, request.headers, extra)
    return lines + b"content-length: %d\r\n\r\n" % len(body) if body or method != "GET" else lines + b"\r\n"


@lru_cache(256)
def _lines(
    method: str,
    target: str,
    origin: Origin,
    headers: HeaderPairs,
    extra: HeaderPairs,
) -> bytes:
    """Return all lines but the length of the body. Cached: a client sends the same headers with every request."""
    if not method.isalpha():
        raise InternalError("a request for an upstream has an illegal method")
    lines = [f"{method} {target} HTTP/1.1", f"host: {origin.host_header}", "accept-encoding: identity"]
    agent = True
    for name, value in headers:
        lower = _lower(name)
        if lower in _OURS:
            continue
        agent = agent and lower != "user-agent"
        if not value.isprintable() and not _VALUE.fullmatch(value):
            raise InternalError("a request for an upstream has an illegal header")
        lines.append(f"{name}: {value}")
    if agent:
        lines.append(f"user-agent: {_USER_AGENT}")
    lines += [f"{name}: {value}" for name, value in extra]
    lines.append("")
    return _latin("\r\n".join(lines))


@lru_cache(1024)
def _lower(name: str) -> str:
    """Return a legal header name in lower case. Cached: the same few names come with every request."""
    if not LEGAL_NAME.fullmatch(name):
        raise InternalError("a request for an upstream has an illegal header")
    return name.lower()


def _latin(text: str) -> bytes:
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        # The text of the original error holds the header.
        raise InternalError("a request for an upstream has an illegal header") from None
