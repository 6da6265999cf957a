"""What stores need of a database engine: connections, errors of one kind, and how its SQL is spelled.

Statements use `?` for values. Engines raise nothing but `StoreError`, and never with a value in its text. The engines
are in `sqlite` and `postgresql`; `transactions` and `records` are how the gateway uses them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from msgspec import Struct

from trilogue.errors import TrilogueError

Row = tuple[Any, ...]


class StoreError(TrilogueError):
    """A store that did not do what was asked. Base of the three reasons below."""


class StoreUnavailable(StoreError):
    """A store that cannot be used for now: out of reach, full, not writable or closed. What it holds may be fine."""


class StoreBusy(StoreUnavailable):
    """A store that another writer holds for longer than a caller wants to wait."""


class StoreAway(StoreUnavailable):
    """A store that could not be reached. Nothing was written."""


class CommitUnsure(StoreUnavailable):
    """A store that was lost during a commit, so that the write may or may not have happened."""


class StoreDamaged(StoreError):
    """A store whose content cannot be what was written. `replace_damaged` starts an empty one."""


class StoreHealth(Struct, frozen=True):
    """How a process gets on with a store. `failing`: the last use of it failed, and it was not used since.

    `waiting`: writes that are not done yet. `failures`: reads and writes that failed for good so far.
    """

    failing: bool = False
    waiting: int = 0
    failures: int = 0


class Dialect(Struct, frozen=True):
    """How an engine spells what the standard leaves open."""

    serial: str
    real: str
    blob: str
    clustered: str
    """ends the definition of a table whose rows are stored in its primary key"""
    has_table: str
    """a query that returns a row if the table of this name exists"""
    lock_migrations: str
    """a query that waits until no other process migrates, in a transaction"""
    begin_snapshot: str
    """begins a transaction that only reads, and sees nothing of what others write meanwhile"""
    placeholder: str
    append_only: tuple[str, ...]
    """statements that make a table, called TABLE, refuse every change of its rows; its key is `seq`"""
    for_update: str
    """ends a query whose rows nobody else may change before the transaction ends"""


class DatabaseConnection(ABC):
    """One thread's connection. Statements outside a transaction commit themselves."""

    def check(self) -> None:
        """Look for damage, as far as the engine does not. Raise StoreDamaged."""
        return

    @abstractmethod
    def execute(self, statement: str, values: Sequence[object] = ()) -> list[Row]:
        """Run a statement and return its rows. Raise StoreError; StoreAway means that the connection is lost."""

    @abstractmethod
    def execute_many(self, statement: str, rows: Iterable[Sequence[object]]) -> None:
        """Run a statement once for each row of values."""

    @abstractmethod
    def begin(self) -> None:
        """Begin a transaction that will write. Raise StoreBusy or StoreAway."""

    @abstractmethod
    def commit(self) -> None:
        """Make the transaction durable. Raise CommitUnsure if it is unknown whether it is."""

    @abstractmethod
    def rollback(self) -> None:
        """Undo the transaction. Never raises: a connection that is lost has undone it."""

    @abstractmethod
    def usable(self) -> bool:
        """Return False if the connection is lost, or leads to a file that was deleted or replaced."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection. Never raises."""


class Database(ABC):
    """One database. `name`: where it is, for messages, without a password."""

    name: str
    dialect: Dialect
    exclusive: AbstractContextManager[object] = nullcontext()
    """held during every read and every transaction, by engines that have only one connection"""

    @abstractmethod
    def connect(self) -> DatabaseConnection:
        """Connect, and create the database if the engine can. Raise StoreError."""

    def begin_anew(self, is_damaged: Callable[[], bool]) -> bool:
        """Begin with an empty database if this one is damaged and is a file. Return whether it was. Raise StoreError.

        `is_damaged`: whether it is, asked when no other process is about to do the same.
        """
        return False

    @abstractmethod
    def now(self) -> float:
        """Return seconds since the epoch, by a clock that all machines with this database share."""
