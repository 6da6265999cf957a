"""Account health over machines: what processes of this machine write is sent, what other nodes send is written here.

Every change is absolute and has a time; the newest wins, on every node and in Redis. A change goes out as a message,
for those who are connected, and into a hash, for those who come later. Whoever connects exchanges everything: it takes
over what is newer there, and sends what is newer here. So a server may be away, emptied or replaced by an older copy.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Iterator, Sequence
from random import SystemRandom
from typing import TYPE_CHECKING, Any

import msgspec
import structlog
from msgspec import Struct
from msgspec.structs import replace

from trilogue.gateway.features.cluster.link import LinkPart
from trilogue.gateway.features.cluster.local import LocalState
from trilogue.gateway.features.cluster.messages import MAX_LENGTH, NODE, STREAM, TOPIC, Message
from trilogue.gateway.features.cluster.node_counts import NodeCounts
from trilogue.gateway.features.cluster.server import RedisServer
from trilogue.gateway.features.cluster.status import LinkHealth
from trilogue.routing.pool.changes import Bound, Change, Cooled, Erred, Switched
from trilogue.storage.database import StoreDamaged
from trilogue.storage.records import StoredRecord
from trilogue.upstreams.state.change_records import MODEL_COOLDOWN, RETENTION, to_change

if TYPE_CHECKING:
    import redis

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


log = structlog.get_logger("trilogue.cluster")

SEND_RECORDS = 200
"""records in one call, so that the server is not held up"""
LATER_SECONDS = 0.25
"""how long changes that are not urgent are collected"""
EPOCH_SECONDS = 1.0
SAME_SECONDS = 0.25
"""A copy of a record on another machine may differ by this much, because clocks are compared again and again."""
PRUNE_SECONDS = 600
PRUNE_RECORDS = 1_000
HERD_SECONDS = 0.05
LONGEST_HERD = 10.0
"""After the server was emptied, nodes write what they know within this time for each node, at most in all."""
_random = SystemRandom()

# For each record: keep the newer one. Returns what is newer in Redis, with the number of the record, so that the node
# that sent an older one learns it.
_PUBLISH = f"""
local newer = {{}}
for i = 2, #ARGV, 3 do
    local kind, key, text = tonumber(ARGV[i]), ARGV[i + 1], ARGV[i + 2]
    local known = redis.call('HGET', KEYS[kind + 1], key)
    if known and tonumber(string.match(known, '^%S+')) >= tonumber(string.match(text, '^%S+')) then
        newer[#newer + 1] = (i - 2) / 3
        newer[#newer + 1] = known
    else
        redis.call('HSET', KEYS[kind + 1], key, text)
        redis.call('XADD', KEYS[1], 'MAXLEN', '~', {MAX_LENGTH}, '*',
            '{TOPIC}', string.match(KEYS[kind + 1], '[^:]+$'), '{NODE}', ARGV[1], '{KEY}', key, '{VALUE}', text)
    end
end
return newer
"""


class AccountsPart(LinkPart):
    """The state of accounts. `local`: that of this machine. `counts`: what was counted, which is in the same store.

    `health`: where it says how much it sends and receives.
    """

    topics = frozenset(KINDS)

    def __init__(
        self, server: RedisServer, node_id: str, health: LinkHealth, local: LocalState, counts: NodeCounts
    ) -> None:
        self._server = server
        self._node_id = node_id
        self._health = health
        self._local = local
        self._counts = counts
        self._keys = [server.key(STREAM), *(server.key("records", kind) for kind in KINDS)]
        self._epoch = b""
        self._epoch_at = 0.0
        self._exchange_at = 0.0
        """when everything is exchanged, if `_due`"""
        self._due = True
        self._pending: dict[tuple[str, str], SharedRecord] = {}
        """changes that are not sent yet"""
        self._arrived: list[SharedRecord] = []
        """changes of other nodes that are not written yet"""
        self._send_at = 0.0
        self._sent_since = 0
        """records that were sent since the server's were last pruned"""

    def connected(self, client: redis.Redis) -> None:
        """Exchange everything with the server."""
        self._due, self._exchange_at = True, 0.0
        self._look_at_epoch(client)
        self.work(client)

    def receive(self, messages: Sequence[Message]) -> None:
        """Write what other nodes have changed, if it is newer."""
        self._arrived += [record for message in messages if (record := of_message(message)) is not None]
        self._local.attempt(self._write_arrived)

    def work(self, client: redis.Redis) -> None:
        """Send what has changed here."""
        now = time.monotonic()
        if now >= self._epoch_at:
            self._look_at_epoch(client)
        self._local.attempt(lambda: self._work(client, now))

    def close(self, client: redis.Redis | None) -> None:
        """Send what is left and close the store."""
        if client is not None:
            self._send_at = 0.0
            self.work(client)
        self._local.close()

    def _work(self, client: redis.Redis, now: float) -> None:
        if self._arrived:
            self._write_arrived()
        if (self._due or self._local.replaced) and now >= self._exchange_at:
            self._exchange(client)
        self._collect()
        urgent = any(kind in URGENT for kind, _ in self._pending)
        if self._pending and (urgent or now >= self._send_at):
            self._send_at = now + LATER_SECONDS
            self._send(client, list(self._pending.values()))
            self._pending.clear()
        if self._sent_since >= PRUNE_RECORDS:
            self._sent_since = 0
            self._prune(client)

    def _collect(self) -> None:
        records = self._local.changes()
        if records:
            self._counts.update(records)
            for record in to_shared(records, self._health.clock.offset):
                self._pending[record.id] = record

    def _write_arrived(self) -> None:
        newer = self._local.write_newer(to_local(self._arrived, self._health.clock.offset))
        self._health.received += newer
        self._arrived.clear()

    def _exchange(self, client: redis.Redis) -> None:
        """Take over what is newer in Redis, and send what is newer here."""
        there = {record.id: record for record in self._read_all(client)}
        records = self._local.everything()
        self._counts.restart(records)
        here = {record.id: record for record in to_shared(records, self._health.clock.offset)}
        self._pending.clear()
        self._health.received += self._local.write_newer(to_local(_newer(there, here), self._health.clock.offset))
        self._send(client, list(_newer(here, there)))
        self._due = False

    def _read_all(self, client: redis.Redis) -> Iterable[SharedRecord]:
        for kind, name in zip(KINDS, self._keys[1:], strict=True):
            found: Any = client.hgetall(name)
            for key, text in found.items():
                record = parsed(kind, key, text)
                if record is not None:
                    yield record

    def _send(self, client: redis.Redis, records: Sequence[SharedRecord]) -> None:
        publish = client.register_script(_PUBLISH)
        for start in range(0, len(records), SEND_RECORDS):
            part = records[start : start + SEND_RECORDS]
            arguments: list[Any] = [self._node_id]
            for record in part:
                arguments += [KINDS.index(record.kind) + 1, record.key, record.text()]
            refused: Any = publish(keys=self._keys, args=arguments)
            self._arrived += [
                newer
                for number, text in zip(refused[::2], refused[1::2], strict=True)
                if (newer := parsed(part[number].kind, part[number].key.encode(), text)) is not None
            ]
            self._health.sent += len(part) - len(refused) // 2
            self._sent_since += len(part)

    def _look_at_epoch(self, client: redis.Redis) -> None:
        """Find out whether the server was emptied: then everything has to be written again, but not by all at once."""
        self._epoch_at = time.monotonic() + EPOCH_SECONDS
        name = self._server.key("epoch")
        found: Any = client.get(name)
        if found is None:
            client.set(name, secrets.token_hex(8), nx=True)
            found = client.get(name)
        if found != self._epoch:
            if self._epoch:
                log.warning("the cluster's server was emptied: all nodes write again what they know")
            self._epoch, self._due = found, True
            self._exchange_at = time.monotonic() + _random.uniform(
                0, min(LONGEST_HERD, HERD_SECONDS * self._counts.others)
            )

    def _prune(self, client: redis.Redis) -> None:
        """Remove the records that are too old or too many, unless another node has just done so."""
        if not client.set(self._server.key("pruned"), self._node_id, nx=True, ex=PRUNE_SECONDS // 10):
            return
        now = self._health.clock.now()
        for kind, name in zip(KINDS, self._keys[1:], strict=True):
            limits = RETENTION.get(kind)
            if limits is None:
                continue
            found: Any = client.hgetall(name)
            times = {key: record.at for key, text in found.items() if (record := parsed(kind, key, text)) is not None}
            oldest = now - limits.seconds if limits.seconds is not None else 0.0
            ranked = sorted(times, key=lambda key: times[key], reverse=True)
            gone = [key for key in ranked if times[key] < oldest] + (ranked[limits.records :] if limits.records else [])
            if gone:
                client.hdel(name, *gone)


def _newer(
    records: dict[tuple[str, str], SharedRecord], others: dict[tuple[str, str], SharedRecord]
) -> Iterable[SharedRecord]:
    """Yield the records that are newer than the others of the same key, or have none."""
    for name, record in records.items():
        other = others.get(name)
        if other is None or record.at > other.at + SAME_SECONDS:
            yield record
