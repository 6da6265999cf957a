"""Tables of limits: rows are kept, and a process that dies leaves no running requests behind."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import closing
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from tests.timing import PATIENCE
from trilogue.gateway.limits.counters import RUNNING
from trilogue.gateway.limits.counting import Estimate, Refused, Subject, admit, settle
from trilogue.gateway.limits.remaining import budgets_standing
from trilogue.gateway.limits.settings import BudgetSettings, RateLimits
from trilogue.gateway.limits.shared_table import LimitsFull, LimitTable, MemoryTable, SharedTable

NOW = 1_763_467_200.0
ONE = Subject("key", "one", RateLimits(requests_per_day=500), BudgetSettings(day=1.0))
RESERVED = Estimate(10, 1_000)


@pytest.fixture(params=["memory", "shared"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LimitTable]:
    made = MemoryTable() if request.param == "memory" else SharedTable(tmp_path / "limits.dat", slots=64)
    yield made
    made.close()


def ask(table: LimitTable, *, ends: bool) -> bool:
    """Make a request, and return whether it was admitted. `ends`: it is over."""
    with table.rows([str(ONE)]) as rows:
        refused = isinstance(admit(NOW, [(ONE, rows[0])], RESERVED), Refused)
    if ends and not refused:
        with table.rows([str(ONE)]) as rows:
            settle(NOW, [(ONE, rows[0])], RESERVED, RESERVED, NOW)
    return not refused


def test_rows_of_subjects_are_apart_and_kept(table: LimitTable) -> None:
    names = [f"key {number}" for number in range(20)]
    for number, name in enumerate(names):
        with table.rows([name]) as rows:
            rows[0][5] = number
    with table.rows(names) as rows:
        assert [row[5] for row in rows] == list(range(20))


def test_a_file_outlives_its_processes(tmp_path: Path) -> None:
    path = tmp_path / "limits.dat"
    with closing(SharedTable(path, slots=64)) as table:
        assert ask(table, ends=True)
        assert ask(table, ends=False)
    assert path.stat().st_mode & 0o777 == 0o600
    with closing(SharedTable(path, slots=64)) as table, table.rows([str(ONE)]) as rows:
        assert rows[0][RUNNING] == 0
        assert budgets_standing(NOW, ONE, rows[0])[0].spent == pytest.approx(2e-6)


def test_a_damaged_file_is_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "limits.dat"
    path.write_bytes(b"nonsense")
    with closing(SharedTable(path, slots=64)) as table:
        assert ask(table, ends=True)


def test_more_subjects_than_room(tmp_path: Path) -> None:
    with closing(SharedTable(tmp_path / "limits.dat", slots=2)) as table:
        with table.rows(["a", "b"]):
            pass
        with pytest.raises(LimitsFull), table.rows(["c"]):
            pass
        with table.rows(["a"]) as rows:  # the lock is free again
            assert rows[0][RUNNING] == 0


def _worker(path: Path, seated: Barrier, count: int, ends: bool) -> None:
    table = SharedTable(path, slots=64)
    seated.wait(PATIENCE)  # a worker that begins late would take the seat of a dead one, and what that one held
    for _ in range(count):
        ask(table, ends=ends)
    os.kill(os.getpid(), signal.SIGKILL)


def test_processes_count_together_exactly_and_the_dead_let_go(tmp_path: Path) -> None:
    path = tmp_path / "limits.dat"
    context = get_context("fork")
    with closing(SharedTable(path, slots=64)) as table:
        seated = context.Barrier(4)
        workers = [context.Process(target=_worker, args=(path, seated, 200, number < 3)) for number in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert not ask(table, ends=True)  # all 500 of the day are used
        assert table.reclaim() > 0
        with table.rows([str(ONE)]) as rows:
            assert rows[0][RUNNING] == 0
            assert budgets_standing(NOW, ONE, rows[0])[0].spent == pytest.approx(500 * 1e-6)
