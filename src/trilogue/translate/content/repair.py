"""Checks and repairs of broken histories: tool calls without results, and results without calls.

Clients that cut old turns produce them. Every vendor refuses such a history with a 400, so the request is refused
before anything is sent. With `repair`, a call without a result gets an error result instead, and a result without a
call is dropped; both are declared.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from msgspec.structs import replace

from trilogue.errors import BadRequest
from trilogue.model import Ledger, Request, Role, Text, ToolCall, ToolResult, Turn

UNAVAILABLE = "[Tool result unavailable - conversation history was truncated]"


Repair = bool | Literal["auto"]
"""Whether to repair. `auto` drops no result that the model has not responded to yet: it is what the client has to say
now, and a response without it would be worse than none."""


class BrokenHistory(BadRequest):
    """The history has a tool call without a result, or a result without a call."""


class CheckedHistory(NamedTuple):
    """A request whose history is whole, the ids of all calls, and whether two calls share an id."""

    request: Request
    calls: frozenset[str]
    shared: bool


def checked_history(request: Request, ledger: Ledger, *, repair: Repair) -> CheckedHistory:
    """Return a request with a whole history. Raises `BrokenHistory` if it is broken and not to be repaired.

    Sound histories, which almost all are, cost no more than the check.
    """
    try:
        return CheckedHistory(request, *refuse_broken_history(request))
    except BrokenHistory:
        if not repair:
            raise
    request = repair_history(request, ledger, repair)
    return CheckedHistory(request, *refuse_broken_history(request))


def refuse_broken_history(request: Request) -> tuple[frozenset[str], bool]:
    """Raise `BrokenHistory` for the first tool call without a result or result without a call.

    Returns the ids of all calls, and whether two calls share an id.
    """
    calls: dict[str, ToolCall] = {}
    shared = False
    results: dict[str, ToolResult] = {}
    for turn in request.turns:
        for block in turn.blocks:
            if type(block) is ToolCall:
                shared = shared or block.id in calls
                calls[block.id] = block
            elif type(block) is ToolResult and block.call_id not in results:
                results[block.call_id] = block
    for call_id, result in results.items():
        if call_id not in calls:
            # Responses allows outputs without a call_id; the others need one.
            why = (
                "is the result of a tool call that is not there"
                if call_id
                else "does not say which tool call it belongs to"
            )
            raise BrokenHistory(f"{result.path} {why}", path=result.path)
    for call_id, call in calls.items():
        if call_id not in results:
            raise BrokenHistory(f"{call.path} is a tool call without a result", path=call.path)
    return frozenset(calls), shared


def repair_history(request: Request, ledger: Ledger, repair: Repair) -> Request:
    """Return the request with a result for every tool call and without results that have no call."""
    called = {block.id for turn in request.turns for block in turn.blocks if isinstance(block, ToolCall)}
    completed = {block.call_id for turn in request.turns for block in turn.blocks if isinstance(block, ToolResult)}
    now = len(request.turns)
    if repair == "auto":
        now = max((place for place, turn in enumerate(request.turns) if turn.role is Role.ASSISTANT), default=-1)
    turns: list[Turn] = []
    for place, turn in enumerate(request.turns):
        remaining = _without_orphans(turn, called, ledger) if place < now else turn
        if remaining is not None:
            turns.append(remaining)
        missing = [block for block in turn.blocks if isinstance(block, ToolCall) and block.id not in completed]
        if missing:
            turns.append(_synthetic(missing, ledger))
    return replace(request, turns=tuple(turns))


def _without_orphans(turn: Turn, called: set[str], ledger: Ledger) -> Turn | None:
    """Return the turn without results that have no call; None if nothing remains."""
    orphans = [block for block in turn.blocks if isinstance(block, ToolResult) and block.call_id not in called]
    if not orphans:
        return turn
    for block in orphans:
        ledger.add("tool_result.orphan_dropped", block.path)
    blocks = tuple(block for block in turn.blocks if block not in orphans)
    return replace(turn, blocks=blocks) if blocks else None


def _synthetic(calls: list[ToolCall], ledger: Ledger) -> Turn:
    """Return a turn with an error result for each of these calls."""
    for call in calls:
        ledger.add("tool_result.synthetic", call.path)
    results = tuple(
        ToolResult(
            call_id=call.id,
            kind=call.kind,
            content=(Text(text=UNAVAILABLE, path=call.path),),
            plain=True,
            is_error=True,
            path=call.path,
        )
        for call in calls
    )
    return Turn(role=Role.TOOL, blocks=results, path=calls[0].path)
