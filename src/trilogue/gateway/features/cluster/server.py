"""The Redis or Valkey server of a cluster: its address without credentials, connections, the names of keys, its faults.

`redis` is loaded on first use and comes with the extra `cluster`.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from msgspec import Struct

from trilogue.errors import TrilogueError

if TYPE_CHECKING:
    import redis
    import redis.asyncio

CONNECT_SECONDS = 2.0
COMMAND_SECONDS = 1.5
"""how long a command may take; only threads of the cluster wait, never a request"""
DEFAULT_PORT = 6379
_REPLICA = "the server is a replica, which cannot be written"
_REASONS = (
    ("AuthenticationError", "the server does not accept the user or the password"),
    ("NoPermissionError", "the user may not run a command that is needed, or use its keys"),
    ("ReadOnlyError", _REPLICA),
    ("MasterDownError", _REPLICA),
    ("MovedError", "the server is part of a Redis Cluster, which spreads keys over servers; use one with replicas"),
    ("OutOfMemoryError", "the server has no memory left"),
    ("BusyLoadingError", "the server is loading its data"),
    ("MaxConnectionsError", "the server has too many connections"),
    ("TimeoutError", "the server did not respond in time"),
)
"""Exceptions of the library, and what they mean. Their own texts may quote what was sent."""


class ClusterUnavailable(TrilogueError):
    """A server of the cluster that cannot be used now. The message has no credentials."""


class RedisServer:
    """A server by its URL. `prefix`: what the names of all keys begin with."""

    def __init__(self, url: str, prefix: str = "trilogue") -> None:
        self._url = url
        self._prefix = prefix
        self.name = _without_credentials(url)

    def __repr__(self) -> str:
        return f"RedisServer({self.name})"

    def key(self, *parts: str) -> str:
        """Return the full name of a key."""
        return ":".join((self._prefix, *parts))

    def connect(self) -> redis.Redis:
        """Return a client for one thread. It connects with its first command."""
        options = _options("redis.retry")
        client: redis.Redis = _library().Redis.from_url(self._url, **options)
        return client

    def connect_async(self) -> redis.asyncio.Redis:
        """Return a client for an event loop. It connects with its first command."""
        options = _options("redis.asyncio.retry")
        client: redis.asyncio.Redis = import_module("redis.asyncio").Redis.from_url(self._url, **options)
        return client


def faults() -> tuple[type[Exception], ...]:
    """Return what using a connection may raise if the server is away or refuses a command."""
    return (_library().RedisError, OSError)


def reason_of(error: Exception) -> str:
    """Return what an error of a connection means, in our own words and without anything that was sent."""
    names = {kind.__name__ for kind in type(error).__mro__}
    for name, reason in _REASONS:
        if name in names:
            return reason
    if str(error).startswith("UNBLOCKED"):
        return _REPLICA
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return "its certificate cannot be verified"
    return "it cannot be reached" if names & {"ConnectionError", "OSError"} else type(error).__name__


def _options(retry: str) -> dict[str, Any]:
    """Return the options of a client. `retry`: the module of the library that has its `Retry`."""
    _library()
    return {
        "socket_connect_timeout": CONNECT_SECONDS,
        "socket_timeout": COMMAND_SECONDS,
        "socket_keepalive": True,
        # Callers try again by themselves, because they have to find out first what they missed.
        "retry": import_module(retry).Retry(import_module("redis.backoff").NoBackoff(), 0),
        # The older protocol needs no HELLO, and nothing else is told: fewer rights for the user.
        "protocol": 2,
        "driver_info": None,
    }


def _without_credentials(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return f"unix://{parts.path}"
    return f"{parts.scheme}://{parts.hostname or ''}:{parts.port or DEFAULT_PORT}{parts.path}"


@cache
def _library() -> Any:
    try:
        return import_module("redis")
    except ImportError:
        raise ClusterUnavailable("a cluster needs the package redis: pip install 'trilogue[cluster]'") from None


KEEP_SECONDS = 60.0
JUMP_SECONDS = 1.0
"""A difference that no round trip explains: the server was replaced by one with another clock, or a clock was set."""


class Measurement(Struct, frozen=True):
    """One look at the server's clock. `at`: local time. `offset`, `round_trip`: in seconds."""

    at: float
    offset: float
    round_trip: float


class ClusterClock:
    """The common time, as this process knows it. `local`: the clock that offsets refer to."""

    def __init__(self, local: Callable[[], float] = time.time) -> None:
        self.local = local
        self.offset = 0.0
        """how far the server's clock is ahead of the local one"""
        self.round_trip = 0.0
        """seconds that the latest measurement took"""
        self._recent: deque[Measurement] = deque()

    def now(self) -> float:
        """Return the common time in seconds since the epoch."""
        return self.local() + self.offset

    def measured(self, asked: float, server_time: float, answered: float) -> None:
        """Note what the server's clock showed between two local times."""
        found = Measurement(answered, server_time - (asked + answered) / 2, answered - asked)
        self.round_trip = found.round_trip
        if self._recent and abs(found.offset - self.offset) > JUMP_SECONDS + found.round_trip:
            self._recent.clear()
        while self._recent and answered - self._recent[0].at > KEEP_SECONDS:
            self._recent.popleft()
        self._recent.append(found)
        self.offset = min(self._recent, key=lambda one: one.round_trip).offset


def seconds_of(reply: tuple[int, int]) -> float:
    """Return the reply of Redis' TIME as seconds since the epoch."""
    return reply[0] + reply[1] / 1_000_000
