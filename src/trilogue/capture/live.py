"""A captured request sent to a live server: its response, translated for the client, compared with the captured one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol as Interface

from trilogue.base.json_text import dump, parse_upstream
from trilogue.capture.format import CaptureError
from trilogue.capture.reader import Capture
from trilogue.capture.replay import Change, ReplayStep, last_request, retranslate
from trilogue.model import Json, Protocol
from trilogue.translate.compare.detect import DocumentKind, is_stream
from trilogue.translate.compare.documents import ComparedDocument, compare_documents
from trilogue.translate.responses import translate_response
from trilogue.translate.streams import StreamTranslator

NAME = "live response"


class ServerResponse(Interface):
    """What a server sent back."""

    status: int
    error: str

    @property
    def body(self) -> bytes:
        """The whole body, as the server sent it."""
        ...


def compare_live(
    capture: Capture, change: Change, send: Callable[[Protocol, dict[str, Json]], ServerResponse]
) -> ReplayStep:
    """Send the request of the last attempt again with `send`, and compare what the client would get.

    A response that was paused is not continued.

    Raises `CaptureError` if the capture has no request that was sent, and `TrilogueError` if it cannot be translated.
    """
    inbound = capture.inbound
    if inbound is None or inbound.protocol is None or not capture.attempts:
        raise CaptureError("the capture has no request that was sent to an upstream")
    up = retranslate(inbound, last_request(capture), change)
    client, upstream = inbound.protocol, up.target.protocol
    received = send(upstream, up.body)
    if received.error or received.status != 200:
        return ReplayStep(name=NAME, skipped=received.error or f"the server responded with status {received.status}")
    if up.exchange is None:
        now = received.body
    elif is_stream(received.body):
        translator = StreamTranslator(source=upstream, target=client, exchange=up.exchange)
        now = translator.feed(received.body) + translator.close()
    else:
        body = parse_upstream(received.body, whole=True)
        now = dump(translate_response(body, source=upstream, target=client, exchange=up.exchange).body)
    was = ComparedDocument(_kind(capture.outbound.body), client, capture.outbound.body)
    return ReplayStep(
        name=NAME, differences=compare_documents(was, ComparedDocument(_kind(now), client, now)), body=now
    )


def _kind(body: bytes) -> DocumentKind:
    return DocumentKind.STREAM if is_stream(body) else DocumentKind.RESPONSE
