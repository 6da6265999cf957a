"""The link of a machine to its cluster: a thread that copies between the local state and Redis, beside all requests.

The link connects, measures the server's clock, and lets its parts work: each part has one concern, such as the state of
accounts. If the server is away, parts keep what they know, and the link connects again with growing, random pauses, so
that a thousand nodes do not come back at once. One warning says that it is away, one line that it is back.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from random import SystemRandom
from typing import TYPE_CHECKING

import structlog

from trilogue.gateway.features.cluster.messages import Message, MessageReader
from trilogue.gateway.features.cluster.server import ClusterUnavailable, RedisServer, faults, reason_of, seconds_of
from trilogue.gateway.features.cluster.status import LinkHealth

if TYPE_CHECKING:
    import redis

log = structlog.get_logger("trilogue.cluster")

LOOK_SECONDS = 0.01
"""how long the link waits for messages before it looks for local changes"""
MEASURE_SECONDS = 5.0
AWAY_SECONDS = 0.5
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0
_random = SystemRandom()


class LinkPart:
    """One concern of the link. Everything is called in its thread. What `faults` lists ends the connection."""

    topics: frozenset[str] = frozenset()
    """the topics of messages that it receives"""

    def connected(self, client: redis.Redis) -> None:
        """Exchange everything with the server: it may have been away, replaced or emptied."""

    def work(self, client: redis.Redis) -> None:
        """Send what is new here. Called every few milliseconds, so it must be cheap if there is nothing to do."""

    def receive(self, messages: Sequence[Message]) -> None:
        """Take over messages of other nodes."""

    def away(self) -> None:
        """Do what is due without the server. Called now and then while it is away."""

    def close(self, client: redis.Redis | None) -> None:
        """Give up what it holds, and tell the server if there is a connection."""


class Link:
    """The thread. `parts`: what it does. `health`: where it says how it is doing.

    `node_id`: messages of this node are not received by itself.
    """

    def __init__(self, server: RedisServer, node_id: str, health: LinkHealth, parts: Sequence[LinkPart]) -> None:
        self._server = server
        self._node_id = node_id
        self._health = health
        self._parts = parts
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="trilogue-cluster", daemon=True)
        self._measured_at = 0.0
        self._failures = 0
        """connections in a row that did not work"""
        self._failed_away = False

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, timeout: float = 3.0) -> None:
        """End the thread."""
        self._stopping.set()
        self._thread.join(timeout)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._use(self._server.connect())
            except ClusterUnavailable as error:  # the library is not installed: waiting does not help
                log.error("the cluster cannot be used", reason=str(error))
                self._health.reason = str(error)
                break
            except faults() as error:
                self._lost(reason_of(error))
            except Exception as error:  # the boundary of the thread: the next connection may work
                log.error("bug", error=type(error).__name__, exc_info=True)
                self._lost(type(error).__name__)
            self._pause()

    def _use(self, client: redis.Redis) -> None:
        """Use a connection until it is lost or the link stops."""
        reader = None
        try:
            reader = self._connect(client)
            while not self._stopping.is_set():
                self._pass(client, reader)
            for part in self._parts:
                part.close(client)
        finally:
            if reader is not None:
                reader.close()
            client.close()

    def _pass(self, client: redis.Redis, reader: MessageReader) -> None:
        messages = [one for one in reader.wait(LOOK_SECONDS) if one.node != self._node_id]
        if messages:
            for part in self._parts:
                wanted = [one for one in messages if one.topic in part.topics]
                if wanted:
                    part.receive(wanted)
            self._health.lag = max(0.0, self._health.clock.now() - messages[-1].at)
        for part in self._parts:
            part.work(client)
        if time.monotonic() - self._measured_at > MEASURE_SECONDS:
            self.measure(client)

    def _connect(self, client: redis.Redis) -> MessageReader:
        self.measure(client)
        # Before everything is read, so that no message is missed in between.
        reader = MessageReader(self._server)
        for part in self._parts:
            part.connected(client)
        if not self._health.connected:
            self._changed(connected=True, reason="")
        self._failures = 0
        return reader

    def measure(self, client: redis.Redis) -> None:
        """Compare the clocks."""
        self._measured_at = time.monotonic()
        asked = self._health.clock.local()
        shown = seconds_of(client.time())
        self._health.clock.measured(asked, shown, self._health.clock.local())

    def _lost(self, reason: str) -> None:
        health = self._health
        if health.connected:
            health.reconnects += 1
        if health.connected or not self._failures:
            log.warning(
                "the cluster cannot be reached: this node goes on with what it knows",
                server=self._server.name,
                reason=reason,
            )
        self._failures += 1
        self._changed(connected=False, reason=reason)

    def _changed(self, *, connected: bool, reason: str) -> None:
        health, now = self._health, time.time()
        if connected:
            away = round(now - health.since, 1) if self._failures else 0.0
            log.info("connected to the cluster", server=self._server.name, away_seconds=away)
        if connected != health.connected:
            health.since = now
        health.connected, health.reason = connected, reason

    def _pause(self) -> None:
        """Wait before the next connection: longer each time, and never as long as other nodes."""
        longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(self._failures, 10))
        until = time.monotonic() + _random.uniform(0.2, 1.0) * longest
        while not self._stopping.is_set() and time.monotonic() < until:
            try:
                for part in self._parts:
                    part.away()
            except Exception as error:  # the boundary of the thread: it must connect again
                if not self._failed_away:
                    self._failed_away = True
                    log.error("bug", error=type(error).__name__, exc_info=True)
            self._stopping.wait(min(AWAY_SECONDS, max(0.0, until - time.monotonic())))
