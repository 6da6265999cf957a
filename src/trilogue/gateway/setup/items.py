"""Output items that Responses clients may refer to later instead of sending them again.

SDKs that rely on the provider's memory (`store` is not false) send `{"type": "item_reference", "id": …}` for items of
earlier responses. An upstream of another protocol remembers nothing, so the gateway keeps the items of its own
responses for a while: in memory only, bounded, and each for the client key that got it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Set
from typing import Any

from msgspec import Struct

from trilogue.jsontext.text import dump, parse_request
from trilogue.model import Json

MAX_BYTES = 64 * 1024 * 1024
TTL_SECONDS = 3600.0


class _StoredItem(Struct, frozen=True):
    body: bytes
    expires_at: float


class ItemStore:
    """Items by owner and id. `owner`: the name of a client key. When there is no room, the oldest are dropped."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._items: OrderedDict[tuple[str, str], _StoredItem] = OrderedDict()
        self._max_bytes = max_bytes
        self._bytes = 0

    def put(self, owner: str, items: list[Json], now: float) -> None:
        """Keep the items of one response."""
        for item in items:
            if isinstance(item, dict) and isinstance(item.get("id"), str):
                self._add((owner, item["id"]), _StoredItem(dump(item), now + TTL_SECONDS))
        while self._items and (self._bytes > self._max_bytes or next(iter(self._items.values())).expires_at < now):
            _, old = self._items.popitem(last=False)
            self._bytes -= len(old.body)

    def get(self, owner: str, item_id: str, now: float) -> dict[str, Json] | None:
        """Return an item if the same owner got it and it has not expired; else None."""
        item = self._items.get((owner, item_id))
        return parse_request(item.body) if item is not None and item.expires_at >= now else None

    def expand(self, owner: str, body: bytes, now: float) -> bytes:
        """Return a request with every known reference replaced by its item."""
        if b'"item_reference"' not in body:
            return body
        wire = parse_request(body)
        items = wire.get("input")
        if not isinstance(items, list):
            return body
        wire["input"] = [self._resolved(owner, item, now) for item in items]
        return dump(wire)

    def without_owners(self, changed: Set[str]) -> ItemStore:
        """Return the store for a configuration in which these names of keys no longer mean what they meant.

        It is this very store if there are none, so that running requests of the old configuration can still add items.
        Otherwise it is a copy: a removed key must not write what a new key of the same name can read.
        """
        if not changed:
            return self
        kept = ItemStore(self._max_bytes)
        for key, item in self._items.items():
            if key[0] not in changed:
                kept._add(key, item)
        return kept

    def _resolved(self, owner: str, item: Any, now: float) -> Any:
        if not isinstance(item, dict) or item.get("type") != "item_reference":
            return item
        return self.get(owner, str(item.get("id")), now) or item

    def _add(self, key: tuple[str, str], item: _StoredItem) -> None:
        old = self._items.pop(key, None)
        self._bytes += len(item.body) - (len(old.body) if old else 0)
        self._items[key] = item
