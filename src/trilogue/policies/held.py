"""A block whose events are collected until it is complete."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from trilogue.model import (
    Block,
    BlockStart,
    BlockStop,
    CitationDelta,
    Delta,
    Event,
    LogprobsDelta,
    OpenBlock,
    ReasoningDelta,
)

Piece: TypeAlias = Delta | ReasoningDelta | CitationDelta | LogprobsDelta
"""an event inside a block"""
BlockEvent: TypeAlias = BlockStart | Piece | BlockStop
"""an event of a block"""


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
