"""WebSocket connections to a gateway: the official SDK's, and one that sends any text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import websockets.sync.client as websockets
from websockets.sync.client import ClientConnection

from tests.gateway.running import CLIENT_KEY

ENDS = ("response.completed", "response.incomplete", "response.failed", "error")
KEY = (("authorization", f"Bearer {CLIENT_KEY}"),)
Event = dict[str, Any]


class Socket:
    """A connection whose messages are JSON."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection

    def send(self, message: str | bytes | Event) -> None:
        """Send a message as it is, or an object as JSON."""
        self.connection.send(json.dumps(message) if isinstance(message, dict) else message)

    def create(self, model: str, text: str = "Hi", **fields: Any) -> None:
        """Ask for a response."""
        self.send({"type": "response.create", "model": model, "input": text, **fields})

    def event(self) -> Event:
        """Return the next event."""
        found: Event = json.loads(self.connection.recv(timeout=20))
        return found

    def events(self) -> list[Event]:
        """Return the events of the next response, or the error that comes instead."""
        found = [self.event()]
        while found[-1]["type"] not in ENDS:
            found.append(self.event())
        return found

    def ask(self, model: str, text: str = "Hi", **fields: Any) -> Event:
        """Ask for a response, and return its last event."""
        self.create(model, text, **fields)
        return self.events()[-1]


@contextmanager
def socket_to(url: str, headers: tuple[tuple[str, str], ...] = KEY, path: str = "/v1/responses") -> Iterator[Socket]:
    """Provide a connection to a gateway."""
    address = url.replace("http://", "ws://") + path
    with websockets.connect(
        address, additional_headers=list(headers), user_agent_header=None, max_size=None, proxy=None
    ) as connection:
        yield Socket(connection)


def text_of(event: Event) -> str:
    """Return the text of a complete response."""
    parts = [part for item in event["response"]["output"] for part in item.get("content", ())]
    return "".join(part.get("text", "") for part in parts)
