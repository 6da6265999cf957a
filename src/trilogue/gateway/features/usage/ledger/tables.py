"""The table of all rows of the usage ledger, and how much of each live file is in it, on any database engine.

After `HOURLY_DAYS`, the hours of a day become one row, so that a year takes little room.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import astuple

from trilogue.gateway.features.usage.ledger.live_file import (
    HOUR_SECONDS,
    HOURS_PER_DAY,
    NO_COUNTS,
    Counts,
    Place,
    RowName,
    live_files,
    read_places,
)
from trilogue.storage.database import Database, Row
from trilogue.storage.migrations import Migration, TableSchema
from trilogue.storage.sqlite import SqliteDatabase
from trilogue.storage.transactions import SqlTransaction, Transactions

HOURLY_DAYS = 31
KEPT_PARTS_HOURS = 90 * HOURS_PER_DAY
"""How long it is remembered what of a live file is in the table. A machine may come back with the file."""

NAMES = RowName.__struct_fields__
_COLUMNS = {"key": "client_key"}
SPLIT = 1_000_000
"""Costs are summed in two parts: their sum may not fit into the integers of a database."""
_WORDS = {
    "NAMES": ", ".join(_COLUMNS.get(name, name) for name in NAMES),
    "COUNTS": ", ".join(Counts._fields),
    "VALUES": ", ".join("?" * (len(NAMES) + len(Counts._fields))),
    "DEFINED": ", ".join(f"{name} BIGINT NOT NULL" for name in Counts._fields if name != "reserved"),
    "ADDED": ", ".join(f"{name} = trl_ledger.{name} + excluded.{name}" for name in Counts._fields),
    # Without the operator `%`, which the library for PostgreSQL takes for a placeholder.
    "HOUR_OF_DAY": "(hour - hour / 24 * 24)",
    "SUMS": ", ".join(
        [
            *(f"sum({name})" for name in Counts._fields if name not in ("cost", "reserved")),
            *(f"sum({name} / {SPLIT}), sum({name} - {name} / {SPLIT} * {SPLIT})" for name in ("cost", "reserved")),
        ]
    ),
}


def _spelled(statement: str) -> str:
    """Return a statement with the words in capitals replaced that stand for lists of columns."""
    for word, meaning in _WORDS.items():
        statement = statement.replace(f"<{word}>", meaning)
    return statement


SCHEMA = TableSchema(
    "trl_ledger_migration",
    (
        Migration(
            1,
            (
                _spelled(
                    "CREATE TABLE trl_ledger (hour BIGINT NOT NULL, client_key TEXT NOT NULL, owner TEXT NOT NULL, "
                    "model TEXT NOT NULL, upstream_model TEXT NOT NULL, provider TEXT NOT NULL, account TEXT NOT NULL, "
                    "<DEFINED>, PRIMARY KEY (<NAMES>) {clustered}"
                ),
                # How much of each place of each live file is in the table.
                "CREATE TABLE trl_ledger_part (file TEXT NOT NULL, place INTEGER NOT NULL, hour BIGINT NOT NULL, "
                "counts TEXT NOT NULL, PRIMARY KEY (file, place) {clustered}",
            ),
        ),
        Migration(2, ("ALTER TABLE trl_ledger ADD COLUMN reserved BIGINT NOT NULL DEFAULT 0",)),
    ),
)

_ADD = _spelled(
    "INSERT INTO trl_ledger (<NAMES>, <COUNTS>) VALUES (<VALUES>) ON CONFLICT (<NAMES>) DO UPDATE SET <ADDED>"
)
_PARTS = "SELECT place, counts FROM trl_ledger_part WHERE file = ?"
_SET_PART = (
    "INSERT INTO trl_ledger_part (file, place, hour, counts) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (file, place) DO UPDATE SET counts = excluded.counts, hour = excluded.hour"
)
_FIRST_OLD_HOUR = _spelled("SELECT min(hour) FROM trl_ledger WHERE hour < ? AND <HOUR_OF_DAY> <> 0")
# One statement, so that of two machines only one gets a row.
_TAKE_OLD_HOURS = _spelled(
    "DELETE FROM trl_ledger WHERE hour >= ? AND hour < ? AND <HOUR_OF_DAY> <> 0 RETURNING <NAMES>, <COUNTS>"
)
_NEWEST_MIGRATION = SCHEMA.spelled("SELECT max(number) FROM VERSIONS")
_DROP_ROWS = "DELETE FROM trl_ledger WHERE hour < ?"
_DROP_PARTS = "DELETE FROM trl_ledger_part WHERE hour < ?"


class SumsQuery(NamedTuple):
    """A query for sums by some columns: fields of `RowName`, or `day`. `only`: values that columns must have.

    `start` and `end`: the first hour, and the hour after the last.
    """

    columns: Sequence[str]
    start: int
    end: int
    only: Mapping[str, str]


class Sums(NamedTuple):
    """What a database says about a query. `groups`: the sums by the values of its columns, in their order.

    `parts`: how much of each place of each live file the sums contain.
    """

    groups: list[tuple[Row, Counts]]
    parts: dict[tuple[str, int], Counts]


class LedgerTables:
    """The ledger in one database. Every method may block; use it from threads."""

    def __init__(self, database: Database) -> None:
        self._transactions = Transactions(database, SCHEMA, SqlTransaction)

    @property
    def name(self) -> str:
        """Where the ledger is, for messages; no password."""
        return self._transactions.database.name

    @property
    def is_file(self) -> bool:
        """Whether it is in a file of this machine."""
        return isinstance(self._transactions.database, SqliteDatabase)

    def check(self) -> None:
        """Connect, create or migrate the tables, and look for damage. Raise StoreError."""
        self._transactions.check()

    def add(self, file: str, places: Sequence[Place]) -> None:
        """Add what is new in places of a live file. Adding the same again has no effect. Raise StoreError."""
        self._transactions.write(lambda transaction: _add(transaction, file, places))

    def sums(self, asked: SumsQuery, files: Iterable[str] = ()) -> Sums:
        """Return sums, and how much of each place of these live files they contain. Raise StoreError."""
        statement, values = _query(asked)

        def read(transaction: SqlTransaction) -> Sums:
            rows = transaction.rows(statement, *values)
            groups = [_group(row, len(asked.columns)) for row in rows if row[-1] is not None]
            parts = {
                (file, place): _unpacked(counts) for file in files for place, counts in transaction.rows(_PARTS, file)
            }
            return Sums(groups, parts)

        return self._transactions.snapshot(read)

    def prune(self, days: float) -> int:
        """Delete rows that are older than this, and merge the hours of a day that is old. Raise StoreError.

        Return how many hourly rows were merged; there may be more.
        """
        return self._transactions.write(lambda transaction: _prune(transaction, days))

    def close(self) -> None:
        """Close all connections."""
        self._transactions.close()


def _add(transaction: SqlTransaction, file: str, places: Sequence[Place]) -> None:
    before = {place: _unpacked(counts) for place, counts in transaction.rows(_PARTS, file)}
    added = [(name, counts.since(before.get(number, NO_COUNTS))) for number, name, counts in places]
    # In order, so that two machines never wait for each other's rows.
    transaction.each(_ADD, [(*astuple(name), *counts) for name, counts in sorted(added) if counts.requests])
    transaction.each(_SET_PART, [(file, number, name.hour, _packed(counts)) for number, name, counts in places])


def _query(asked: SumsQuery) -> tuple[str, list[object]]:
    selected = ["hour / 24" if name == "day" else _COLUMNS.get(name, name) for name in asked.columns]
    conditions = ["hour >= ?", "hour < ?", *(f"{_COLUMNS.get(name, name)} = ?" for name in asked.only)]
    parts = ["SELECT", ", ".join([*selected, _WORDS["SUMS"]]), "FROM trl_ledger WHERE", " AND ".join(conditions)]
    if selected:
        parts += ["GROUP BY", ", ".join(selected)]
    return " ".join(parts), [asked.start, asked.end, *asked.only.values()]


def _group(row: Row, columns: int) -> tuple[Row, Counts]:
    *sums, millions, rest, more_millions, more_rest = (int(value) for value in row[columns:])
    return row[:columns], Counts._make([*sums, millions * SPLIT + rest, more_millions * SPLIT + more_rest])


def _prune(transaction: SqlTransaction, days: float) -> int:
    now = int(transaction.now) // HOUR_SECONDS
    transaction.rows(_DROP_ROWS, now - int(days * HOURS_PER_DAY))
    transaction.rows(_DROP_PARTS, now - KEPT_PARTS_HOURS)
    newest = transaction.first(_NEWEST_MIGRATION)
    if newest is None or newest[0] > SCHEMA.migrations[-1].number:
        # A newer version may count what this one does not know, and would lose here.
        return 0
    row = transaction.first(_FIRST_OLD_HOUR, now - HOURLY_DAYS * HOURS_PER_DAY)
    if row is None or row[0] is None:
        return 0
    start = row[0] - row[0] % HOURS_PER_DAY
    old = transaction.rows(_TAKE_OLD_HOURS, start, start + HOURS_PER_DAY)
    transaction.each(_ADD, sorted((start, *values) for _, *values in old))
    return len(old)


def _packed(counts: Iterable[int]) -> str:
    return " ".join(map(str, counts))


def _unpacked(text: str) -> Counts:
    """Return counts from a text. A newer version may have added some at the end."""
    return Counts(*map(int, text.split()[: len(Counts._fields)]))


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
