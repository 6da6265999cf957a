"""What policies cost for an ordinary text event, counted in calls of functions, methods and builtins."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest

from trilogue.model import BlockStart, Delta, Event, Protocol, ResponseStart, Text
from trilogue.policies import PolicyRun, load_policies

EVENTS = 200
MARGIN = 1.2
PER_EVENT: dict[str, tuple[dict[str, Any], float]] = {
    "looks at requests only": ({"use": "force_model", "model": "x"}, 3),
    "looks at calls": ({"use": "tools"}, 5),
    "looks at flowing text": ({"use": "block_phrases", "phrases": ["never there", "nor this"]}, 28),
    "looks for secrets": ({"use": "redact"}, 28),
}


def counted(run: PolicyRun, batches: list[list[Event]]) -> int:
    """Return the number of calls while a run is fed."""
    calls = 0

    def count(frame: FrameType, event: str, value: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        for batch in batches:
            run.feed(batch)
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("name", PER_EVENT)
def test_calls_per_event(name: str) -> None:
    """An increase by a fifth is noticed, and so is a limit that is much too high."""
    entry, limit = PER_EVENT[name]
    run = PolicyRun(load_policies([entry]))
    run.feed([ResponseStart(protocol=Protocol.CHAT, id="r", model="m"), BlockStart(0, Text(text=""))])
    calls = counted(run, [[Delta(0, " word")] for _ in range(EVENTS)]) / EVENTS
    assert calls <= limit * MARGIN
    assert calls >= limit / 2
