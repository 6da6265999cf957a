"""The part of a worker in its cluster, if the configuration has one. A reload does not change it."""

from __future__ import annotations

import time

from trilogue import __version__
from trilogue.gateway.features.cluster.member import ClusterMember, Sibling
from trilogue.gateway.features.cluster.nodes import NodeFacts
from trilogue.gateway.features.cluster.server import RedisServer
from trilogue.gateway.features.cluster.settings import ClusterSettings
from trilogue.gateway.features.cluster.status import LinkHealth, LinkStatus, NodeRecord
from trilogue.storage.locations import ACCOUNTS_FILE
from trilogue.storage.records import RecordFile

FEWER_SECONDS = 15.0
"""How long fewer nodes are seen before their share of limits is used: those that reconnect need some seconds."""


class WorkerCluster:
    """The membership of one worker. `place`: where files of the configuration are kept."""

    def __init__(self, place: Sibling) -> None:
        self._place = place
        self.member: ClusterMember | None = None
        """None without a cluster"""
        self.nodes = 1
        """how many nodes share the limits of accounts: those that are running, as far as this one knows"""
        self._fewer_since: float | None = None

    def configure(self, settings: ClusterSettings, workers: int) -> None:
        """Join the cluster of the first configuration. `workers`: of this machine."""
        if self.member is None and settings.redis:
            server = RedisServer(settings.redis.reveal(), settings.prefix)
            facts = NodeFacts(__version__, workers)
            store = RecordFile(self._place(ACCOUNTS_FILE), durable=False)
            self.member = ClusterMember(server, self._place, store, facts)

    @property
    def status(self) -> LinkStatus | None:
        """How the link of this machine is doing; None if no process runs it."""
        return None if self.member is None else self.member.status

    @property
    def health(self) -> LinkHealth | None:
        """How the link is doing that this process runs; None if it runs none."""
        return None if self.member is None else self.member.health

    def connected(self) -> bool | None:
        """Return whether the server of the cluster can be reached; None without a cluster."""
        if self.member is None:
            return None
        return self.status is not None and self.status.connected

    def running(self) -> list[NodeRecord]:
        """Return the nodes that are running, as far as this one knows; itself too."""
        status = self.status
        if self.member is None or status is None:
            return []
        now = self.member.clock.now()
        return [record for record in status.nodes if not record.is_gone(now)]

    def tick(self) -> None:
        """Run the link if no other process of the machine does. Call it several times a second."""
        if self.member is None:
            return
        self.member.tick()
        status = self.status
        # Without a connection, others only seem to be gone.
        if status is not None and status.connected:
            self._count(max(1, len(self.running())))

    def _count(self, nodes: int) -> None:
        now = time.monotonic()
        if nodes >= self.nodes:
            self._fewer_since = None
            self.nodes = nodes
        elif self._fewer_since is None:
            self._fewer_since = now
        elif now - self._fewer_since > FEWER_SECONDS:
            self._fewer_since = None
            self.nodes = nodes

    def close(self) -> None:
        """Leave the link to another process. This may take seconds if the server does not respond."""
        if self.member is not None:
            self.member.close()
