"""Stages for reasoning in responses: <think> tags in text, and raw reasoning as a summary.

`ThinkStage` turns <think>…</think> at the start of a text into reasoning. It is only for upstreams whose profile says
so: elsewhere the tag may be part of the response. `SummaryStage` shows raw reasoning as a summary, for Responses
clients that show nothing else (`Profile.raw_as_summary`). Its mark says that the text is raw, so that it goes back to
its upstream unchanged.
"""

from __future__ import annotations

from enum import Enum, auto

from msgspec.structs import replace

from trilogue.model import Block, BlockStart, BlockStop, Delta, Event, Reasoning, ReasoningDelta, Text
from trilogue.translate.reasoning.provenance import RAW, ResponseSealer

_AFTER = 1000
"""the number of the first raw part, after all parts of a summary, if there is one"""


class SummaryStage:
    """A stage that turns raw reasoning into summaries. It must come after sealing, which tells the two apart."""

    def __init__(self, sealer: ResponseSealer) -> None:
        self._sealer = sealer
        self._as_summary: set[int] = set()
        """the indices of blocks whose raw text became a summary"""

    def __call__(self, events: list[Event]) -> list[Event]:
        return [self._one(event) for event in events]

    def _one(self, event: Event) -> Event:
        if isinstance(event, ReasoningDelta):
            return self._delta(event)
        if isinstance(event, BlockStart) and isinstance(event.block, Reasoning) and event.block.raw:
            self._as_summary.add(event.index)
            return BlockStart(event.index, _raw_as_summary(event.block))
        if isinstance(event, BlockStop) and event.index in self._as_summary:
            block = None if event.block is None else _raw_as_summary(event.block)
            return BlockStop(event.index, event.opaque or self._sealer.seal(RAW), block)
        return event

    def _delta(self, event: ReasoningDelta) -> Event:
        if not event.raw:
            return event
        self._as_summary.add(event.index)
        return ReasoningDelta(event.index, event.text, _AFTER + event.part)


def _raw_as_summary(block: Block) -> Block:
    return replace(block, summary=block.summary + block.raw, raw=()) if isinstance(block, Reasoning) else block


# MiniMax, older Ollama and distilled DeepSeek models write reasoning like this.
OPEN, CLOSE = "<think>", "</think>"
_FIRST_INDEX = 2_000_000
"""the index of the first reasoning block made here, above all indices of decoders"""


class Phase(Enum):
    """The position in a text block, relative to the <think> part."""

    BEFORE = auto()
    """only whitespace or the beginning of the tag so far"""
    THINKING = auto()
    AFTER = auto()


class ThinkStage:
    """A stage that turns a <think> part at the start of each text block into a reasoning block."""

    def __init__(self) -> None:
        self._index = _FIRST_INDEX
        self._block: BlockStart | None = None
        """the start of the current text block, held back until it has text"""
        self._phase = Phase.AFTER
        self._held = ""
        self._waiting: list[Event] = []
        """events for the text that arrived before it: token probabilities, citations"""

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
            self._end_block(block, out)
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
            # The tag may arrive in several deltas: wait until the text cannot become the tag any more.
            elif not OPEN.startswith(start):
                self._begin_text(block, out)
        if self._phase is Phase.THINKING:
            self._think(block, out)

    def _think(self, block: BlockStart, out: list[Event]) -> None:
        thought, found, rest = self._held.partition(CLOSE)
        if found:
            self._emit_thought(thought, out)
            out.append(BlockStop(self._index))
            self._held = rest
            self._begin_text(block, out)
            return
        # Hold back the last characters: they may be the beginning of the closing tag.
        keep = len(self._held) - len(CLOSE)
        if keep > 0:
            self._emit_thought(self._held[:keep], out)
            self._held = self._held[keep:]

    def _emit_thought(self, text: str, out: list[Event]) -> None:
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

    def _end_block(self, block: BlockStart, out: list[Event]) -> None:
        if self._phase is Phase.THINKING:
            # The response was cut off while thinking: all of it is reasoning, and there is no text.
            self._emit_thought(self._held, out)
            out.append(BlockStop(self._index))
            self._held = ""
        self._begin_text(block, out)
