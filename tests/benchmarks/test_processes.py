"""Programs of a run: how they are scheduled while delays are measured."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from benchmarks.processes import Processes, kept_off, kernel_threads, set_policy, tree, undisturbed

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


def test_threads_are_kept_off_a_core() -> None:
    """For a while, if there is another one for them; those that are gone or cannot be moved are left alone."""
    every = frozenset(os.sched_getaffinity(0))
    last = frozenset([max(every)])
    with Processes() as processes:
        anywhere, bound = (processes.start(SLEEPS, cores) for cores in (every, last))
        gone = processes.start(SLEEPS, every)
        processes.stop(gone)
        with kept_off([gone.pid, bound.pid, anywhere.pid], last):
            assert os.sched_getaffinity(anywhere.pid) == (every - last or every)
            assert os.sched_getaffinity(bound.pid) == last
        assert os.sched_getaffinity(anywhere.pid) == every


def test_threads_of_the_kernel_are_nobody_elses() -> None:
    """None of them has a program; where they cannot be seen there are none."""
    for pid in kernel_threads():
        with suppress(FileNotFoundError):  # it has ended meanwhile
            assert Path(f"/proc/{pid}/cmdline").read_bytes() == b""
