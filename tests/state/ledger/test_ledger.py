"""Every request is in the ledger once: on every engine, after `kill -9`, with a full disk, and while it is read."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.state.responses.postgres import Server
from tests.timing import eventually, pass_time
from trilogue.gateway.features.usage.ledger import ledger
from trilogue.gateway.features.usage.ledger.ledger import UsageLedger
from trilogue.gateway.features.usage.ledger.live_file import (
    MAX_NAME_BYTES,
    PLACES,
    Counts,
    LiveFile,
    LiveRow,
    RowName,
    live_files,
    read_places,
)
from trilogue.gateway.features.usage.ledger.tables import HOURLY_DAYS, LedgerTables, UsageQuery, read_usage
from trilogue.storage.database import Database
from trilogue.storage.postgresql import PostgresqlDatabase
from trilogue.storage.sqlite import MemoryDatabase, SqliteDatabase

WAIT = 10.0
DAY = 24
NOW = 490_000
"""2025-11-24, 16:00 UTC"""


def until(condition: Callable[[], bool]) -> None:
    """Wait for the thread of a ledger."""
    eventually(condition, WAIT)


def name(hour: int = NOW, **given: str) -> RowName:
    fields = {"key": "laptop", "owner": "", "model": "m", "upstream_model": "m", "provider": "p", "account": "a"}
    return RowName(hour=hour, **{**fields, **given})


def count(row: LiveRow, times: int = 1, cost: int = 3) -> None:
    """Count requests as the gateway does: one change, then one copy."""
    for _ in range(times):
        row.counts[0] += 1
        row.counts[Counts._fields.index("fresh")] += 10
        row.counts[Counts._fields.index("cost")] += cost
        row.save()


class Store:
    """A ledger's tables and its folder of live files."""

    def __init__(self, database: Database, folder: Path) -> None:
        self.tables = LedgerTables(database)
        self.folder = folder / "live"

    def requests(self, *by: str, **more: Any) -> dict[tuple[str, ...], int]:
        """Return the number of requests by some columns."""
        query = UsageQuery(by=by, **more)
        return {line.names: line.counts.requests for line in read_usage(self.tables, self.folder, query)}

    def total(self) -> Counts:
        (line,) = read_usage(self.tables, self.folder, UsageQuery())
        return line.counts


def _has_stored(store: Store, requests: int) -> bool:
    """Return whether so many requests are in the tables, without those of live files."""
    lines = read_usage(store.tables, Path("/nonexistent"), UsageQuery())
    return sum(line.counts.requests for line in lines) == requests


def started(tables: LedgerTables, folder: Path, days: float = 30) -> UsageLedger:
    made = UsageLedger(tables, folder, days)
    made.start()
    return made


def still() -> float:
    return NOW * 3600.0


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Return an empty ledger on each engine, whose clock stands still."""
    database: Database = MemoryDatabase(still)
    if request.param == "sqlite":
        database = SqliteDatabase(tmp_path / "usage.db", still)
    elif request.param == "postgresql":
        server: Server = request.getfixturevalue("postgres")
        database = PostgresqlDatabase(server.empty_database(), still)
    made = Store(database, tmp_path)
    yield made
    made.tables.close()


@pytest.fixture
def file_store(tmp_path: Path) -> Iterator[Store]:
    made = Store(SqliteDatabase(tmp_path / "usage.db"), tmp_path)
    yield made
    made.tables.close()


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "ADD_SECONDS", 0.02)


def test_what_is_added_twice_counts_once(store: Store) -> None:
    """A worker whose commit was unsure adds the same again; one that was killed is added by another."""
    file = LiveFile(store.folder)
    row, other = file.add(name()), file.add(name(key="phone"))
    count(row, 3)
    store.tables.add(file.id, file.places())
    store.tables.add(file.id, file.places())
    count(row, 2)
    count(other, 4)
    assert store.requests("key") == {("laptop",): 5, ("phone",): 4}
    store.tables.add(file.id, file.places())
    assert store.requests("key") == {("laptop",): 5, ("phone",): 4}
    file.remove()
    assert store.total() == Counts(requests=9, fresh=90, cost=27)


def test_sums_by_columns(store: Store) -> None:
    """The same from a live file as from the tables. Accounts are named with their provider; times are UTC."""
    file = LiveFile(store.folder)
    names = (name(NOW - DAY), name(), name(provider="q"), name(model="alias", key="phone"), name(NOW + 1))
    for number, one in enumerate(names, 1):
        count(file.add(one), number)
    for _ in range(2):
        assert store.requests("account") == {("p/a",): 12, ("q/a",): 3}
        assert store.requests("day") == {("2025-11-23",): 1, ("2025-11-24",): 14}
        assert store.requests("hour", start=NOW, end=NOW + 1) == {("2025-11-24T16:00Z",): 9}
        assert store.requests("model", "key") == {("m", "laptop"): 11, ("alias", "phone"): 4}
        assert store.requests("model", only={"key": "phone", "provider": "p"}) == {("alias",): 4}
        assert store.requests("key", only={"key": "nobody"}) == {}
        assert store.total() == Counts(requests=15, fresh=150, cost=45)
        store.tables.add(file.id, file.places())
    file.remove()


def test_costs_may_exceed_the_integers_of_a_database(store: Store) -> None:
    file = LiveFile(None)
    for key in "abc":
        count(file.add(name(key=key)), cost=2**62 + 1)
    store.tables.add(file.id, file.places())
    assert store.total().cost == 3 * (2**62 + 1)


def test_old_hours_become_days_and_old_days_are_deleted(store: Store) -> None:
    """The sums stay the same, until the rows are too old."""
    file = LiveFile(None)
    old = NOW - (HOURLY_DAYS + 2) * DAY
    for hour in (NOW, old, old + 1, old + 2, NOW - 300 * DAY):
        count(file.add(name(hour)), 2)
    store.tables.add(file.id, file.places())
    while store.tables.prune(365):
        pass
    assert sum(store.requests("hour").values()) == 10
    assert store.requests("hour", start=old - DAY) == {
        ("2025-10-22T00:00Z",): 6,
        ("2025-11-24T16:00Z",): 2,
    }
    store.tables.prune(200)
    assert store.total().requests == 8


def test_a_ledger_is_read_while_it_is_written(file_store: Store) -> None:
    """The sum is exact at any time, whether a request is in the live file or in the tables."""
    worker = started(LedgerTables(SqliteDatabase(Path(file_store.tables.name))), file_store.folder)
    row = worker.row(name(worker.hour))
    for number in range(1, 60):
        count(row)
        assert file_store.total().requests == number
        pass_time(0.002)
    worker.close()
    assert live_files(file_store.folder) == []
    assert file_store.total() == Counts(requests=59, fresh=590, cost=177)


def test_more_rows_than_a_file_has_places(file_store: Store) -> None:
    """The next file is ready, or rows are in memory for a moment; nothing is lost either way."""
    worker = started(LedgerTables(SqliteDatabase(Path(file_store.tables.name))), file_store.folder)
    for number in range(PLACES + 50):
        count(worker.row(name(worker.hour, model=f"m{number}")))
    worker.close()
    assert file_store.total().requests == PLACES + 50
    assert list(file_store.folder.iterdir()) == []


def test_rows_of_a_full_file_stay_in_use(file_store: Store) -> None:
    """Whoever has a row counts in it until told otherwise, also after all of it was added to the table."""
    worker = started(LedgerTables(SqliteDatabase(Path(file_store.tables.name))), file_store.folder)
    told: list[int] = []
    worker.on_new_file = lambda: told.append(1)
    rows = [worker.row(name(worker.hour, model=f"m{number}")) for number in range(PLACES)]
    until(lambda: len(live_files(file_store.folder)) == 2)  # the next one is ready
    rows.append(worker.row(name(worker.hour)))
    for row in rows:
        count(row)
    # The thread adds once a second, and removes files of which everything is in the table.
    for times in (1, 2):
        until(partial(_has_stored, file_store, times * len(rows)))
        for row in rows:
            count(row)
    assert told == []
    worker.close()
    assert file_store.total().requests == 3 * len(rows)


def test_a_new_hour_has_rows_of_its_own(file_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    hour = [NOW]
    monkeypatch.setattr(ledger, "_this_hour", lambda: hour[0])
    worker = started(LedgerTables(SqliteDatabase(Path(file_store.tables.name), still)), file_store.folder)
    told: list[int] = []
    worker.on_new_file = lambda: told.append(worker.hour)
    count(worker.row(name(worker.hour)))
    hour[0] += 1
    until(lambda: told == [NOW + 1])
    count(worker.row(name(worker.hour)))
    hour[0] += DAY
    until(lambda: NOW + 1 + DAY in told)
    worker.close()
    assert file_store.requests("hour") == {("2025-11-24T16:00Z",): 1, ("2025-11-24T17:00Z",): 1}


def test_names_that_are_too_long_are_refused() -> None:
    with pytest.raises(ValueError, match="no place"):
        LiveFile(None).add(name(model="m" * MAX_NAME_BYTES))


KILLED = textwrap.dedent(
    """
    import sys
    from pathlib import Path
    from trilogue.gateway.features.usage.ledger.live_file import RowName
    from trilogue.gateway.features.usage.ledger.live_file import RowName
    from trilogue.gateway.features.usage.ledger.live_file import LiveFile

    file = LiveFile(Path(sys.argv[1]))
    rows = [file.add(RowName(490_000, "laptop", "", f"m{number}", "m", "p", "a")) for number in range(2)]
    print("ready", flush=True)
    while True:
        for row in rows:
            row.counts = [value + 1 for value in row.counts]
            row.save()
    """
)


def test_a_process_that_is_killed_leaves_whole_requests(file_store: Store) -> None:
    """Whenever it is killed, all counts of a row are of the same requests. Another worker adds them, once."""

    def counted() -> list[Counts]:
        return [counts for path in live_files(file_store.folder) for _, _, counts in read_places(path)]

    for number in range(1, 4):
        victim = subprocess.Popen([sys.executable, "-c", KILLED, file_store.folder], stdout=subprocess.PIPE)
        assert victim.stdout is not None
        assert victim.stdout.readline() == b"ready\n"
        until(lambda rows=2 * number: sum(counts.requests > 10 for counts in counted()) == rows)  # type: ignore[misc]
        os.kill(victim.pid, signal.SIGKILL)
        victim.wait()
        victim.stdout.close()
    places = [place for path in live_files(file_store.folder) for place in read_places(path)]
    assert len(places) == 6
    assert all(len(set(counts)) == 1 and counts.requests > 10 for _, _, counts in places)
    total = sum(counts.requests for _, _, counts in places)
    assert file_store.total().requests == total
    worker = started(LedgerTables(SqliteDatabase(Path(file_store.tables.name))), file_store.folder, 10_000)
    until(lambda: len(live_files(file_store.folder)) == 1)
    worker.close()
    assert file_store.total().requests == total


def test_half_written_copies_do_not_count(file_store: Store) -> None:
    file = LiveFile(file_store.folder)
    row = file.add(name())
    count(row, 2)
    row.memory[row.copies[1] : row.copies[1] + 8] = (3).to_bytes(8, sys.byteorder)
    assert file.places() == [(0, name(), Counts(requests=2, fresh=20, cost=6))]
    row.memory[row.copies[0] : row.copies[0] + 8] = (4).to_bytes(8, sys.byteorder)
    assert file.places() == []
    file.remove()


def test_files_that_are_no_live_files_do_no_harm(file_store: Store) -> None:
    file_store.folder.mkdir()
    for number, content in enumerate((b"", b"text", b"trilogue usage 1\n", os.urandom(300_000))):
        (file_store.folder / f"{number}.counts").write_bytes(content)
    assert file_store.requests() == {}


def test_without_a_folder_rows_are_in_memory(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Requests are counted, and added to the tables as usual. The log says what may be lost."""
    (tmp_path / "live").write_text("not a folder")
    made = Store(SqliteDatabase(tmp_path / "usage.db"), tmp_path)
    worker = started(LedgerTables(SqliteDatabase(tmp_path / "usage.db")), made.folder)
    count(worker.row(name(worker.hour)), 7)
    (tmp_path / "live").unlink()
    until(lambda: len(live_files(made.folder)) == 1)
    worker.close()
    assert made.total().requests == 7
    written = "".join(capfd.readouterr())
    assert "usage is counted in memory" in written
    assert "usage is protected" in written
    made.tables.close()


def test_a_deleted_file_is_replaced(file_store: Store) -> None:
    """What was counted in it is in the tables, and what comes next survives the end of the process again."""
    worker = started(LedgerTables(SqliteDatabase(Path(file_store.tables.name))), file_store.folder)
    row = worker.row(name(worker.hour))
    count(row, 5)
    # In one step: the worker makes the folder again as soon as it is gone.
    shutil.rmtree(file_store.folder.rename(file_store.folder.with_name("deleted")))
    count(row, 2)
    until(lambda: len(live_files(file_store.folder)) == 1)
    count(worker.row(name(worker.hour)), 3)
    worker.close()
    assert file_store.total().requests == 10


def test_tables_that_cannot_be_written_lose_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The live file has everything until it works again."""
    place = tmp_path / "folder" / "usage.db"
    (tmp_path / "folder").write_text("in the way")
    worker = started(LedgerTables(SqliteDatabase(place)), tmp_path / "live")
    count(worker.row(name(worker.hour)), 7)
    until(lambda: worker.failures > 1)
    (tmp_path / "folder").unlink()
    made = Store(SqliteDatabase(place), tmp_path)
    worker.close()
    assert live_files(made.folder) == []
    assert made.total().requests == 7
    assert "usage cannot be stored" in "".join(capfd.readouterr())
    made.tables.close()
