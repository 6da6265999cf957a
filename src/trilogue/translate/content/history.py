"""The turns of a request on their way to another protocol: their blocks, repairs of what is broken, and the end.

Every block goes through the same steps, once (`History`). Most blocks of a long conversation are plain text that no
step changes; they and their turns are passed on unchanged.

Broken histories have calls without results, or results without calls: clients that cut old turns produce them. Every
vendor refuses such a history with a 400, so the request is refused before anything is sent. With `repair`, a call
without a result gets an error result instead, and a result without a call is dropped; both are declared.

At the end is what the model has to respond to. A response that was cut off leaves its beginning there: Codex sends the
items that it has got. The model is to go on, which protocols and models understand that would continue the last text
itself, or refuse it.
"""

from __future__ import annotations

from operator import is_
from typing import Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from trilogue.errors import BadRequest, Unsupported
from trilogue.model import Block, Ledger, Native, Reasoning, Request, Role, Text, ToolCall, ToolResult, Turn
from trilogue.protocols.codec import Target
from trilogue.protocols.fields import FieldPolicies
from trilogue.protocols.registry import CODECS
from trilogue.translate.foreign import Foreign
from trilogue.translate.reasoning.provenance import RequestOpener
from trilogue.translate.tools.names import Namer

PROMPTS = frozenset({Role.SYSTEM, Role.DEVELOPER})
UNAVAILABLE = "[Tool result unavailable - conversation history was truncated]"
Repair = bool | Literal["auto"]
"""Whether to repair. `auto` drops no result that the model has not responded to yet: it is what the client has to say
now, and a response without it would be worse than none."""
GO_ON = "Continue."


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


def refuse_unanswered(turns: tuple[Turn, ...], policies: FieldPolicies) -> None:
    """Raise `Unsupported` for an answer of the user that the upstream cannot get, if the model has not acted on it.

    A response without that answer would be worse than none. Answers before the last assistant turn are history.
    """
    for turn in reversed(turns):
        if turn.role is Role.ASSISTANT:
            return
        for block in turn.blocks:
            policy = policies.get(block.type) if type(block) is Native else None
            if policy is not None and policy.unanswered:
                raise Unsupported(block.path, policy.unanswered)


def ended_by_user(request: Request, target: Target, ledger: Ledger) -> Request:
    """Return a request that ends with the assistant so that the model begins a new turn.

    Reasoning at the end is left out: without the text or call that it led to, every API refuses it. After a text, the
    user says to go on, if the target would continue the text or refuse it, and the client did not ask for that.
    """
    turns = list(request.turns)
    while turns and turns[-1].role is Role.ASSISTANT and all([type(block) is Reasoning for block in turns[-1].blocks]):
        turn = turns.pop()
        for block in turn.blocks:
            ledger.add("reasoning.at_end", block.path)
    if not turns:
        return request
    last = turns[-1]
    stays = not CODECS[target.protocol].turns.needs_user and target.profile.prefill
    if last.role is Role.ASSISTANT and CODECS[request.protocol].turns.resumes and not stays:
        ledger.add("turn.inserted", last.path)
        turns.append(Turn(role=Role.USER, blocks=(Text(text=GO_ON, path=last.path),), plain=True, path=last.path))
    same = len(turns) == len(request.turns) and turns[-1] is request.turns[-1]
    return request if same else replace(request, turns=tuple(turns))
