"""Changes of the pool as records of a store, and back.

The kinds, keys and JSON are those of earlier versions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
from msgspec.structs import replace

from trilogue.routing.pool.changes import KINDS, AccountTally, Adjusted, Bound, Change, Cooled, Erred, Learned, Switched
from trilogue.storage.database import StoreDamaged
from trilogue.storage.records import Retention, StoredRecord

DAY = 86_400.0
MODEL_COOLDOWN = "CooledModel"
"""Kind of the cooldowns for one model. Apart from the others, because clients invent model names."""
TALLY = "Tally"
RETENTION = {
    "Bound": Retention(7 * DAY, 10_000),
    "Cooled": Retention(7 * DAY),
    MODEL_COOLDOWN: Retention(7 * DAY, 1_000),
    # Vendors change their models: what one refused a month ago may be accepted now.
    "Learned": Retention(30 * DAY, 1_000),
}
"""How long the pool's records are kept, and how many of each kind; all others stay."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Cooled | Switched | Erred | Adjusted | Bound | Learned | AccountTally).decode


def to_records(changes: Iterable[Change], worker: str, now: float) -> Iterator[StoredRecord]:
    """Return one record for each thing that changed. The end of a cooldown also ends "used last", and vice versa."""
    for change in changes:
        yield StoredRecord(_kind(change), _key(change, worker), _encode(change), now)
        if isinstance(change, Cooled) and not change.until and not change.model:
            other = replace(change, failing=not change.failing)
            yield StoredRecord("Cooled", _key(other, worker), _encode(other), now)


def to_change(record: StoredRecord) -> Change | None:
    """Return the change of a record; None if a newer version wrote something that this one doesn't know.

    Raises StoreDamaged if it is not JSON.
    """
    try:
        change: Change = _decode(record.value)
    except msgspec.ValidationError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise StoreDamaged("a record is not what was written") from None
    return change


def split(records: Iterable[StoredRecord]) -> tuple[list[Change], list[tuple[str, AccountTally]]]:
    """Return the changes in records, and the tallies with the worker that counted each."""
    changes: list[Change] = []
    tallies: list[tuple[str, AccountTally]] = []
    for record in records:
        change = to_change(record)
        if isinstance(change, AccountTally):
            tallies.append((worker_of(record.key), change))
        elif change is not None:
            changes.append(change)
    return changes, tallies


def worker_of(key: str) -> str:
    """Return the worker that counted, from the key of its tally."""
    return key.rpartition("\n")[2]


def tally_key(provider: str, account: str, worker: str) -> str:
    """Return the key of a worker's tally for an account."""
    return f"{provider}\n{account}\n{worker}"


def _kind(change: Change) -> str:
    return MODEL_COOLDOWN if isinstance(change, Cooled) and change.model else KINDS[type(change)]


def _key(change: Change, worker: str) -> str:
    match change:
        case Learned():
            return f"{change.provider}\n{change.model}"
        case Cooled():
            return f"{change.provider}\n{change.account}\n{change.model}\n{'soft' if change.failing else 'hard'}"
        case Bound():
            return f"{change.provider}\n{change.key}"
        case AccountTally():
            return tally_key(change.provider, change.account, worker)
    return f"{change.provider}\n{change.account}"
