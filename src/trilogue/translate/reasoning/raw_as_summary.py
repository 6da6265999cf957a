"""Raw reasoning shown as a summary, for Responses clients that show nothing else (`Profile.raw_as_summary`).

The text is the same. Its mark says that it is raw, so that it goes back to its upstream as it came.
"""

from __future__ import annotations

from msgspec.structs import replace

from trilogue.model import Block, BlockStart, BlockStop, Event, Reasoning, ReasoningDelta
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
