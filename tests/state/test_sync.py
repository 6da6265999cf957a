"""What is learned survives a restart and is shared by workers."""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.pool.making import BAD_KEY, NO_MODEL, RATE_LIMITED, SERVER, pools, provider
from tests.timing import eventually
from trilogue.model import Failure, Usage
from trilogue.routing.pool.conversation import response_key
from trilogue.routing.pool.pools import Pools
from trilogue.routing.pool.settings import AccountLimits, AccountSpec, ProviderSpec
from trilogue.storage.records import RecordFile
from trilogue.upstreams.state.counters import BASE
from trilogue.upstreams.state.sync import StateSync, load_into, write_now

START = 1_800_000_000.0
WAIT = 5.0


def book() -> Pools:
    return pools(provider("a", "b", "c"))


def attempt(keeper: StateSync, now: float, failure: Failure | None, sticky: str = "", model: str = "m") -> str | None:
    """Make one request with one attempt."""
    keeper.sync(now)
    journey = keeper.pools.begin(now, f"r{now}", [("p", model)], sticky=sticky)
    step = journey.next(now)
    if step is None:
        return None
    if failure is None:
        journey.finished(now)
    else:
        journey.failed(now, failure)
    keeper.sync(now)
    return step.account


def restarted(keeper: StateSync, path: Path, now: float) -> StateSync:
    keeper.close(now)
    return StateSync(book(), RecordFile(path), now)


def states(keeper: StateSync, now: float) -> dict[str, str]:
    return {line["account"]: line["state"] for line in keeper.pools.overview(now)}


def test_a_restart_forgets_nothing(tmp_path: Path) -> None:
    """Cooldowns, disabled keys, missing models, conversations, the last error and counts are kept."""
    path = tmp_path / "state" / "pool.db"
    keeper = StateSync(book(), RecordFile(path), START)
    assert attempt(keeper, START, RATE_LIMITED) == "a"
    assert attempt(keeper, START, BAD_KEY) == "b"
    assert attempt(keeper, START, None, sticky="x") == "c"
    assert attempt(keeper, START, NO_MODEL, model="rare") == "c"
    keeper = restarted(keeper, path, START + 0.1)
    assert states(keeper, START + 0.1) == {"a": "cooling", "b": "refused", "c": "ready"}
    lines = {line["account"]: line for line in keeper.pools.overview(START + 0.1)}
    assert [lines[name]["last_error"] for name in "abc"] == ["rate_limited", "bad_key", "model_not_found"]
    assert lines["c"]["success_rate"] == 0.5
    assert attempt(keeper, START + 0.1, None, model="rare") is None
    assert attempt(keeper, START + 60, None, sticky="x") == "c"
    keeper = restarted(keeper, path, START + 60)
    assert {line["account"]: line["requests"] for line in keeper.pools.overview(START + 60)}["c"] == 3
    keeper.close(START + 60)


def answered(keeper: StateSync) -> None:
    """Finish a response of the only account."""
    journey = keeper.pools.begin(START, "r", [("p", "m")])
    journey.next(START)
    journey.finished(START, response_id="resp_1")


def continued(keeper: StateSync) -> str | None:
    """Return the account that a request which continues the response is sent to."""
    return attempt(keeper, START + 1, None, sticky=response_key("resp_1"))


def test_an_account_that_was_alone_keeps_its_responses_over_a_restart(tmp_path: Path) -> None:
    """They are written at the end, because they are not needed before there is a second account."""
    path = tmp_path / "pool.db"
    keeper = StateSync(pools(provider("a")), RecordFile(path), START)
    answered(keeper)
    assert not keeper.pools.changes
    keeper.close(START)
    keeper = StateSync(pools(provider("b", "a")), RecordFile(path), START)
    assert continued(keeper) == "a"
    keeper.close(START)


def test_an_account_that_was_alone_keeps_its_responses_over_a_reload(tmp_path: Path) -> None:
    """Every worker knows all of them once there is a second account."""
    path = tmp_path / "pool.db"
    one, other = (StateSync(pools(provider("a")), RecordFile(path), START) for _ in range(2))
    answered(one)
    for keeper in (one, other):
        keeper.replace(pools(provider("b", "a")), START)
    assert continued(one) == "a"
    one.close(START + 1)
    assert continued(other) == "a"
    other.close(START + 1)


def test_a_response_that_comes_after_the_reload_is_known_too(tmp_path: Path) -> None:
    """It does not matter whether there is a second account by then or only later."""
    for names in ("ba", "a"):
        keeper = StateSync(pools(provider("a")), RecordFile(tmp_path / f"{names}.db"), START)
        journey = keeper.pools.begin(START, "r", [("p", "m")])
        journey.next(START)
        keeper.replace(pools(provider(*names)), START)
        journey.finished(START, response_id="resp_1")
        keeper.sync(START)
        keeper.replace(pools(provider("b", "a")), START)
        assert continued(keeper) == "a"
        keeper.close(START)


def test_a_new_key_is_not_blamed_for_the_old_one(tmp_path: Path) -> None:
    """An operator who replaces a key must not wait for a probe; the same key stays disabled."""
    path = tmp_path / "pool.db"

    def with_key(credential: str) -> Pools:
        return pools(ProviderSpec(name="p", accounts=(AccountSpec(name="a", credential=credential),)))

    keeper = StateSync(with_key("old"), RecordFile(path), START)
    assert attempt(keeper, START, BAD_KEY) == "a"
    keeper.close(START)
    for credential, state in (("old", "refused"), ("new", "ready")):
        keeper = StateSync(with_key(credential), RecordFile(path), START + 1)
        assert states(keeper, START + 1) == {"a": state}
        keeper.close(START + 1)


def test_a_recovery_survives_too(tmp_path: Path) -> None:
    """Successes are kept, not only failures."""
    path = tmp_path / "pool.db"
    keeper = StateSync(book(), RecordFile(path), START)
    attempt(keeper, START, SERVER)
    keeper = restarted(keeper, path, START)
    assert states(keeper, START)["a"] == "failing"
    keeper.pools.reset(keeper.pools.find("a")[0])
    keeper = restarted(keeper, path, START)
    assert states(keeper, START)["a"] == "ready"
    keeper.close(START)


def agree(one: StateSync, other: StateSync, expected: dict[str, str], now: float) -> float:
    """Return how long it takes until the other worker knows."""
    began = time.perf_counter()

    def agreed() -> bool:
        one.sync(now)
        other.sync(now + (time.perf_counter() - began))
        return states(other, now) == expected

    eventually(agreed, WAIT)
    return time.perf_counter() - began


def test_two_workers_agree(tmp_path: Path) -> None:
    """Each worker decides from its memory and learns from the other at once."""
    path = tmp_path / "pool.db"
    one, other = StateSync(book(), RecordFile(path), START), StateSync(book(), RecordFile(path), START)
    assert attempt(one, START, RATE_LIMITED) == "a"
    agree(one, other, {"a": "cooling", "b": "ready", "c": "ready"}, START)
    assert attempt(other, START + 0.2, BAD_KEY) == "b"
    agree(other, one, {"a": "cooling", "b": "refused", "c": "ready"}, START)
    assert attempt(one, START + 0.4, None, sticky="x") == "c"
    one.close(START)
    other.close(START)


def test_conversations_are_shared(tmp_path: Path) -> None:
    """The next turn may come to another worker."""
    path = tmp_path / "pool.db"
    one, other = StateSync(book(), RecordFile(path), START), StateSync(book(), RecordFile(path), START)
    attempt(one, START, None)
    placed = attempt(one, START, None, sticky="x")
    assert placed == "b"
    began = time.perf_counter()

    def is_known() -> bool:
        other.sync(START + 1 + time.perf_counter() - began)
        return other.pools.pools["p"].sticky.find("x") is not None

    # Not in a loop without waits: its looks at the file, one every 5 ms, keep the writing thread from running.
    eventually(is_known, WAIT)
    assert attempt(other, START + 2, None, sticky="x") == "b"
    one.close(START)
    other.close(START)


def priced() -> Pools:
    accounts = (AccountSpec(name="a", balance=10.0),)
    return pools(ProviderSpec(name="p", accounts=accounts, cost=lambda usage, model: usage.fresh / 1_000_000))


def spend(keeper: StateSync, now: float) -> None:
    journey = keeper.pools.begin(now, "r", [("p", "m")])
    journey.next(now)
    journey.finished(now, Usage(fresh=1_000_000))


def test_balances_add_up_over_workers_and_restarts(tmp_path: Path) -> None:
    """Nothing is counted twice and nothing is lost."""
    path = tmp_path / "pool.db"
    for start in range(3):
        now = START + 10 * start
        keepers = [StateSync(priced(), RecordFile(path), now) for _ in range(2)]
        for keeper in keepers:
            spend(keeper, now)
        for keeper in keepers:
            keeper.close(now + 1)
    last = priced()
    load_into(last, RecordFile(path), START)
    assert last.pools["p"].accounts[0].balance == pytest.approx(4.0)
    keeper = StateSync(priced(), RecordFile(path), START)
    assert keeper.pools.pools["p"].accounts[0].balance == pytest.approx(4.0)
    keeper.pools.set_balance(keeper.pools.find("a")[0], 50.0)
    spend(keeper, START)
    keeper.close(START)
    last = priced()
    load_into(last, RecordFile(path), START)
    assert last.pools["p"].accounts[0].balance == pytest.approx(49.0)


def test_counts_of_processes_that_have_gone_are_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file does not grow with every restart."""
    path = tmp_path / "pool.db"
    monkeypatch.setattr("trilogue.upstreams.state.counters.is_running", lambda worker: False)
    for start in range(20):
        keeper = StateSync(book(), RecordFile(path), START + start)
        attempt(keeper, START + start, None)
        keeper.close(START + start)
    keeper = StateSync(book(), RecordFile(path), START + 30)
    assert sum(line["requests"] for line in keeper.pools.overview(START + 30)) == 20
    assert keeper._table is not None
    workers = {record.key.rpartition("\n")[2] for record in keeper._table.read_kind("Tally")}
    assert len(workers) <= 3
    assert BASE in workers
    keeper.close(START + 30)


def test_a_reload_keeps_what_is_known(tmp_path: Path) -> None:
    """This includes what requests of the old configuration still find out."""
    keeper = StateSync(book(), RecordFile(tmp_path / "pool.db"), START)
    attempt(keeper, START, RATE_LIMITED)
    running = keeper.pools.begin(START, "r", [("p", "m")])
    step = running.next(START)
    assert step is not None
    assert step.account == "b"
    keeper.replace(pools(provider("a", "b", "new")), START)
    assert states(keeper, START) == {"a": "cooling", "b": "ready", "new": "ready"}
    running.failed(START + 0.2, BAD_KEY)
    keeper.sync(START + 0.3)
    assert states(keeper, START + 0.3) == {"a": "cooling", "b": "refused", "new": "ready"}
    keeper.close(START + 1)


def test_requests_that_outlive_a_reload_are_counted(tmp_path: Path) -> None:
    """They count against the limits of their account until they end, and then their cost is subtracted."""
    limited = AccountSpec(name="a", limits=AccountLimits(concurrency=2), balance=10)
    spec = ProviderSpec(name="p", accounts=(limited,), cost=lambda usage, _: usage.output)
    keeper = StateSync(
        pools(spec),
        RecordFile(tmp_path / "pool.db"),
        START,
    )
    running = []
    for number in range(2):
        running.append(keeper.pools.begin(START, f"r{number}", [("p", "m")]))
        assert running[-1].next(START) is not None
        keeper.replace(pools(spec), START)
    assert line(keeper) == {"in_flight": 2, "requests": 0, "balance": 10}
    assert keeper.pools.begin(START, "r3", [("p", "m")]).next(START) is None
    running[0].finished(START + 0.1, Usage(output=3))
    keeper.sync(START + 0.2)
    assert line(keeper) == {"in_flight": 1, "requests": 1, "balance": 7}
    running[1].released(START + 0.3)
    keeper.sync(START + 2)
    assert line(keeper) == {"in_flight": 0, "requests": 1, "balance": 7}
    keeper.close(START + 3)


def line(keeper: StateSync) -> dict[str, float]:
    """Return the description of the only account."""
    (shown,) = keeper.pools.overview(START + 2)
    return {name: shown[name] for name in ("in_flight", "requests", "balance")}


def test_commands_reach_a_running_worker(tmp_path: Path) -> None:
    """`trilogue accounts disable` writes to the file; the worker reads it before its next choice."""
    path = tmp_path / "pool.db"
    keeper = StateSync(book(), RecordFile(path), START)
    hand = book()
    load_into(hand, RecordFile(path), START)
    hand.disable(hand.find("p/a")[0], START)
    write_now(RecordFile(path), hand.drain(), START)
    assert attempt(keeper, START + 0.1, None) == "b"
    hand.enable(hand.find("p/a")[0])
    write_now(RecordFile(path), hand.drain(), START)
    assert attempt(keeper, START + 0.2, None) == "a"
    keeper.close(START)


def test_what_is_under_way_is_known_while_the_process_runs(tmp_path: Path) -> None:
    """`trilogue accounts` shows it; a worker that was killed has nothing in flight."""
    path = tmp_path / "pool.db"
    keeper = StateSync(book(), RecordFile(path), START)
    keeper.pools.begin(START, "r", [("p", "m")]).next(START)
    keeper.sync(START + 2)
    seen = book()

    def is_shown() -> bool:
        load_into(seen, RecordFile(path), START)
        return any(line["in_flight"] for line in seen.overview(START))

    eventually(is_shown, WAIT)
    keeper.close(START + 3)
    after = book()
    load_into(after, RecordFile(path), START)
    assert not any(line["in_flight"] for line in after.overview(START))


def test_only_the_owner_can_read_it(tmp_path: Path) -> None:
    """The file shows which conversations there are."""
    path = tmp_path / "folder" / "pool.db"
    os.umask(0o022)
    keeper = StateSync(book(), RecordFile(path), START)
    attempt(keeper, START, RATE_LIMITED, sticky="x")
    eventually(lambda: keeper._writer._queue.empty() and not keeper._writer._pending)
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert {name: mode for name, mode in modes.items() if mode & 0o077} == {}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    keeper.close(START)


def test_a_look_is_cheap(tmp_path: Path) -> None:
    """There is a look before every choice."""
    keeper = StateSync(book(), RecordFile(tmp_path / "pool.db"), START)
    began = time.process_time()
    for number in range(10_000):
        keeper.sync(START + number * 0.001)
    assert (time.process_time() - began) / 10_000 < 50e-6
    keeper.close(START + 10)


def test_a_quiet_file_is_hardly_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The look compares the file's time and size; SQLite is asked when they change, and once a second in any case."""
    path = tmp_path / "pool.db"
    store = RecordFile(path)
    keeper = StateSync(book(), store, START)
    asked: list[str] = []
    keeper.sync(START + 0.01)
    assert keeper._table is not None
    connection = keeper._table.connection
    connection.raw.set_trace_callback(asked.append)
    for number in range(2, 90):
        keeper.sync(START + number * 0.01)
    assert len(asked) <= 2
    unchanged = connection.written()
    monkeypatch.setattr(connection, "written", lambda: unchanged)
    hand = book()
    hand.disable(hand.find("p/a")[0], START)
    write_now(RecordFile(path), hand.drain(), START)
    assert states(keeper, START + 1)["a"] == "ready"
    keeper.sync(START + 1.1)
    assert states(keeper, START + 1.2)["a"] == "disabled"
    keeper.close(START + 2)


def test_no_file_is_no_error_and_none_is_made(tmp_path: Path) -> None:
    """Reading must not change anything."""
    load_into(book(), RecordFile(tmp_path / "pool.db"), START)
    assert list(tmp_path.iterdir()) == []


def test_a_file_with_a_write_ahead_log_is_taken_over(tmp_path: Path) -> None:
    """Earlier versions made such files."""
    path = tmp_path / "pool.db"
    keeper = StateSync(book(), RecordFile(path), START)
    attempt(keeper, START, RATE_LIMITED)
    keeper.close(START)
    with closing(sqlite3.connect(path)) as earlier:
        assert earlier.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",)
        earlier.execute("UPDATE note SET at = at")
        earlier.commit()
    keeper = StateSync(book(), RecordFile(path), START + 0.1)
    assert states(keeper, START + 0.1)["a"] == "cooling"
    attempt(keeper, START + 0.1, BAD_KEY)
    keeper.close(START + 0.2)
    assert not path.with_name("pool.db-shm").exists()
    with closing(sqlite3.connect(path)) as now:
        assert now.execute("PRAGMA journal_mode").fetchone() == ("delete",)
