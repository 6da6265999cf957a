"""The engine: policies applied to one request and its response, streamed or whole. It does no I/O.

    run = PolicyRun(policies, context)
    run.begin(request)            the request; then `run.request`, or `run.stopped`
    run.feed(events)              → the events that may go on
    run.pending                   what the run waits for, or None; then `resolve`, `expired` or `failed`
    run.close()                   the client has left, or the stream was cut

In: events of one response with at most one block open (see `model.Sequencer`). Out: events of the same form. While the
run waits, events are queued. A policy never makes a method of the run raise; `InternalError` means that the caller
broke a rule: an event out of order, or `resolve` without a question.

`judge_request`, `judge_events` and `judge_response` drive a run from plain code, where every answer is at hand when it
is asked for. Programs with an event loop write the same loop with `await`; docs/policies.md has it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial

from trilogue.errors import InternalError
from trilogue.model import (
    Block,
    Collector,
    Delta,
    Event,
    Ledger,
    Opaque,
    Protocol,
    Request,
    Response,
    Stop,
    StopReason,
    Usage,
    events_of,
)
from trilogue.policies.checks import PolicyProblem, guarded
from trilogue.policies.flow import close_coroutine
from trilogue.policies.hooks import LATE, DriverReply, Hooks, Steps, unwrapped
from trilogue.policies.machine import Machine, RunPhase, words_block
from trilogue.policies.policy import Context, Policy
from trilogue.policies.verdicts import Pending, Record, StopWith
from trilogue.protocols.registry import CODECS

Answerer = Callable[[Pending], object]


def no_clock() -> float:
    """Return no time, for callers that do not need to know how long verdicts take."""
    return 0.0


class PolicyRun:
    """Policies at work on one request and its response.

    `ledger`: where losses are declared. `clock`: returns seconds, to measure verdicts. `unsigned`: the value that takes
    the place of the signature of reasoning that a policy changed.
    """

    def __init__(
        self,
        policies: Iterable[Policy],
        context: Context | None = None,
        *,
        ledger: Ledger | None = None,
        clock: Callable[[], float] = no_clock,
        unsigned: Opaque | None = None,
    ) -> None:
        self.context = context or Context()
        self.ledger = ledger or Ledger()
        self._hooks = Hooks(tuple(policies), self.context, self.ledger, clock)
        if unsigned is not None:
            self._hooks.make_unsigned = lambda: unsigned
        self._machine = Machine(self._hooks)
        self._inbox: deque[Event] = deque()
        self._steps: Steps[None] | None = None
        self._whole: Response | None = None
        self._collector = Collector()
        self.pending: Pending | None = None
        """what the run waits for, or None"""
        self.request: Request | None = None
        """the request as it may go out, after `begin`"""
        self.response: Response | None = None
        """the response as it may go on, after `feed_response`"""

    @property
    def done(self) -> bool:
        """Whether the response has ended; the upstream is not needed any more."""
        return self._machine.phase is RunPhase.DONE

    @property
    def stopped(self) -> StopWith | None:
        """The verdict that ended the response or refused the request, if one did."""
        return self._machine.stopped

    @property
    def changed(self) -> bool:
        """Whether the response was changed so far; if not, the upstream's own bytes may be sent."""
        return self._machine.outlet.changed

    @property
    def records(self) -> list[Record]:
        """The decisions of all policies so far, in the order in which they were made."""
        return self._hooks.records.items

    @property
    def spent(self) -> list[Usage]:
        """The usage of the answers that policies asked for."""
        return self._hooks.spent

    def wants(self, kinds: Iterable[type[Block]]) -> bool:
        """Return whether a policy wants to see blocks of one of these kinds."""
        return any([self._machine.wants(kind) for kind in kinds])

    def hides(self, texts: Iterable[str]) -> bool:
        """Return whether a policy that looks for patterns would change one of these texts, or stop at it."""
        return bool(self._hooks.hides(texts))

    def attach(self, ledger: Ledger, unsigned: Callable[[], Opaque | None], target: Protocol) -> None:
        """Declare losses in this ledger and close changed reasoning with this value, for clients of this protocol."""
        ledger.losses.extend(self.ledger.losses)
        self.ledger = self._hooks.ledger = ledger
        # Messages clients expect a signature on all reasoning, and a sealed mark is recognised when it comes back.
        self._hooks.make_unsigned = unsigned
        self._hooks.refusals = CODECS[target].turns.refusals
        self._machine.outlet.one_text = CODECS[target].turns.one_text

    def begin(self, request: Request) -> None:
        """Apply the policies to the request. The result is `request`, or `stopped` if it must not go out."""
        self._run(self._request_steps(request))

    def feed(self, events: list[Event]) -> list[Event]:
        """Return the events that may go on now; the same list if they are text that no policy wants to see."""
        machine = self._machine
        if self.pending is None and self._whole is None:
            if machine.flows(events):
                return events
            # Most events of a text that policies look into are more of it.
            if machine.phase is RunPhase.FILTERING and len(events) == 1 and type(events[0]) is Delta:
                steps = machine.on_filter(events[0])
                if steps is None:
                    return machine.outlet.take()
                self._run(steps)
                return self._drained()
        self._inbox.extend(events)
        return self._drained()

    def feed_response(self, response: Response) -> Response | None:
        """Return a whole response as it may go on, or None while the run waits; it is `response` in the end."""
        self._whole = response
        self._machine.usage = response.usage
        self.feed(list(events_of(response)))
        return self.response

    def resolve(self, value: object) -> list[Event]:
        """Go on with an answer, and return the events that may go on now."""
        return self._answered(DriverReply(unwrapped(self._hooks, value)))

    def expired(self) -> list[Event]:
        """Go on without an answer, because the time limit of `pending` has passed."""
        return self._answered(DriverReply(problem=LATE))

    def failed(self, error: str) -> list[Event]:
        """Go on without an answer, because it could not be had. `error` is a short name, without content."""
        return self._answered(DriverReply(problem=PolicyProblem(f"got no answer ({error})")))

    def close(self) -> None:
        """End the run because the client left or the stream was cut. Nothing goes on after that."""
        was_done = self.done
        self.abandon()
        if not was_done:
            self._run(self._hooks.end(self._machine.outcome("cut")))

    def abandon(self) -> None:
        """End the run without telling the policies, because another run takes its place."""
        if self._steps is not None:
            self._steps.close()
            if self.pending is not None:
                close_coroutine(self.pending.awaitable)
            self._steps = self.pending = None
        self._inbox.clear()
        self._machine.phase = RunPhase.DONE

    def words_response(self, protocol: Protocol, *, id: str, model: str, created: int | None = None) -> Response:
        """Return the response for a request that a policy stopped before it went out. It has cost nothing."""
        if self.stopped is None:
            raise InternalError("no policy has stopped the request")
        return Response(
            protocol=protocol,
            id=id,
            model=model,
            created=created,
            blocks=(words_block(self.stopped),),
            stop=Stop(reason=StopReason.END),
            usage=Usage(),
        )

    def _request_steps(self, request: Request) -> Steps[None]:
        result = yield from self._hooks.judge_request(request)
        if not isinstance(result, StopWith):
            self.request = result
            return
        self._machine.stopped = result
        self._machine.phase = RunPhase.DONE
        yield from self._hooks.end(self._machine.outcome("stopped"))

    def _run(self, steps: Steps[None]) -> None:
        """Begin steps that may have to wait."""
        self._steps = steps
        self._advance(None)

    def _advance(self, reply: DriverReply | None) -> None:
        if self._steps is None:
            raise InternalError("the run does not wait for anything")
        try:
            self.pending = next(self._steps) if reply is None else self._steps.send(reply)
        except StopIteration:
            self._steps = self.pending = None

    def _answered(self, reply: DriverReply) -> list[Event]:
        self._advance(reply)
        return self._drained()

    def _drained(self) -> list[Event]:
        """Handle the queued events until the run waits, and return what may go on."""
        while self._inbox and self.pending is None:
            steps = self._machine.take(self._inbox.popleft())
            if steps is not None:
                self._run(steps)
        out = self._machine.outlet.take()
        return out if self._whole is None else self._collected(self._whole, out)

    def _collected(self, whole: Response, out: list[Event]) -> list[Event]:
        for event in out:
            self._collector.feed(event)
        if self.done and self.response is None:
            self.response = self._collector.response() if self.changed else whole
        return []


def no_answers(pending: Pending) -> object:
    """Refuse every question. Blocking hooks are called."""
    if pending.work is not None:
        return pending.work()
    raise LookupError("nothing here answers questions")


def settle(run: PolicyRun, answer: Answerer = no_answers) -> list[Event]:
    """Answer everything that a run waits for, and return the events that may go on after that."""
    events: list[Event] = []
    while run.pending is not None:
        result = guarded(partial(answer, run.pending))
        events += run.failed(result.what) if isinstance(result, PolicyProblem) else run.resolve(result)
    return events


def judge_request(run: PolicyRun, request: Request, answer: Answerer = no_answers) -> Request | None:
    """Return the request as it may go out, or None if a policy stopped it; `run.stopped` has the words then."""
    run.begin(request)
    settle(run, answer)
    return run.request


def judge_events(run: PolicyRun, events: Iterable[Event], answer: Answerer = no_answers) -> list[Event]:
    """Return the events that may go on."""
    return [*run.feed(list(events)), *settle(run, answer)]


def judge_response(run: PolicyRun, response: Response, answer: Answerer = no_answers) -> Response:
    """Return a whole response as it may go on."""
    run.feed_response(response)
    settle(run, answer)
    if run.response is None:
        raise InternalError("the response did not come to an end")
    return run.response
