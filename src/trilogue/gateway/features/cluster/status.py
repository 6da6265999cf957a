"""What nodes tell each other about themselves, and what a link tells the processes of its own machine."""

from __future__ import annotations

import time

from msgspec import Struct, field

from trilogue.gateway.features.cluster.server import ClusterClock

STALE_SECONDS = 5.0
"""A node that has not reported for this long counts as gone."""


class AccountCounts(Struct, frozen=True, array_like=True):
    """What all processes of a node have counted for an account, and their requests in flight."""

    provider: str
    account: str
    ok: int = 0
    failed: int = 0
    spent: float = 0.0
    in_flight: int = 0

    @property
    def has_counts(self) -> bool:
        """Whether anything was counted."""
        return bool(self.ok or self.failed or self.spent)


class NodeRecord(Struct, frozen=True, kw_only=True):
    """A node as it describes itself once a second. Times are the server's. New fields must have defaults."""

    id: str
    name: str
    at: float
    """when it reported"""
    started: float = 0.0
    version: str = ""
    workers: int = 1
    running: int = 0
    """requests in flight"""
    requests: int = 0
    """attempts so far"""
    load: float = 0.0
    """load average of the machine in the last minute, for each core"""
    lag: float = 0.0
    """seconds until changes of other nodes are known there"""
    offset: float = 0.0
    """how far the server's clock is ahead of the node's"""
    left: bool = False
    """whether it was stopped, as opposed to one that is not heard of any more"""
    accounts: tuple[AccountCounts, ...] = ()
    removed: tuple[str, ...] = ()
    """in the report of all nodes that are gone: whose counts it has"""

    def is_gone(self, now: float) -> bool:
        """Return whether it has left, or has not reported for too long. `now`: the server's time."""
        return self.left or now - self.at > STALE_SECONDS


class LinkHealth(Struct):
    """How a link is doing, as its thread changes it. `clock`: the common time, by the clock that the pools use."""

    clock: ClusterClock
    connected: bool = False
    reason: str = "not connected yet"
    """why it is not connected"""
    since: float = field(default_factory=time.time)
    """since when it is connected, or not"""
    reconnects: int = 0
    """how often a connection was lost"""
    lag: float = 0.0
    """seconds that the latest message of another node took from the server to the local state"""
    sent: int = 0
    """changes that were sent"""
    received: int = 0
    """changes of other nodes that were new here"""


class LinkStatus(Struct, frozen=True, kw_only=True):
    """How the link of a node is doing, for the processes of its machine. Times are local ones."""

    node: str
    name: str
    server: str
    at: float
    connected: bool = False
    reason: str = ""
    since: float = 0.0
    offset: float = 0.0
    lag: float = 0.0
    reconnects: int = 0
    sent: int = 0
    received: int = 0
    nodes: tuple[NodeRecord, ...] = ()

    def is_stale(self, now: float) -> bool:
        """Return whether the link has not written this for too long, so that it must have ended."""
        return abs(now - self.at) > STALE_SECONDS
