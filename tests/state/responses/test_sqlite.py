"""What only a file can suffer: other processes, `kill -9`, a full disk, deletion, damage."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from tests.state.responses.making import KEY, A, conversation, response
from trilogue.gateway.conversations.store.store import ResponseStore
from trilogue.gateway.conversations.store.types import (
    NotFound,
    StoreAway,
    StoreBusy,
    StoreDamaged,
    StoreUnavailable,
)
from trilogue.storage import sqlite as engine
from trilogue.storage.sqlite import SqliteDatabase

APPEND = """
    import sys
    from pathlib import Path
    from tests.state.responses.making import A, KEY, item
    from trilogue.gateway.conversations.store.store import ResponseStore
    from trilogue.storage.sqlite import SqliteDatabase
    from trilogue.storage.sqlite import SqliteDatabase
    store = ResponseStore(SqliteDatabase(Path(sys.argv[1])), [KEY])
    for number in range(int(sys.argv[3])):
        store.conversations.append(A, "conv_1", [item(f"{sys.argv[2]}_{number}")])
"""


def opened(path: Path) -> ResponseStore:
    return ResponseStore(SqliteDatabase(path), [KEY])


def child(source: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", textwrap.dedent(source), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_two_processes_lose_no_update(tmp_path: Path) -> None:
    path = tmp_path / "responses.db"
    store = opened(path)
    store.conversations.create(conversation("conv_1"))
    children = [child(APPEND, path, name, 60) for name in ("a", "b")]
    assert [process.wait(60) for process in children] == [0, 0]
    found = [one.id for one in store.conversations.all_items(A, "conv_1")]
    for process in children:
        assert process.stdout is not None
        process.stdout.close()
    for name in ("a", "b"):
        assert [one for one in found if one[0] == name] == [f"{name}_{number}" for number in range(60)]
    store.close()


def test_the_file_is_private(tmp_path: Path) -> None:
    store = opened(tmp_path / "new" / "responses.db")
    store.responses.put(response("r1"))
    for path in (tmp_path / "new").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700
    store.close()


def test_commits_reach_the_operating_system(tmp_path: Path) -> None:
    """They survive the end of the process, and responses do not wait for the disk."""
    connection = SqliteDatabase(tmp_path / "responses.db").connect()
    assert connection.execute("PRAGMA synchronous") == [(1,)]
    assert connection.execute("PRAGMA journal_mode") == [("wal",)]
    connection.close()


def test_a_full_disk_fails_what_needs_room_and_nothing_else(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "responses.db")
    store = ResponseStore(database, [KEY])
    store.responses.put(response("kept"))
    limit_pages(store, 60)
    outcomes = store.together(
        [
            lambda: store.responses.put(response("small")),
            lambda: store.responses.put(response("large", body=b"x" * 1_000_000)),
            lambda: store.responses.put(response("small too")),
        ]
    )
    assert outcomes[0] is None
    assert isinstance(outcomes[1], StoreUnavailable)
    assert "the disk is full" in str(outcomes[1])
    assert outcomes[2] is None
    assert [one.responses for one in store.owners.statistics()] == [3]
    with pytest.raises(NotFound):
        store.responses.get(A, "large")
    limit_pages(store, 1_000_000)
    store.responses.put(response("large", body=b"x" * 1_000_000))
    assert len(store.responses.get(A, "large").body) == 1_000_000
    store.close()


def limit_pages(store: ResponseStore, pages: int) -> None:
    """Let the file of this thread's connection grow to so many pages and no further."""
    store.owners.run_read(lambda transaction: transaction.rows(f"PRAGMA max_page_count = {pages}"))


def test_a_locked_file_is_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "BUSY_SECONDS", 0.1)
    path = tmp_path / "responses.db"
    store = opened(path)
    store.responses.put(response("r1"))
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreBusy):
        store.responses.put(response("r2"))
    assert store.responses.get(A, "r1").id == "r1"
    other.execute("ROLLBACK")
    store.responses.put(response("r2"))
    other.close()
    store.close()


def test_a_writer_waits_for_another(tmp_path: Path) -> None:
    path = tmp_path / "responses.db"
    store = opened(path)
    store.check()
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    timer = threading.Timer(0.3, lambda: other.execute("ROLLBACK"))
    timer.start()
    store.responses.put(response("r1"))
    timer.join()
    assert store.responses.get(A, "r1").id == "r1"
    other.close()
    store.close()


def test_a_deleted_file_is_not_written_to_any_more(tmp_path: Path) -> None:
    """Otherwise everything would go to a file that is gone, until the next restart."""
    path = tmp_path / "responses.db"
    store = opened(path)
    store.responses.put(response("r1"))
    for file in tmp_path.iterdir():
        file.unlink()
    store.responses.put(response("r2"))
    store.close()
    again = opened(path)
    assert again.responses.get(A, "r2").id == "r2"
    again.close()


def test_a_damaged_file_is_reported_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "responses.db"
    path.write_bytes(b"this is not a database" * 100)
    store = opened(path)
    with pytest.raises(StoreDamaged):
        store.responses.put(response("r1"))
    assert path.read_bytes().startswith(b"this is not")
    store.close()


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    store = opened(tmp_path / "file" / "responses.db")
    with pytest.raises(StoreAway, match="cannot open"):
        store.check()
    store.close()


def test_a_closed_store(tmp_path: Path) -> None:
    store = opened(tmp_path / "responses.db")
    store.responses.put(response("r1"))
    store.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        store.responses.get(A, "r1")


def test_reading_does_not_wait_for_a_writer(tmp_path: Path) -> None:
    path = tmp_path / "responses.db"
    store = opened(path)
    store.responses.put(response("r1"))
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    other.execute("UPDATE trl_response SET status = 'changed'")
    start = time.monotonic()
    assert store.responses.get(A, "r1").status == "completed"
    assert time.monotonic() - start < 1.0
    other.execute("ROLLBACK")
    other.close()
    store.close()


def test_kill_of_a_process_in_the_middle_of_a_transaction(tmp_path: Path) -> None:
    source = """
        import os, signal, sys
        from pathlib import Path
        from tests.state.responses.making import KEY, response
        from trilogue.gateway.conversations.store.store import ResponseStore
        from trilogue.storage.sqlite import SqliteDatabase
        from trilogue.storage.sqlite import SqliteDatabase
        store = ResponseStore(SqliteDatabase(Path(sys.argv[1])), [KEY])
        store.responses.put(response("acknowledged"))
        def die():
            store.responses.put(response("half"))
            os.kill(os.getpid(), signal.SIGKILL)
        store.together([die])
    """
    process = child(source, tmp_path / "responses.db")
    assert process.wait(30) == -signal.SIGKILL
    assert process.stdout is not None
    process.stdout.close()
    store = opened(tmp_path / "responses.db")
    assert store.responses.get(A, "acknowledged").id == "acknowledged"
    with pytest.raises(NotFound):
        store.responses.get(A, "half")
    assert os.path.getsize(tmp_path / "responses.db") > 0
    store.close()
