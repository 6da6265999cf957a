"""Streams that are not made by a model right now: the client gets stored events, or those of another server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from trilogue.base.sse import COMMENT
from trilogue.gateway.request.request import RequestContext, watching
from trilogue.gateway.response.headers import SSE_HEADERS
from trilogue.gateway.response.timing import KeepAlive
from trilogue.net.server.responder import Responder


@contextmanager
def event_stream(context: RequestContext) -> Iterator[Responder]:
    """Start a stream, keep it alive, and end it. Raises ClientGone from inside if the client disconnects.

    An error ends it without a last event, so that the client asks again from where it was.
    """
    responder = context.responder
    responder.start(200, SSE_HEADERS)
    context.in_band = lambda _: responder.end()
    seconds = context.entry.gateway.settings.keepalive_seconds
    keepalive = KeepAlive(seconds, responder, lambda: None if responder.busy else responder.send(COMMENT))
    try:
        with watching(context):
            yield responder
    finally:
        keepalive.stop()
    responder.end()
