"""Stores on every engine, a clock that tests move, and short ways to make responses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import msgspec

from trilogue.gateway.conversations.store.store import ResponseStore
from trilogue.gateway.conversations.store.types import StoredConversation, StoredItem, StoredResponse, StoreLimits
from trilogue.storage.database import Database

KEY = b"fake key for tests: not a secret"
A, B = "owner-a", "owner-b"


class Clock:
    """The time of a store, moved by hand."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class Engine:
    """An empty database, which several stores can open, as several processes do."""

    def __init__(self, name: str, make: Callable[[Clock], Database], path: Path | None = None) -> None:
        self.name = name
        self.path = path
        self.clock = Clock()
        self.database = make(self.clock)
        self._make = make
        self._opened: list[ResponseStore] = []

    def open(self, limits: StoreLimits | None = None, keys: tuple[bytes, ...] = (KEY,)) -> ResponseStore:
        """Open the database as another process would; the one in memory is shared."""
        database = self.database if self.name == "memory" else self._make(self.clock)
        store = ResponseStore(database, keys, limits)
        self._opened.append(store)
        return store

    def close(self) -> None:
        for store in self._opened:
            store.close()


def body(identifier: str, *texts: str) -> bytes:
    """Return a response object with one message per text."""
    output = [{"id": f"msg_{identifier}_{number}", "text": text} for number, text in enumerate(texts)]
    return json.dumps({"id": identifier, "output": output}).encode()


def item(identifier: str, text: str = "x") -> StoredItem:
    return StoredItem(identifier, json.dumps({"id": identifier, "text": text}).encode())


def response(identifier: str, owner: str = A, previous: str | None = None, **fields: object) -> StoredResponse:
    made = StoredResponse(
        owner=owner, id=identifier, status="completed", body=body(identifier, "hello"), previous=previous
    )
    return msgspec.structs.replace(made, **fields)


def conversation(identifier: str, owner: str = A, metadata: bytes = b'{"topic":"tests"}') -> StoredConversation:
    return StoredConversation(owner=owner, id=identifier, metadata=metadata)


def ids(responses: tuple[StoredResponse, ...]) -> list[str]:
    return [one.id for one in responses]


def total_bytes(store: ResponseStore, owner: str = A) -> int:
    return sum(one.bytes for one in store.owners.statistics() if one.owner == owner)
