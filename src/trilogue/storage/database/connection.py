"""What the store needs of a database engine: connections, transactions and errors of one kind.

Statements use `?` for values. Engines raise nothing but `StoreError`, and never with a value in its text.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from trilogue.storage.database.dialect import Dialect

Row = tuple[Any, ...]


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
