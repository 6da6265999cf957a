"""The history that a request continues: items of earlier turns, and which of them an account can read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from trilogue.base.json_text import dump
from trilogue.gateway.conversations.store.types import OriginAccount, StoredItem, StoredResponse, output_items
from trilogue.model import Json, Loss

NOWHERE = OriginAccount("", "")
"""the origin of reasoning that no account can read any more"""
_CALLS = frozenset({"function_call", "custom_tool_call"})
_decode_any = msgspec.json.Decoder(dict[str, Json]).decode


class HistoryItem(NamedTuple):
    """An item of an earlier turn, and the account that made it if its id is not the gateway's own."""

    data: bytes
    origin: OriginAccount | None = None


def stored_items(response: StoredResponse) -> Iterator[StoredItem]:
    """Yield what a response adds to the history: the items of its request, and its own."""
    yield from response.input
    yield from output_items(response.body)


def without_foreign_reasoning(history: Sequence[HistoryItem], here: OriginAccount) -> tuple[list[bytes], list[Loss]]:
    """Return the items that an account accepts, and the losses. A call whose reasoning is gone loses its id as well."""
    kept: list[bytes] = []
    losses: list[Loss] = []
    after_reasoning = False
    for position, item in enumerate(history):
        wire = _decode_any(item.data) if item.origin not in (None, here) else {}
        if wire.get("type") == "reasoning":
            losses.append(Loss("reasoning.foreign_dropped", f"input[{position}]"))
            after_reasoning = True
            continue
        orphan = after_reasoning and wire.get("type") in _CALLS
        kept.append(_without_id(wire) if orphan else item.data)
        after_reasoning = False
    return kept, losses


def _without_id(wire: dict[str, Json]) -> bytes:
    return dump({name: value for name, value in wire.items() if name != "id"})


def unstored_items(body: bytes, origin: OriginAccount | None) -> list[HistoryItem]:
    """Return the items of a response that its upstream does not store.

    Its reasoning can only be read again if it is encrypted or plain text. By its id alone, the upstream refuses it.
    """
    items = output_items(body)
    lost = origin is not None and any(_is_unreadable(item.data) for item in items)
    return [HistoryItem(item.data, NOWHERE if lost else origin) for item in items]


def _is_unreadable(data: bytes) -> bool:
    if data.find(b'"reasoning"') < 0:
        return False
    wire = _decode_any(data)
    return wire.get("type") == "reasoning" and not wire.get("encrypted_content") and not wire.get("content")


MOST = 16
"""Responses. Clients continue the last one, or one shortly before it."""
History = tuple[HistoryItem, ...]


class ConnectionResponses:
    """The latest responses of one connection, each with the items of its whole history.

    Together they have at most `max_bytes`. History that several have in common count for each, so less is used.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._histories: dict[str, History] = {}
        self._sizes: dict[str, int] = {}
        self._continued = ""
        """the response that the running request continues"""

    def take(self, identifier: str) -> History | None:
        """Return the history of a response that a request continues; None if it is not there any more.

        `settle` forgets it, unless the new response is put here before.
        """
        found = self._histories.get(identifier)
        self._continued = identifier if found is not None else ""
        return found

    def settle(self) -> None:
        """Forget the response that was continued if nothing has come of it. Call this at the end of each request."""
        if self._continued:
            self._remove(self._continued)
            self._continued = ""

    def put(self, identifier: str, history: History) -> None:
        """Keep a response. The oldest make room for it; one that is too large is not kept."""
        self._continued = ""
        self._remove(identifier)
        self._histories[identifier] = history
        self._sizes[identifier] = sum(len(item.data) for item in history)
        while len(self._histories) > MOST or sum(self._sizes.values()) > self._max_bytes:
            self._remove(next(iter(self._histories)))

    def _remove(self, identifier: str) -> None:
        self._histories.pop(identifier, None)
        self._sizes.pop(identifier, None)
