"""Responses that an upstream account keeps: what a client asks about them is asked of that account.

The gateway has a copy of each. It is served as long as nothing can have changed: a response that is still running in
the background is fetched from its account, and the copy is replaced once it is complete, so that it can be continued
anywhere. Which account it is was stored with the response, so that this works after a restart and in every worker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple
from urllib.parse import quote

import msgspec
import structlog
from msgspec import Raw, Struct
from msgspec.structs import replace

from trilogue.base.clock import steady_time
from trilogue.base.json_text import DECODE_ERRORS, dump
from trilogue.base.sse import COMMENT, SseParser
from trilogue.errors import TrilogueError, UpstreamFailure, UpstreamProtocolError, UpstreamTimeout
from trilogue.gateway.conversations.jobs import MOST_EVENT_BYTES
from trilogue.gateway.conversations.objects import UnknownId
from trilogue.gateway.conversations.store.types import ENDED, StoredResponse
from trilogue.gateway.conversations.stores import GatewayStore
from trilogue.gateway.request.failures import error_body, response_failure
from trilogue.gateway.request.request import RequestContext, watching
from trilogue.gateway.response.client_response import SSE_HEADERS
from trilogue.gateway.response.pass_through import renamed
from trilogue.gateway.response.timing import KeepAlive
from trilogue.net.client.interface import UpstreamRequest, UpstreamResponse
from trilogue.net.server.responder import Responder
from trilogue.protocols.failure import own_failure
from trilogue.protocols.registry import CODECS
from trilogue.upstreams.headers import with_query
from trilogue.upstreams.provider import UpstreamAccount, UpstreamProvider

KIND = "Response"
DELETE_SECONDS = 5.0
_OWNER_GONE = own_failure(
    503, "the account that keeps this response is not in the configuration any more", "response_owner_gone"
)
_NOT_FOUND = 404
_KNOWN_HERE = ("store", "previous_response_id", "conversation")
"""fields that an upstream does not know if it got the whole history"""

log = structlog.get_logger("trilogue.gateway")


class _Status(Struct):
    status: str = ""


class _Event(Struct):
    response: Raw = Raw()


_decode_status = msgspec.json.Decoder(_Status).decode
_decode_event = msgspec.json.Decoder(_Event).decode
_decode_fields = msgspec.json.Decoder(dict[str, Raw]).decode


class Owner(NamedTuple):
    """The account that keeps a response."""

    provider: UpstreamProvider
    account: UpstreamAccount


class UpstreamQuery(NamedTuple):
    """What is asked about a response. `path`: behind its id."""

    method: str = "GET"
    path: str = ""
    query: bytes = b""
    stream: bool = False


def is_kept_upstream(context: RequestContext, response: StoredResponse) -> bool:
    """Return whether an upstream account keeps a response, besides the gateway."""
    return response.origin is not None and _owner(context, response) is not None


async def refreshed(context: RequestContext, store: GatewayStore, response: StoredResponse) -> StoredResponse:
    """Return a response as its account has it now. The copy is replaced if it is complete. Raises UpstreamError."""
    if response.status in ENDED:
        return response
    return await _asked(context, store, response, UpstreamQuery(query=context.entry.query))


async def cancelled(context: RequestContext, store: GatewayStore, response: StoredResponse) -> StoredResponse:
    """Cancel a response at its account, and return it. Raises UpstreamError."""
    return await _asked(context, store, response, UpstreamQuery("POST", "/cancel"))


async def deleted(context: RequestContext, response: StoredResponse) -> None:
    """Delete a response at its account, which ends it if it runs. What goes wrong is only logged: ours is deleted."""
    questions = (
        [UpstreamQuery("DELETE")]
        if response.status in ENDED
        else [UpstreamQuery("POST", "/cancel"), UpstreamQuery("DELETE")]
    )
    for question in questions:
        try:
            async with asyncio.timeout(DELETE_SECONDS):
                await _whole(context, response, question)
        except (TrilogueError, TimeoutError) as error:
            text = str(error) or "it took too long"
            log.warning("response not deleted upstream", id=response.id, asked=question.method, error=text)


async def stream(context: RequestContext, store: GatewayStore, response: StoredResponse) -> None:
    """Respond with the stream of a response that its account sends. Raises UpstreamError."""
    upstream = await _sent(context, response, UpstreamQuery(query=context.entry.query, stream=True))
    parser = SseParser(MOST_EVENT_BYTES)
    try:
        with event_stream(context) as responder:
            while data := await upstream.chunk():
                for event in parser.feed(data):
                    body = await _kept_event(store, response, event.data)
                    await responder.write(b"event: %b\ndata: %b\n\n" % (event.event.encode(), body))
    finally:
        await upstream.aclose()


async def _kept_event(store: GatewayStore, response: StoredResponse, data: bytes) -> bytes:
    """Return an event with the client's name of the model. A complete response in it is stored first."""
    try:
        body = bytes(_decode_event(data).response)
        if not body:
            return data
        named = _for_client(body, response)
        status = _decode_status(named).status
        data = data if named == body else dump({**_decode_fields(data), "response": Raw(named)})
    except DECODE_ERRORS:
        return data
    if status in ENDED and response.status not in ENDED:
        await _replace(store, response, named, status)
    return data


async def _asked(
    context: RequestContext, store: GatewayStore, response: StoredResponse, question: UpstreamQuery
) -> StoredResponse:
    """Return a response as its account returns it."""
    body = await _whole(context, response, question)
    try:
        body = _for_client(body, response)
        status = _decode_status(body).status
    except DECODE_ERRORS:
        raise UpstreamProtocolError("the upstream did not respond with a response") from None
    if status in ENDED:
        return await _replace(store, response, body, status)
    return replace(response, body=body, status=status or response.status)


def _for_client(body: bytes, response: StoredResponse) -> bytes:
    """Return a response object of the upstream with what only the gateway knows: names, and what it continues."""
    known, now = _decode_fields(response.body), _decode_fields(body)
    changed = {name: known[name] for name in _KNOWN_HERE if name in known and now.get(name) != known[name]}
    named = renamed(body, response.model)
    return named if not changed else dump({**_decode_fields(named), **changed})


async def _replace(store: GatewayStore, response: StoredResponse, body: bytes, status: str) -> StoredResponse:
    complete = replace(response, body=body, status=status)
    await store.service.write(store.store.responses.put, complete)
    return complete


async def _whole(context: RequestContext, response: StoredResponse, question: UpstreamQuery) -> bytes:
    owner = _owner(context, response)
    seconds = owner.provider.clocks.total if owner is not None else 0.0
    try:
        async with asyncio.timeout(seconds):
            upstream = await _sent(context, response, question)
            try:
                return await upstream.read(context.entry.gateway.settings.max_body_bytes)
            finally:
                await upstream.aclose()
    except TimeoutError:
        raise UpstreamTimeout(f"there was no complete response within {seconds:g} s (timeouts.total)") from None


async def _sent(context: RequestContext, response: StoredResponse, question: UpstreamQuery) -> UpstreamResponse:
    """Ask the account about its response. Raises UpstreamError, and UnknownId if it does not know it any more."""
    owner = _owner(context, response)
    if owner is None:
        raise UpstreamFailure(_OWNER_GONE)
    provider, account = owner
    context.record.provider, context.record.account = provider.name, account.name
    if provider.passes_client_key:
        context.record.own_key = True
        account = account.for_client(context.entry.client_key, context.entry.client)
        owner = Owner(provider, account)
    pool = context.entry.gateway.upstreams.pools.pools[provider.name].account(account.name)
    way = 0 if pool is None or pool.proxies is None else pool.proxies.choose(steady_time())
    upstream = await account.ways[way].send(_request(context, owner, response, question))
    if upstream.status < 300:
        return upstream
    try:
        body = await error_body(upstream)
    finally:
        await upstream.aclose()
    if upstream.status == _NOT_FOUND:
        raise UnknownId(KIND, response.id)
    if upstream.status < 400:
        raise UpstreamProtocolError(f"the upstream responded with a redirect ({upstream.status})")
    raise UpstreamFailure(response_failure(upstream, body, context.entry.client, account.redactor))


def _owner(context: RequestContext, response: StoredResponse) -> Owner | None:
    """Return the account that keeps a response; None if it is not configured any more, or keeps nothing."""
    gateway, origin, client = context.entry.gateway, response.origin, context.entry.client
    provider = gateway.upstreams.providers.get(origin.provider) if origin is not None else None
    account = provider.accounts.get(origin.account) if provider is not None and origin is not None else None
    if provider is None or account is None or provider.is_demo or client not in provider.protocols:
        return None
    return Owner(provider, account) if provider.profile(response.model, client).keeps_state else None


def _request(
    context: RequestContext, owner: Owner, response: StoredResponse, question: UpstreamQuery
) -> UpstreamRequest:
    provider, account = owner
    client, entry = context.entry.client, context.entry
    path = f"{CODECS[client].endpoint.path}/{quote(response.id, safe='')}{question.path}"
    headers = account.posting(entry.forwarded, question.stream, provider.version(response.model, client), client)
    return UpstreamRequest(
        method=question.method,
        url=with_query(provider.url(client, path), question.query),
        headers=headers,
        body=b"",
        timeouts=provider.stream_timeouts if question.stream else provider.timeouts,
    )


@contextmanager
def event_stream(context: RequestContext) -> Iterator[Responder]:
    """Start a stream, keep it alive, and end it. Raises ClientGone from inside if the client disconnects.

    An error ends it without a last event, so that the client asks again from where it was.
    """
    responder = context.responder
    responder.start(200, SSE_HEADERS)
    context.in_band = lambda _: responder.end()
    seconds = context.entry.gateway.settings.keepalive_seconds
    keepalive = KeepAlive(seconds, responder, lambda: None if responder.busy else responder.send(COMMENT))
    try:
        with watching(context):
            yield responder
    finally:
        keepalive.stop()
    responder.end()
