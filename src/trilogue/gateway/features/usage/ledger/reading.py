"""Sums of the usage ledger by any of its columns: from the table, and from live files that were not added yet.

Works while gateways run, and when none does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

from msgspec import Struct

from trilogue.gateway.features.usage.ledger.counts import HOURS_PER_DAY, NO_COUNTS, Counts, RowName
from trilogue.gateway.features.usage.ledger.live_file import Place, live_files, read_places
from trilogue.gateway.features.usage.ledger.tables import LedgerTables, SumsQuery
from trilogue.storage.database import Row

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST_HOUR = 2**40
PICO = Decimal(10) ** 12

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "day": ("day",),
    "hour": ("hour",),
    "key": ("key",),
    "owner": ("owner",),
    "model": ("model",),
    "upstream_model": ("upstream_model",),
    "provider": ("provider",),
    # Two providers may have accounts of the same name.
    "account": ("provider", "account"),
}
"""what usage can be summed by, and the columns that this needs"""


class UsageQuery(Struct, frozen=True, kw_only=True):
    """What to sum. `by`: names of `COLUMNS`; without any, there is one sum of all. `only`: values they must have.

    `start` and `end`: the first hour since the epoch, and the hour after the last one.
    """

    by: tuple[str, ...] = ()
    start: int = 0
    end: int = LAST_HOUR
    only: Mapping[str, str] = {}


class UsageLine(Struct, frozen=True):
    """One sum. `names`: the values of the query's columns, as text, in their order."""

    names: tuple[str, ...]
    counts: Counts

    @property
    def cost(self) -> Decimal | None:
        """The cost in dollars of the requests whose cost is known; None if there are none."""
        counts = self.counts
        return None if counts.requests and counts.unpriced == counts.requests else Decimal(counts.cost) / PICO

    @property
    def reserved(self) -> Decimal:
        """What budgets were charged for requests whose cost is unknown, in dollars."""
        return Decimal(self.counts.reserved) / PICO


def read_usage(tables: LedgerTables | None, folder: Path, query: UsageQuery) -> list[UsageLine]:
    """Return the sums in order of their names. `tables`: None if there are none yet. Raise StoreError."""
    # The files come first: what is moved to the table meanwhile is then known to be there, and not counted twice.
    files = {path.stem: read_places(path) for path in live_files(folder)}
    columns = tuple(dict.fromkeys(column for name in query.by for column in COLUMNS[name]))
    asked = SumsQuery(columns, query.start, query.end, query.only)
    sums: dict[Row, Counts] = {}
    parts: Mapping[tuple[str, int], Counts] = {}
    if tables is not None:
        found = tables.sums(asked, files)
        sums, parts = dict(found.groups), found.parts
    for file, places in files.items():
        for place in places:
            added = _not_added(place, parts.get((file, place[0]), NO_COUNTS), query)
            if added.requests:
                group = tuple(_value(place[1], column) for column in columns)
                sums[group] = sums.get(group, NO_COUNTS).plus(added)
    lines = [(_names(dict(zip(columns, group, strict=True)), query.by), counts) for group, counts in sums.items()]
    return [UsageLine(names, counts) for names, counts in sorted(lines)]


def total_of(lines: Sequence[UsageLine]) -> UsageLine:
    """Return the sum of all lines, without names."""
    total = NO_COUNTS
    for line in lines:
        total = total.plus(line.counts)
    return UsageLine((), total)


def _not_added(place: Place, part: Counts, query: UsageQuery) -> Counts:
    """Return what the table does not have of a row, if the query is about the row at all."""
    _, name, counts = place
    wanted = query.start <= name.hour < query.end
    matches = all(getattr(name, column) == value for column, value in query.only.items())
    return counts.since(part) if wanted and matches else NO_COUNTS


def _value(name: RowName, column: str) -> object:
    return name.hour // HOURS_PER_DAY if column == "day" else getattr(name, column)


def _names(values: Mapping[str, object], by: Sequence[str]) -> tuple[str, ...]:
    return tuple(_shown(values, name) for name in by)


def _shown(values: Mapping[str, object], name: str) -> str:
    """Return the value of a column as text: times in the form of ISO 8601, accounts with their provider."""
    value = values[name]
    if name == "day":
        return f"{EPOCH + timedelta(days=_number(value)):%Y-%m-%d}"
    if name == "hour":
        return f"{EPOCH + timedelta(hours=_number(value)):%Y-%m-%dT%H:00Z}"
    return f"{values['provider']}/{value}" if name == "account" else str(value)


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
