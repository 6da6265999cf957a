"""Transactions on a database, for the parts of the store: one connection per thread, migrations, and usage per owner.

`read` and `write` run a function with a `DatabaseTransaction`. They nest: a write inside a write joins it, which is how
several operations, or the operations of several requests, share one commit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from trilogue.state.responses.connection import Database, DatabaseConnection, Row
from trilogue.state.responses.contents import Contents
from trilogue.state.responses.interface import StoreAway, StoreLimits, StoreUnavailable
from trilogue.state.responses.migrate import migrate

T = TypeVar("T")
P = ParamSpec("P")

MAX_ID = 256


class DatabaseTransaction:
    """The statements of one thread. `now`: the time of the transaction. `charges`: bytes added or freed per owner."""

    def __init__(self, connection: DatabaseConnection, now: float) -> None:
        self._connection = connection
        self.now = now
        self.charges: dict[str, int] = {}

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

    def charge(self, owner: str, size: int) -> None:
        """Count bytes that were added, or freed if negative."""
        self.charges[owner] = self.charges.get(owner, 0) + size


class Storage:
    """A database with its encryption and limits. Safe for threads. Connects on first use."""

    def __init__(self, database: Database, contents: Contents, limits: StoreLimits) -> None:
        self.database = database
        self.contents = contents
        self.limits = limits
        self.settle: Callable[[DatabaseTransaction], None] = lambda transaction: None
        """runs before each commit: applies `charges` and the limits"""
        self._threads = threading.local()
        self._lock = threading.Lock()
        self._connections: set[DatabaseConnection] = set()
        self._closed = False

    def read(self, work: Callable[[DatabaseTransaction], T]) -> T:
        """Run a function that only reads, once more if the connection was lost meanwhile."""
        active: DatabaseTransaction | None = getattr(self._threads, "active", None)
        if active is not None:
            return work(active)
        with self.database.exclusive:
            try:
                return work(DatabaseTransaction(self._connection(), self.database.now()))
            except StoreAway:
                self._drop()
            return work(DatabaseTransaction(self._connection(), self.database.now()))

    def write(self, work: Callable[[DatabaseTransaction], T]) -> T:
        """Run a function in a transaction, and commit. If it raises, nothing was written; but see CommitUnsure."""
        active: DatabaseTransaction | None = getattr(self._threads, "active", None)
        if active is not None:
            return work(active)
        with self.database.exclusive:
            connection = self._begin()
            transaction = self._threads.active = DatabaseTransaction(connection, self.database.now())
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

    def close(self) -> None:
        """Close all connections. Later calls raise StoreUnavailable."""
        self._closed = True
        with self._lock:
            connections, self._connections = self._connections, set()
        for connection in connections:
            connection.close()

    def _begin(self) -> DatabaseConnection:
        connection = self._connection()
        try:
            connection.begin()
        except StoreAway:
            # The server was restarted since this connection was last used: nothing was sent, so try a new one.
            self._drop()
            connection = self._connection()
            connection.begin()
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
            migrate(connection, self.database.dialect)
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


class StorePart:
    """A part of the store: responses, conversations, jobs, reasoning or owners."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._contents = storage.contents
        self._limits = storage.limits

    def run_read(self, work: Callable[[DatabaseTransaction], T]) -> T:
        """Run a function that only reads and return its result, as `Storage.read` does."""
        return self._storage.read(work)

    def run_write(self, work: Callable[[DatabaseTransaction], T]) -> T:
        """Run a function in a transaction and return its result, as `Storage.write` does."""
        return self._storage.write(work)


S = TypeVar("S", bound=StorePart)


def reading(method: Callable[Concatenate[S, DatabaseTransaction, P], T]) -> Callable[Concatenate[S, P], T]:
    """Make a method that takes a transaction into one that runs in a transaction of its own, to read."""

    @wraps(method)
    def run(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.run_read(lambda transaction: method(self, transaction, *args, **kwargs))

    return run


def writing(method: Callable[Concatenate[S, DatabaseTransaction, P], T]) -> Callable[Concatenate[S, P], T]:
    """Make a method that takes a transaction into one that joins the current transaction or commits its own."""

    @wraps(method)
    def run(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.run_write(lambda transaction: method(self, transaction, *args, **kwargs))

    return run


def is_storable(identifier: str) -> bool:
    """Return whether an id can be a key in every engine: no NUL, no surrogates, and short enough for an index."""
    return 0 < len(identifier) <= MAX_ID and identifier.isprintable()
