"""The turns of a request on their way to another protocol: every block goes through the same steps, once.

Most blocks of a long conversation are plain text that no step changes; they and their turns are passed on unchanged.
"""

from __future__ import annotations

from operator import is_

from msgspec import Struct
from msgspec.structs import replace

from trilogue.model import Block, Ledger, Request, Role, Text, Turn
from trilogue.translate.foreign import Foreign
from trilogue.translate.reasoning.provenance import RequestOpener
from trilogue.translate.tools.names import Namer

PROMPTS = frozenset({Role.SYSTEM, Role.DEVELOPER})


def lone_prompts_as_user(request: Request, ledger: Ledger) -> Request:
    """Turn the prompts of a request that has nothing else into user turns, for a protocol that requires one."""
    turns = request.turns
    if any(turn.role not in PROMPTS for turn in turns):
        return request
    ledger.add("system.as_user", request.where("turns"))
    return replace(request, turns=tuple(replace(turn, role=Role.USER, leading=False) for turn in turns))


def is_plain(turns: tuple[Turn, ...]) -> bool:
    """Return whether a conversation is only text that no step has to change."""
    for turn in turns:
        if turn.extras is not None:
            return False
        for block in turn.blocks:
            if type(block) is not Text or block.extras is not None or block.citations:
                return False
    return True


class History(Struct, frozen=True):
    """The three steps for the history: open sealed values, remove what only the source has, make tool names legal."""

    opener: RequestOpener
    foreign: Foreign
    namer: Namer

    def turns(self, turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
        """Return the turns as the target accepts them. A turn of which nothing remains is left out."""
        return tuple(adapted for turn in turns if (adapted := self._turn(turn)) is not None)

    def _turn(self, turn: Turn) -> Turn | None:
        if turn.extras is not None:
            self.foreign.turn(turn)
        for block in turn.blocks:
            if type(block) is not Text or block.extras is not None or block.citations:
                return self._adapted(turn)
        return turn

    def _adapted(self, turn: Turn) -> Turn | None:
        adapted = [self._block(block) for block in turn.blocks]
        # Unchanged turns stay the same objects, so that later steps can skip them.
        if all(map(is_, adapted, turn.blocks)):
            return turn
        remaining = tuple(block for block in adapted if block is not None)
        return replace(turn, blocks=remaining) if remaining else None

    def _block(self, block: Block) -> Block | None:
        opened = self.opener.block(block)
        known = None if opened is None else self.foreign.block(opened)
        return None if known is None else self.namer.block(known)
