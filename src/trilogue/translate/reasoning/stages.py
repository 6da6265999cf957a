"""Reasoning that a model writes as <think>…</think> at the start of its text, taken out of it.

Only for upstreams whose profile says so: anywhere else the tag may be part of the answer.

Raw reasoning shown as a summary, for Responses clients that show nothing else (`Profile.raw_as_summary`).

The text is the same. Its mark says that it is raw, so that it goes back to its upstream as it came.
"""

from __future__ import annotations

from enum import Enum, auto

from msgspec.structs import replace

from trilogue.model import Block, BlockStart, BlockStop, Delta, Event, Reasoning, ReasoningDelta, Text
from trilogue.translate.reasoning.provenance import RAW, Closer

_AFTER = 1000
"""raw parts are numbered from here: behind those of a summary, should there be one"""


class SummaryStage:
    """Makes summaries of raw reasoning. Comes after the sealing, which tells the two apart."""

    def __init__(self, closer: Closer) -> None:
        self._closer = closer
        self._shown: set[int] = set()
        """blocks whose raw text was shown so"""

    def __call__(self, events: list[Event]) -> list[Event]:
        return [self._one(event) for event in events]

    def _one(self, event: Event) -> Event:
        if isinstance(event, ReasoningDelta):
            return self._delta(event)
        if isinstance(event, BlockStart) and isinstance(event.block, Reasoning) and event.block.raw:
            self._shown.add(event.index)
            return BlockStart(event.index, _summed(event.block))
        if isinstance(event, BlockStop) and event.index in self._shown:
            block = None if event.block is None else _summed(event.block)
            return BlockStop(event.index, event.opaque or self._closer.seal(RAW), block)
        return event

    def _delta(self, event: ReasoningDelta) -> Event:
        if not event.raw:
            return event
        self._shown.add(event.index)
        return ReasoningDelta(event.index, event.text, _AFTER + event.part)


def _summed(block: Block) -> Block:
    return replace(block, summary=block.summary + block.raw, raw=()) if isinstance(block, Reasoning) else block


OPEN, CLOSE = "<think>", "</think>"
_FIRST_INDEX = 2_000_000
"""for the reasoning blocks made here, out of the way of the decoder's own indices"""


class Phase(Enum):
    """Where in a text block we are."""

    BEFORE = auto()
    """nothing but white space, or the beginning of the tag"""
    THINKING = auto()
    AFTER = auto()


class ThinkStage:
    """Turns a leading <think> part of each text block into a reasoning block."""

    def __init__(self) -> None:
        self._index = _FIRST_INDEX
        self._block: BlockStart | None = None
        """the text block under way, given out when it turns out to have text"""
        self._phase = Phase.AFTER
        self._held = ""
        self._waiting: list[Event] = []
        """what was said of the text before it began: probabilities, citations"""

    def __call__(self, events: list[Event]) -> list[Event]:
        out: list[Event] = []
        for event in events:
            self._take(event, out)
        return out

    def _take(self, event: Event, out: list[Event]) -> None:
        if type(event) is BlockStart and isinstance(event.block, Text):
            self._block, self._phase, self._held = event, Phase.BEFORE, event.block.text
            self._waiting = []
            return
        block = self._block
        if block is None or getattr(event, "index", None) != block.index or self._phase is Phase.AFTER:
            out.append(event)
        elif type(event) is Delta:
            self._held += event.text
            self._advance(block, out)
        elif type(event) is BlockStop:
            self._end(block, out)
            out.append(event)
        else:
            self._waiting.append(event)

    def _advance(self, block: BlockStart, out: list[Event]) -> None:
        if self._phase is Phase.BEFORE:
            start = self._held.lstrip()
            if start.startswith(OPEN):
                self._phase, self._held = Phase.THINKING, start[len(OPEN) :]
                self._index += 1
                out.append(BlockStart(self._index, Reasoning()))
            elif not OPEN.startswith(start):
                self._begin_text(block, out)
        if self._phase is Phase.THINKING:
            self._think(block, out)

    def _think(self, block: BlockStart, out: list[Event]) -> None:
        thought, found, rest = self._held.partition(CLOSE)
        if found:
            self._give(thought, out)
            out.append(BlockStop(self._index))
            self._held = rest
            self._begin_text(block, out)
            return
        # The last characters may be the beginning of the closing tag.
        keep = len(self._held) - len(CLOSE)
        if keep > 0:
            self._give(self._held[:keep], out)
            self._held = self._held[keep:]

    def _give(self, text: str, out: list[Event]) -> None:
        if text:
            out.append(ReasoningDelta(self._index, text, 0, True))

    def _begin_text(self, block: BlockStart, out: list[Event]) -> None:
        if self._phase is not Phase.AFTER:
            self._phase = Phase.AFTER
            out.append(BlockStart(block.index, Text(text="", path=block.block.path)))
            if self._held:
                out.append(Delta(block.index, self._held))
            self._held = ""
            out += self._waiting

    def _end(self, block: BlockStart, out: list[Event]) -> None:
        if self._phase is Phase.THINKING:
            # Cut off while thinking: what there is of it is reasoning, and there is no text.
            self._give(self._held, out)
            out.append(BlockStop(self._index))
            self._held = ""
        self._begin_text(block, out)
