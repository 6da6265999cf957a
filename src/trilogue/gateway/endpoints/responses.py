"""Stored responses: fetch, stream again, delete, and list what they responded to.

Background responses that are still running are in `background`.
"""

from __future__ import annotations

from urllib.parse import parse_qsl

from trilogue.errors import BadRequest
from trilogue.gateway.endpoints.routes import PathRoute
from trilogue.gateway.request.context import RequestContext
from trilogue.gateway.response.headers import SSE_HEADERS
from trilogue.gateway.setup.response_store import GatewayStore
from trilogue.gateway.stored.objects import UnknownId, deleted_object, item_list, read_page
from trilogue.gateway.stored.turn import stored_items
from trilogue.jsontext.text import parse_request
from trilogue.model import events_of
from trilogue.protocols.registry import CODECS
from trilogue.protocols.stream.reply import Reply
from trilogue.sse import SseParser
from trilogue.state.responses import NotFound, StoredResponse
from trilogue.state.responses.items import paginate

KIND = "Response"


async def retrieve(context: RequestContext) -> None:
    """Respond with a stored response, or with its stream."""
    (identifier,) = context.entry.parameters
    store, query = store_of(context), query_of(context)
    response = await stored(context, store, identifier)
    if query.get("stream") == "true":
        stream_again(context, response, starting_after(query))
    else:
        context.reply_json(response.body)


async def delete(context: RequestContext) -> None:
    """Delete a stored response."""
    (identifier,) = context.entry.parameters
    store = store_of(context)
    try:
        await store.service.write(store.store.responses.delete, context.owner, identifier)
    except NotFound:
        raise UnknownId(KIND, identifier) from None
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
    context.reply_json(item_list(found))


ROUTES = (
    PathRoute("GET", "{id}", retrieve),
    PathRoute("DELETE", "{id}", delete),
    PathRoute("GET", "{id}/input_items", list_input),
)


def store_of(context: RequestContext) -> GatewayStore:
    """Return the store. Raises BadRequest if the configuration keeps nothing."""
    store = context.entry.services.store
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
