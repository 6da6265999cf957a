"""Responses that are passed through under another name: the client sees the model that it asked for.

Everything else stays byte for byte. Only a field `model` whose value is the name that the upstream reports is changed;
inside a string of JSON its quotes would be escaped, so words of the model are never touched.

What a streamed answer passes on its way to the client: a translator, or the pass-through that leaves bytes alone.

Pass-through forwards whole events as they came, byte for byte; beside the path a decoder watches for content, usage,
errors and the end, so that a stream cut short becomes an error here too.
"""

from __future__ import annotations

import re
from math import inf
from typing import Protocol as Interface

from trilogue.errors import UpstreamError
from trilogue.gateway.request.call import read_model, with_model
from trilogue.jsontext.text import dump
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
from trilogue.protocols.failure.convert import failure_of
from trilogue.protocols.registry import CODECS
from trilogue.protocols.stream.decoder import MOST_TEXT, PIECE, too_long
from trilogue.protocols.stream.encoder import StreamEncoder
from trilogue.protocols.stream.repeated import RepeatedText
from trilogue.protocols.stream.reply import Reply
from trilogue.sse import SseParser


class StreamPath(Interface):
    """Upstream bytes in, client bytes out. `translate.StreamTranslator` is one, `PassThrough` the other."""

    done: bool
    moved: bool
    """the last bytes completed an event that means something; a ping does not"""
    started: bool
    """content has come: the answer is under way"""
    has_content: bool
    """more than reasoning has come"""
    failed: Failed | None
    finish: Finish | None

    @property
    def usage(self) -> Usage | None: ...
    @property
    def losses(self) -> list[Loss]: ...
    def feed(self, data: bytes) -> bytes: ...
    def whole(self, body: dict[str, Json]) -> bytes: ...
    def close(self) -> bytes: ...
    def fail(self, error: UpstreamError) -> bytes: ...
    def keepalive(self) -> bytes: ...


_UNTOLD = frozenset({FailureKind.UPSTREAM_PROTOCOL, FailureKind.UPSTREAM_TRUNCATED})
"""failures that the upstream's bytes do not tell: it takes them for an answer"""
ENDS = (b"\n\n", b"\n\r\n", b"\r\r")
"""how an event may end, with any line ends"""
LONGEST_END = max(map(len, ENDS))
_END = re.compile(b"|".join(ENDS))
_OVERLAP = LONGEST_END - 1
_NUMBERS = re.compile(rb'"sequence_number":\s*(\d+)')


class PassThrough:
    """The same protocol on both sides."""

    def __init__(self, protocol: Protocol, reply: Reply) -> None:
        self._protocol = protocol
        self._decoder = CODECS[protocol].decoder()
        self._repeated = RepeatedText(self._decoder)
        self._reply = reply
        self._room = MOST_TEXT if CODECS[protocol].keeps_text else inf
        """for more of what the watching decoder keeps: that of Responses compares the end with what came"""
        self._start: ResponseStart | None = None
        self._tail: list[bytes] = []
        """bytes of an event that is not complete yet: half an event is never forwarded"""
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
        """What the answer cost, once it is complete."""
        return self.finish.usage if self.finish else None

    def feed(self, data: bytes) -> bytes:
        """The whole events in these bytes, untouched; what is no event of the protocol becomes an error here too."""
        form = self._repeated.form
        if form is not None and form.take(data):
            # One more event like the last ones, whole: nothing that anybody watches for.
            self.moved = True
            self._last = data
            return data
        if self.done:
            return b""
        self._watch(self._repeated.feed(data))
        if self.failed is not None and self.failed.failure.kind in _UNTOLD and not self.done:
            sound = self._sound(b"".join([*self._tail, data]))
            self._last = sound or self._last
            return sound + self._say_failed()
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

    def whole(self, body: dict[str, Json]) -> bytes:
        """A whole answer where a stream was asked for."""
        events = list(events_of(CODECS[self._protocol].decode_response(body)))
        self._watch(events)
        self.done = True
        # The start was noted by the watch; the encoder has yet to say it.
        return CODECS[self._protocol].encoder(self._reply).encode(events)

    def close(self) -> bytes:
        """The upstream has ended. What it left unfinished is an error, in words the client understands."""
        if self.done:
            return b""
        ended = self._decoder.done
        self._watch(self._decoder.close())
        if self.failed is not None and not ended:
            return self._say_failed()
        tail = b"".join(self._tail)
        return tail if ended else self._completed(tail)

    def fail(self, error: UpstreamError) -> bytes:
        """The connection failed. What is over cannot fail any more."""
        if self.finish is not None or self.failed is not None:
            return b""
        self.failed = Failed(failure_of(error, self._protocol))
        return self._say_failed()

    def keepalive(self) -> bytes:
        """A ping where the protocol has one and the answer has begun, else a comment."""
        return self._encoder().keepalive()

    def _last_end(self, data: bytes) -> int:
        """Where the last whole event ends in these bytes; 0 if none does. Its mark may have begun in earlier ones."""
        if data.endswith(ENDS):
            return len(data)
        before = b"".join(self._tail[-_OVERLAP:])[-_OVERLAP:]
        joined = before + data
        end = max(joined.rfind(mark) + len(mark) if mark in joined else 0 for mark in ENDS)
        return max(0, end - len(before))

    def _sound(self, data: bytes) -> bytes:
        """The events in these bytes that came before the one that is none."""
        parser, left, end = SseParser(), self._decoder.sound, 0
        for mark in _END.finditer(data):
            if not left:
                break
            left -= len(parser.feed(data[end : mark.end()]))
            end = mark.end()
        return data[:end]

    def _completed(self, tail: bytes) -> bytes:
        """The end of a complete answer, with what some servers leave out there and some clients wait for."""
        last = CODECS[self._protocol].endpoint.terminal
        missing = b"" if last.strip() in tail else last
        return (tail.rstrip(b"\r\n") + b"\n\n" if tail else b"") + missing

    def _say_failed(self) -> bytes:
        self.done = True
        encoder = self._encoder()
        numbers = _NUMBERS.findall(self._last)
        if numbers:
            encoder.resume(int(numbers[-1]) + 1)
        return encoder.encode([self.failed]) if self.failed else b""

    def _encoder(self) -> StreamEncoder:
        """For what the upstream does not say itself. It must know what came before."""
        encoder = CODECS[self._protocol].encoder(self._reply)
        if self._start is not None:
            encoder.encode([self._start])
        return encoder

    def _watch(self, events: list[Event]) -> None:
        self.moved = bool(events)
        for event in events:
            if type(event) is Delta or type(event) is ReasoningDelta:
                self._room -= len(event.text) + PIECE
            elif type(event) is BlockStart:
                self.started = True
                self.has_content = self.has_content or type(event.block) is not Reasoning
            elif type(event) is ResponseStart:
                self.response_id = event.id
                self._start = event
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
    """The same protocol on both sides, for a client that knows the model by another name."""

    def __init__(self, protocol: Protocol, reply: Reply) -> None:
        super().__init__(protocol, reply)
        self._name = reply.model
        self._spellings: list[tuple[bytes, bytes]] = []
        """how the upstream writes its model's name, and what stands for it"""

    def feed(self, data: bytes) -> bytes:
        """Return the whole events in these bytes, with the client's name of the model."""
        return self._renamed(super().feed(data))

    def whole(self, body: dict[str, Json]) -> bytes:
        """Return a whole response where a stream was asked for."""
        return super().whole({**body, "model": self._name} if body.get("model") else body)

    def close(self) -> bytes:
        """Return what is left when the upstream has ended."""
        return self._renamed(super().close())

    def _watch(self, events: list[Event]) -> None:
        super()._watch(events)
        for event in events:
            # Azure's first chunk has an empty name.
            if type(event) is ResponseStart and event.model and event.model != self._name:
                ours, theirs = dump(self._name), dump(event.model)
                self._spellings = [(key + theirs, key + ours) for key in (b'"model":', b'"model": ')]

    def _renamed(self, data: bytes) -> bytes:
        for theirs, ours in self._spellings:
            data = data.replace(theirs, ours)
        return data
