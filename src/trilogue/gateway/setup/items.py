"""Output items that Responses clients may refer to later instead of sending them again.

SDKs that rely on the provider's memory (`store` is not false) send `{"type": "item_reference", "id": …}` for what they
were answered before. An upstream of another protocol remembers nothing, so the gateway keeps the items of its own
answers for a while: in memory only, bounded, and each for the client key that got it.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from msgspec import Struct

from trilogue.jsontext.text import dump, parse_request
from trilogue.model import Json

MAX_BYTES = 64 * 1024 * 1024
TTL_SECONDS = 3600.0


class _StoredItem(Struct, frozen=True):
    body: bytes
    until: float


class ItemStore:
    """Items by owner and id; the oldest go first."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._kept: OrderedDict[tuple[str, str], _StoredItem] = OrderedDict()
        self._max_bytes = max_bytes
        self._bytes = 0

    def put(self, owner: str, items: list[Json], now: float) -> None:
        """Keep the items of one answer."""
        for item in items:
            if isinstance(item, dict) and isinstance(item.get("id"), str):
                self._keep((owner, item["id"]), _StoredItem(dump(item), now + TTL_SECONDS))
        while self._kept and (self._bytes > self._max_bytes or next(iter(self._kept.values())).until < now):
            _, old = self._kept.popitem(last=False)
            self._bytes -= len(old.body)

    def get(self, owner: str, item_id: str, now: float) -> dict[str, Json] | None:
        """An item, if it is still there and was given to the same owner."""
        kept = self._kept.get((owner, item_id))
        return parse_request(kept.body) if kept is not None and kept.until >= now else None

    def expand(self, owner: str, body: bytes, now: float) -> bytes:
        """A request with every reference that is known replaced by what it refers to."""
        if b'"item_reference"' not in body:
            return body
        wire = parse_request(body)
        items = wire.get("input")
        if not isinstance(items, list):
            return body
        wire["input"] = [self._resolved(owner, item, now) for item in items]
        return dump(wire)

    def _resolved(self, owner: str, item: Any, now: float) -> Any:
        if not isinstance(item, dict) or item.get("type") != "item_reference":
            return item
        return self.get(owner, str(item.get("id")), now) or item

    def _keep(self, key: tuple[str, str], kept: _StoredItem) -> None:
        old = self._kept.pop(key, None)
        self._bytes += len(kept.body) - (len(old.body) if old else 0)
        self._kept[key] = kept
