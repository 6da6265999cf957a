"""The database of the store of responses, and what its parts share: encryption, limits, and usage per owner."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from trilogue.gateway.conversations.store.contents import Contents
from trilogue.gateway.conversations.store.interface import StoreLimits
from trilogue.gateway.conversations.store.schema import SCHEMA
from trilogue.storage.database import Database, DatabaseConnection
from trilogue.storage.transactions import SqlTransaction, Transactions

T = TypeVar("T")
P = ParamSpec("P")

MAX_ID = 256


class DatabaseTransaction(SqlTransaction):
    """The statements of one thread. `charges`: bytes added or freed per owner."""

    def __init__(self, connection: DatabaseConnection, now: float) -> None:
        super().__init__(connection, now)
        self.charges: dict[str, int] = {}

    def charge(self, owner: str, size: int) -> None:
        """Count bytes that were added, or freed if negative."""
        self.charges[owner] = self.charges.get(owner, 0) + size


class Storage(Transactions[DatabaseTransaction]):
    """A database with its encryption and limits. `settle` applies `charges` and the limits."""

    def __init__(self, database: Database, contents: Contents, limits: StoreLimits) -> None:
        super().__init__(database, SCHEMA, DatabaseTransaction)
        self.contents = contents
        self.limits = limits


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
