"""The store in the memory of one process, for tests and for `state: none`. It is SQLite without a file."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from trilogue.storage.database.connection import Database, DatabaseConnection
from trilogue.storage.database.dialect import SQLITE
from trilogue.storage.database.sqlite import SqliteConnection


class MemoryDatabase(Database):
    """A database that ends with its process. Its threads take turns. `clock`: for tests."""

    name = "the store in memory"
    dialect = SQLITE

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self.exclusive = threading.RLock()
        self._connection: SqliteConnection | None = None

    def connect(self) -> DatabaseConnection:
        """Return the connection that all threads share, opened by the first call."""
        with self.exclusive:
            if self._connection is None:
                self._connection = SqliteConnection(None)
                self._connection.execute("PRAGMA foreign_keys = ON")
            return self._connection

    def now(self) -> float:
        """Return the time of this process."""
        return self._clock()
