"""Writes notes in a thread of its own, so that no request waits for a disk.

Whatever the disk does, `put` returns at once and never raises. While the file cannot be written the newest note on each
thing is kept, up to a limit, and written when it can be again.
"""

from __future__ import annotations

import queue
import sqlite3
import threading
import time
from contextlib import suppress

import structlog

from trilogue.state.file import FAILURES, Note, StateFile, prune, write

log = structlog.get_logger("trilogue.state")

MAX_QUEUED = 20_000
MAX_PENDING = 50_000
RETRY_SECONDS = 0.5
BUSY_SECONDS = 1.0
PRUNE_SECONDS = 600.0
PRUNE_NOTES = 1_000
"""notes after which the file is pruned, however little time has passed"""


class Writer:
    """The writing side of one process."""

    def __init__(self, file: StateFile, worker: str) -> None:
        self._file = file
        self._worker = worker
        self._queue: queue.Queue[Note | None] = queue.Queue(MAX_QUEUED)
        self._pending: dict[tuple[str, str], Note] = {}
        self._connection: sqlite3.Connection | None = None
        self._inode: int | None = None
        self._closing = False
        self._pruned_at = 0.0
        self._unpruned = 0
        """notes written since then"""
        self._thread = threading.Thread(target=self._run, name="trilogue-state", daemon=True)
        self.failing = False
        self.dropped = 0
        """notes that were lost because too many were waiting"""
        self.begun_anew = False
        """the file was put aside: the new one is empty"""
        self._thread.start()

    def put(self, note: Note) -> None:
        """Write it soon."""
        try:
            self._queue.put_nowait(note)
        except queue.Full:
            self.dropped += 1

    def close(self, timeout: float = 2.0) -> None:
        """Write what is left, within a time."""
        self._closing = True
        with suppress(queue.Full):
            self._queue.put_nowait(None)
        self._thread.join(timeout)

    def _run(self) -> None:
        while not (self._closing and self._queue.empty()):
            self._collect()
            if self._pending and not self._write():
                if self._closing:
                    self._write()  # a file that was found broken just now is a new one by now
                    break
                time.sleep(RETRY_SECONDS)
        if self._connection is not None:
            self._connection.close()

    def _collect(self) -> None:
        """Wait for a note, unless some are waiting, and take all that are there."""
        try:
            note = self._queue.get(timeout=RETRY_SECONDS if self._pending else 60.0)
            while True:
                if note is not None:
                    self._keep(note)
                note = self._queue.get_nowait()
        except queue.Empty:
            pass

    def _keep(self, note: Note) -> None:
        key = (note.kind, note.id)
        if len(self._pending) >= MAX_PENDING and key not in self._pending:
            self.dropped += 1
        else:
            self._pending[key] = note

    def _write(self) -> bool:
        try:
            self._follow()
            if self._connection is None:
                self._connection = self._file.connect(BUSY_SECONDS)
                self._inode = self._file.inode()
            write(self._connection, self._worker, list(self._pending.values()))
            self._prune(self._connection)
        except FAILURES as error:
            self._trouble(error)
            return False
        self._pending.clear()
        if self.failing:
            self.failing = False
            log.info("the state file is written again", path=str(self._file.path))
        return True

    def _follow(self) -> None:
        """Someone has put the file aside: nobody reads the old one any more."""
        if self._connection is not None and self._file.inode() != self._inode:
            self._connection.close()
            self._connection = None

    def _prune(self, connection: sqlite3.Connection) -> None:
        now = time.time()
        self._unpruned += len(self._pending)
        if now - self._pruned_at > PRUNE_SECONDS or self._unpruned >= PRUNE_NOTES:
            self._pruned_at, self._unpruned = now, 0
            prune(connection, now)

    def _trouble(self, error: Exception) -> None:
        """Warn once per trouble, and begin a new file if this one is broken."""
        if not self.failing:
            self.failing = True
            log.warning(
                "the state file cannot be written: cooling and stickiness are kept in memory only",
                path=str(self._file.path),
                error=str(error),
            )
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._file.is_to_blame(error) and put_aside(self._file):
            self.begun_anew = True


def put_aside(file: StateFile) -> bool:
    """Put a broken file aside; whether that was done."""
    try:
        done = file.put_aside()
    except OSError:
        return False
    if done:
        log.warning("the state file was broken: it was put aside and a new one begun", path=str(file.path))
    return done
