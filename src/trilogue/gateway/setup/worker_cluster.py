"""The part of a worker in its cluster, if the configuration has one. A reload does not change it."""

from __future__ import annotations

from trilogue import __version__
from trilogue.cluster import ClusterMember, LinkStatus, NodeFacts, RedisServer
from trilogue.cluster.member import Sibling
from trilogue.config import Config
from trilogue.state import FILE_NAME, FileStore


class WorkerCluster:
    """The membership of one worker. `place`: where files of the configuration are kept."""

    def __init__(self, place: Sibling) -> None:
        self._place = place
        self.member: ClusterMember | None = None
        """None without a cluster"""

    def take(self, config: Config) -> None:
        """Join the cluster of the first configuration."""
        if self.member is None and config.cluster.redis:
            server = RedisServer(config.cluster.redis.reveal(), config.cluster.prefix)
            facts = NodeFacts(__version__, config.server.workers)
            self.member = ClusterMember(server, self._place, FileStore(self._place(FILE_NAME)), facts)

    @property
    def status(self) -> LinkStatus | None:
        """How the link of this machine is doing; None if there is none."""
        return None if self.member is None else self.member.status

    def tick(self) -> None:
        """Run the link if no other process of the machine does. Call it several times a second."""
        if self.member is not None:
            self.member.tick()

    def close(self) -> None:
        """Leave the link to another process. This may take seconds if the server does not respond."""
        if self.member is not None:
            self.member.close()
