"""Pass-through of a stream that policies judge: byte for byte, until a policy changes something.

Each event of the upstream is forwarded as it came once the policies have let everything in it go on. From the first
change on, the rest of the stream is encoded: its blocks, numbers and end fit what the client has got before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import pairwise
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from trilogue.base.json_text import dump
from trilogue.errors import UpstreamError
from trilogue.gateway.conversations.request_fields import echoed_events
from trilogue.gateway.response.pass_through import ENDS, EVENT_END, LONGEST_END, NUMBERS, UNREPORTED, PassThrough
from trilogue.gateway.response.untold import Untold, is_late
from trilogue.model import (
    BlockStart,
    BlockStop,
    Delta,
    Event,
    Failed,
    Finish,
    Json,
    Ledger,
    Protocol,
    Reasoning,
    ReasoningDelta,
    Refusal,
    ResponseStart,
    Sequencer,
    Text,
    ToolCall,
    Usage,
    events_of,
)
from trilogue.policies import PolicyRun
from trilogue.protocols.failure import failure_of
from trilogue.protocols.registry import CODECS
from trilogue.protocols.stream.decoder import MOST_TEXT, PIECE, too_long
from trilogue.protocols.stream.encoder import StreamEncoder
from trilogue.protocols.stream.response_context import Reply
from trilogue.translate.content.usage import UsageCounter
from trilogue.translate.pipeline import Unsigned


class JudgedPassThrough(PassThrough):
    """A stream that is forwarded unless a policy changes it. `reply`: makes what an encoder needs.

    `name`: the client's name of the model, if that is not the upstream's. `echo`: what response objects must say about
    storage, if the upstream does not know.
    """

    def __init__(
        self,
        protocol: Protocol,
        reply: Callable[[], Reply],
        run: PolicyRun,
        unsigned: Unsigned,
        *,
        name: str = "",
        echo: dict[str, Json] | None = None,
    ) -> None:
        super().__init__(protocol, Reply(source=protocol))
        self._make_reply = reply
        self._run = run
        self._name = name
        self._spelling: tuple[bytes, bytes] | None = None
        self._echo = echo
        self._ledger = Ledger()
        self.losses = self._ledger.losses
        run.attach(self._ledger, unsigned, protocol)
        self._sequencer = Sequencer()
        self._pieces = RawPieces()
        self._retained = False
        """whether the last event was not told completely, so that what follows waits with it"""
        self._edge = b""
        """the last bytes that arrived"""
        self._untold = Untold(run)
        self.rewrites = False
        """whether an event cannot be forwarded as it came, so that the stream is encoded from there on"""
        self._encoding: StreamEncoder | None = None
        """writes the stream from the first change on"""
        self._room = MOST_TEXT
        self._characters = 0

    def feed(self, data: bytes) -> bytes:
        """Return what may go on now: whole events of the upstream, or encoded ones."""
        if self.done:
            return b""
        form = self._repeated.form
        text = form.take(data) if form is not None else ""
        if not text:
            self.moved = False
            return b"".join([self._take(part) for part in self._parts(data)])
        self.moved = True
        event = self._repeated.more(text)
        if self._encoding is None and not self._retained and event.index == self._sequencer.direct:
            return self._pass_text(data, event)
        return self._add(data, [event])

    def whole(self, body: dict[str, Json]) -> bytes:
        """Return a whole response as a stream, for an upstream that was asked for a stream and did not send one."""
        events = list(events_of(CODECS[self._protocol].decode_response(body)))
        self.moved = True
        self._encoding = self._new_encoder()
        return self.release(self._run.feed(events))

    def close(self) -> bytes:
        """Return the rest at the end of the upstream's stream, or an error if the response was not complete."""
        if self.done:
            return b""
        ended = self._decoder.done
        events = self._decoder.close()
        tail = b"".join(self._tail)
        self._tail = []
        tail = b"" if ended and is_late(tail + b"\n\n") else tail
        return self._add(tail if ended else self._completed(tail), events)

    def fail(self, error: UpstreamError) -> bytes:
        """Return the client's form of an error of the connection. What policies hold is dropped."""
        if self.finish is not None or self.failed is not None:
            return b""
        self._run.close()
        return self._edited(self._encode([*self._pieces.rest(), Failed(failure_of(error, self._protocol))]))

    def keepalive(self) -> bytes:
        """Return a ping if the protocol has one and the response has begun, else a comment."""
        return super().keepalive() if self._encoding is None else self._encoding.keepalive()

    def release(self, events: list[Event]) -> bytes:
        """Return the bytes for events that the policies let go on."""
        last = events[-1] if events else None
        # What an upstream does not report itself is not in its bytes: the last of them cannot be read.
        unreported = type(last) is Failed and last.failure.kind in UNREPORTED
        if self._encoding is not None or self.rewrites or self._run.changed or unreported:
            return self._edited(self._encode([*self._pieces.rest(), *events]))
        out = self._pieces.release(events)
        if type(last) not in (Finish, Failed) or not self._pieces.stuck:
            self._note(events)
            return self._edited(out)
        if type(last) is Finish:
            # What is left over was never judged: choices that only Chat has.
            self._ledger.add("choices.dropped", "choices")
        return self._edited(out + self._encode(self._pieces.rest()))

    def _parts(self, data: bytes) -> list[bytes]:
        """Return bytes in parts of which each ends with an event, except for the last one."""
        # The blank line behind an event may have begun in earlier bytes.
        before = len(self._edge)
        joined = self._edge + data
        ends = [mark.end() - before for mark in EVENT_END.finditer(joined) if mark.end() > before]
        self._edge = joined[1 - LONGEST_END :]
        return [part for start, end in pairwise([0, *ends, len(data)]) if (part := data[start:end])]

    def _take(self, part: bytes) -> bytes:
        """Take bytes that end with an event, or inside of one."""
        if self.done:
            return b""
        if self._decoder.done:
            return self._take_late(part)
        events = self._repeated.feed(part)
        self._tail.append(part)
        self.moved = self.moved or bool(events)
        if not events and not self._decoder.parser.is_between:
            return b""
        raw = b"".join(self._tail)
        self._tail = []
        if self._encoding is None and not self.rewrites:
            kinds = self._decoder.retained
            unwanted = bool(kinds) and not self._run.wants(kinds)
            self.rewrites = self._untold.is_hidden(
                raw, events, over=self._decoder.done, unwanted=unwanted, retained=ToolCall in kinds
            )
        return self._add(raw, events)

    def _take_late(self, part: bytes) -> bytes:
        """Take bytes behind the end of the response. What says anything was not judged, and is dropped."""
        self._tail.append(part)
        raw = b"".join(self._tail)
        if not raw.endswith(ENDS):
            return b""
        self._tail = []
        return b"" if is_late(raw) else self._add(raw, [])

    def _pass_text(self, raw: bytes, event: Delta | ReasoningDelta) -> bytes:
        """Return an event that only has more text of the open block, or what takes its place."""
        self._count(len(event.text))
        if self._room < 0:
            return self.fail(too_long())
        given: list[Event] = [event]
        out = self._run.feed(given)
        pieces = self._pieces
        if pieces.idle and (out is given or out == given) and not self._run.changed and not self.rewrites:
            pieces.pass_text(raw, event)
            return raw if self._spelling is None else self._edited(raw)
        pieces.add(raw, given, shapes=False, retained=False)
        if self._run.changed or self.rewrites:
            return self.release(out)
        passed = pieces.release(out)
        return passed if self._spelling is None else self._edited(passed)

    def _add(self, raw: bytes, events: list[Event]) -> bytes:
        """Add bytes of the upstream with their events, and return what may go on now."""
        for event in events:
            if isinstance(event, Delta | ReasoningDelta):
                self._count(len(event.text))
            elif isinstance(event, ResponseStart):
                self._begin(event)
        if self._room < 0:
            return self.fail(too_long())
        sequenced = self._sequencer.feed(events)
        if self._encoding is None:
            kinds = self._decoder.retained
            # What a decoder keeps back of calls and messages must not be sent twice.
            kept = ToolCall in kinds or self._decoder.announces
            self._retained = retained = kept or self._sequencer.waits or self._run.wants(kinds)
            shapes = not events or any([isinstance(event, BlockStart | BlockStop) for event in events])
            shapes = shapes or self._decoder.finishing
            self._pieces.add(raw, sequenced, shapes=shapes, retained=retained)
        return self.release(self._run.feed(sequenced))

    def _begin(self, event: ResponseStart) -> None:
        self.response_id, self.start = event.id, event
        if self._name and event.model and event.model != self._name:
            self._spelling = dump(event.model), dump(self._name)

    def _count(self, characters: int) -> None:
        self._characters += characters
        self._room -= characters + PIECE

    def _encode(self, events: list[Event]) -> bytes:
        """Return events as bytes that continue what the client has got."""
        if self._encoding is None:
            self._encoding = self._new_encoder()
            self._encoding.encode(self._pieces.sent())
            self._encoding.follow(b"".join(self._pieces.shapes))
            numbers = NUMBERS.findall(self._pieces.numbered)
            if numbers:
                self._encoding.resume(int(numbers[-1]) + 1)
        last = events[-1] if events else None
        if type(last) is Finish and last.usage is None and self._run.stopped is not None:
            events[-1] = replace(last, usage=self._estimated())
        try:
            out = self._encoding.encode(events)
        except UpstreamError as error:
            events = [Failed(failure_of(error, self._protocol))]
            out = self._encoding.encode(events)
        self._note(events)
        self.done = self.finish is not None or self.failed is not None
        return out

    def _estimated(self) -> Usage:
        """Return the usage of a response that a policy has stopped before its upstream reported any."""
        counter = UsageCounter(self._make_reply(), self._protocol)
        counter.note([] if self.start is None else [self.start])
        counter.characters = self._characters
        return counter.complete(None)

    def _new_encoder(self) -> StreamEncoder:
        return CODECS[self._protocol].encoder(self._make_reply())

    def _note(self, events: list[Event]) -> None:
        """Note what the client gets."""
        for event in events:
            if type(event) is BlockStart:
                self.started = True
                self.has_content = self.has_content or type(event.block) is not Reasoning
            elif type(event) is Finish:
                self.finish, self.started = event, True
            elif type(event) is Failed:
                self.failed = event

    def _edited(self, out: bytes) -> bytes:
        """Return bytes with the client's name of the model, and with what response objects say about storage."""
        if self._spelling is not None:
            theirs, ours = self._spelling
            for key in (b'"model":', b'"model": '):
                out = out.replace(key + theirs, key + ours)
        return out if self._echo is None else echoed_events(out, self._echo)


_NUMBER = b'"sequence_number"'
_MOST_SHAPES = 1000
_JOINED = 256
"""pieces of text after which they are joined, so that a long text does not take many times its size"""
Position: TypeAlias = tuple[int, int, int]
"""how far a stream is: blocks that have stopped, and since then other events and characters of text"""


def after(position: Position, event: Event) -> Position:
    """Return the position behind an event."""
    blocks, marks, characters = position
    kind = type(event)
    if kind is Delta or kind is ReasoningDelta:
        return blocks, marks, characters + len(event.text)  # type: ignore[attr-defined]  # both have it
    if kind is BlockStop:
        return blocks + 1, 0, 0
    if isinstance(event, BlockStart) and isinstance(event.block, Text | Refusal):
        # A filter sends the text that a block starts with by itself, and so its citations.
        marks += len(event.block.citations) if isinstance(event.block, Text) else 0
        characters += len(event.block.text)
    return blocks, marks + 1, characters


def covers(position: Position, other: Position) -> bool:
    """Return whether a stream is at least as far as the other position."""
    if position[0] != other[0]:
        return position[0] > other[0]
    return position[1] >= other[1] and position[2] >= other[2]


class _Piece(Struct):
    """One event of the upstream, with its model events.

    `shapes`: it begins or ends a block, or is not about the content.
    """

    raw: bytes
    events: list[Event]
    shapes: bool
    needed: Position | None = None
    """how far the policies must be before it is forwarded; None: that is not known yet"""


class RawPieces:
    """The pieces of one stream."""

    def __init__(self) -> None:
        self._arrived: Position = (0, 0, 0)
        self._released: Position = (0, 0, 0)
        self._forwarded: Position = (0, 0, 0)
        self._waiting: deque[_Piece] = deque()
        """pieces that were not forwarded"""
        self._unsent: deque[tuple[Event, Position]] = deque()
        """events that have gone on and were not forwarded as bytes, with the position behind them"""
        self._sent: list[Event] = []
        self._texts: list[str] = []
        """text that belongs to the end of `_sent`"""
        self._open: Delta | ReasoningDelta = Delta(-1, "")
        """the event that this text was first part of"""
        self.numbered = b""
        """the last forwarded piece that has a number; comments have none"""
        self.shapes: deque[bytes] = deque(maxlen=_MOST_SHAPES)
        """the latest forwarded pieces that are not only text"""

    @property
    def idle(self) -> bool:
        """Whether everything that arrived was forwarded."""
        return not self._waiting and not self._unsent

    @property
    def stuck(self) -> bool:
        """Whether something waits."""
        return bool(self._waiting)

    def pass_text(self, raw: bytes, event: Delta | ReasoningDelta) -> None:
        """Note a piece with nothing but text that has gone on at once and unchanged. Only while it is `idle`."""
        self._arrived = self._released = self._forwarded = after(self._arrived, event)
        self._log(event)
        self._forward(raw)

    def add(self, raw: bytes, events: list[Event], *, shapes: bool, retained: bool) -> None:
        """Add a piece with its events. `shapes`: it is not only text. `retained`: more events will come of it."""
        for event in events:
            self._arrived = after(self._arrived, event)
        self._waiting.append(_Piece(raw, events, shapes))
        if retained:
            return
        for piece in reversed(self._waiting):
            if piece.needed is not None:
                break
            piece.needed = self._arrived

    def release(self, events: list[Event]) -> bytes:
        """Take events that the policies let go on, and return the bytes that may be forwarded."""
        for event in events:
            self._released = after(self._released, event)
            self._unsent.append((event, self._released))
        out = []
        while self._waiting and (needed := self._waiting[0].needed) is not None and covers(self._released, needed):
            piece = self._waiting.popleft()
            out.append(piece.raw)
            self._forward(piece.raw)
            if piece.shapes:
                self.shapes.append(piece.raw)
            for event in piece.events:
                self._log(event)
            self._forwarded = needed
        unsent = self._unsent
        while unsent and covers(self._forwarded, unsent[0][1]):
            unsent.popleft()
        return b"".join(out)

    def sent(self) -> list[Event]:
        """Return the events that the client has got, in larger pieces."""
        self._join()
        return self._sent

    def rest(self) -> list[Event]:
        """Return the events that have gone on and that the client has not got. Nothing waits any more after that."""
        rest = [event for event, _ in self._unsent]
        if rest:
            # Of a text that policies let go on in one piece, the client may have got the beginning.
            rest[0] = _beyond(*self._unsent[0], self._forwarded)
        self._unsent.clear()
        self._waiting.clear()
        return rest

    def _forward(self, raw: bytes) -> None:
        if raw.find(_NUMBER) >= 0:
            self.numbered = raw

    def _log(self, event: Event) -> None:
        if not isinstance(event, Delta | ReasoningDelta):
            self._join()
            self._sent.append(event)
            return
        if self._texts and not _continues(event, self._open):
            self._join()
        self._open = event
        self._texts.append(event.text)
        if len(self._texts) > _JOINED:
            self._texts = ["".join(self._texts)]

    def _join(self) -> None:
        if self._texts:
            self._sent.append(replace(self._open, text="".join(self._texts)))
            self._texts = []


def _beyond(event: Event, end: Position, position: Position) -> Event:
    """Return what is left of an event beyond a position. `end`: the position behind the event."""
    if position[0] != end[0] or not isinstance(event, Delta | ReasoningDelta):
        return event
    left = end[2] - position[2]
    return replace(event, text=event.text[-left:]) if 0 < left < len(event.text) else event


def _continues(event: Delta | ReasoningDelta, before: Delta | ReasoningDelta) -> bool:
    """Return whether an event has more of the same text as the one before it."""
    if type(event) is not type(before) or event.index != before.index:
        return False
    return not isinstance(event, ReasoningDelta) or replace(event, text="") == replace(before, text="")
