"""Headers of the responses to clients: what kind of body it is, the upstream's rate limits, and the losses.

Losses that are found too late for a header are declared in a comment of the stream, if the client asks for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from trilogue.model import Loss, loss_header_value
from trilogue.net.client.interface import UpstreamResponse
from trilogue.net.server.responder import Headers

SSE_HEADERS: Headers = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"connection", b"keep-alive"),
    # nginx would collect events and send them together.
    (b"x-accel-buffering", b"no"),
]
JSON_HEADERS: Headers = [(b"content-type", b"application/json")]
LOSS_HEADER = b"trilogue-loss"
LOSS_COMMENT = b": %b: " % LOSS_HEADER
"""how the comment about losses begins; the value of the header follows"""
_KEPT = ("x-ratelimit-", "anthropic-ratelimit-", "openai-processing-ms", "openai-version")


def kept_headers(response: UpstreamResponse, *, own_limits: bool = False) -> Headers:
    """Return the headers of an upstream that the client gets: those about limits. The others are for the gateway.

    `own_limits`: the client has limits here, which take the place of the upstream's.
    """
    if own_limits:
        return []
    return [(kept, value.encode("latin-1", "replace")) for name, value in response.headers if (kept := _kept(name))]


@lru_cache(1024)
def _kept(name: str) -> bytes:
    """Return the name of a header that is passed on, else b"". Cached: upstreams send the same few every time."""
    return name.encode("latin-1") if name.startswith(_KEPT) else b""


def loss_header(losses: Sequence[Loss]) -> Headers:
    """Return the header that declares losses to the client, with their paths; nothing if there are none."""
    return [(LOSS_HEADER, loss_header_value(losses).encode("ascii"))] if losses else []


def loss_comment(losses: Sequence[Loss]) -> bytes:
    """Return the comment that declares losses, as a part of a stream."""
    return b"%b%b\n\n" % (LOSS_COMMENT, loss_header_value(losses).encode("ascii"))
