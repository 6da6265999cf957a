"""Stored conversations and their items: create, fetch, change, delete and list."""

from __future__ import annotations

import secrets
import time

from msgspec import Raw

from trilogue.gateway.conversations.objects import (
    UnknownId,
    conversation_object,
    deleted_object,
    item_list,
    plain_list,
    read_items,
    read_metadata,
    read_object,
    read_page,
)
from trilogue.gateway.conversations.request_fields import with_ids
from trilogue.gateway.conversations.store.types import ConversationLocked, NotFound, StoredConversation
from trilogue.gateway.conversations.stores import GatewayStore
from trilogue.gateway.conversations.turn import LockedConversation, with_named_items
from trilogue.gateway.endpoints.stored import included, query_of, store_of
from trilogue.gateway.request.admission import PathRoute
from trilogue.gateway.request.request import RequestContext

KIND, ITEM = "Conversation", "Item"


async def create(context: RequestContext) -> None:
    """Create a conversation, with its first items if there are any."""
    store = store_of(context)
    fields = read_object(await _body(context))
    # Ids that begin with the time are found faster among many.
    identifier = f"conv_{int(time.time() * 1000):012x}{secrets.token_hex(12)}"
    conversation = StoredConversation(owner=context.owner, id=identifier, metadata=read_metadata(fields))
    items = with_ids(await _items(context, store, fields), identifier)
    await store.service.write(store.store.conversations.create, conversation, items)
    await _show(context, store, identifier)


async def retrieve(context: RequestContext) -> None:
    """Respond with a conversation, without its items."""
    await _show(context, store_of(context), context.entry.parameters[0])


async def update(context: RequestContext) -> None:
    """Replace the metadata of a conversation."""
    (identifier,) = context.entry.parameters
    store = store_of(context)
    metadata = read_metadata(read_object(await _body(context)))
    try:
        found = await store.service.write(store.store.conversations.update, context.owner, identifier, metadata)
    except NotFound:
        raise UnknownId(KIND, identifier) from None
    context.reply_json(conversation_object(found))


async def delete(context: RequestContext) -> None:
    """Delete a conversation and its items. Responses that were made in it stay."""
    (identifier,) = context.entry.parameters
    store = store_of(context)
    try:
        await store.service.write(store.store.conversations.delete, context.owner, identifier)
    except NotFound:
        raise UnknownId(KIND, identifier) from None
    context.reply_json(deleted_object(identifier, "conversation.deleted"))


async def list_items(context: RequestContext) -> None:
    """Respond with a part of the items of a conversation."""
    (identifier,) = context.entry.parameters
    store, page = store_of(context), read_page(query_of(context))
    await _find(context, store, identifier)
    try:
        found = await store.service.read(store.store.conversations.items, context.owner, identifier, page)
    except NotFound:
        raise UnknownId(ITEM, page.after or "") from None
    context.reply_json(item_list(included(context, found)))


async def create_items(context: RequestContext) -> None:
    """Append items to a conversation."""
    (identifier,) = context.entry.parameters
    store = store_of(context)
    fields = read_object(await _body(context))
    items = with_ids(await _items(context, store, fields), f"{identifier}/{secrets.token_hex(8)}")
    try:
        await store.service.write(store.store.conversations.append, context.owner, identifier, items)
    except NotFound:
        raise UnknownId(KIND, identifier) from None
    except ConversationLocked:
        raise LockedConversation from None
    context.reply_json(plain_list(items))


async def retrieve_item(context: RequestContext) -> None:
    """Respond with one item of a conversation."""
    identifier, item = context.entry.parameters
    store = store_of(context)
    await _find(context, store, identifier)
    try:
        found = await store.service.read(store.store.conversations.item, context.owner, identifier, item)
    except NotFound:
        raise UnknownId(ITEM, item) from None
    context.reply_json(found.data)


async def delete_item(context: RequestContext) -> None:
    """Delete one item of a conversation, and respond with the conversation."""
    identifier, item = context.entry.parameters
    store = store_of(context)
    await _find(context, store, identifier)
    try:
        found = await store.service.write(store.store.conversations.delete_item, context.owner, identifier, item)
    except NotFound:
        raise UnknownId(ITEM, item) from None
    context.reply_json(conversation_object(found))


ROUTES = (
    PathRoute("POST", "", create),
    PathRoute("GET", "{id}", retrieve),
    PathRoute("POST", "{id}", update),
    PathRoute("DELETE", "{id}", delete),
    PathRoute("GET", "{id}/items", list_items),
    PathRoute("POST", "{id}/items", create_items),
    PathRoute("GET", "{id}/items/{item}", retrieve_item),
    PathRoute("DELETE", "{id}/items/{item}", delete_item),
)


async def _body(context: RequestContext) -> bytes:
    return await context.request.body(context.entry.gateway.settings.max_body_bytes)


async def _items(context: RequestContext, store: GatewayStore, fields: dict[str, Raw]) -> list[bytes]:
    """Return the items of a request. One that is named is stored as it is: what uses it later does not look it up."""
    items, unknown = await with_named_items(store, context.owner, read_items(fields))
    if unknown:
        raise unknown[0]
    return items


async def _find(context: RequestContext, store: GatewayStore, identifier: str) -> StoredConversation:
    try:
        return await store.service.read(store.store.conversations.get, context.owner, identifier)
    except NotFound:
        raise UnknownId(KIND, identifier) from None


async def _show(context: RequestContext, store: GatewayStore, identifier: str) -> None:
    context.reply_json(conversation_object(await _find(context, store, identifier)))
