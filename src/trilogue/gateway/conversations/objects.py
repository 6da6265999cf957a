"""The objects by which the API shows what is stored: lists, conversations, deletions, and errors for unknown ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Raw

from trilogue.base.json_text import DECODE_ERRORS, dump
from trilogue.errors import BadRequest, ClientError
from trilogue.gateway.conversations.store.types import (
    ItemPage,
    NotStorable,
    PageRequest,
    StoredConversation,
    StoredItem,
    StoreError,
)
from trilogue.model import Failure, Json
from trilogue.protocols.failure import own_failure

MAX_LIMIT = 100
MAX_METADATA = 16
MAX_METADATA_NAME = 64
MAX_METADATA_VALUE = 512
MAX_NEW_ITEMS = 20
"""What the API accepts."""

_decode = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_any = msgspec.json.Decoder().decode


class UnknownId(ClientError):
    """An id that this client key does not have. Another key's id is not distinguished from an unknown one."""

    status = 404

    def __init__(self, kind: str, identifier: str) -> None:
        super().__init__(f"{kind} with id '{identifier[:100]}' not found.", code="not_found")


def read_page(query: Mapping[str, str]) -> PageRequest:
    """Return which part of a list is asked for. Raises BadRequest."""
    order, limit = query.get("order", "desc"), query.get("limit", "20")
    if order not in ("asc", "desc"):
        raise BadRequest("order is asc or desc", path="order")
    if not limit.isascii() or not limit.isdigit() or len(limit) > 4 or not 1 <= int(limit) <= MAX_LIMIT:
        raise BadRequest(f"limit is a number from 1 to {MAX_LIMIT}", path="limit")
    return PageRequest(after=query.get("after") or None, limit=int(limit), descending=order == "desc")


def item_list(page: ItemPage) -> bytes:
    """Return a list of items."""
    items = page.items
    return dump(
        {
            "object": "list",
            "data": [Raw(item.data) for item in items],
            "first_id": items[0].id if items else None,
            "last_id": items[-1].id if items else None,
            "has_more": page.has_more,
        }
    )


def conversation_object(conversation: StoredConversation) -> bytes:
    """Return the JSON of a conversation object, as the Conversations API sends it."""
    return dump(
        {
            "id": conversation.id,
            "object": "conversation",
            "created_at": int(conversation.created),
            "metadata": Raw(conversation.metadata),
        }
    )


def deleted_object(identifier: str, kind: str) -> bytes:
    """Return the confirmation of a deletion."""
    return dump({"id": identifier, "object": kind, "deleted": True})


def read_object(body: bytes) -> dict[str, Raw]:
    """Return the fields of a request body; none if it is empty. Raises BadRequest."""
    try:
        return _decode(body) if body.strip() else {}
    except DECODE_ERRORS:
        raise BadRequest("the body must be a JSON object") from None


def read_metadata(fields: Mapping[str, Raw]) -> bytes:
    """Return the metadata of a request, checked as the API does. Raises BadRequest."""
    given = _decode_any(fields.get("metadata", Raw(b"null")))
    if given is None:
        return b"{}"
    if not isinstance(given, dict) or len(given) > MAX_METADATA:
        raise BadRequest(f"metadata must be an object with at most {MAX_METADATA} entries", path="metadata")
    for name, value in given.items():
        if not isinstance(value, str) or len(name) > MAX_METADATA_NAME or len(value) > MAX_METADATA_VALUE:
            raise BadRequest("metadata must have short texts as names and values", path="metadata")
    return dump(given)


def read_items(fields: Mapping[str, Raw]) -> list[bytes]:
    """Return the items of a request as JSON text. Raises BadRequest."""
    given: Json = _decode_any(fields.get("items", Raw(b"null")))
    if given is None:
        return []
    if not isinstance(given, list) or len(given) > MAX_NEW_ITEMS or not all(isinstance(one, dict) for one in given):
        raise BadRequest(f"items must be a list of at most {MAX_NEW_ITEMS} items", path="items")
    return [dump(one) for one in given]


def plain_list(items: Sequence[StoredItem]) -> bytes:
    """Return items as a complete list, in their order."""
    return item_list(ItemPage(tuple(items)))


UNAVAILABLE = (
    "the response cannot be stored, or what the request refers to cannot be read. Try again later, or send "
    "store: false and the whole history"
)
TOO_LARGE = "the response is larger than what the gateway stores for one client key (state.key_bytes)"


def store_failure(error: StoreError) -> Failure:
    """Return the failure for an error of the store. Where the store is, and why it failed, is only in the log."""
    if isinstance(error, NotStorable):
        return own_failure(507, TOO_LARGE, "response_not_storable")
    return own_failure(503, UNAVAILABLE, "store_unavailable")
