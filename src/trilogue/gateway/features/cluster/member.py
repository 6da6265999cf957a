"""One process of a node: it runs the link if no other process of the machine does, and knows what the link knows.

The process that runs the link writes down once a second how it is doing, in a file that the others read.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
import structlog

from trilogue.base.clock import steady_time
from trilogue.base.posix import fcntl
from trilogue.gateway.features.cluster.accounts import AccountsPart
from trilogue.gateway.features.cluster.identity import NodeIdentity, node_identity
from trilogue.gateway.features.cluster.link import Link, LinkPart
from trilogue.gateway.features.cluster.local import LocalState
from trilogue.gateway.features.cluster.node_counts import NodeCounts
from trilogue.gateway.features.cluster.nodes import NodeFacts, NodesPart
from trilogue.gateway.features.cluster.server import ClusterClock, RedisServer
from trilogue.gateway.features.cluster.status import LinkHealth, LinkStatus
from trilogue.gateway.features.cluster.status_file import StatusPart
from trilogue.storage.records import RecordStore


class LinkLock:
    """The lock on a file. Made inside the worker process, after the fork: forked processes would share it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None

    @property
    def held(self) -> bool:
        """Whether this process holds the lock."""
        return self._file is not None

    def acquire(self) -> bool:
        """Take the lock if no other process holds it. Return whether this one does. Raises OSError."""
        if self._file is not None:
            return True
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return False
        except OSError:
            os.close(file)
            raise
        self._file = file
        return True

    def release(self) -> None:
        """Give the lock to whoever tries next."""
        if self._file is not None:
            with suppress(OSError):
                os.close(self._file)
            self._file = None


log = structlog.get_logger("trilogue.cluster")

LOCK_NAME = "cluster.lock"
NODE_NAME = "node.id"
STATUS_NAME = "cluster.json"

Sibling = Callable[[str], Path]
"""returns where a file of this name is kept for the configuration"""


class ClusterMember:
    """A process of a node. `place`: where its files are. `store`: the state of accounts. `local`: the pools' clock."""

    def __init__(
        self,
        server: RedisServer,
        place: Sibling,
        store: RecordStore,
        facts: NodeFacts,
        local: Callable[[], float] = steady_time,
    ) -> None:
        self.server = server
        self.clock = ClusterClock()
        """the common time, by the wall clock"""
        self._place = place
        self._store = store
        self._facts = facts
        self._local = local
        self._lock = LinkLock(place(LOCK_NAME))
        self._node: NodeIdentity | None = None
        self._status: LinkStatus | None = None
        self._status_seen = 0
        self._warned = False
        self.parts: list[LinkPart] = []
        """further parts of the link, if this process will run it"""
        self.link: Link | None = None
        """the link, if this process runs it"""
        self.health: LinkHealth | None = None
        """how the link is doing, if this process runs it"""

    @property
    def node(self) -> NodeIdentity:
        """Who this node is. Raises OSError if the state folder cannot be used."""
        if self._node is None:
            self._node = node_identity(self._place(NODE_NAME))
        return self._node

    @property
    def status(self) -> LinkStatus | None:
        """How the link of this node is doing; None if there is none."""
        return self._status if self._status is not None and not self._status.is_stale(time.time()) else None

    def tick(self) -> None:
        """Run the link if no other process does, and learn what it knows. Call it several times a second."""
        try:
            if self.link is None and self._lock.acquire():
                self._start_link()
            self._read_status()
        except OSError as error:
            if not self._warned:
                self._warned = True
                log.warning(
                    "this node is not part of the cluster: its state folder cannot be used", error=error.strerror
                )

    def _start_link(self) -> None:
        node, health, local = self.node, LinkHealth(ClusterClock(self._local)), LocalState(self._store)
        counts = NodeCounts(local)
        accounts = AccountsPart(self.server, node.id, health, local, counts)
        nodes = NodesPart(self.server, node, self._facts, health, counts)
        status = StatusPart(self._place(STATUS_NAME), self.server.name, node, health, nodes)
        parts = [accounts, nodes, status, *self.parts]
        self.link, self.health = Link(self.server, node.id, health, parts), health
        self.link.start()

    def _read_status(self) -> None:
        file = self._place(STATUS_NAME)
        with suppress(FileNotFoundError):
            written = os.stat(file).st_mtime_ns
            if written == self._status_seen:
                return
            self._status_seen = written
            with suppress(msgspec.DecodeError, UnicodeDecodeError):
                self._status = msgspec.json.decode(file.read_bytes(), type=LinkStatus)
                self.clock.offset = self._status.offset

    def close(self) -> None:
        """End the link, so that another process of this machine takes over."""
        if self.link is not None:
            self.link.stop()
            self.link = None
        self._lock.release()
