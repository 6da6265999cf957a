"""A request without the reasoning of earlier turns: for an upstream that does not accept it any more.

Signatures are bound to account, model and conversation; when one is refused, the conversation can go on without.
"""

from __future__ import annotations

from msgspec.structs import replace

from trilogue.model import Json, Ledger, Loss, Protocol, Reasoning, Turn
from trilogue.protocols.codec import Target
from trilogue.protocols.jsontext import parse_request
from trilogue.protocols.registry import CODECS


def strip_reasoning(body: bytes, *, protocol: Protocol) -> tuple[dict[str, Json], list[Loss]]:
    """The same request, in the same protocol, with every piece of earlier reasoning left out and declared."""
    request = CODECS[protocol].decode_request(parse_request(body))
    ledger = Ledger()
    turns = tuple(kept for turn in request.turns if (kept := _without_reasoning(turn, ledger)) is not None)
    target = Target.of(protocol, request.model)
    return CODECS[protocol].encode_request(replace(request, turns=turns), target, ledger), ledger.losses


def _without_reasoning(turn: Turn, ledger: Ledger) -> Turn | None:
    blocks = tuple(block for block in turn.blocks if not isinstance(block, Reasoning))
    if len(blocks) == len(turn.blocks):
        return turn
    for block in turn.blocks:
        if isinstance(block, Reasoning):
            ledger.add("reasoning.foreign_dropped", block.path)
    return replace(turn, blocks=blocks) if blocks else None
