"""What is noted about when an attempt began, whatever the event loop's clock makes of a pause before it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import uvloop

from tests.pool.making import SERVER, pools, provider
from trilogue.base.clock import steady_time
from trilogue.errors import UpstreamError, UpstreamFailure
from trilogue.gateway.response.attempt import RelayResult
from trilogue.gateway.response.attempts import AttemptLoop
from trilogue.routing.pool.decision import Attempt
from trilogue.routing.pool.plan import AttemptPlan

PAUSE = 0.0004
"""less than the half millisecond from which uvloop waits at all"""


class FailsOnce(AttemptLoop):
    """The first attempt fails."""

    async def make(self, planned: Attempt) -> RelayResult:
        """Note when the attempt really began."""
        planned.first_byte = steady_time() - self.plan.decision.at
        if len(self.plan.decision.attempts) == 1:
            raise UpstreamFailure(SERVER)
        return RelayResult()

    def _note_cost(self, error: UpstreamError) -> None:
        """Do nothing: nothing was sent."""


def test_an_attempt_after_a_pause_began_when_it_began(monkeypatch: pytest.MonkeyPatch) -> None:
    """uvloop counts in whole milliseconds, so that a pause may be over before its time."""
    monkeypatch.setattr(AttemptPlan, "_backoff", lambda _: PAUSE)
    shared = pools(provider("a", "b"))
    plan = shared.begin(steady_time(), "r", [("p", "m")])
    observers = SimpleNamespace(attempt_ended=None)
    context = SimpleNamespace(reservation=None, responder=SimpleNamespace(started=False))
    gateway = SimpleNamespace(observers=observers, upstreams=SimpleNamespace(pools=shared, sync=lambda: None))
    loop = FailsOnce(cast(Any, context), cast(Any, gateway), cast(Any, None), plan)
    uvloop.run(loop.run(steady_time()))
    first, second = plan.decision.attempts
    assert first.ended is not None
    assert second.first_byte is not None
    assert first.ended <= second.started <= second.first_byte
