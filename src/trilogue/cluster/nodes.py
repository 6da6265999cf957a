"""The nodes of a cluster: each reports once a second, and reads what the others report.

All reports are in one hash. A node that has not reported for some seconds is gone: its requests in flight end, and what
it has counted stays. After a day its counts are added to those of all nodes that are gone, and its report is removed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from trilogue.cluster.identity import NodeIdentity
from trilogue.cluster.link import LinkPart
from trilogue.cluster.server import RedisServer
from trilogue.cluster.status import AccountCounts, LinkHealth, LinkStatus, NodeRecord

if TYPE_CHECKING:
    import redis

NODES = "nodes"
REPORT_SECONDS = 1.0
STATUS_SECONDS = 1.0
NODES_PER_SECOND = 50
"""With more nodes, each reads the reports of the others less often."""


class NodeFacts(Struct, frozen=True):
    """What a node says about itself that does not change."""

    version: str
    workers: int


class NodesPart(LinkPart):
    """The reports. `status_file`: for the processes of this machine."""

    def __init__(
        self,
        server: RedisServer,
        node: NodeIdentity,
        facts: NodeFacts,
        health: LinkHealth,
        status_file: Path,
    ) -> None:
        self._key = server.key(NODES)
        self._server_name = server.name
        self._node = node
        self._facts = facts
        self._health = health
        self._status_file = status_file
        self._started = 0.0
        self._report_at = self._read_at = self._status_at = 0.0
        self._shown = (False, "")
        self.counts: Callable[[], Iterable[AccountCounts]] = tuple
        """returns what this node has counted"""
        self.nodes: tuple[NodeRecord, ...] = ()
        """all nodes at the last look, this one too"""

    def connected(self, client: redis.Redis) -> None:
        """Report, and read all reports."""
        self._report_at = self._read_at = 0.0
        self._started = self._started or self._health.clock.now()
        self._exchange(client, time.monotonic())

    def work(self, client: redis.Redis) -> None:
        """Report and read once a second."""
        now = time.monotonic()
        self._exchange(client, now)
        self._write_status(now)

    def _exchange(self, client: redis.Redis, now: float) -> None:
        if now >= self._report_at:
            self._report_at = now + REPORT_SECONDS
            self._report(client, self._record())
        if now >= self._read_at:
            self._read(client)
            self._read_at = now + REPORT_SECONDS * max(1.0, len(self.nodes) / NODES_PER_SECOND)

    def away(self) -> None:
        """Say that the server is away."""
        self._write_status(time.monotonic())

    def close(self, client: redis.Redis | None) -> None:
        """Say that this node has left. If another process of the machine goes on, its next report takes that back."""
        if client is not None:
            record = self._record()
            accounts = tuple(replace(one, in_flight=0) for one in record.accounts)
            self._report(client, replace(record, left=True, running=0, accounts=accounts))

    def _report(self, client: redis.Redis, record: NodeRecord) -> None:
        client.hset(self._key, self._node.id, msgspec.json.encode(record))

    def _record(self) -> NodeRecord:
        accounts = tuple(self.counts())
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
            load=round(os.getloadavg()[0] / (os.cpu_count() or 1), 2),
            lag=health.lag or health.clock.round_trip,
            offset=health.clock.offset,
            accounts=accounts,
        )

    def _read(self, client: redis.Redis) -> None:
        found: Any = client.hgetall(self._key)
        self.nodes = tuple(record for text in found.values() if (record := decoded(text)) is not None)

    def _write_status(self, now: float) -> None:
        """Write how the link is doing, once a second and when that changes."""
        health = self._health
        shown = (health.connected, health.reason)
        if now < self._status_at and shown == self._shown:
            return
        self._status_at, self._shown = now + STATUS_SECONDS, shown
        status = LinkStatus(
            node=self._node.id,
            name=self._node.name,
            server=self._server_name,
            at=time.time(),
            connected=health.connected,
            reason=health.reason,
            since=health.since,
            # For those who use the wall clock: that of the link differs if it was set since the process started.
            offset=health.clock.now() - time.time(),
            lag=health.lag,
            reconnects=health.reconnects,
            sent=health.sent,
            received=health.received,
            nodes=self.nodes,
        )
        draft = self._status_file.with_suffix(".new")
        with suppress(OSError):
            draft.write_bytes(msgspec.json.encode(status))
            draft.replace(self._status_file)


def decoded(text: bytes) -> NodeRecord | None:
    """Return the report of a node; None if another version wrote something that this one cannot read."""
    try:
        return msgspec.json.decode(text, type=NodeRecord)
    except msgspec.DecodeError:
        return None
