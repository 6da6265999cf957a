"""Messages between nodes: a stream in Redis that every node reads as it grows, on a connection of its own.

Each message has a topic and the id of the node that sent it. The stream keeps the latest `MAX_LENGTH`; a node that was
away for longer, or finds a stream that was emptied, has to read everything anew from where the sender keeps it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from trilogue.gateway.features.cluster.server import COMMAND_SECONDS, RedisServer, faults

if TYPE_CHECKING:
    import redis

STREAM = "changes"
MAX_LENGTH = 20_000
READ_COUNT = 500
BLOCK_SECONDS = 1.0
TOPIC, NODE = "topic", "node"


class Message(Struct, frozen=True):
    """A message of a node. `at`: the server's time when it was sent. `fields`: its content."""

    topic: str
    node: str
    at: float
    fields: Mapping[str, bytes]


class MessageReader:
    """The messages of all nodes from now on. Raises what `faults` lists if the server is away."""

    def __init__(self, server: RedisServer) -> None:
        self._stream = server.key(STREAM)
        self._client = server.connect()
        self._last: Any = _newest(self._client, self._stream)
        self._connection: Any = self._client.connection_pool.get_connection()
        self._asked_at = 0.0
        """when the server was asked for more, by the monotonic clock; 0 if it was not"""

    def wait(self, seconds: float) -> list[Message]:
        """Return the next messages, or an empty list after this many seconds without one."""
        connection = self._connection
        if not self._asked_at:
            wait = ("BLOCK", int(BLOCK_SECONDS * 1000), "STREAMS", self._stream, self._last)
            connection.send_command("XREAD", "COUNT", READ_COUNT, *wait)
            self._asked_at = time.monotonic()
        if not connection.can_read(timeout=seconds):
            if time.monotonic() - self._asked_at > BLOCK_SECONDS + COMMAND_SECONDS:
                raise TimeoutError("no response from the server")
            return []
        reply = connection.read_response()
        self._asked_at = 0.0
        entries = reply[0][1] if reply else []
        before = self._last
        if entries:
            self._last = entries[-1][0]
        if len(entries) == READ_COUNT and self._has_gap(before):
            raise ConnectionError("messages were lost")
        return [_message(entry) for entry in entries]

    def close(self) -> None:
        """Close the connection."""
        with suppress(*faults()):
            self._connection.disconnect()
            self._client.close()

    def _has_gap(self, before: bytes) -> bool:
        """Return whether messages after this one were dropped before they were read."""
        oldest: Any = self._client.xrange(self._stream, count=1)
        return bool(oldest) and _position(oldest[0][0]) > _position(before)


def _newest(client: redis.Redis, stream: str) -> bytes:
    found: Any = client.xrevrange(stream, count=1)
    return bytes(found[0][0]) if found else b"0-0"


def _position(entry_id: bytes) -> tuple[int, int]:
    milliseconds, _, number = entry_id.partition(b"-")
    return int(milliseconds), int(number)


def _message(entry: Any) -> Message:
    entry_id, flat = entry
    fields = {name.decode(): value for name, value in zip(flat[::2], flat[1::2], strict=True)}
    topic, node = fields.pop(TOPIC, b"").decode(), fields.pop(NODE, b"").decode()
    return Message(topic, node, _position(entry_id)[0] / 1000, fields)
