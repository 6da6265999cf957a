"""Captures as a gateway would write them: the real translation, the real writer, and no server."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import trilogue
from trilogue import Protocol, Stamp, StreamTranslator, Target
from trilogue.capture import Capture, CaptureHead, CaptureWriter, Sent, read_capture

STARTED = 1_790_000_000.25
REQUEST_ID = "req_capture_1"
HEADERS = {"Authorization": "Bearer sk-client-canary-000000", "content-type": "application/json", "x-odd": "canary-odd"}
UPSTREAM_HEADERS = (("authorization", "Bearer sk-upstream-canary-0000"), ("content-type", "application/json"))


@dataclass
class Traffic:
    """One request and what an upstream responds to it."""

    client: Protocol
    target: Target
    body: dict[str, Any]
    response: list[bytes]
    status: int = 200
    failures: list[tuple[int, bytes]] = field(default_factory=list)
    """responses of earlier attempts"""

    @property
    def stream(self) -> bool:
        return bool(self.body.get("stream"))

    def capture(self, **options: Any) -> Capture:
        """Return the capture, as it is read from its file."""
        return read_capture(self.file(**options))

    def file(self, **options: Any) -> bytes:
        """Return the bytes of the file."""
        writer = CaptureWriter(CaptureHead(request_id=REQUEST_ID, started=STARTED, trilogue="0.1.0"), **options)
        raw = trilogue.dump(self.body)
        writer.inbound(STARTED, self.client, ("POST", "/v1/x?key=query-canary&beta=true"), HEADERS, raw)
        up = trilogue.translate_request(raw, source=self.client, target=self.target)
        for status, body in self.failures:
            writer.attempt(STARTED + 0.1, self._sent(up))
            writer.upstream_start(STARTED + 0.2, status, {"content-type": "application/json"})
            writer.upstream_chunk(STARTED + 0.2, body)
        writer.attempt(STARTED + 0.5, self._sent(up))
        self._respond(writer, up.exchange)
        writer.finished(STARTED + 3, {"status": 200})
        return writer.take()

    def _sent(self, up: trilogue.RequestTranslation) -> Sent:
        return Sent(
            protocol=self.target.protocol,
            url="https://user:login-canary@api.example/v1/x?api-version=1&key=query-canary",
            headers=UPSTREAM_HEADERS,
            body=trilogue.dump(up.body),
            provider=self.target.provider,
            account=self.target.account,
            model=self.target.model,
            profile=self.target.profile,
            losses=tuple(up.losses),
        )

    def _respond(self, writer: CaptureWriter, exchange: trilogue.Exchange) -> None:
        writer.upstream_start(STARTED + 1, self.status, {"content-type": "text/event-stream"})
        source, target = self.target.protocol, self.client
        if source is target:
            for number, piece in enumerate(self.response):
                writer.upstream_chunk(STARTED + 1 + number / 100, piece)
            writer.outbound_start(STARTED + 1, self.status, {})
            writer.outbound_chunk(STARTED + 2, b"".join(self.response))
            return
        stamp = Stamp(now=int(STARTED), seed=REQUEST_ID, request_id=REQUEST_ID)
        writer.outbound_start(STARTED + 1, self.status, {"content-type": "text/event-stream"})
        if self.stream:
            translator = StreamTranslator(source=source, target=target, exchange=exchange, stamp=stamp)
            for number, piece in enumerate(self.response):
                now = STARTED + 1 + number / 100
                writer.upstream_chunk(now, piece)
                self._out(writer, now, translator.feed(piece))
            self._out(writer, STARTED + 2.9, translator.close())
            return
        data = b"".join(self.response)
        writer.upstream_chunk(STARTED + 2, data)
        down = trilogue.translate_response(data, source=source, target=target, exchange=exchange, stamp=stamp)
        writer.outbound_chunk(STARTED + 2, trilogue.dump(down.body))

    def _out(self, writer: CaptureWriter, now: float, data: bytes) -> None:
        if data:
            writer.outbound_chunk(now, data)


def in_pieces(data: bytes, size: int) -> list[bytes]:
    """Return data in pieces of this size, as a network may cut it."""
    return [data[start : start + size] for start in range(0, len(data), size)]


def events(data: Iterable[bytes]) -> list[bytes]:
    """Return a stream in one piece per event."""
    return [piece + b"\n\n" for piece in b"".join(data).split(b"\n\n") if piece]
