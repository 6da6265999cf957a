"""Programs of a run: how they are scheduled while delays are measured."""

from __future__ import annotations

import os
import sys

import pytest

from benchmarks.processes import Processes, set_policy, tree, undisturbed

SLEEPS = [sys.executable, "-c", "import time; time.sleep(60)"]


def test_undisturbed() -> None:
    """Before all others for a while, if that is allowed, and then as before; what keeps the core awake ends too."""
    with Processes() as processes:
        process = processes.start(SLEEPS, frozenset(os.sched_getaffinity(0)))
        allowed = set_policy([process.pid], os.SCHED_RR, 1)
        set_policy([process.pid], os.SCHED_OTHER, 0)
        with undisturbed(processes, tree(process.pid), frozenset(os.sched_getaffinity(0))):
            assert os.sched_getscheduler(process.pid) == (os.SCHED_RR if allowed else os.SCHED_OTHER)
            assert len(processes.running) == (2 if allowed else 1)
        assert os.sched_getscheduler(process.pid) == os.SCHED_OTHER
        assert processes.running == [process]


def test_it_is_not_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then everything stays as it is, and nothing keeps a core awake."""

    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    with Processes() as processes:
        process = processes.start(SLEEPS, frozenset(os.sched_getaffinity(0)))
        with undisturbed(processes, [process.pid], frozenset(os.sched_getaffinity(0))):
            assert processes.running == [process]
