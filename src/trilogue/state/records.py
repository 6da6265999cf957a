"""What processes have counted: each writes its own sums, so that nothing is counted twice or lost.

When a process has gone, its counts are added to those of `BASE` and its own become nothing.

Changes of the pool as notes of the state file, and back.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator

import msgspec
from msgspec.structs import replace

from trilogue.pool import Adjusted, Bound, Change, Cooled, Erred, Learned, Switched, Tally
from trilogue.state.file import MODEL_REST, Note, checked, insert, transaction

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Cooled | Switched | Erred | Adjusted | Bound | Learned | Tally).decode


def to_notes(changes: Iterable[Change], worker: str, now: float) -> Iterator[Note]:
    """One note for each thing that changed. "No longer at rest" is the newest word on both kinds of rest."""
    for change in changes:
        yield Note(_kind(change), _id(change, worker), _encode(change), now)
        if isinstance(change, Cooled) and not change.until and not change.model:
            other = replace(change, soft=not change.soft)
            yield Note("Cooled", _id(other, worker), _encode(other), now)


def to_change(data: bytes) -> Change | None:
    """What a note says; None if a newer version has written something that this one does not know.

    Raises sqlite3.DatabaseError if nobody can have written it.
    """
    try:
        change: Change = _decode(data)
    except msgspec.ValidationError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise sqlite3.DatabaseError("a note is not what was written") from None
    return change


def _kind(change: Change) -> str:
    return MODEL_REST if isinstance(change, Cooled) and change.model else type(change).__name__


def worker_of(note_id: str) -> str:
    """Who has counted, from the id of a tally."""
    return note_id.rpartition("\n")[2]


def _id(change: Change, worker: str) -> str:
    if isinstance(change, Learned):
        return f"{change.provider}\n{change.model}"
    parts = [change.provider, change.account]
    match change:
        case Cooled():
            parts += [change.model, "soft" if change.soft else "hard"]
        case Bound():
            parts = [change.provider, change.key]
        case Tally():
            parts.append(worker)
    return "\n".join(parts)


BASE = "base"

Key = tuple[str, str]


class Counters:
    """The counts of all other processes, by account."""

    def __init__(self) -> None:
        self._by_account: dict[Key, dict[str, Tally]] = {}

    def update(self, found: Iterable[tuple[str, Tally]]) -> list[Tally]:
        """New counts of workers; gives the sums that have changed."""
        changed = set()
        for worker, tally in found:
            key = (tally.provider, tally.account)
            self._by_account.setdefault(key, {})[worker] = tally
            changed.add(key)
        return [total(key, self._by_account[key]) for key in changed]

    def totals(self) -> list[Tally]:
        """All sums."""
        return [total(key, tallies) for key, tallies in self._by_account.items()]


def total(key: Key, tallies: dict[str, Tally]) -> Tally:
    """The sum of what several processes have counted; only those that run have something under way."""
    return Tally(
        key[0],
        key[1],
        sum(one.ok for one in tallies.values()),
        sum(one.failed for one in tallies.values()),
        sum(one.spent for one in tallies.values()),
        sum(one.in_flight for worker, one in tallies.items() if one.in_flight and is_running(worker)),
    )


def merge(connection: sqlite3.Connection, now: float) -> None:
    """Add what processes that have gone had counted to the base."""
    with transaction(connection):
        rows = checked(connection.execute("SELECT kind, id, data FROM note WHERE kind = 'Tally'").fetchall())
        by_account: dict[Key, dict[str, Tally]] = {}
        for _, note_id, data in rows:
            tally, owner = to_change(data), worker_of(note_id)
            if isinstance(tally, Tally) and (owner == BASE or not is_running(owner)):
                by_account.setdefault((tally.provider, tally.account), {})[owner] = tally
        notes: list[Note] = []
        for key, tallies in by_account.items():
            notes += _merged(key, tallies, now)
            gone = [(f"{key[0]}\n{key[1]}\n{owner}",) for owner, one in tallies.items() if not _has_counts(one)]
            connection.executemany("DELETE FROM note WHERE kind = 'Tally' AND id = ?", gone)
        if notes:
            insert(connection, BASE, notes)


def _has_counts(tally: Tally) -> bool:
    return bool(tally.ok or tally.failed or tally.spent)


def _merged(key: Key, tallies: dict[str, Tally], now: float) -> Iterable[Note]:
    owners = [owner for owner, one in tallies.items() if owner != BASE and _has_counts(one)]
    if not owners:
        return
    yield from to_notes([total(key, tallies)], BASE, now)
    for owner in owners:
        # Not removed yet: others must learn that these counts have moved.
        yield from to_notes([Tally(*key)], owner, now)


def is_running(worker: str) -> bool:
    """Whether the process of a worker is there."""
    try:
        os.kill(int(worker.partition("-")[0]), 0)
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return True
