"""The state machine of one response: which phase takes which event, and what it does with it.

In: events with at most one block open. Out: events in the outlet. A handler that has to wait for a policy returns a
generator, which yields what it waits for.
"""

from __future__ import annotations

from enum import IntEnum, auto
from functools import partial
from typing import Any, Literal, TypeVar

from msgspec.structs import replace

from trilogue.errors import InternalError
from trilogue.model import (
    Audio,
    Block,
    BlockStart,
    BlockStop,
    CitationDelta,
    Delta,
    Event,
    Failed,
    Finish,
    Json,
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
from trilogue.model.names import name_of
from trilogue.policies.blocks import BlockOrder, BlockPipeline, BlockPlace, Channel, Filtering, Parcel
from trilogue.policies.calls import is_client_call, named_calls_in, strings_in
from trilogue.policies.hooks import Hooks, Steps, interest_of
from trilogue.policies.outlet import HeldBlock, Outlet, Piece
from trilogue.policies.policy import Outcome, Policy
from trilogue.policies.records import Site
from trilogue.policies.verdicts import StopWith
from trilogue.protocols.endpoint import estimate_text


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
        self._order = BlockOrder()
        self._place = BlockPlace(live=True)
        """that of the block which is passing or held"""
        self._channels: dict[type[Block] | None, Channel] = {kind: Channel() for kind in (Text, Refusal, Reasoning)}
        self._pipeline = BlockPipeline(hooks)
        self._parcels: list[Parcel] = []
        """complete blocks that some policy has not decided"""
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
        if self.phase is not RunPhase.PASSING or not self._place.live:
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
        self._start = event = self._without_hidden(event)
        self.outlet.start(event)

    def _without_hidden(self, event: End) -> End:
        """Return the start or the end of a response without fields in which a policy finds what it looks for."""
        event = self._cleared(event)
        if event.usage is not None and (usage := self._cleared(event.usage)) is not event.usage:
            event = replace(event, usage=usage)
        if isinstance(event, Finish) and (stop := self._cleared(event.stop)) is not event.stop:
            event = replace(event, stop=stop)
        return event

    def _without_hidden_fields(self, event: Edge) -> Edge:
        """Return the start or the end of a block with text without such fields."""
        block = event.block
        if not isinstance(block, Text | Refusal | Reasoning) or (kept := self._cleared(block)) is block:
            return event
        return replace(event, block=kept)

    def _cleared(self, value: Holder) -> Holder:
        """Return something without those of its unknown fields in which a policy finds what it looks for."""
        if not value.extras:
            return value
        kept = {name: inner for name, inner in value.extras.items() if not self._is_hidden(inner)}
        if len(kept) == len(value.extras):
            return value
        self.outlet.changed = True
        return replace(value, extras=kept or None)

    def _is_hidden(self, value: Json) -> bool:
        if self.wants(ToolCall) and next(named_calls_in(value), None) is not None:
            return True
        return bool(self.hooks.hides([text for name, text in strings_in(value) if name is not None]))

    def _on_block_start(self, event: BlockStart) -> Steps[None] | None:
        event = self._without_hidden_fields(event)
        block = event.block
        interests = {policy: interest for policy in self.hooks.policies if (interest := _interest(policy, block))}
        if "whole" in interests.values():
            self._held, self._place = HeldBlock(event), self._order.enter()
            self.phase = RunPhase.HOLDING
            return None
        channel = self._channels.get(self.hooks.channel(block))
        if channel is not None and (interests or channel.chain.active):
            scans = self.hooks.scans(block, event.index, list(interests)) if interests else []
            channel.begin(scans, Site("flow", event.index, name_of(block)))
            if channel.chain.active:
                self.phase = RunPhase.FILTERING
                self._filtering = Filtering(event, channel, self.outlet, self._order, self.hooks)
            stopping = self._after(channel)
            if stopping is not None or channel.chain.active:
                return stopping
        self.phase = RunPhase.PASSING
        self._place = self._order.enter()
        self._held = HeldBlock(event) if self.hooks.collects else None
        if isinstance(block, ToolCall):
            self.hooks.call_ids.add(block.id)
        self._place.do(partial(self.outlet.start_block, event))
        return None

    def _on_pass(self, event: Piece) -> None:
        self._count(event)
        if self._held is not None:
            self._held.add(event)
        if self._place.live:
            self.outlet.event(event)
        else:
            self._place.do(partial(self.outlet.event, event))

    def _on_pass_stop(self, event: BlockStop) -> None:
        if self._held is not None:
            self._place.do(partial(self.hooks.context.blocks.append, self._held.close(event)))
            self._held = None
        self._place.do(partial(self.outlet.stop_block, event))
        self._order.leave(self._place)

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
        chain = filtering.channel.chain
        if chain.changed:
            self.outlet.changed = True
        return None if chain.stopped is None else self._after(filtering.channel)

    def _on_filter_stop(self, event: BlockStop) -> Steps[None] | None:
        event = self._without_hidden_fields(event)
        filtering, self._filtering = _present(self._filtering), None
        filtering.stop(event)
        stopping = self._after(filtering.channel)
        if stopping is None:
            filtering.channel.chain.end()
        return stopping

    def _after(self, channel: Channel) -> Steps[None] | None:
        """Note whether a policy has changed the text, and end the response if one has found what it stops at."""
        chain = channel.chain
        self.outlet.changed = self.outlet.changed or chain.changed
        if chain.stopped is None:
            return None
        chain.end()
        return self._stop(chain.stopped)

    def _on_hold(self, event: Piece) -> None:
        self._count(event)
        _present(self._held).add(event)

    def _on_hold_stop(self, event: BlockStop) -> Steps[None]:
        held, self._held = _present(self._held), None
        event = self._without_hidden_fields(event)
        parcel = Parcel(held, held.close(event), self._place)
        self._parcels.append(parcel)
        stop = yield from self._pipeline.send(parcel)
        if stop is None:
            self._send_parcels()
        else:
            yield from self._stop(stop)

    def _send_parcels(self) -> None:
        """Send the blocks about which all policies have decided, each in its place."""
        for parcel in [parcel for parcel in self._parcels if not parcel.underway]:
            self._parcels.remove(parcel)
            self.hooks.call_ids.update([block.id for block in parcel.made if isinstance(block, ToolCall)])
            parcel.place.do(partial(self._send_parcel, parcel))
            self._order.leave(parcel.place)

    def _send_parcel(self, parcel: Parcel) -> None:
        if not is_client_call(parcel.block):
            # The upstream itself put it behind the calls before it.
            self.outlet.release_calls()
        unchanged = parcel.made == (parcel.block,)
        self.outlet.changed = self.outlet.changed or not unchanged
        for item in parcel.made:
            if unchanged:
                self.outlet.whole(item, parcel.held.events)
            else:
                self.outlet.made(item)
            self.hooks.context.blocks.append(item)

    def _decided(self) -> Steps[bool]:
        """Decide about everything that is held, because the response ends. Return False if a policy has stopped it."""
        for channel in self._channels.values():
            if channel.chain.active:
                channel.finish()
                self.outlet.changed = self.outlet.changed or channel.chain.changed
            if channel.chain.stopped is not None:
                yield from self._stop(channel.chain.stopped)
                return False
        stop = yield from self._pipeline.finish()
        if stop is not None:
            yield from self._stop(stop)
            return False
        self._send_parcels()
        return True

    def _on_finish(self, event: Finish) -> Steps[None]:
        if (yield from self._decided()):
            self.phase = RunPhase.DONE
            self.outlet.finish(self._without_hidden(event))
            yield from self.hooks.end(self.outcome("complete", event))

    def _on_failed(self, event: Failed) -> Steps[None]:
        # What is held was not decided, and never goes on.
        self._order.clear()
        self.outlet.out.append(event)
        return self.hooks.end(self.outcome("failed"))

    def _stop(self, verdict: StopWith) -> Steps[None]:
        """End the response with the words of a policy. Calls that have not gone on yet never do."""
        self.stopped = verdict
        self.phase = RunPhase.DONE
        outlet = self.outlet
        self._order.clear()
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


End = TypeVar("End", bound=ResponseStart | Finish)
Edge = TypeVar("Edge", BlockStart, BlockStop)
Holder = TypeVar("Holder", bound=ResponseStart | Finish | Usage | Stop | Text | Refusal | Reasoning)
Found = TypeVar("Found")


def _present(value: Found | None) -> Found:
    """Return what a phase has set. Raises `InternalError` if it has not, which would be a bug here."""
    if value is None:
        raise InternalError("the open block is missing")
    return value


def _interest(policy: Policy, block: Block) -> str | None:
    # Only a complete native block is certain to be a call, and one of an unknown type may have text.
    if isinstance(block, Native) and (policy.calls or (policy.text and not block.harmless)):
        return "whole"
    # An audio clip has words.
    return "whole" if isinstance(block, Audio) and policy.text else interest_of(policy, block)


def _kind_interest(policy: Policy, kind: type[Block]) -> object:
    if kind in (Text, Refusal):
        return policy.text
    if kind is Reasoning:
        return policy.reasoning
    if kind in (Audio, Native) and policy.text:
        return True
    return (policy.calls and kind in (ToolCall, Native)) or (policy.others and kind is not ToolCall)


_PIECES = (Delta, ReasoningDelta, CitationDelta, LogprobsDelta)
_FAILS = {Failed: ("_on_failed", RunPhase.DONE)}
TABLE: dict[RunPhase, dict[type[Any], tuple[str, RunPhase | None]]] = {
    RunPhase.IDLE: {ResponseStart: ("_on_start", RunPhase.OPEN), **_FAILS},
    RunPhase.OPEN: {BlockStart: ("_on_block_start", None), Finish: ("_on_finish", None), **_FAILS},
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
"""phase → event → handler and next phase; None: the handler chooses it, by what the policies want to see or decide"""
