"""Results of hosted tools, put right behind their calls.

Messages has call and result as two blocks, and tools that run at the same time, or one inside the other, have their
results later. Responses has one item for both.
"""

from __future__ import annotations

from trilogue.model import BlockStart, BlockStop, Event, Failed, Finish, HostedCall, HostedResult


class HostedStage:
    """The first call goes on at once and waits for its result; calls that begin meanwhile wait for their turn.

    Anything else that begins ends the waiting, so that no words are held back.
    """

    def __init__(self) -> None:
        self._first: str | None = None
        """id of the call that has gone on and has no result yet"""
        self._held: dict[str, list[Event]] = {}
        """the calls behind it by id, each with all of its events and those of its result"""
        self._answered: set[str] = set()
        """those of them whose result has come"""
        self._blocks: dict[int, str] = {}
        """the open blocks of calls that are held, and of the first one's result: index and id of the call"""

    def __call__(self, events: list[Event]) -> list[Event]:
        out: list[Event] = []
        for event in events:
            if type(event) is BlockStart:
                self._begin(event, out)
            elif type(event) is Finish or type(event) is Failed:
                self._let_go(out)
            self._pass(event, out)
        return out

    def _begin(self, event: BlockStart, out: list[Event]) -> None:
        """See where the events of a block belong."""
        block = event.block
        if type(block) is HostedCall and self._first is None:
            self._first = block.id
        elif type(block) is HostedCall and block.id != self._first and block.id not in self._held:
            self._held[block.id] = []
            self._blocks[event.index] = block.id
        elif type(block) is HostedResult and (block.call_id == self._first or block.call_id in self._held):
            self._answered.add(block.call_id)
            self._blocks[event.index] = block.call_id
        else:
            self._let_go(out)

    def _pass(self, event: Event, out: list[Event]) -> None:
        call_id = self._blocks.get(getattr(event, "index", -1))
        if call_id is None or call_id == self._first:
            out.append(event)
        else:
            self._held[call_id].append(event)
        if type(event) is BlockStop and call_id is not None:
            del self._blocks[event.index]
            self._go_on(out)

    def _go_on(self, out: list[Event]) -> None:
        """While the first call has its result, the next one is the first."""
        while self._first in self._answered:
            self._answered.discard(self._first)
            self._first = next(iter(self._held), None)
            if self._first is not None:
                out += self._held.pop(self._first)

    def _let_go(self, out: list[Event]) -> None:
        """Whatever is held goes on, with its result or without."""
        for held in self._held.values():
            out += held
        self._held.clear()
        self._blocks.clear()
        self._first = None
