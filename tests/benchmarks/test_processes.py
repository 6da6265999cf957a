"""How the programs of a run are scheduled while latency is measured."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from benchmarks.processes import Processes, kept_off, kernel_threads, set_policy, tree, undisturbed

SLEEPS = [sys.executable, "-c", "import signal; signal.pause()"]


def test_undisturbed() -> None:
    """The processes have priority for a while, if that is permitted. Then everything is as before."""
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
    """Without permission, everything stays unchanged, and no program keeps a core awake."""

    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    with Processes() as processes:
        process = processes.start(SLEEPS, frozenset(os.sched_getaffinity(0)))
        with undisturbed(processes, [process.pid], frozenset(os.sched_getaffinity(0))):
            assert processes.running == [process]


def test_threads_are_kept_off_a_core() -> None:
    """Threads move to another core for a while, if there is one. Those that cannot be moved are left alone."""
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


def test_kernel_threads_have_no_program() -> None:
    """Kernel threads have no program; if they are not visible there are none."""
    for pid in kernel_threads():
        with suppress(FileNotFoundError):  # the process has ended meanwhile
            assert Path(f"/proc/{pid}/cmdline").read_bytes() == b""
