"""Reordering of results of hosted tools, so that each comes right after its call.

Messages has a call and its result as two blocks. If tools run at the same time, or one inside the other, their results
come later. Responses has one item for both.
"""

from __future__ import annotations

from trilogue.model import BlockStart, BlockStop, Event, Failed, Finish, HostedCall, HostedResult


class HostedStage:
    """A stage that passes on the first call at once and holds back further ones until its result has arrived.

    The start of any other block releases them, so that no text is held back.
    """

    def __init__(self) -> None:
        self._first: str | None = None
        """the id of the call that was passed on and has no result yet"""
        self._held: dict[str, list[Event]] = {}
        """the calls that are held back, by id, each with its events and those of its result"""
        self._with_result: set[str] = set()
        """the ids of the calls whose result has arrived"""
        self._blocks: dict[int, str] = {}
        """open blocks of calls that are held back, and of the first call's result: index → id of the call"""

    def __call__(self, events: list[Event]) -> list[Event]:
        out: list[Event] = []
        for event in events:
            if type(event) is BlockStart:
                self._begin(event, out)
            # Results may be missing if the response was cut short.
            elif type(event) is Finish or type(event) is Failed:
                self._release_all(out)
            self._pass(event, out)
        return out

    def _begin(self, event: BlockStart, out: list[Event]) -> None:
        """Decide to which call the events of a block belong, or release all calls."""
        block = event.block
        if type(block) is HostedCall and self._first is None:
            self._first = block.id
        elif type(block) is HostedCall and block.id != self._first and block.id not in self._held:
            self._held[block.id] = []
            self._blocks[event.index] = block.id
        elif type(block) is HostedResult and (block.call_id == self._first or block.call_id in self._held):
            self._with_result.add(block.call_id)
            self._blocks[event.index] = block.call_id
        else:
            self._release_all(out)

    def _pass(self, event: Event, out: list[Event]) -> None:
        call_id = self._blocks.get(getattr(event, "index", -1))
        if call_id is None or call_id == self._first:
            out.append(event)
        else:
            self._held[call_id].append(event)
        if type(event) is BlockStop and call_id is not None:
            del self._blocks[event.index]
            self._release_next(out)

    def _release_next(self, out: list[Event]) -> None:
        """Pass on the next call while the first one has its result."""
        while self._first in self._with_result:
            self._with_result.discard(self._first)
            self._first = next(iter(self._held), None)
            if self._first is not None:
                out += self._held.pop(self._first)

    def _release_all(self, out: list[Event]) -> None:
        """Pass on everything that is held back, with or without results."""
        for held in self._held.values():
            out += held
        self._held.clear()
        self._blocks.clear()
        self._first = None
