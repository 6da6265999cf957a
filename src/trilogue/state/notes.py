"""Changes of the pool as notes of the state file, and back."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator

import msgspec
from msgspec.structs import replace

from trilogue.pool import Adjusted, Bound, Change, Cooled, Erred, Learned, Switched, Tally
from trilogue.state.file import MODEL_REST, Note

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
