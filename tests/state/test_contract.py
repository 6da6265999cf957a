"""What every store promises: one suite, run on each implementation."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest

import trilogue
from trilogue.storage.database import StoreBusy, StoreUnavailable
from trilogue.storage.records import RecordFile, RecordMemory, RecordStore, RecordTable, Retention, StoredRecord

NOW = 1_800_000_000.0


@dataclass
class Place:
    """A store that was opened from a place, and how to open it again as the next process would."""

    reopen: Callable[[], RecordStore]
    store: RecordStore
    sessions: ExitStack = field(default_factory=ExitStack)

    def open(self, timeout: float = 5.0) -> RecordTable:
        return self.sessions.enter_context(closing(self.store.open(timeout)))


def in_file(folder: Path) -> Place:
    return Place(lambda: RecordFile(folder / "state" / "pool.db"), RecordFile(folder / "state" / "pool.db"))


def in_memory(folder: Path) -> Place:
    store = RecordMemory()
    return Place(lambda: store, store)


IMPLEMENTATIONS = {"file": in_file, "memory": in_memory}


@pytest.fixture(params=IMPLEMENTATIONS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    made = IMPLEMENTATIONS[request.param](tmp_path)
    with made.sessions:
        yield made


def record(key: str, value: str = "1", kind: str = "Thing", at: float = NOW) -> StoredRecord:
    return StoredRecord(kind, key, value.encode(), at)


def keys(session: RecordTable, kind: str = "Thing") -> list[str]:
    return [one.key for one in session.read_kind(kind)]


def test_reads_what_it_wrote(place: Place) -> None:
    """Any session reads a record at once, and nothing of another key or kind."""
    one, other = place.open(), place.open()
    one.write("w", [record("a", '{"x": 1}'), record("b"), record("a", kind="Other")])
    for session in (one, other):
        assert session.read("Thing", "a") == record("a", '{"x": 1}')
        assert session.read("Thing", "c") is None
        assert keys(session) == ["a", "b"]
    assert place.store.exists()


def test_the_newest_value_of_a_key_counts(place: Place) -> None:
    """A record replaces the one before it, even one of another writer."""
    one, other = place.open(), place.open()
    one.write("w1", [record("a", "1")])
    other.write("w2", [record("a", "2", at=NOW + 1)])
    assert one.read("Thing", "a") == record("a", "2", at=NOW + 1)
    assert one.read_since(0)[1] == [record("a", "2", at=NOW + 1)]


def test_a_block_that_raises_leaves_no_trace(place: Place) -> None:
    """A transaction has all its effects or none, and the next one works."""
    session = place.open()
    session.write("w", [record("a"), record("b")])
    before = session.read_since(0)

    def fails() -> None:
        with session.transaction("w") as batch:
            batch.put([record("a", "2"), record("c")])
            batch.delete("Thing", ["b"])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert session.read_since(0) == before
    session.write("w", [record("d")])
    assert keys(session) == ["a", "b", "d"]


def test_a_transaction_reads_its_own_writes(place: Place) -> None:
    """No other session reads them before it has ended."""
    session = place.open()
    session.write("w", [record("a"), record("b")])
    with session.transaction("w") as batch:
        batch.put([record("c"), record("a", "2")])
        batch.delete("Thing", ["b", "never there"])
        assert batch.read("Thing", "a") == record("a", "2")
        assert batch.read("Thing", "b") is None
        assert [one.key for one in batch.read_kind("Thing")] == ["a", "c"]
    assert keys(session) == ["a", "c"]


def test_only_one_session_writes_at_a_time(place: Place) -> None:
    """The other session waits as long as its timeout and then raises; afterwards it can write."""
    one, other = place.open(), place.open(timeout=0.05)
    with one.transaction("w1") as batch:
        batch.put([record("a")])
        with pytest.raises(StoreBusy):
            other.write("w2", [record("b")])
    other.set_timeout(5.0)
    other.write("w2", [record("b")])
    assert keys(one) == ["a", "b"]


def test_counters_of_several_writers_add_up(place: Place) -> None:
    """Nothing is lost between reading and writing."""

    def work() -> None:
        with closing(place.store.open(30.0)) as session:
            for _ in range(25):
                with session.transaction("w") as batch:
                    batch.add("Usage", "key-1", 0.5, NOW)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    session = place.open()
    with session.transaction("w") as batch:
        assert batch.add("Usage", "key-1", -10.0, NOW) == 40.0
        assert batch.add("Usage", "key-2", 1, NOW) == 1.0


def test_revisions_are_in_order(place: Place) -> None:
    """Each transaction has a later revision; within it, records are in the order of kind and key."""
    session = place.open()
    session.write("w", [record("b"), record("a"), record("a", kind="Earlier")])
    first, found = session.read_since(0)
    assert [(one.kind, one.key) for one in found] == [("Earlier", "a"), ("Thing", "a"), ("Thing", "b")]
    session.write("w", [record("z")])
    session.write("w", [record("c")])
    newest, found = session.read_since(first)
    assert [one.key for one in found] == ["z", "c"]
    assert session.read_since(newest) == (newest, [])


def test_a_writer_can_leave_out_what_it_wrote(place: Place) -> None:
    """A writer need not read its own records again."""
    session = place.open()
    session.write("w1", [record("a")])
    session.write("w2", [record("b")])
    assert [one.key for one in session.read_since(0, without="w1")[1]] == ["b"]


def test_revisions_never_start_again(place: Place) -> None:
    """A reader would otherwise miss what is written after everything was deleted."""
    session = place.open()
    session.write("w", [record("a")])
    newest, _ = session.read_since(0)
    with session.transaction("w") as batch:
        batch.delete("Thing", ["a"])
    assert session.read_since(0)[1] == []
    session.write("w", [record("b")])
    assert [one.key for one in session.read_since(newest)[1]] == ["b"]


def test_changed_is_never_wrong_about_news(place: Place) -> None:
    """It may return True without need, but never False if there is something to read."""
    reader, writer = place.open(), place.open()
    for number in count():
        writer.write("w", [record(str(number))])
        assert reader.changed(thorough=True)
        reader.read_since(0)
        assert not reader.changed(thorough=True)
        if number == 20:
            break
    assert reader.is_current()


def test_lifetimes(place: Place) -> None:
    """Records are pruned by kind, and only on request, with the caller's clock."""
    session = place.open()
    session.write("w", [record("old", at=NOW - 61), record("new", at=NOW - 59), record("old", kind="Kept", at=0.0)])
    assert keys(session) == ["new", "old"]
    session.prune(NOW, {"Thing": Retention(seconds=60.0)})
    assert keys(session) == ["new"]
    assert keys(session, "Kept") == ["old"]


def test_the_oldest_go_first(place: Place) -> None:
    """The oldest record is the one written first: writing a key again makes it new."""
    session = place.open()
    for number in range(6):
        session.write("w", [record(str(number))])
    session.write("w", [record("1", "2")])
    session.prune(NOW, {"Thing": Retention(records=3)})
    assert keys(session) == ["1", "4", "5"]
    session.prune(NOW, {"Thing": Retention(records=3)})
    assert keys(session) == ["1", "4", "5"]
    session.prune(NOW, {"Thing": Retention(records=0), "Nothing": Retention(1.0, 1)})
    assert keys(session) == []


def test_size_stays_bounded(place: Place) -> None:
    """However much is written, the size is limited if the store is pruned from time to time."""
    session = place.open()
    for batch in range(5):
        session.write("w", [record(f"{batch}-{number}", at=NOW + batch) for number in range(100)])
        session.prune(NOW, {"Thing": Retention(records=100)})
        assert len(keys(session)) == 100


def test_a_restart(place: Place) -> None:
    """Everything is still there, and revisions continue."""
    session = place.open()
    session.write("w", [record("a", '"ä\\n"')])
    newest, before = session.read_since(0)
    session.close()
    place.store = place.reopen()
    session = place.open()
    assert session.read_since(0) == (newest, before)
    session.write("w", [record("b")])
    assert [one.key for one in session.read_since(newest)[1]] == ["b"]


def test_a_sound_store_is_not_replaced(place: Place) -> None:
    """Neither an empty store nor one with records is replaced."""
    assert not place.store.replace_damaged()
    session = place.open()
    session.write("w", [record("a")])
    assert not place.store.replace_damaged()
    assert session.is_current()
    assert keys(session) == ["a"]


def test_a_closed_session_is_unavailable(place: Place) -> None:
    """Callers handle this error, whatever the store is made of."""
    session = place.open()
    session.close()
    for use in (
        lambda: session.read("Thing", "a"),
        lambda: session.read_kind("Thing"),
        lambda: session.read_since(0),
        lambda: session.write("w", [record("a")]),
        lambda: session.prune(NOW, {"Thing": Retention(1.0, 1)}),
        lambda: session.changed(thorough=True),
    ):
        with pytest.raises(StoreUnavailable):
            use()


def test_a_file_out_of_reach_is_unavailable(tmp_path: Path) -> None:
    """A file is where the folder should be."""
    (tmp_path / "state").write_text("not a folder")
    with pytest.raises(StoreUnavailable):
        in_file(tmp_path).open()


def test_a_deleted_file_is_not_current(tmp_path: Path) -> None:
    """The session would write to a file that has no name any more."""
    place = in_file(tmp_path)
    with place.sessions:
        session = place.open()
        assert session.is_current()
        (tmp_path / "state" / "pool.db").unlink()
        assert not session.is_current()
        place.open().write("w", [record("a")])
        assert not session.is_current()


EARLIER = """
CREATE TABLE note (
    kind TEXT NOT NULL, id TEXT NOT NULL, data BLOB NOT NULL, at REAL NOT NULL, worker TEXT NOT NULL,
    rev INTEGER NOT NULL, PRIMARY KEY (kind, id)
) WITHOUT ROWID;
CREATE INDEX note_rev ON note (rev);
"""


def test_a_file_of_an_earlier_version(tmp_path: Path) -> None:
    """Its rows are records, and revisions go on after its last one."""
    (tmp_path / "state").mkdir()
    with closing(sqlite3.connect(tmp_path / "state" / "pool.db")) as earlier, earlier:
        earlier.executescript(EARLIER)
        rows = [
            ("Bound", "p\nkey", b'{"type":"Bound","provider":"p","key":"key","account":"a","at":1.0}', 1.0, "1-a", 4),
            ("Meta", "revision", b"", 0.0, "1-a", 7),
        ]
        earlier.executemany("INSERT INTO note (kind, id, data, at, worker, rev) VALUES (?, ?, ?, ?, ?, ?)", rows)
    place = in_file(tmp_path)
    with place.sessions:
        assert not place.store.replace_damaged()
        session = place.open()
        assert session.read_since(0) == (7, [StoredRecord("Bound", "p\nkey", rows[0][2], 1.0)])
        session.write("2-b", [record("a")])
        assert session.read_since(7) == (8, [record("a")])


def test_only_the_engines_know_sqlite() -> None:
    """Everything above the interfaces works with any store."""
    source = Path(trilogue.__file__).parent
    found = [str(path.relative_to(source)) for path in source.rglob("*.py") if "import sqlite3" in path.read_text()]
    assert sorted(found) == ["storage/sqlite.py"]
