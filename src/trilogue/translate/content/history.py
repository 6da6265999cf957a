"""The turns of a request on their way to another protocol: every block passes the same steps, once.

Most blocks of a long conversation are plain text that no step touches; they and their turns are passed on as they are.
"""

from __future__ import annotations

from operator import is_

from msgspec import Struct
from msgspec.structs import replace

from trilogue.model import Block, Ledger, Request, Role, Text, Turn
from trilogue.translate.foreign import Foreign
from trilogue.translate.reasoning.provenance import Opener
from trilogue.translate.tools.names import Namer

PROMPTS = frozenset({Role.SYSTEM, Role.DEVELOPER})


def prompts_by_user(request: Request, ledger: Ledger) -> Request:
    """Prompts at the end, for a protocol in which the user must have the last word: the user says them.

    That is so for prompts alone and behind an assistant's turn; behind a user's turn they may stay what they are.
    """
    turns = request.turns
    end = len(turns)
    while end and turns[end - 1].role in PROMPTS:
        end -= 1
    if end and turns[end - 1].role is not Role.ASSISTANT:
        return request
    ledger.add("system.as_user", turns[end].path if end else request.where("turns"))
    said = tuple(replace(turn, role=Role.USER, leading=False) for turn in turns[end:])
    return replace(request, turns=turns[:end] + said)


def is_plain(turns: tuple[Turn, ...]) -> bool:
    """Whether a conversation is text and nothing else: then no step has anything to do with it."""
    for turn in turns:
        if turn.extras is not None:
            return False
        for block in turn.blocks:
            if type(block) is not Text or block.extras is not None or block.citations:
                return False
    return True


class History(Struct, frozen=True):
    """Opens sealed values, leaves out what only the source knows, makes tool names legal: in this order."""

    opener: Opener
    foreign: Foreign
    namer: Namer

    def turns(self, turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
        """The turns as the target can take them. A turn of which nothing is left is left out."""
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
        if all(map(is_, adapted, turn.blocks)):
            return turn
        kept = tuple(block for block in adapted if block is not None)
        return replace(turn, blocks=kept) if kept else None

    def _block(self, block: Block) -> Block | None:
        opened = self.opener.block(block)
        known = None if opened is None else self.foreign.block(opened)
        return None if known is None else self.namer.block(known)
