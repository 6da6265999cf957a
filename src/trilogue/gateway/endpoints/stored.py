"""Stored responses: fetch, stream again, cancel, delete, and list what they responded to.

How those run that are still running is in `background`, and in `owned` for those that an upstream runs.
"""

from __future__ import annotations

from urllib.parse import parse_qsl

from msgspec.structs import replace

from trilogue.base.json_text import parse_request
from trilogue.base.sse import SseParser
from trilogue.errors import BadRequest, UpstreamError
from trilogue.gateway.conversations.history import stored_items
from trilogue.gateway.conversations.included import ENCRYPTED_REASONING, with_encrypted_content, with_encrypted_output
from trilogue.gateway.conversations.jobs import is_background, shown
from trilogue.gateway.conversations.objects import UnknownId, deleted_object, item_list, read_page
from trilogue.gateway.conversations.store.types import ENDED, ItemPage, NotFound, StoredResponse, paginate
from trilogue.gateway.conversations.stores import GatewayStore
from trilogue.gateway.endpoints import background
from trilogue.gateway.endpoints import upstream_stored as owned
from trilogue.gateway.request.admission import PathRoute
from trilogue.gateway.request.request import RequestContext, watching
from trilogue.gateway.response.client_response import SSE_HEADERS
from trilogue.model import events_of
from trilogue.protocols.registry import CODECS
from trilogue.protocols.stream.response_context import Reply

KIND = "Response"


async def retrieve(context: RequestContext) -> None:
    """Respond with a stored response, or with its stream."""
    (identifier,) = context.entry.parameters
    store, query = store_of(context), query_of(context)
    response = await stored(context, store, identifier)
    if includes_encrypted(context):
        body = with_encrypted_output(response.body, context.entry.sealer)
        response = replace(response, body=body)
    if query.get("stream") == "true":
        await _stream(context, store, response, starting_after(query))
        return
    if response.status not in ENDED and response.origin is not None:
        with watching(context):
            response = await owned.refreshed(context, store, response)
    context.reply_json(shown(response))


async def _stream(context: RequestContext, store: GatewayStore, response: StoredResponse, after: int) -> None:
    """Respond with the stream of a response: that of its job or of the account that runs it, or a new one."""
    if response.origin is not None and is_background(response):
        try:
            await owned.stream(context, store, response)
            return
        except (UpstreamError, UnknownId):
            if context.responder.started or response.status not in ENDED:
                raise
    elif response.origin is None and is_background(response):
        await background.stream_job(context, store, (response.owner, response.id), after)
        return
    stream_again(context, response, after)


async def cancel(context: RequestContext) -> None:
    """Cancel a background response, and respond with it. One that has ended stays as it is."""
    (identifier,) = context.entry.parameters
    store = store_of(context)
    response = await stored(context, store, identifier)
    if not is_background(response):
        raise BadRequest("Cannot cancel a synchronous response.", path="response_id")
    if response.status not in ENDED:
        with watching(context):
            if response.origin is not None:
                response = await owned.cancelled(context, store, response)
            else:
                await background.stop_job(store, (response.owner, response.id))
                response = await stored(context, store, identifier)
    context.reply_json(shown(response))


async def delete(context: RequestContext) -> None:
    """Delete a stored response, also at the account that keeps it. One that runs is stopped."""
    (identifier,) = context.entry.parameters
    store = store_of(context)
    response = await stored(context, store, identifier)
    try:
        await store.service.write(store.store.responses.delete, context.owner, identifier)
    except NotFound:
        raise UnknownId(KIND, identifier) from None
    store.jobs.stop((response.owner, response.id))
    if owned.is_kept_upstream(context, response):
        await owned.deleted(context, response)
    context.reply_json(deleted_object(identifier, "response"))


async def list_input(context: RequestContext) -> None:
    """Respond with the items that led to a response: those of its request, after those of the responses before it."""
    (identifier,) = context.entry.parameters
    store, page = store_of(context), read_page(query_of(context))
    try:
        *earlier, last = await store.service.read(store.store.responses.chain, context.owner, identifier)
    except NotFound:
        raise UnknownId(KIND, identifier) from None
    items = [item for one in earlier for item in stored_items(one)]
    try:
        found = paginate([*items, *last.input], page)
    except NotFound:
        raise UnknownId("Item", page.after or "") from None
    context.reply_json(item_list(included(context, found)))


ROUTES = (
    PathRoute("GET", "{id}", retrieve),
    PathRoute("DELETE", "{id}", delete),
    PathRoute("POST", "{id}/cancel", cancel),
    PathRoute("GET", "{id}/input_items", list_input),
)


def store_of(context: RequestContext) -> GatewayStore:
    """Return the store. Raises BadRequest if the configuration keeps nothing."""
    store = context.entry.gateway.store
    if store is None:
        text = "this gateway keeps no responses and conversations (state: none)"
        raise BadRequest(text, code="state_disabled")
    return store


async def stored(context: RequestContext, store: GatewayStore, identifier: str) -> StoredResponse:
    """Return a response of the client. Raises UnknownId."""
    try:
        return await store.service.read(store.store.responses.get, context.owner, identifier)
    except NotFound:
        raise UnknownId(KIND, identifier) from None


def query_of(context: RequestContext) -> dict[str, str]:
    """Return the query of a request."""
    return dict(parse_qsl(context.request.query.decode("latin-1")))


def includes_encrypted(context: RequestContext) -> bool:
    """Return whether a client wants the encrypted content of reasoning. SDKs write `include[]`, others `include`."""
    pairs = parse_qsl(context.request.query.decode("latin-1"))
    return any(name in ("include", "include[]") and value == ENCRYPTED_REASONING for name, value in pairs)


def included(context: RequestContext, page: ItemPage) -> ItemPage:
    """Return items with the encrypted content that the client wants."""
    if not includes_encrypted(context):
        return page
    sealer = context.entry.sealer
    items = [replace(item, data=with_encrypted_content(item.data, sealer)) for item in page.items]
    return replace(page, items=tuple(items))


def starting_after(query: dict[str, str]) -> int:
    """Return the number of the last event that the client has; -1 if it has none. Raises BadRequest."""
    given = query.get("starting_after", "-1")
    try:
        return int(given)
    except ValueError:
        raise BadRequest("starting_after is the number of an event", path="starting_after") from None


def stream_again(context: RequestContext, response: StoredResponse, after: int) -> None:
    """Respond with the stream of a complete response, from an event on."""
    codec, wire = CODECS[context.entry.client], parse_request(response.body)
    reply = Reply(model=response.model, source=context.entry.client)
    out = codec.encoder(reply).encode(list(events_of(codec.decode_response(wire))))
    context.responder.start(200, SSE_HEADERS)
    context.responder.end(b"".join(_frames(out)[after + 1 :]))


def _frames(stream: bytes) -> list[bytes]:
    """Return the events of a stream that the gateway has encoded, each with its blank line."""
    return [b"event: %b\ndata: %b\n\n" % (event.event.encode(), event.data) for event in SseParser().feed(stream)]
