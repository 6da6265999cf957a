"""The nodes of a cluster: each reports once a second, and reads what the others report.

All reports are in one hash. A node that has not reported for some seconds is gone: its requests in flight end, and what
it has counted stays. After a day its counts are added to the report of all nodes that are gone, and its own is removed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from trilogue.gateway.features.cluster.identity import NodeIdentity
from trilogue.gateway.features.cluster.link import LinkPart
from trilogue.gateway.features.cluster.node_counts import NodeCounts
from trilogue.gateway.features.cluster.server import RedisServer
from trilogue.gateway.features.cluster.status import AccountCounts, LinkHealth, NodeRecord

if TYPE_CHECKING:
    import redis


NODES = "nodes"
GONE = "gone"
"""the id of the report that holds the counts of all nodes that were removed"""
REPORT_SECONDS = 1.0
NODES_PER_SECOND = 50
"""With more nodes, each reads the reports of the others less often."""
REMOVE_SECONDS = 86_400.0
KEEP_REMOVED = 1_000
"""how many ids of removed nodes are remembered"""

# Moves the counts of a node that is gone, unless it or the sum has changed since it was read.
_REMOVE = """
local id, report, sum, new = ARGV[1], ARGV[2], ARGV[4], ARGV[5]
if redis.call('HGET', KEYS[1], id) ~= report or (redis.call('HGET', KEYS[1], ARGV[3]) or '') ~= sum then
    return 0
end
redis.call('HSET', KEYS[1], ARGV[3], new)
return redis.call('HDEL', KEYS[1], id)
"""


class NodeFacts(Struct, frozen=True):
    """What a node says about itself that does not change."""

    version: str
    workers: int


class NodesPart(LinkPart):
    """The reports. `counts`: what this node and the others have counted."""

    def __init__(
        self, server: RedisServer, node: NodeIdentity, facts: NodeFacts, health: LinkHealth, counts: NodeCounts
    ) -> None:
        self._key = server.key(NODES)
        self._node = node
        self._facts = facts
        self._health = health
        self._counts = counts
        self._started = 0.0
        self._report_at = self._read_at = 0.0
        self.nodes: tuple[NodeRecord, ...] = ()
        """all nodes at the last look, this one too"""

    def connected(self, client: redis.Redis) -> None:
        """Report, and read all reports."""
        self._report_at = self._read_at = 0.0
        clock = self._health.clock
        self._started = self._started or clock.now()
        text: Any = client.hget(self._key, self._node.id)
        before = decoded(text) if text else None
        if before is not None:
            reported = before.accounts
            self._counts.local.attempt(lambda: self._counts.adopt(reported, clock.local()))
        self.work(client)

    def work(self, client: redis.Redis) -> None:
        """Report and read once a second."""
        now = time.monotonic()
        if now >= self._report_at:
            self._report_at = now + REPORT_SECONDS
            self._report(client, self._record())
        if now >= self._read_at:
            self._read(client)
            self._read_at = now + REPORT_SECONDS * max(1.0, len(self.nodes) / NODES_PER_SECOND)

    def away(self) -> None:
        """End the requests in flight of nodes that have not been heard of for too long."""
        self._take_counts()

    def close(self, client: redis.Redis | None) -> None:
        """Say that this node has left. If another process of the machine goes on, its next report takes that back."""
        if client is not None:
            record = self._record()
            accounts = tuple(replace(one, in_flight=0) for one in record.accounts)
            self._report(client, replace(record, left=True, running=0, accounts=accounts))

    def _report(self, client: redis.Redis, record: NodeRecord) -> None:
        client.hset(self._key, self._node.id, msgspec.json.encode(record))

    def _record(self) -> NodeRecord:
        accounts = tuple(self._counts.here())
        health = self._health
        return NodeRecord(
            id=self._node.id,
            name=self._node.name,
            at=health.clock.now(),
            started=self._started,
            version=self._facts.version,
            workers=self._facts.workers,
            running=sum(one.in_flight for one in accounts),
            requests=sum(one.ok + one.failed for one in accounts),
            load=_load(),
            lag=health.lag or health.clock.round_trip,
            offset=health.clock.offset,
            accounts=accounts,
        )

    def _read(self, client: redis.Redis) -> None:
        found: Any = client.hgetall(self._key)
        texts: dict[str, bytes] = {key.decode(): text for key, text in found.items()}
        reports = {name: record for name, text in texts.items() if (record := decoded(text)) is not None}
        self._restore(client, reports)
        self.nodes = tuple(reports.values())
        self._take_counts()
        now = self._health.clock.now()
        old = [name for name, one in reports.items() if name != GONE and now - one.at > REMOVE_SECONDS]
        if old:
            self._remove(client, old[0], texts, reports)

    def _take_counts(self) -> None:
        others = [record for record in self.nodes if record.id != self._node.id]
        clock = self._health.clock
        self._counts.local.attempt(lambda: self._counts.take(others, clock.now(), clock.local()))

    def _restore(self, client: redis.Redis, reports: dict[str, NodeRecord]) -> None:
        """Report for nodes that are gone and whose reports are lost, because the server was emptied."""
        removed = reports[GONE].removed if GONE in reports else ()
        for node, accounts in self._counts.known().items():
            if node not in reports and node not in removed and any(one.has_counts for one in accounts):
                at = self._health.clock.now() - REPORT_SECONDS
                reports[node] = NodeRecord(id=node, name=node, at=at, left=True, accounts=accounts)
                client.hsetnx(self._key, node, msgspec.json.encode(reports[node]))

    def _remove(
        self, client: redis.Redis, name: str, texts: Mapping[str, bytes], reports: Mapping[str, NodeRecord]
    ) -> None:
        """Add the counts of a node that is gone for good to the sum of all such nodes, and remove its report."""
        before = reports.get(GONE) or NodeRecord(id=GONE, name=GONE, at=0.0, left=True)
        new = replace(
            before,
            accounts=_added(before.accounts, reports[name].accounts),
            removed=(*before.removed, name)[-KEEP_REMOVED:],
        )
        remove = client.register_script(_REMOVE)
        remove(keys=[self._key], args=[name, texts[name], GONE, texts.get(GONE, b""), msgspec.json.encode(new)])


def decoded(text: bytes) -> NodeRecord | None:
    """Return the report of a node; None if another version wrote something that this one cannot read."""
    try:
        return msgspec.json.decode(text, type=NodeRecord)
    except msgspec.DecodeError:
        return None


def _added(some: tuple[AccountCounts, ...], more: tuple[AccountCounts, ...]) -> tuple[AccountCounts, ...]:
    sums = {(one.provider, one.account): one for one in some}
    for one in more:
        key = (one.provider, one.account)
        old = sums.get(key, AccountCounts(*key))
        sums[key] = AccountCounts(*key, old.ok + one.ok, old.failed + one.failed, old.spent + one.spent)
    return tuple(sums.values())


def _load() -> float:
    """Return the load average of the last minute for each core; 0 where the system has none."""
    with suppress(OSError, AttributeError):
        return round(os.getloadavg()[0] / (os.cpu_count() or 1), 2)
    return 0.0
