"""What a streamed answer passes on its way to the client: a translator, or the pass-through that leaves bytes alone.

Pass-through forwards whole events as they came, byte for byte; beside the path a decoder watches for content, usage,
errors and the end, so that a stream cut short becomes an error here too.
"""

from __future__ import annotations

from typing import Protocol as Interface

from trilogue.errors import UpstreamError
from trilogue.model import BlockStart, Event, Failed, Finish, Json, Loss, Protocol, Usage, events_of
from trilogue.protocols.decoding import failure_of
from trilogue.protocols.registry import codec
from trilogue.protocols.reply import Reply


class Passage(Interface):
    """Upstream bytes in, client bytes out. `translate.StreamTranslator` is one, `PassThrough` the other."""

    done: bool
    moved: bool
    """the last bytes completed an event that means something; a ping does not"""
    started: bool
    """content has come: the answer is under way"""
    failed: Failed | None

    @property
    def usage(self) -> Usage | None: ...
    @property
    def losses(self) -> list[Loss]: ...
    def feed(self, data: bytes) -> bytes: ...
    def whole(self, body: dict[str, Json]) -> bytes: ...
    def close(self) -> bytes: ...
    def fail(self, error: UpstreamError) -> bytes: ...
    def keepalive(self) -> bytes: ...


_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")


class PassThrough:
    """The same protocol on both sides."""

    def __init__(self, protocol: Protocol, reply: Reply) -> None:
        self._protocol = protocol
        self._decoder = codec(protocol).decoder()
        self._encoder = codec(protocol).encoder(reply)
        self._tail = b""
        """bytes of an event that is not complete yet: half an event is never forwarded"""
        self.done = False
        self.moved = False
        self.started = False
        self.failed: Failed | None = None
        self.finish: Finish | None = None
        self.losses: list[Loss] = []

    @property
    def usage(self) -> Usage | None:
        """What the answer cost, once it is complete."""
        return self.finish.usage if self.finish else None

    def feed(self, data: bytes) -> bytes:
        """The whole events in these bytes, untouched."""
        self._watch(self._decoder.feed(data))
        data = self._tail + data if self._tail else data
        if data.endswith(_ENDS):
            self._tail = b""
            return data
        end = max(data.rfind(mark) + len(mark) if mark in data else 0 for mark in _ENDS)
        self._tail = data[end:]
        return data[:end]

    def whole(self, body: dict[str, Json]) -> bytes:
        """A whole answer where a stream was asked for."""
        events = list(events_of(codec(self._protocol).decode_response(body)))
        self._watch(events)
        return self._encoder.encode(events)

    def close(self) -> bytes:
        """The upstream has ended. What it left unfinished is an error, in words the client understands."""
        ended = self._decoder.done
        self._watch(self._decoder.close())
        tail, self._tail = self._tail, b""
        if ended or self.failed is None:
            return tail
        return self._encoder.encode([self.failed])

    def fail(self, error: UpstreamError) -> bytes:
        """The connection failed."""
        self.failed = Failed(failure_of(error, self._protocol))
        self.done = True
        return self._encoder.encode([self.failed])

    def keepalive(self) -> bytes:
        """Always a comment: only the upstream knows whether its first event is out."""
        return self._encoder.keepalive()

    def _watch(self, events: list[Event]) -> None:
        self.moved = bool(events)
        for event in events:
            kind = type(event)
            if kind is BlockStart:
                self.started = True
            elif isinstance(event, Finish):
                self.finish, self.started = event, True
            elif isinstance(event, Failed):
                self.failed = event
