"""Records of accounts as the cluster shares them: what a local store holds, with all times in those of the server.

In Redis there is one hash for each kind, from the key of a record to its time, a space and its JSON. A change is also a
message, whose topic is the kind. Kinds and JSON are those of the local store, so that two versions read each other's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from trilogue.gateway.features.cluster.messages import Message
from trilogue.routing.pool.changes import Bound, Change, Cooled, Erred, Switched
from trilogue.storage.database import StoreDamaged
from trilogue.storage.records import StoredRecord
from trilogue.upstreams.state.change_records import MODEL_COOLDOWN, to_change

URGENT = ("Cooled", MODEL_COOLDOWN, "Switched", "Adjusted", "Learned")
"""kinds that other nodes must know at once"""
KINDS = (*URGENT, "Bound", "Erred")
"""all kinds that are shared. Counts are in the reports of nodes."""
KEY, VALUE = "key", "value"

_encode = msgspec.json.Encoder().encode


class SharedRecord(Struct, frozen=True):
    """A record in the server's time. `value`: JSON."""

    kind: str
    key: str
    at: float
    value: bytes

    @property
    def id(self) -> tuple[str, str]:
        """What a newer record replaces it by."""
        return self.kind, self.key

    def text(self) -> bytes:
        """Return what the hash and the message hold."""
        return b"%.6f %b" % (self.at, self.value)


def to_shared(records: Iterable[StoredRecord], offset: float) -> Iterator[SharedRecord]:
    """Return local records in the server's time, which is ahead by `offset`; without those that are not shared."""
    for record in records:
        change = to_change(record) if record.kind in KINDS else None
        if change is not None:
            yield SharedRecord(record.kind, record.key, record.at + offset, _encode(_shifted(change, offset)))


def to_local(records: Iterable[SharedRecord], offset: float) -> Iterator[StoredRecord]:
    """Return shared records in local time; without those that this version doesn't know."""
    for record in records:
        try:
            change = to_change(StoredRecord(record.kind, record.key, record.value, record.at))
        except StoreDamaged:
            continue  # another program has written it
        if change is not None:
            yield StoredRecord(record.kind, record.key, _encode(_shifted(change, -offset)), record.at - offset)


def parsed(kind: str, key: bytes, text: bytes) -> SharedRecord | None:
    """Return the record that a hash or a message holds; None if it is not one."""
    at, _, value = text.partition(b" ")
    try:
        return SharedRecord(kind, key.decode(), float(at), value)
    except ValueError:
        return None


def of_message(message: Message) -> SharedRecord | None:
    """Return the record of a message; None if it has none."""
    return parsed(message.topic, message.fields.get(KEY, b""), message.fields.get(VALUE, b""))


def _shifted(change: Change, seconds: float) -> Change:
    """Return a change with its times moved; 0 means that there is no time."""
    match change:
        case Cooled() if change.until:
            return replace(change, until=change.until + seconds)
        case Switched() if change.probe_at:
            return replace(change, probe_at=change.probe_at + seconds)
        case Erred() | Bound() if change.at:
            return replace(change, at=change.at + seconds)
    return change
