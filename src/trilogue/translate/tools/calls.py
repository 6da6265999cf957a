"""Calls of tools in histories and responses: unique ids, one call each, and results right after them.

Some servers count their calls from the start in every response (`call_0`, `call_0`, …). Anthropic refuses a history in
which an id occurs twice, and agents find the results of calls by their ids alone. So an id that a conversation already
has is changed: in a history (`separate_call_ids`) and in a response (`FreshIdStage`). The new id depends only on those
before it, so that the same history gives the same bytes.

Models also write several calls into one pseudo-call; `ParallelStage` expands it.

Messages has a call of a hosted tool and its result as two blocks. If tools run at the same time, or one inside the
other, their results come later. Responses has one item for both, so `HostedStage` puts each result after its call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from operator import is_

from msgspec.structs import replace

from trilogue.base.json_text import dump_text, parse_object
from trilogue.errors import BadRequest
from trilogue.model import (
    Block,
    BlockStart,
    BlockStop,
    CallKind,
    Delta,
    Event,
    Failed,
    Finish,
    HostedCall,
    HostedResult,
    Request,
    ToolCall,
    ToolResult,
    Turn,
)
from trilogue.protocols.parts import safe_call_id
from trilogue.translate.tools.names import ToolNames


def fresh_id(call_id: str, taken: Container[str]) -> str:
    """Return the id, with a number after it if it is taken."""
    fresh, number = call_id, 1
    while fresh in taken:
        number += 1
        fresh = f"{call_id}_{number}"
    return fresh


def separate_call_ids(request: Request) -> Request:
    """Return the request with a unique id for every call. Results go to the calls with their id in order."""
    return replace(request, turns=_CallIds(request).turns(request.turns))


class _CallIds:
    """The ids of one history, while calls and results are renamed in order."""

    def __init__(self, request: Request) -> None:
        blocks = [block for turn in request.turns for block in turn.blocks]
        calls = Counter(block.id for block in blocks if type(block) is ToolCall)
        self._shared = {call_id for call_id, count in calls.items() if count > 1}
        self._results = Counter(block.call_id for block in blocks if type(block) is ToolResult)
        """how many results of each id are still to come"""
        self._known = set(calls)
        self._earlier: dict[str, list[ToolCall]] = {call_id: [] for call_id in self._shared}
        self._waiting: dict[str, list[str]] = {call_id: [] for call_id in self._shared}
        """the new ids of calls whose results have not been seen yet"""

    def turns(self, turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
        out: list[Turn] = []
        for turn in turns:
            blocks = [self._block(block) for block in turn.blocks]
            if all(map(is_, blocks, turn.blocks)):
                out.append(turn)
            elif remaining := tuple(block for block in blocks if block is not None):
                out.append(replace(turn, blocks=remaining))
        return tuple(out)

    def _block(self, block: Block) -> Block | None:
        if type(block) is ToolCall and block.id in self._shared:
            return self._call(block)
        if type(block) is ToolResult and block.call_id in self._shared:
            return self._result(block)
        return block

    def _call(self, call: ToolCall) -> ToolCall | None:
        earlier, waiting = self._earlier[call.id], self._waiting[call.id]
        # No result is left for this call: it is a repetition, or the history is broken.
        if self._results[call.id] <= len(waiting):
            if any((call.name, call.arguments) == (other.name, other.arguments) for other in earlier):
                return None  # some clients keep a call twice: one result is for both
            raise BadRequest(f"{call.path} is a tool call without a result", path=call.path)
        new = fresh_id(call.id, self._known) if earlier else call.id
        self._known.add(new)
        earlier.append(call)
        waiting.append(new)
        return call if new == call.id else replace(call, id=new)

    def _result(self, result: ToolResult) -> ToolResult:
        self._results[result.call_id] -= 1
        waiting = self._waiting[result.call_id]
        new = waiting.pop(0) if waiting else result.call_id
        return result if new == result.call_id else replace(result, call_id=new)


class FreshIdStage:
    """A stage that gives each call of a response an id that the client's history does not have yet."""

    def __init__(self, taken: frozenset[str]) -> None:
        self._taken = set(taken)
        self._changed: dict[int, str] = {}
        """the new ids, by the index of their block"""

    def __call__(self, events: list[Event]) -> list[Event]:
        return [self._event(event) for event in events]

    def _event(self, event: Event) -> Event:
        if type(event) is BlockStart and type(event.block) is ToolCall:
            return BlockStart(event.index, self._started(event.index, event.block))
        if type(event) is BlockStop and type(event.block) is ToolCall and event.index in self._changed:
            return BlockStop(event.index, event.opaque, replace(event.block, id=self._changed[event.index]))
        return event

    def _started(self, index: int, call: ToolCall) -> ToolCall:
        client_id = safe_call_id(call.id)  # the id that the client will get
        new = fresh_id(client_id, self._taken)
        self._taken.add(new)
        if new == client_id:
            return call
        self._changed[index] = new
        return replace(call, id=new)


class ParallelStage:
    """A stage that expands the pseudo-call `multi_tool_use.parallel`, which models write instead of several calls."""

    # Recorded from OpenAI's models, which were trained with this wrapper.
    NAMES = frozenset({"multi_tool_use.parallel", "multi_tool_use_parallel"})

    def __init__(self, names: ToolNames) -> None:
        self._offered = names
        self._held: dict[int, tuple[ToolCall, list[str]]] = {}
        # Decoders number blocks from 0, and ThinkStage uses indices from 2,000,000 on.
        self._extra = 1_000_000
        """the last index given to a call inside a pseudo-call, above all indices of decoders"""

    def __call__(self, events: list[Event]) -> list[Event]:
        out: list[Event] = []
        for event in events:
            if type(event) is BlockStart and (wrapper := self._wrapper(event.block)):
                self._held[event.index] = (wrapper, [wrapper.arguments])
            elif self._held and getattr(event, "index", None) in self._held:
                self._inside(event, out)
            else:
                out.append(event)
        return out

    def _wrapper(self, block: Block) -> ToolCall | None:
        if isinstance(block, ToolCall) and block.name in self.NAMES and self._offered.find(block.name) is None:
            return block
        return None

    def _inside(self, event: Event, out: list[Event]) -> None:
        if type(event) is Delta:
            self._held[event.index][1].append(event.text)
        elif type(event) is BlockStop:
            call, pieces = self._held.pop(event.index)
            for inner in _expanded(call, "".join(pieces)):
                self._extra += 1
                out += (BlockStart(self._extra, inner), BlockStop(self._extra))


def _expanded(call: ToolCall, arguments: str) -> list[ToolCall]:
    uses = (parse_object(arguments) or {}).get("tool_uses")
    # Not the form that OpenAI's models write: pass it on as an ordinary call.
    if not isinstance(uses, list) or not all(isinstance(use, dict) for use in uses):
        return [replace(call, arguments=arguments)]
    return [
        ToolCall(
            path=call.path,
            id=f"{call.id}_{position}",
            # The models put their own namespace in front of the names.
            name=str(use.get("recipient_name", "")).removeprefix("functions."),
            arguments=dump_text(use.get("parameters") or {}),
            kind=CallKind.FUNCTION,
        )
        for position, use in enumerate(uses)
    ]


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
