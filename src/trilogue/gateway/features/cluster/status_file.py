"""Writes down how the link is doing, for the other processes of the machine."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from trilogue.gateway.features.cluster.identity import NodeIdentity
from trilogue.gateway.features.cluster.link import LinkPart
from trilogue.gateway.features.cluster.nodes import NodesPart
from trilogue.gateway.features.cluster.status import LinkHealth, LinkStatus
from trilogue.storage.private_files import write_private

if TYPE_CHECKING:
    import redis

WRITE_SECONDS = 1.0


class StatusPart(LinkPart):
    """The file. `server`: the name of the server, without credentials."""

    def __init__(self, file: Path, server: str, node: NodeIdentity, health: LinkHealth, nodes: NodesPart) -> None:
        self._file = file
        self._server = server
        self._node = node
        self._health = health
        self._nodes = nodes
        self._write_at = 0.0
        self._shown: tuple[bool, str] | None = None

    def work(self, client: redis.Redis) -> None:
        """Write the file if it is time."""
        self.away()

    def away(self) -> None:
        """Write the file once a second, and when the connection is lost or found."""
        health, now = self._health, time.monotonic()
        shown = (health.connected, health.reason)
        if now < self._write_at and shown == self._shown:
            return
        self._write_at, self._shown = now + WRITE_SECONDS, shown
        with suppress(OSError):
            write_private(self._file, msgspec.json.encode(self._status()))

    def _status(self) -> LinkStatus:
        health = self._health
        now = time.time()
        return LinkStatus(
            node=self._node.id,
            name=self._node.name,
            server=self._server,
            at=now,
            connected=health.connected,
            reason=health.reason,
            since=health.since,
            # For those who use the wall clock: that of the link differs if it was set since the process started.
            offset=health.clock.now() - now,
            lag=health.lag or health.clock.round_trip,
            reconnects=health.reconnects,
            sent=health.sent,
            received=health.received,
            nodes=self._nodes.nodes,
        )
