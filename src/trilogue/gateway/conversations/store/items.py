"""Items as JSON text: those of a response's output, and pages of a list."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Raw, Struct

from trilogue.gateway.conversations.store.interface import ItemPage, NotFound, Page, StoredItem


class _Body(Struct):
    output: list[Raw] = []


class _Identified(Struct):
    id: object = None


_BODY = msgspec.json.Decoder(_Body)
_IDENTIFIED = msgspec.json.Decoder(_Identified)


def output_items(body: bytes) -> tuple[StoredItem, ...]:
    """Return the items in the `output` of a response object; none if it is not such an object."""
    try:
        return tuple(to_item(bytes(raw)) for raw in _BODY.decode(body).output)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ()


def to_item(data: bytes) -> StoredItem:
    """Return an item with the id that its JSON text has."""
    try:
        found = _IDENTIFIED.decode(data).id
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        found = None
    return StoredItem(found if isinstance(found, str) else "", data)


def paginate(items: Sequence[StoredItem], page: Page) -> ItemPage:
    """Return a part of a list. Raise NotFound if the item to begin after is not in it."""
    ordered = list(reversed(items)) if page.descending else list(items)
    start = 0
    if page.after is not None:
        start = 1 + next((index for index, item in enumerate(ordered) if item.id == page.after), -1)
        if start == 0:
            raise NotFound(page.after)
    end = start + page.limit
    return ItemPage(tuple(ordered[start:end]), has_more=end < len(ordered))
