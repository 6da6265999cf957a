"""Transactions on a database: one connection per thread, and migrations on first use.

`read` and `write` run a function with a `SqlTransaction`. They nest: a write inside a write joins it, which is how
several operations, or the operations of several requests, share one commit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

from trilogue.storage.database import Database, DatabaseConnection, Row, StoreAway, StoreUnavailable
from trilogue.storage.migrations import TableSchema, migrate

T = TypeVar("T")


class SqlTransaction:
    """The statements of one thread. `now`: the time of the transaction."""

    def __init__(self, connection: DatabaseConnection, now: float) -> None:
        self._connection = connection
        self.now = now

    def rows(self, statement: str, *values: object) -> list[Row]:
        """Run a statement and return its rows."""
        return self._connection.execute(statement, values)

    def first(self, statement: str, *values: object) -> Row | None:
        """Run a statement and return its first row, or None."""
        rows = self._connection.execute(statement, values)
        return rows[0] if rows else None

    def each(self, statement: str, rows: Iterable[Sequence[object]]) -> None:
        """Run a statement once for each row of values."""
        self._connection.execute_many(statement, rows)


OfStore = TypeVar("OfStore", bound=SqlTransaction)


class Transactions(Generic[OfStore]):
    """A database with its tables. Safe for threads. Connects on first use. `kind`: the class of its transactions."""

    def __init__(
        self, database: Database, schema: TableSchema, kind: Callable[[DatabaseConnection, float], OfStore]
    ) -> None:
        self.database = database
        self.settle: Callable[[OfStore], None] = lambda transaction: None
        """runs before each commit"""
        self._schema = schema
        self._kind = kind
        self._threads = threading.local()
        self._lock = threading.Lock()
        self._connections: set[DatabaseConnection] = set()
        self._closed = False

    def read(self, work: Callable[[OfStore], T]) -> T:
        """Run a function that only reads, once more if the connection was lost meanwhile."""
        active: OfStore | None = getattr(self._threads, "active", None)
        if active is not None:
            return work(active)
        with self.database.exclusive:
            try:
                return work(self._kind(self._connection(), self.database.now()))
            except StoreAway:
                self._drop()
            return work(self._kind(self._connection(), self.database.now()))

    def snapshot(self, work: Callable[[OfStore], T]) -> T:
        """Run a function that only reads, and to which all its statements show the same state of the database."""
        with self.database.exclusive:
            connection = self._begin(self.database.dialect.begin_snapshot)
            try:
                return work(self._kind(connection, self.database.now()))
            finally:
                connection.rollback()

    def write(self, work: Callable[[OfStore], T]) -> T:
        """Run a function in a transaction, and commit. If it raises, nothing was written; but see CommitUnsure."""
        active: OfStore | None = getattr(self._threads, "active", None)
        if active is not None:
            return work(active)
        with self.database.exclusive:
            connection = self._begin()
            transaction = self._threads.active = self._kind(connection, self.database.now())
            try:
                result = work(transaction)
                self.settle(transaction)
                connection.commit()
            except BaseException:
                connection.rollback()
                raise
            finally:
                self._threads.active = None
            return result

    def check(self) -> None:
        """Connect, create or migrate the tables, and look for damage. Raise StoreError."""
        with self.database.exclusive:
            self._connection().check()

    def close(self) -> None:
        """Close all connections. Later calls raise StoreUnavailable."""
        self._closed = True
        with self._lock:
            connections, self._connections = self._connections, set()
        for connection in connections:
            connection.close()

    def _begin(self, statement: str = "") -> DatabaseConnection:
        """Return the connection with a transaction that will write, or with the one that a statement begins."""
        connection = self._connection()
        try:
            _start(connection, statement)
        except StoreAway:
            # The server was restarted since this connection was last used: nothing was sent, so try a new one.
            self._drop()
            connection = self._connection()
            _start(connection, statement)
        return connection

    def _connection(self) -> DatabaseConnection:
        if self._closed:
            raise StoreUnavailable(f"{self.database.name} was closed")
        connection: DatabaseConnection | None = getattr(self._threads, "connection", None)
        if connection is not None:
            if connection.usable():
                return connection
            self._drop()
        connection = self.database.connect()
        try:
            migrate(connection, self.database.dialect, self._schema)
        except BaseException:
            connection.close()
            raise
        with self._lock:
            self._connections.add(connection)
        self._threads.connection = connection
        return connection

    def _drop(self) -> None:
        connection: DatabaseConnection | None = getattr(self._threads, "connection", None)
        if connection is not None:
            self._threads.connection = None
            with self._lock:
                self._connections.discard(connection)
            connection.close()


def _start(connection: DatabaseConnection, statement: str) -> None:
    if statement:
        connection.execute(statement)
    else:
        connection.begin()
