"""Pass-through of responses, for upstreams that speak the client's protocol.

Streams: whole events are forwarded byte for byte. A decoder reads along to find content, usage, errors and the end, so
that a stream that was cut off becomes an error here too.

If the client knows the model by another name, that name is put into the response. Only a field `model` with the name
that the upstream reports is changed. Inside a JSON string its quotes would be escaped, so text is never changed.
"""

from __future__ import annotations

import re
from math import inf
from typing import Protocol as Interface

from trilogue.base.json_text import dump
from trilogue.base.sse import SseParser
from trilogue.errors import UpstreamError
from trilogue.gateway.conversations.request_fields import echoed_events
from trilogue.gateway.request.call import read_model, with_model
from trilogue.model import (
    BlockStart,
    Delta,
    Event,
    Failed,
    FailureKind,
    Finish,
    Json,
    Loss,
    Protocol,
    Reasoning,
    ReasoningDelta,
    ResponseStart,
    Usage,
    events_of,
)
from trilogue.protocols.failure import failure_of
from trilogue.protocols.registry import CODECS
from trilogue.protocols.stream.decoder import MOST_TEXT, PIECE, too_long
from trilogue.protocols.stream.encoder import StreamEncoder
from trilogue.protocols.stream.repeated_deltas import RepeatedText
from trilogue.protocols.stream.response_context import Reply


class StreamPath(Interface):
    """What converts a stream: upstream bytes in, client bytes out. It is a `StreamTranslator` or a `PassThrough`."""

    done: bool
    moved: bool
    """whether the last bytes completed an event other than a ping"""
    started: bool
    """whether content has come, or the end of the response"""
    has_content: bool
    """whether content other than reasoning has come"""
    failed: Failed | None
    start: ResponseStart | None
    finish: Finish | None

    @property
    def paused(self) -> bool: ...
    @property
    def usage(self) -> Usage | None: ...
    @property
    def losses(self) -> list[Loss]: ...
    def feed(self, data: bytes) -> bytes: ...
    def release(self, events: list[Event]) -> bytes: ...
    def whole(self, body: dict[str, Json]) -> bytes: ...
    def close(self) -> bytes: ...
    def fail(self, error: UpstreamError) -> bytes: ...
    def keepalive(self) -> bytes: ...


UNREPORTED = frozenset({FailureKind.UPSTREAM_PROTOCOL, FailureKind.UPSTREAM_TRUNCATED})
"""Failures that the upstream does not report itself, because it takes its bytes for a valid response."""
ENDS = (b"\n\n", b"\n\r\n", b"\r\r")
"""How an event may end, with all kinds of line ends."""
LONGEST_END = max(map(len, ENDS))
EVENT_END = re.compile(b"|".join(ENDS))
_OVERLAP = LONGEST_END - 1
NUMBERS = re.compile(rb'"sequence_number":\s*(\d+)')


class PassThrough:
    """A stream whose bytes are forwarded unchanged."""

    paused = False
    """a client of the same protocol knows pauses itself"""

    def __init__(self, protocol: Protocol, reply: Reply) -> None:
        self._protocol = protocol
        self._decoder = CODECS[protocol].decoder()
        self._repeated = RepeatedText(self._decoder)
        self._reply = reply
        self._room = MOST_TEXT if CODECS[protocol].turns.keeps_text else inf
        """characters that may still come: some decoders keep all text, to compare it with the end"""
        self.start: ResponseStart | None = None
        self._tail: list[bytes] = []
        """bytes of an event that is not complete yet: a part of an event is never forwarded"""
        self._last = b""
        """what was forwarded last"""
        self.done = False
        self.moved = False
        self.started = False
        self.has_content = False
        self.failed: Failed | None = None
        self.finish: Finish | None = None
        self.response_id = ""
        self.losses: list[Loss] = []

    @property
    def usage(self) -> Usage | None:
        """The usage of the response once it is complete, else None."""
        return self.finish.usage if self.finish else None

    def feed(self, data: bytes) -> bytes:
        """Return the events that these bytes complete, unchanged. Invalid events end the stream with an error."""
        form = self._repeated.form
        if form is not None and form.take(data):
            # One more event that differs from the last one only in its text: there is nothing else to find in it.
            self.moved = True
            self._last = data
            return data
        if self.done:
            return b""
        self._note(self._repeated.feed(data))
        if self.failed is not None and self.failed.failure.kind in UNREPORTED and not self.done:
            valid = self._valid_events(b"".join([*self._tail, data]))
            self._last = valid or self._last
            return valid + self._encode_failure()
        if not self._tail and data.endswith(ENDS):
            self._last = data
            return data
        end = self._last_end(data)
        if not end:
            self._tail.append(data)
            return b""
        out = b"".join([*self._tail, data[:end]])
        self._tail = [data[end:]] if end < len(data) else []
        self._last = out
        return out

    def release(self, events: list[Event]) -> bytes:
        """Return nothing: without policies, nothing is held."""
        return b""

    def whole(self, body: dict[str, Json]) -> bytes:
        """Return a whole response as a stream, for an upstream that was asked for a stream and did not send one."""
        events = list(events_of(CODECS[self._protocol].decode_response(body)))
        self._note(events)
        self.done = True
        # A new encoder: the one of `_encoder` has already written the start that was noted.
        return CODECS[self._protocol].encoder(self._reply).encode(events)

    def close(self) -> bytes:
        """Return the rest at the end of the upstream's stream, or an error if the response was not complete."""
        if self.done:
            return b""
        ended = self._decoder.done
        self._note(self._decoder.close())
        if self.failed is not None and not ended:
            return self._encode_failure()
        tail = b"".join(self._tail)
        return tail if ended else self._completed(tail)

    def fail(self, error: UpstreamError) -> bytes:
        """Return the client's form of an error of the connection; nothing if the response was already over."""
        if self.finish is not None or self.failed is not None:
            return b""
        self.failed = Failed(failure_of(error, self._protocol))
        return self._encode_failure()

    def keepalive(self) -> bytes:
        """Return a ping if the protocol has one and the response has begun, else a comment."""
        return self._encoder().keepalive()

    def _last_end(self, data: bytes) -> int:
        """Return where the last whole event ends in these bytes, or 0. Its blank line may begin in earlier bytes."""
        if data.endswith(ENDS):
            return len(data)
        before = b"".join(self._tail[-_OVERLAP:])[-_OVERLAP:]
        joined = before + data
        end = max(joined.rfind(mark) + len(mark) if mark in joined else 0 for mark in ENDS)
        return max(0, end - len(before))

    def _valid_events(self, data: bytes) -> bytes:
        """Return the events in these bytes that come before the invalid one."""
        parser, left, end = SseParser(), self._decoder.sound, 0
        for mark in EVENT_END.finditer(data):
            if not left:
                break
            left -= len(parser.feed(data[end : mark.end()]))
            end = mark.end()
        return data[:end]

    def _completed(self, tail: bytes) -> bytes:
        """Return the end of a complete response. The terminal event is added if the upstream has left it out."""
        last = CODECS[self._protocol].endpoint.terminal
        missing = b"" if last.strip() in tail else last
        return (tail.rstrip(b"\r\n") + b"\n\n" if tail else b"") + missing

    def _encode_failure(self) -> bytes:
        """End the stream with its failure. Return the event, numbered after the last event of the upstream."""
        self.done = True
        encoder = self._encoder()
        numbers = NUMBERS.findall(self._last)
        if numbers:
            encoder.resume(int(numbers[-1]) + 1)
        return encoder.encode([self.failed]) if self.failed else b""

    def _encoder(self) -> StreamEncoder:
        """Return an encoder for what the upstream does not send itself, in the state that the stream is in."""
        encoder = CODECS[self._protocol].encoder(self._reply)
        if self.start is not None:
            encoder.encode([self.start])
        return encoder

    def _note(self, events: list[Event]) -> None:
        self.moved = bool(events)
        for event in events:
            if type(event) is Delta or type(event) is ReasoningDelta:
                self._room -= len(event.text) + PIECE
            elif type(event) is BlockStart:
                self.started = True
                self.has_content = self.has_content or type(event.block) is not Reasoning
            elif type(event) is ResponseStart:
                self.response_id = event.id
                self.start = event
            elif type(event) is Finish:
                self.finish, self.started = event, True
            elif type(event) is Failed:
                self.failed = event
        if self._room < 0 and self.finish is None and self.failed is None:
            self.failed = Failed(failure_of(too_long(), self._protocol))


def renamed(body: bytes, name: str) -> bytes:
    """Return a whole response with this name as its model; unchanged if it names none."""
    reported = read_model(body)
    return body if not reported or reported == name else with_model(body, reported, name)


class RenamingPassThrough(PassThrough):
    """A stream that is forwarded to a client that knows the model by another name."""

    def __init__(self, protocol: Protocol, reply: Reply) -> None:
        super().__init__(protocol, reply)
        self._name = reply.model
        self._spellings: list[tuple[bytes, bytes]] = []
        """how the upstream writes the name of its model, and what replaces it"""

    def feed(self, data: bytes) -> bytes:
        """Return the whole events in these bytes, with the client's name of the model."""
        return self._renamed(super().feed(data))

    def whole(self, body: dict[str, Json]) -> bytes:
        """Return a whole response where a stream was asked for."""
        return super().whole({**body, "model": self._name} if body.get("model") else body)

    def close(self) -> bytes:
        """Return what is left when the upstream has ended."""
        return self._renamed(super().close())

    def _note(self, events: list[Event]) -> None:
        super()._note(events)
        for event in events:
            # Azure's first chunk has an empty name.
            if type(event) is ResponseStart and event.model and event.model != self._name:
                ours, theirs = dump(self._name), dump(event.model)
                self._spellings = [(key + theirs, key + ours) for key in (b'"model":', b'"model": ')]

    def _renamed(self, data: bytes) -> bytes:
        for theirs, ours in self._spellings:
            data = data.replace(theirs, ours)
        return data


class EchoingPassThrough(PassThrough):
    """A stream of an upstream which does not know that its response is stored: its response objects get to say so."""

    echo: dict[str, Json]
    """the fields about storage, by name; set before the first bytes"""

    def feed(self, data: bytes) -> bytes:
        """Return the whole events in these bytes, with what they say about storage."""
        return echoed_events(super().feed(data), self.echo)

    def whole(self, body: dict[str, Json]) -> bytes:
        """Return a whole response where a stream was asked for."""
        return super().whole({**body, **self.echo})

    def close(self) -> bytes:
        """Return what is left when the upstream has ended."""
        return echoed_events(super().close(), self.echo)


class EchoingRenamingPassThrough(EchoingPassThrough, RenamingPassThrough):
    """The same for a client that knows the model by another name."""
