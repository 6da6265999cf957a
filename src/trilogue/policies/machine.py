"""The state machine of one response: which phase takes which event, and what it does with it.

In: events with at most one block open. Out: events in the outlet. A handler that has to wait for a policy returns a
generator, which yields what it waits for.
"""

from __future__ import annotations

from enum import IntEnum, auto
from typing import Any, Literal, TypeVar

from msgspec.structs import replace

from trilogue.errors import InternalError
from trilogue.model import (
    Block,
    BlockStart,
    BlockStop,
    CitationDelta,
    Delta,
    Event,
    Failed,
    Finish,
    LogprobsDelta,
    Native,
    Reasoning,
    ReasoningDelta,
    Refusal,
    ResponseStart,
    Stop,
    StopReason,
    Text,
    ToolCall,
    Usage,
)
from trilogue.policies.calls import is_client_call
from trilogue.policies.filtering import Filtering
from trilogue.policies.held import HeldBlock, Piece
from trilogue.policies.hooks import Hooks, Steps, interest_of
from trilogue.policies.outlet import Outlet
from trilogue.policies.policy import Outcome, Policy
from trilogue.policies.verdicts import StopWith
from trilogue.protocols.content.tokens import estimate_text


class RunPhase(IntEnum):
    """Where in a response the machine is."""

    IDLE = auto()
    OPEN = auto()
    """started, no block open"""
    PASSING = auto()
    """a block that no policy wants to see goes on at once"""
    FILTERING = auto()
    """a block whose text goes on as far as no match can begin in it"""
    HOLDING = auto()
    """a block that is collected until it is complete"""
    DONE = auto()
    """ended by the upstream or by a policy; further events are ignored"""


def words_block(verdict: StopWith) -> Block:
    """Return the block that says why a response was stopped."""
    return Refusal(text=verdict.words) if verdict.refusal else Text(text=verdict.words)


class Machine:
    """One response on its way through the policies."""

    def __init__(self, hooks: Hooks) -> None:
        self.hooks = hooks
        self.outlet = Outlet()
        self.phase = RunPhase.IDLE
        self.stopped: StopWith | None = None
        self.usage: Usage | None = None
        """the usage of a whole response, which is known even if a policy stops it"""
        # Only hooks that see complete blocks can look at the blocks before them.
        self.collects = any([_sees_whole_blocks(policy) for policy in hooks.policies])
        self._start: ResponseStart | None = None
        self._held: HeldBlock | None = None
        self._filtering: Filtering | None = None
        self._characters = 0

    def take(self, event: Event) -> Steps[None] | None:
        """Handle one event. Returns the steps that are left if a policy may have to be waited for."""
        if self.phase is RunPhase.DONE:
            return None
        row = TABLE[self.phase].get(type(event))
        if row is None:
            raise InternalError(f"{type(event).__name__} is not allowed in phase {self.phase.name}")
        handler, following = row
        self.phase = self.phase if following is None else following
        steps: Steps[None] | None = getattr(self, handler)(event)
        return steps

    def flows(self, events: list[Event]) -> bool:
        """Return whether these events are only more text of a block that goes on under its own number."""
        if self.phase is not RunPhase.PASSING:
            return False
        characters = 0
        for event in events:
            if type(event) is not Delta or event.index != self.outlet.index:
                return False
            characters += len(event.text)
        self._characters += characters
        if self._held is not None:
            self._held.more(events)
        return True

    def wants(self, kind: type[Block]) -> bool:
        """Return whether a policy wants to see blocks of a kind."""
        return any([_kind_interest(policy, kind) for policy in self.hooks.policies])

    def outcome(self, result: Literal["complete", "stopped", "failed", "cut"], end: Finish | None = None) -> Outcome:
        """Return how the response ended."""
        records = tuple(self.hooks.records.items)
        if end is None:
            return Outcome(result=result, records=records)
        return Outcome(result=result, stop=end.stop, usage=end.usage, records=records)

    def _on_start(self, event: ResponseStart) -> None:
        self._start = event
        self.outlet.start(event)

    def _on_block_start(self, event: BlockStart) -> Steps[None] | None:
        block = event.block
        interests = {policy: interest for policy in self.hooks.policies if (interest := _interest(policy, block))}
        if "whole" in interests.values() or (interests and _begins_whole(block)):
            self._held = HeldBlock(event)
            self.phase = RunPhase.HOLDING
            return None
        flow = self.hooks.flow(block, event.index, list(interests)) if interests else None
        if flow is not None and flow.active:
            self.phase = RunPhase.FILTERING
            self._filtering = Filtering(event, flow, self.outlet, self.hooks)
            self.outlet.changed = self.outlet.changed or flow.changed
            return self._stop_if_found(self._filtering)
        self.phase = RunPhase.PASSING
        self._held = HeldBlock(event) if self.collects else None
        if isinstance(block, ToolCall):
            self.hooks.call_ids.add(block.id)
        self.outlet.start_block(event)
        return None

    def _on_pass(self, event: Piece) -> None:
        self._count(event)
        if self._held is not None:
            self._held.add(event)
        self.outlet.event(event)

    def _on_pass_stop(self, event: BlockStop) -> None:
        if self._held is not None:
            self.hooks.context.blocks.append(self._held.close(event))
            self._held = None
        self.outlet.stop_block(event)

    def on_filter(self, event: Piece) -> Steps[None] | None:
        """Take more of a block that is filtered. Returns the steps of the end if a policy stops the response."""
        filtering = _present(self._filtering)
        # Most events are text, so their type is checked without a call.
        if type(event) is Delta:
            self._characters += len(event.text)
            filtering.text(event)
        elif type(event) is ReasoningDelta:
            self._characters += len(event.text)
            filtering.reasoning(event)
        elif isinstance(event, CitationDelta | LogprobsDelta):
            filtering.keep(event)
        flow = filtering.flow
        if flow.changed:
            self.outlet.changed = True
        return None if flow.stopped is None else self._stop_if_found(filtering)

    def _on_filter_stop(self, event: BlockStop) -> Steps[None] | None:
        filtering, self._filtering = _present(self._filtering), None
        block = filtering.stop(event)
        stopping = self._stop_if_found(filtering)
        if stopping is not None or block is None:
            return stopping
        filtering.flow.end()
        self.outlet.changed = self.outlet.changed or filtering.flow.changed
        if self.collects:
            self.hooks.context.blocks.append(block)
        return None

    def _stop_if_found(self, filtering: Filtering) -> Steps[None] | None:
        """End the response if a policy has found what it stops at."""
        stopped = filtering.flow.stopped
        if stopped is None:
            return None
        filtering.flow.end()
        return self._stop(stopped)

    def _on_hold(self, event: Piece) -> None:
        self._count(event)
        _present(self._held).add(event)

    def _on_hold_stop(self, event: BlockStop) -> Steps[None]:
        held, self._held = _present(self._held), None
        block = held.close(event)
        judged = yield from self.hooks.judge_block(block, held.number)
        if judged.stop is not None:
            yield from self._stop(judged.stop)
            return
        if not is_client_call(block):
            # The upstream itself put it behind the calls before it.
            self.outlet.release_calls()
        unchanged = judged.blocks == (block,)
        self.outlet.changed = self.outlet.changed or not unchanged
        for item in judged.blocks:
            if unchanged:
                self.outlet.whole(item, held.events)
            else:
                self.outlet.made(item)
            self.hooks.context.blocks.append(item)
            if isinstance(item, ToolCall):
                self.hooks.call_ids.add(item.id)

    def _on_finish(self, event: Finish) -> Steps[None]:
        self.outlet.finish(event)
        return self.hooks.end(self.outcome("complete", event))

    def _on_failed(self, event: Failed) -> Steps[None]:
        self.outlet.out.append(event)
        return self.hooks.end(self.outcome("failed"))

    def _stop(self, verdict: StopWith) -> Steps[None]:
        """End the response with the words of a policy. Calls that have not gone on yet never do."""
        self.stopped = verdict
        self.phase = RunPhase.DONE
        outlet = self.outlet
        outlet.drop_calls()
        outlet.close_block(self.hooks.make_unsigned)
        outlet.changed = True
        outlet.made(words_block(verdict))
        end = Finish(stop=Stop(reason=StopReason.END), usage=self._usage_so_far())
        outlet.finish(end)
        return self.hooks.end(self.outcome("stopped", end))

    def _usage_so_far(self) -> Usage | None:
        """Return the usage of a response that is stopped. The upstream is cancelled before it reports any."""
        if self.usage is not None or self._start is None or self._start.usage is None:
            return self.usage
        output = max(estimate_text(self._characters), self._start.usage.output)
        return replace(self._start.usage, output=output, estimated=True)

    def _count(self, event: Event) -> None:
        if isinstance(event, Delta | ReasoningDelta):
            self._characters += len(event.text)


Found = TypeVar("Found")


def _present(value: Found | None) -> Found:
    """Return what a phase has set. Raises `InternalError` if it has not, which would be a bug here."""
    if value is None:
        raise InternalError("the open block is missing")
    return value


def _sees_whole_blocks(policy: Policy) -> bool:
    return policy.calls or policy.others or "whole" in (policy.text, policy.reasoning)


def _interest(policy: Policy, block: Block) -> str | None:
    # Only a complete native block is certain to be a call.
    return "whole" if isinstance(block, Native) and policy.calls else interest_of(policy, block)


def _kind_interest(policy: Policy, kind: type[Block]) -> object:
    if kind in (Text, Refusal):
        return policy.text
    if kind is Reasoning:
        return policy.reasoning
    return (policy.calls and kind in (ToolCall, Native)) or (policy.others and kind is not ToolCall)


def _begins_whole(block: Block) -> bool:
    """Return whether a block of reasoning has text from the start, so that it can be judged as a whole."""
    return isinstance(block, Reasoning) and bool(block.summary or block.raw)


_PIECES = (Delta, ReasoningDelta, CitationDelta, LogprobsDelta)
_FAILS = {Failed: ("_on_failed", RunPhase.DONE)}
TABLE: dict[RunPhase, dict[type[Any], tuple[str, RunPhase | None]]] = {
    RunPhase.IDLE: {ResponseStart: ("_on_start", RunPhase.OPEN), **_FAILS},
    RunPhase.OPEN: {BlockStart: ("_on_block_start", None), Finish: ("_on_finish", RunPhase.DONE), **_FAILS},
    RunPhase.PASSING: {
        **{piece: ("_on_pass", RunPhase.PASSING) for piece in _PIECES},
        BlockStop: ("_on_pass_stop", RunPhase.OPEN),
        **_FAILS,
    },
    RunPhase.FILTERING: {
        **{piece: ("on_filter", RunPhase.FILTERING) for piece in _PIECES},
        BlockStop: ("_on_filter_stop", RunPhase.OPEN),
        **_FAILS,
    },
    RunPhase.HOLDING: {
        **{piece: ("_on_hold", RunPhase.HOLDING) for piece in _PIECES},
        BlockStop: ("_on_hold_stop", RunPhase.OPEN),
        **_FAILS,
    },
    RunPhase.DONE: {},
}
"""phase → event → handler and next phase; None: the handler chooses it by the interests of the policies"""
