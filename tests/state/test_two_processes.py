"""Two real processes with one state file."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.timing import check_within

WORKER = """
    import os, sys, time
    from pathlib import Path
    from tests.pool.making import RATE_LIMITED
    from tests.state.test_sync import attempt, book, states
    from trilogue.storage.records import RecordFile
    from trilogue.upstreams.state.sync import StateSync
    from trilogue.base.clock import steady_time
    from trilogue.base.clock import steady_time
    from trilogue.storage.records import RecordFile
    from trilogue.upstreams.state.sync import StateSync

    keeper = StateSync(book(), RecordFile(Path(sys.argv[1])), steady_time())
    print("ready", flush=True)
    for line in sys.stdin:
        if line.strip() == "fail":
            attempt(keeper, steady_time(), RATE_LIMITED, sticky="x")
            print(time.time(), flush=True)
            continue
        print("watching", flush=True)
        while "cooling" not in states(keeper, steady_time()).values():
            keeper.sync(steady_time())
            os.sched_yield()
        print(time.time(), attempt(keeper, steady_time(), None), flush=True)
        break
    keeper.close(steady_time())
"""


def start(path: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", textwrap.dedent(WORKER), str(path)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    while process.stdout.readline().strip() != "ready":
        assert process.poll() is None
    return process


def say(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{word}\n")
    process.stdin.flush()


def hear(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_two_processes_agree_within_a_tenth_of_a_second(tmp_path: Path) -> None:
    """One process reaches a limit, and the other does not run into it."""
    one, other = start(tmp_path / "pool.db"), start(tmp_path / "pool.db")
    try:
        say(other, "watch")
        assert hear(other) == "watching"
        say(one, "fail")
        failed_at = float(hear(one))
        heard_at, used = hear(other).split()
        check_within(float(heard_at) - failed_at, 0.1)
        assert used == "b"
    finally:
        for process in (one, other):
            process.communicate(timeout=10)
    assert (one.returncode, other.returncode) == (0, 0)


@pytest.mark.parametrize("count", [4])
def test_many_start_at_once_on_a_new_file(count: int, tmp_path: Path) -> None:
    """Workers are forked together; none of them finds the file half created."""
    command = [sys.executable, "-c", textwrap.dedent(WORKER), str(tmp_path / "pool.db")]
    started = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(count)
    ]
    said = [process.communicate("fail\n", timeout=30) for process in started]
    assert [process.returncode for process in started] == [0] * count
    for out, error in said:
        assert "warning" not in out + error
    assert list(tmp_path.glob("*broken*")) == []
