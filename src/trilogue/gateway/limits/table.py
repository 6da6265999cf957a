"""The interface of a table of rows that several processes count in, and one in the memory of a single process.

tests/limits/test_tables.py holds every implementation to what the docstrings promise.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from trilogue.gateway.limits.counters import ROW, RUNNING, Row
from trilogue.storage.database import StoreUnavailable


class LimitTable(ABC):
    """Rows by the name of a subject. What a process adds to `RUNNING` and to reservations ends with the process."""

    @abstractmethod
    def rows(self, names: Sequence[str]) -> AbstractContextManager[list[Row]]:
        """Return the rows of subjects, to read and change until the block ends. No other process does meanwhile.

        Raise LimitsFull if there is no room for a new subject.
        """

    @abstractmethod
    def has(self, name: str) -> bool:
        """Return whether there is a row of this subject."""

    def reclaim(self) -> int:
        """Take back what dead processes held; return how many there were. Call it now and then."""
        return 0

    @property
    def lost(self) -> str:
        """What was found damaged, so that counts were lost: a file; "" if nothing was."""
        return ""

    @property
    def is_unknown(self) -> bool:
        """Whether counts were lost, and what was spent could not be found out elsewhere."""
        return False

    def stay_unknown(self) -> None:
        """Remember that it could not be found out: what is counted elsewhere from now on does not say it either."""
        return

    @abstractmethod
    def close(self) -> None:
        """Give back what this process holds: its running requests and reservations count as ended."""


class LimitsFull(Exception):
    """There are more subjects than a table has room for."""


class LazyTable(LimitTable):
    """A table that is made when the first request needs it: most gateways have no limits."""

    def __init__(self, make: Callable[[], LimitTable]) -> None:
        self._make = make
        self._table: LimitTable | None = None

    def rows(self, names: Sequence[str]) -> AbstractContextManager[list[Row]]:
        """Return the rows of subjects."""
        if self._table is None:
            self._table = self._make()
        return self._table.rows(names)

    def has(self, name: str) -> bool:
        """Return whether there is a row of this subject."""
        return self._table is not None and self._table.has(name)

    def reclaim(self) -> int:
        """Take back what dead processes held."""
        return 0 if self._table is None else self._table.reclaim()

    @property
    def lost(self) -> str:
        """What was found damaged."""
        return "" if self._table is None else self._table.lost

    @property
    def is_unknown(self) -> bool:
        """Whether it could not be found out what was spent."""
        return self._table is not None and self._table.is_unknown

    def stay_unknown(self) -> None:
        """Remember that it could not be found out."""
        if self._table is not None:
            self._table.stay_unknown()

    def close(self) -> None:
        """Close the table if there is one."""
        if self._table is not None:
            self._table.close()


class MemoryTable(LimitTable):
    """A table of one process."""

    def __init__(self) -> None:
        self._rows: dict[str, Row] = {}

    @contextmanager
    def rows(self, names: Sequence[str]) -> Iterator[list[Row]]:
        """Return the rows of subjects."""
        yield [self._rows.setdefault(name, [0] * ROW) for name in names]

    def has(self, name: str) -> bool:
        """Return whether there is a row of this subject."""
        return name in self._rows

    def close(self) -> None:
        """End all running requests."""
        for row in self._rows.values():
            row[RUNNING] = 0


class SpendingUnknown(StoreUnavailable):
    """Counts were lost, and nothing else says what was spent. It will not be found out later either."""
