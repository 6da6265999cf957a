"""Removal of reasoning and sealed values that an upstream does not accept from the history of a request.

Signatures are bound to account, model and conversation. If one is refused, the conversation can continue without the
reasoning of earlier turns (`strip_reasoning`).

A client that talked to an upstream of another protocol before has its values in the history: sealed signatures,
encrypted reasoning, search results. The provider of its own protocol did not make them and refuses them with a 400, so
they are removed from a request that stays in its protocol (`without_sealed`). Values that another gateway has sealed
came from the upstream and go back to it: that gateway can read them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from trilogue.base.json_text import parse_request
from trilogue.model import (
    SEAL_PREFIXES,
    Block,
    Json,
    Ledger,
    Loss,
    Protocol,
    Reasoning,
    Request,
    Role,
    Thinking,
    ThinkingMode,
    ToolCall,
    ToolResult,
    Turn,
)
from trilogue.protocols.codec import Target
from trilogue.protocols.registry import CODECS
from trilogue.protocols.sealed import Cleaning
from trilogue.translate.reasoning.seal import Sealer
from trilogue.vendors.profile import Profile

UNSIGNED = ""
"""the value of all reasoning that is only text: servers that sign nothing make it, and Anthropic refuses it"""


def strip_reasoning(
    body: bytes, *, protocol: Protocol, only: Collection[str] | None = None
) -> tuple[dict[str, Json], list[Loss]]:
    """Return the same request, in the same protocol, without earlier reasoning, and the losses.

    `only`: the beginnings of the values to remove, in the form of `reasoning_values`; all other reasoning stays.
    """
    codec, wire = CODECS[protocol], parse_request(body)
    request = codec.decode_request(wire)
    ledger = Ledger()
    turns = tuple(
        remaining for turn in request.turns if (remaining := _without_reasoning(turn, only, ledger)) is not None
    )
    removed, anonymous = [loss.path for loss in ledger.losses], turns
    if codec.reasoning.item_ids and (removed or only is None):
        # Also if there is no reasoning to remove: the client itself may have lost the reasoning of an item.
        anonymous = tuple(map(_without_ids, turns))
    changed = replace(request, turns=anonymous)
    if codec.reasoning.first_in_turn and _lacks_thinking(changed):
        # With a thinking budget, Anthropic requires thinking at the start of the turn whose calls get their results
        # now.
        ledger.add("thinking.replay_missing", "thinking")
        effort = request.thinking and request.thinking.effort
        changed = replace(changed, thinking=Thinking(effort=effort) if effort else None)
    named = [] if anonymous is turns else [path for turn in turns for path in _identified(turn)]
    if _cut(wire, removed, named):
        # What stays keeps the client's own form, byte for byte: what the cache has of it is found again.
        if changed.thinking is not request.thinking:
            del wire["thinking"]
        return wire, ledger.losses
    return codec.encode_request(changed, Target.of(protocol, request.model), ledger), ledger.losses


def reasoning_values(body: bytes, *, protocol: Protocol) -> dict[str, str]:
    """Return what tells earlier reasoning apart, by the place of its block as upstreams write it.

    That is the opaque value, else the item id, else `UNSIGNED`.
    """
    request = CODECS[protocol].decode_request(parse_request(body))
    blocks = [block for turn in request.turns for block in turn.blocks if isinstance(block, Reasoning)]
    return {_place(block): _value(block) for block in blocks}


def _value(block: Reasoning) -> str:
    return block.opaque.value if block.opaque is not None else block.id or UNSIGNED


def _place(block: Reasoning) -> str:
    """Return the place of a block in the form of errors: Anthropic writes messages.1.content.0, OpenAI the item id."""
    return block.id or block.path.replace("[", ".").replace("]", "")


def _without_reasoning(turn: Turn, only: Collection[str] | None, ledger: Ledger) -> Turn | None:
    blocks = tuple(block for block in turn.blocks if not _is_removed(block, only))
    if len(blocks) == len(turn.blocks):
        return turn
    for block in turn.blocks:
        if _is_removed(block, only):
            ledger.add("reasoning.foreign_dropped", block.path)
    return replace(turn, blocks=blocks) if blocks else None


def _is_removed(block: Block, only: Collection[str] | None) -> bool:
    if not isinstance(block, Reasoning):
        return False
    if only is None:
        return True
    value = _value(block)
    return value.startswith(tuple(start for start in only if start)) if value else UNSIGNED in only


def _without_ids(turn: Turn) -> Turn:
    """Return the turn without item ids.

    OpenAI refuses an item with an id that it knows if the reasoning that came before it is missing.
    """
    if turn.role is not Role.ASSISTANT:
        return turn
    blocks = tuple(replace(block, item_id=None) if isinstance(block, ToolCall) else block for block in turn.blocks)
    return replace(turn, id=None, blocks=blocks)


def _identified(turn: Turn) -> list[str]:
    """Return the paths of the items of a turn whose ids `_without_ids` removes."""
    if turn.role is not Role.ASSISTANT:
        return []
    calls = [block.path for block in turn.blocks if isinstance(block, ToolCall) and block.item_id is not None]
    return calls if turn.id is None else [turn.path, *calls]


def _cut(wire: dict[str, Json], removed: Sequence[str], named: Sequence[str]) -> bool:
    """Take blocks and items out of a request, and the ids of others, in place.

    Return False, and change nothing, if a block has no object of its own: in Chat, reasoning is a field of a message.
    """
    spots = [_spot(wire, path) for path in removed]
    items = [_spot(wire, path) for path in named]
    if any(spot is None for spot in (*spots, *items)):
        return False
    for spot in items:
        if spot is not None:
            spot.item.pop("id", None)
    for spot in spots:
        if spot is not None:
            # By identity: two blocks may say the same.
            spot.among[:] = [one for one in spot.among if one is not spot.item]
            if not spot.among and spot.holder is not None:
                turns, turn = spot.holder
                turns[:] = [one for one in turns if one is not turn]
    return True


class _Spot(NamedTuple):
    """An object in a list; `holder`: the list of turns, and the turn, whose content that list is."""

    item: dict[str, Json]
    among: list[Json]
    holder: tuple[list[Json], Json] | None


_STEP = re.compile(r"([a-z_]+)\[(\d+)\]")


def _spot(wire: dict[str, Json], path: str) -> _Spot | None:
    """Return where a path such as `messages[1].content[0]` leads to; None if that is no object with a type."""
    here: Json = wire
    holder: tuple[list[Json], Json] | None = None
    among: list[Json] = []
    for step in path.split("."):
        found = _STEP.fullmatch(step)
        if found is None:
            return None
        holder = (among, here) if among else None
        among = here[found[1]]
        here = among[int(found[2])]
    return _Spot(here, among, holder) if "type" in here or "id" in here else None


def _lacks_thinking(request: Request) -> bool:
    """Return whether a tool loop that is open does not begin with thinking, although there is a budget for it."""
    if request.thinking is None or request.thinking.mode is not ThinkingMode.BUDGET:
        return False
    first: Turn | None = None
    for turn in reversed(request.turns):
        if turn.role is Role.ASSISTANT:
            first = turn
        elif turn.role is Role.USER and not any(isinstance(block, ToolResult) for block in turn.blocks):
            break
    if first is None or first is request.turns[-1]:
        return False
    return not isinstance(first.blocks[0], Reasoning)


def without_sealed(
    body: dict[str, Json],
    protocol: Protocol,
    ledger: Ledger,
    sealer: Sealer | None = None,
    profile: Profile | None = None,
) -> dict[str, Json]:
    """Return the request without sealed values, which are declared; the same object if there are none.

    `sealer`: only values that it can open are removed; without it, all. `profile`: what the upstream accepts of earlier
    reasoning that is only text; without it, all.
    """
    plain_text = profile is None or accepts_text(protocol, profile)
    field = (profile.reasoning_field if profile is not None else None) or ""
    return CODECS[protocol].reasoning.without_sealed(
        body, Cleaning(ledger, partial(_is_sealed, sealer), plain_text, field)
    )


def accepts_text(protocol: Protocol, profile: Profile) -> bool:
    """Return whether an upstream accepts earlier reasoning that is only text."""
    return CODECS[protocol].reasoning.text or profile.raw_reasoning


def _is_sealed(sealer: Sealer | None, value: Json) -> bool:
    if not isinstance(value, str) or not value.startswith(SEAL_PREFIXES):
        return False
    return sealer is None or not sealer.of_another(value)
