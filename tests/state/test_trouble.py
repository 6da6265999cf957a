"""A state file that fails must not fail traffic."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from random import Random

import pytest

from tests.pool.making import BAD_KEY, NO_MODEL, RATE_LIMITED
from tests.state.test_sync import START, attempt, book, states
from tests.timing import check_within, eventually, pass_time
from trilogue.storage.database import StoreHealth
from trilogue.storage.records import RecordFile, StoredRecord
from trilogue.storage.sqlite import SqliteConnection
from trilogue.upstreams.state.change_records import MODEL_COOLDOWN, RETENTION
from trilogue.upstreams.state.sync import StateError, StateSync, load_into, write_now
from trilogue.upstreams.state.writer import PRUNE_RECORDS, Writer

WAIT = 10.0


def until(condition: Callable[[], bool]) -> None:
    """Wait for something that happens in another thread."""
    eventually(condition, WAIT)


GARBAGE = {
    "text": b"this is no database" * 100,
    "half a header": b"SQLite format 3\0",
    "noise": bytes(Random(1).randbytes(50_000)),
}


@pytest.mark.parametrize("kind", GARBAGE)
def test_a_broken_file_is_put_aside(kind: str, tmp_path: Path) -> None:
    """A new file is started next to it, and it works."""
    path = tmp_path / "pool.db"
    path.write_bytes(GARBAGE[kind])
    keeper = StateSync(book(), RecordFile(path), START)
    assert attempt(keeper, START, RATE_LIMITED) == "a"
    keeper.close(START)
    assert [file.read_bytes() for file in tmp_path.glob("pool.db.broken-*")] == [GARBAGE[kind]]
    keeper = StateSync(book(), RecordFile(path), START + 0.1)
    assert states(keeper, START + 0.1)["a"] == "cooling"
    keeper.close(START + 0.1)


def test_a_file_that_breaks_while_it_is_used(tmp_path: Path) -> None:
    """What is known in memory goes into the new one."""
    path = tmp_path / "pool.db"
    keeper = StateSync(book(), RecordFile(path), START)
    attempt(keeper, START, RATE_LIMITED)
    until(lambda: keeper._writer._queue.empty() and not keeper._writer._pending)
    for file in tmp_path.glob("pool.db*"):
        with file.open("r+b") as handle:
            handle.write(bytes(Random(2).randbytes(8_192)))
    for number in range(100):
        assert attempt(keeper, START + 1 + number, None) is not None
        pass_time(0.01)  # the writer has its turn, as it has between requests
    until(lambda: not keeper._writer.failing)
    keeper.close(START + 200)
    fresh = book()
    load_into(fresh, RecordFile(path), START + 200)
    assert sum(line["requests"] for line in fresh.overview(START + 200)) > 0


STRANGE = {
    "a word for a revision": ("x", b"{}", "word"),
    "bytes for a revision": ("x", b"{}", b"\xff"),
    "the last revision of all": ("x", b"{}", 2**63 - 1),
    "a number for a note": ("x", 5, 99),
    "bytes for an id": (b"\xff", b"{}", 99),
}


@pytest.mark.parametrize("kind", STRANGE)
@pytest.mark.parametrize("running", [True, False])
def test_stored_values_of_the_wrong_type(kind: str, running: bool, tmp_path: Path) -> None:
    """A sound database with values of the wrong type, found at the start or later, is renamed too."""
    path = tmp_path / "pool.db"
    keeper = StateSync(book(), RecordFile(path), START)
    attempt(keeper, START, RATE_LIMITED)
    until(lambda: keeper._writer._queue.empty() and not keeper._writer._pending)
    if not running:
        keeper.close(START)
    with closing(sqlite3.connect(path)) as other, other:
        note_id, data, revision = STRANGE[kind]
        row = ("Tally", note_id, data, 0.0, "1-other", revision)
        other.execute("INSERT INTO note (kind, id, data, at, worker, rev) VALUES (?, ?, ?, ?, ?, ?)", row)
    if not running:
        keeper = StateSync(book(), RecordFile(path), START)
    assert attempt(keeper, START + 2, None) is not None
    looks = count(1)

    def replaced() -> bool:
        keeper.sync(START + 2 + next(looks) * 0.001)  # a look finds nothing while the file is being written
        return len(list(tmp_path.glob("pool.db.broken-*"))) == 1

    until(replaced)
    until(lambda: not keeper._writer.failing and keeper._writer._queue.empty() and not keeper._writer._pending)
    assert attempt(keeper, START + 4, RATE_LIMITED) is not None
    keeper.close(START + 4)
    fresh = book()
    load_into(fresh, RecordFile(path), START + 4)
    assert "cooling" in [line["state"] for line in fresh.overview(START + 4)]


@pytest.mark.parametrize("file", ["none", "broken"])
def test_a_lock_that_is_never_released(file: str, tmp_path: Path) -> None:
    """The process that creates a new file was stopped: others go on without a file until it has ended."""
    path = tmp_path / "pool.db"
    if file == "broken":
        path.write_bytes(GARBAGE["text"])
    lock = os.open(tmp_path / "pool.db.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    began = time.perf_counter()
    keeper = StateSync(book(), RecordFile(path), START)
    assert attempt(keeper, START, RATE_LIMITED) == "a"
    assert attempt(keeper, START + 1.1, None) == "b"
    check_within(time.perf_counter() - began, 3.0)
    until(lambda: keeper.health.failing and keeper.health.waiting > 0)
    os.close(lock)
    until(lambda: not keeper.health.failing)
    assert attempt(keeper, START + 3, RATE_LIMITED) is not None
    keeper.close(START + 3)
    fresh = book()
    load_into(fresh, RecordFile(path), START + 3)
    assert "cooling" in [line["state"] for line in fresh.overview(START + 3)]


def test_a_file_that_is_deleted_while_it_is_used(tmp_path: Path) -> None:
    """Operators may delete the file at any time."""
    path = tmp_path / "pool.db"
    keeper = StateSync(book(), RecordFile(path), START)
    attempt(keeper, START, None)
    for file in tmp_path.iterdir():
        file.unlink()
    assert attempt(keeper, START + 2, RATE_LIMITED) is not None
    keeper.sync(START + 4)
    keeper.close(START + 4)
    fresh = book()
    load_into(fresh, RecordFile(path), START + 2)
    assert "cooling" in [line["state"] for line in fresh.overview(START + 2)]


def test_a_locked_file_blocks_no_request(tmp_path: Path) -> None:
    """Another program writes for a long time: requests go on, and the file is written afterwards."""
    path = tmp_path / "pool.db"
    keeper = StateSync(book(), RecordFile(path), START)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    began = time.perf_counter()
    assert attempt(keeper, START, RATE_LIMITED) == "a"
    for number in range(200):
        assert attempt(keeper, START + 0.1 + number * 0.001, None) is not None
    took = time.perf_counter() - began
    until(lambda: keeper._writer.failing)
    other.execute("COMMIT")
    until(lambda: not keeper._writer.failing)
    keeper.close(START + 1)
    fresh = book()
    load_into(fresh, RecordFile(path), START + 0.2)
    assert [line["state"] for line in fresh.overview(START + 0.2)] == ["cooling", "ready", "ready"]
    path.unlink()
    check_within(took, 1.0)
    other.close()


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """There is a file in the place of the folder: everything works, in memory."""
    (tmp_path / "state").write_text("not a folder")
    keeper = StateSync(book(), RecordFile(tmp_path / "state" / "pool.db"), START)
    assert attempt(keeper, START, RATE_LIMITED) == "a"
    assert attempt(keeper, START + 0.1, None) == "b"
    assert states(keeper, START + 0.2)["a"] == "cooling"
    keeper.close(START + 1)


FULL_DISK = """
    import resource, signal, sys
    from pathlib import Path
    from tests.pool.making import BAD_KEY, NO_MODEL, RATE_LIMITED
    from tests.state.test_sync import START, attempt, book, states
    from trilogue.storage.records import RecordFile
    from trilogue.storage.records import RecordFile
    from trilogue.upstreams.state.sync import StateSync

    keeper = StateSync(book(), RecordFile(Path(sys.argv[1])), START)
    attempt(keeper, START, None)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
    for number in range(500):
        assert attempt(keeper, START + number * 0.1, None, sticky=f"k{number}")
    assert attempt(keeper, START + 60, RATE_LIMITED)
    assert "cooling" in states(keeper, START + 60).values()
    keeper.close(START + 61)
    print("done", keeper._writer.failing)
"""


def test_a_full_disk(tmp_path: Path) -> None:
    """The system lets no file grow: requests work, and the log has one warning."""
    assert hasattr(resource, "RLIMIT_FSIZE")
    assert signal.SIGXFSZ
    command = [sys.executable, "-c", textwrap.dedent(FULL_DISK), str(tmp_path / "pool.db")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "done True"
    assert (done.stdout + done.stderr).count("cannot be written") == 1


def flipped(content: bytes, rng: Random) -> Iterator[bytes]:
    """Return the file with one bit flipped: in its header, its schema, its records or its index."""
    written = [offset for offset, byte in enumerate(content) if byte]
    for offset in [18, 19, 28, 47, *rng.sample(written, 60)]:
        for bit in (0x80, 0x01):
            wrong = bytearray(content)
            wrong[offset] ^= bit
            yield bytes(wrong)


def test_one_flipped_bit(tmp_path: Path) -> None:
    """Wherever the bit is, the gateway starts, works and keeps what it learns; a damaged file is renamed."""
    path = tmp_path / "pool.db"
    keeper = StateSync(book(), RecordFile(path), START)
    for number in range(8):
        attempt(keeper, START + number, RATE_LIMITED if number % 3 else None, sticky=f"k{number}")
    keeper.close(START + 10)
    aside = 0
    for number, content in enumerate(flipped(path.read_bytes(), Random(5))):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        (folder / "pool.db").write_bytes(content)
        keeper = StateSync(book(), RecordFile(folder / "pool.db"), START + 500)
        assert attempt(keeper, START + 501, RATE_LIMITED) is not None
        keeper.close(START + 502)
        assert not keeper._writer.failing
        assert not keeper._writer._pending
        aside += len(list(folder.glob("pool.db.broken-*")))
        fresh = book()
        load_into(fresh, RecordFile(folder / "pool.db"), START + 501)
        assert "cooling" in [line["state"] for line in fresh.overview(START + 501)]
    assert aside > 10


TRUNCATED = """
    import os, sys
    from contextlib import suppress
    from pathlib import Path
    from tests.pool.making import BAD_KEY, NO_MODEL, RATE_LIMITED
    from tests.state.test_sync import START, attempt, book, states
    from tests.timing import eventually, pass_time
    from trilogue.storage.records import RecordFile
    from trilogue.storage.records import RecordFile
    from trilogue.upstreams.state.sync import StateSync

    path = Path(sys.argv[1])
    keeper, other = StateSync(book(), RecordFile(path), START), StateSync(book(), RecordFile(path), START)
    for number in range(20):
        now = START + number * 2
        assert attempt(keeper, now, RATE_LIMITED if number % 5 == 0 else None, sticky=f"k{number}")
        assert attempt(other, now, None)
        pass_time(0.02)
        kept = {"pool.db.lock"} if sys.argv[2] == "all" else {"pool.db.lock", "pool.db"}
        for file in path.parent.glob("pool.db*"):
            if number in (3, 7, 11) and file.name not in kept:
                with suppress(FileNotFoundError):  # it was set aside just now
                    os.truncate(file, 0)
    # On a busy machine the writer may be behind, and still find out that a file was truncated.
    eventually(lambda: keeper._writer._queue.empty() and not keeper._writer._pending)
    assert attempt(keeper, START + 100, RATE_LIMITED)
    keeper.sync(START + 102)
    other.close(START + 103)
    keeper.close(START + 103)
    print("done", keeper.health)
"""


@pytest.mark.parametrize("which", ["side files", "all"])
def test_files_that_are_truncated_while_they_are_used(which: str, tmp_path: Path) -> None:
    """A file that SQLite maps into memory would end the process when another program truncates it."""
    path = tmp_path / "pool.db"
    command = [sys.executable, "-c", textwrap.dedent(TRUNCATED), str(path), which]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == f"done {StoreHealth()}", done.stdout
    fresh = book()
    load_into(fresh, RecordFile(path), START + 100)
    assert "cooling" in [line["state"] for line in fresh.overview(START + 100)], done.stdout


def test_a_file_that_is_replaced_while_it_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session with the old file does not take itself for one with the new."""
    store = RecordFile(tmp_path / "pool.db")
    connect = RecordFile._connect

    def replaced(self: RecordFile, timeout: float) -> SqliteConnection:
        connection = connect(self, timeout)
        monkeypatch.undo()
        self.path.rename(tmp_path / "aside.db")
        store.open(1.0).close()
        return connection

    store.open(1.0).close()
    monkeypatch.setattr(RecordFile, "_connect", replaced)
    with closing(store.open(1.0)) as session:
        assert not session.is_current()


def test_what_waited_for_a_locked_file_does_not_replace_what_is_newer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that had to wait writes last, and knows less."""
    monkeypatch.setattr("trilogue.upstreams.state.writer.BUSY_SECONDS", 0.05)
    monkeypatch.setattr("trilogue.upstreams.state.writer.RETRY_SECONDS", 0.05)
    store = RecordFile(tmp_path / "pool.db")
    late = Writer(store, "late", RETENTION)
    with closing(store.open(1.0)) as session:
        with session.transaction("quick") as batch:
            for kind, key in (("Cooled", "both"), ("Switched", "both"), ("Cooled", "late")):
                late.put(StoredRecord(kind, key, b'"late"', START + (key == "late")))
            until(lambda: late.failing)
            batch.put([StoredRecord(kind, "both", b'"quick"', START + 1) for kind in ("Cooled", "Switched")])
        until(lambda: not late.failing)
        late.close()
        found = {(one.kind, one.key): one.value for one in session.read_since(0)[1]}
    assert found == {("Cooled", "both"): b'"quick"', ("Switched", "both"): b'"quick"', ("Cooled", "late"): b'"late"'}


def test_a_process_reads_a_new_file_before_it_writes_what_it_knows(tmp_path: Path) -> None:
    """Another one may have learned more since the old file was deleted."""
    path = tmp_path / "pool.db"
    one, other = (StateSync(book(), RecordFile(path), START) for _ in range(2))
    assert attempt(one, START, None, sticky="x") == "a"
    until(lambda: not one.health.waiting)
    other.sync(START + 0.1)
    path.unlink()
    assert attempt(one, START + 2, RATE_LIMITED) == "b"
    assert attempt(one, START + 3, BAD_KEY, sticky="x") == "a"
    assert attempt(one, START + 4, None, sticky="x") == "c"
    until(lambda: not one.health.waiting)
    other.sync(START + 5)
    assert attempt(other, START + 5, None, sticky="x") == "c"
    other.close(START + 6)
    one.close(START + 6)
    fresh = StateSync(book(), RecordFile(path), START + 7)
    assert attempt(fresh, START + 7, None, sticky="x") == "c"
    fresh.close(START + 7)


def test_names_that_clients_make_up_do_not_make_the_file_grow(tmp_path: Path) -> None:
    """Each name is a 404 of the upstream, and each would be a record for a week."""
    path = tmp_path / "pool.db"
    keeper = StateSync(book(), RecordFile(path), START)
    assert attempt(keeper, START, RATE_LIMITED) == "a"
    for batch in range(6):
        for number in range(1_000):
            attempt(keeper, START + 0.1 + batch * 0.1, NO_MODEL, model=f"made-up-{batch}-{number}")
        until(lambda: keeper._writer._queue.empty() and not keeper._writer._pending)
    with closing(sqlite3.connect(path)) as other:
        kinds = dict(other.execute("SELECT kind, COUNT(*) FROM note GROUP BY kind").fetchall())
    most = RETENTION[MODEL_COOLDOWN].records
    assert most is not None
    assert kinds[MODEL_COOLDOWN] <= most + PRUNE_RECORDS + 1_000, "those of the last batch may be too many"
    keeper.close(START + 1)
    fresh = book()
    load_into(fresh, RecordFile(path), START + 0.7)
    assert fresh.pools["p"].accounts[0].cooldown_until > START + 0.7, "what matters is still there"


def test_commands_say_what_is_wrong(tmp_path: Path) -> None:
    """A command reports the problem in one line."""
    path = tmp_path / "pool.db"
    path.write_bytes(GARBAGE["text"])
    with pytest.raises(StateError, match="cannot read"):
        load_into(book(), RecordFile(path), START)
    with pytest.raises(StateError, match="cannot write"):
        write_now(RecordFile(path), [], START)
