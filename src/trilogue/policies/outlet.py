"""The way out of the engine: numbers blocks, keeps calls behind the words that replace others, and ends the response.

In: complete or flowing blocks that may go on, in order. A block that policies have to see as a whole is held until it
is complete. Out: events with indices 0, 1, 2…, and an end whose stop reason fits what the client got.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from msgspec.structs import replace

from trilogue.errors import InternalError
from trilogue.model import (
    PART_BREAK,
    Block,
    BlockStart,
    BlockStop,
    CitationDelta,
    Delta,
    Event,
    Finish,
    LogprobsDelta,
    Opaque,
    OpenBlock,
    Reasoning,
    ReasoningDelta,
    Refusal,
    Response,
    ResponseStart,
    Stop,
    StopReason,
    Text,
    events_of,
)
from trilogue.policies.calls import is_client_call

Piece: TypeAlias = Delta | ReasoningDelta | CitationDelta | LogprobsDelta
"""an event inside a block"""
BlockEvent: TypeAlias = BlockStart | Piece | BlockStop
"""an event of a block"""
_NO_STOP = Stop(reason=StopReason.END)


def _take_text(block: OpenBlock, event: Delta) -> None:
    block.texts.append(event.text)


def _take_reasoning(block: OpenBlock, event: ReasoningDelta) -> None:
    block.parts.setdefault((event.raw, event.part), []).append(event.text)


def _take_citation(block: OpenBlock, event: CitationDelta) -> None:
    block.citations.append(event.citation)


def _take_logprobs(block: OpenBlock, event: LogprobsDelta) -> None:
    block.logprobs.extend(event.logprobs)


_TAKE: dict[type[Event], Callable[..., None]] = {
    Delta: _take_text,
    ReasoningDelta: _take_reasoning,
    CitationDelta: _take_citation,
    LogprobsDelta: _take_logprobs,
}


class HeldBlock:
    """One block. `events` has everything it was made of, so that it can go on exactly as it came."""

    __slots__ = ("_open", "events", "number")

    def __init__(self, start: BlockStart) -> None:
        self._open = OpenBlock(start.block)
        self.number = start.index
        self.events: list[BlockEvent] = [start]

    def add(self, event: Piece) -> None:
        """Take an event of the block."""
        self.events.append(event)
        _TAKE[type(event)](self._open, event)

    def more(self, events: list[Event]) -> None:
        """Take more text, of a block that has gone on already, so that its events are not needed."""
        self._open.texts += [event.text for event in events if type(event) is Delta]

    def close(self, stop: BlockStop) -> Block:
        """Add the last event and return the complete block."""
        self.events.append(stop)
        return self._open.close(stop)


def block_events(block: Block, start: ResponseStart) -> list[BlockEvent]:
    """Return the events of one complete block of a response."""
    alone = Response(protocol=start.protocol, id=start.id, model=start.model, blocks=(block,), stop=_NO_STOP)
    return [event for event in events_of(alone) if isinstance(event, BlockEvent)]


class Outlet:
    """The events of one response that may go on."""

    def __init__(self) -> None:
        self.out: list[Event] = []
        self.changed = False
        """whether the client gets anything other than what the upstream sent"""
        self.index = -1
        """the number of the last block"""
        self._start: ResponseStart | None = None
        self._open: Block | None = None
        self._called = False
        self._refused = False
        self._calls: list[list[BlockEvent]] = []
        self.one_text = False
        """whether the client joins all text without anything between"""
        self._written = False
        """whether the client has text"""
        self._apart = False
        """whether words of a policy were the last text"""

    def take(self) -> list[Event]:
        """Return the events since the last time."""
        out, self.out = self.out, []
        return out

    def start(self, event: ResponseStart) -> None:
        """Send the start of the response; blocks that are added later need it too."""
        self._start = event
        self.out.append(event)

    def start_block(self, event: BlockStart) -> None:
        """Begin a block that flows."""
        self.release_calls()
        self.index += 1
        self._open = event.block
        self._called = self._called or is_client_call(event.block)
        self._refused = self._refused or isinstance(event.block, Refusal)
        self.event(event)
        if self.one_text and isinstance(event.block, Text):
            self._set_apart()

    def event(self, event: BlockEvent) -> None:
        """Send an event of the block that flows, under the number that the client knows it by."""
        if event.index == self.index:
            self.out.append(event)
        else:
            self.out.append(replace(event, index=self.index))

    def text(self, text: str) -> None:
        """Send text of the block that flows."""
        if text:
            self.out.append(Delta(self.index, text))

    def reasoning(self, text: str, part: int, *, raw: bool) -> None:
        """Send reasoning of the block that flows."""
        if text:
            self.out.append(ReasoningDelta(self.index, text, part, raw))

    def stop_block(self, event: BlockStop) -> None:
        """End the block that flows."""
        self.event(event)
        self._open = None
        # A call without arguments until its end is only known to be one here.
        self._called = self._called or (event.block is not None and is_client_call(event.block))

    def whole(self, block: Block, events: Iterable[BlockEvent]) -> None:
        """Send a complete block. Calls wait until no more words can come that must precede them."""
        # Anthropic refuses a history in which text follows a call, so words that replace a call go in front.
        if is_client_call(block):
            self._calls.append(list(events))
        else:
            self._send(events)

    def made(self, block: Block) -> None:
        """Send a complete block that a policy made. Of several refusals only the first stays one."""
        # A message of Responses has at most one refusal.
        if isinstance(block, Refusal):
            block = Text(text=block.text) if self._refused else block
            self._refused = True
        if self._start is None:
            raise InternalError("a block before the start of its response")
        if self.one_text and isinstance(block, Text):
            block = replace(block, text=f"{PART_BREAK}{block.text}") if self._written else block
            self.whole(block, block_events(block, self._start))
            self._apart = True
        else:
            self.whole(block, block_events(block, self._start))

    def _set_apart(self) -> None:
        """Begin a text with an empty line if it follows words of a policy, which are no part of it."""
        if self._apart:
            self.text(PART_BREAK)
        self._written, self._apart = True, False

    def release_calls(self) -> None:
        """Send the calls that wait."""
        for events in self._calls:
            self._called = True
            self._send(events)
        self._calls = []

    def drop_calls(self) -> None:
        """Forget the calls that wait, for a response that is stopped."""
        self.changed = self.changed or bool(self._calls)
        self._calls = []

    def close_block(self, make_unsigned: Callable[[], Opaque | None]) -> None:
        """End the block that flows, if there is one, for a response that is stopped.

        `make_unsigned`: returns the value that closes reasoning in place of a signature.
        """
        if self._open is not None:
            self.stop_block(BlockStop(self.index, make_unsigned() if isinstance(self._open, Reasoning) else None))

    def finish(self, event: Finish) -> None:
        """End the response, with a stop reason that fits the calls that the client got."""
        self.release_calls()
        reason = event.stop.reason
        fitting = _FITTING.get((self._called, reason), reason) if self.changed else reason
        if fitting is not reason:
            event = replace(event, stop=replace(event.stop, reason=fitting, sequence=None, detail=None))
        self.out.append(event)

    def _send(self, events: Iterable[BlockEvent]) -> None:
        self.index += 1
        for event in events:
            self.event(event)
            if self.one_text and isinstance(event, BlockStart) and isinstance(event.block, Text):
                self._set_apart()


_FITTING: dict[tuple[bool, StopReason], StopReason] = {
    (False, StopReason.TOOL_CALLS): StopReason.END,
    (True, StopReason.END): StopReason.TOOL_CALLS,
    (True, StopReason.STOP_SEQUENCE): StopReason.TOOL_CALLS,
}
"""(whether the client got a call, the upstream's stop reason) → the stop reason, after a change"""
