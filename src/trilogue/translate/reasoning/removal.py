"""Removal of the reasoning of earlier turns, for an upstream that does not accept it any more.

Signatures are bound to account, model and conversation. If one is refused, the conversation can continue without.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import replace

from trilogue.jsontext.text import parse_request
from trilogue.model import (
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

UNSIGNED = ""
"""the value of all reasoning that is only text: servers that sign nothing make it, and Anthropic refuses it"""


def strip_reasoning(
    body: bytes, *, protocol: Protocol, only: Collection[str] | None = None
) -> tuple[dict[str, Json], list[Loss]]:
    """Return the same request, in the same protocol, without earlier reasoning, and the losses.

    `only`: the beginnings of the values to remove, in the form of `reasoning_values`; all other reasoning stays.
    """
    codec = CODECS[protocol]
    request = codec.decode_request(parse_request(body))
    ledger = Ledger()
    turns = tuple(
        remaining for turn in request.turns if (remaining := _without_reasoning(turn, only, ledger)) is not None
    )
    if codec.item_ids and (ledger.losses or only is None):
        # Also if there is no reasoning to remove: the client itself may have lost the reasoning of an item.
        turns = tuple(map(_without_ids, turns))
    request = replace(request, turns=turns)
    if codec.thinking_first and _lacks_thinking(request):
        # With a thinking budget, Anthropic requires thinking at the start of the turn whose calls get their results
        # now.
        ledger.add("thinking.replay_missing", "thinking")
        effort = request.thinking and request.thinking.effort
        request = replace(request, thinking=Thinking(effort=effort) if effort else None)
    target = Target.of(protocol, request.model)
    return codec.encode_request(request, target, ledger), ledger.losses


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
