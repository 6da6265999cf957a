"""Attempts of requests that pass through as they are, and their responses: bytes as they arrive, and the usage in them.

A response is committed with its first bytes. Until then, another account may be tried, unless more of an upload was
sent than is held.
"""

from __future__ import annotations

import json
import re
import time
from functools import lru_cache
from urllib.parse import quote

from msgspec.structs import replace

from trilogue.base.clock import STEADY_OFFSET, steady_time
from trilogue.errors import UpstreamError
from trilogue.gateway.request.failures import for_client
from trilogue.gateway.request.other import OtherCall, other_outbound
from trilogue.gateway.request.outbound import Outbound, Place
from trilogue.gateway.request.ownership import ObjectResponse, notes_response
from trilogue.gateway.response.attempt import RelayResult, UpstreamAttempt
from trilogue.gateway.response.attempts import AttemptLoop
from trilogue.gateway.response.client_response import kept_headers
from trilogue.model import Usage
from trilogue.net.client.interface import UpstreamResponse
from trilogue.net.server.responder import Headers
from trilogue.protocols.endpoint import OtherEndpoint
from trilogue.protocols.failure import failure_of
from trilogue.routing.pool.decision import Attempt

_PASSED = frozenset(
    {
        "content-type",
        "content-disposition",
        "content-language",
        "content-range",
        "accept-ranges",
        "etag",
        "last-modified",
    }
)
"""headers that describe the body; the others are for the gateway"""
_STREAM = "text/event-stream"
_TAIL_BYTES = 16 * 1024
"""how much of the end of a response is searched for usage, which comes after everything else"""
_USAGE = re.compile(r'(?<!\\)"usage"\s*:\s*(?=\{)')
_decode = json.JSONDecoder().raw_decode


class OtherAttempts(AttemptLoop, kw_only=True, eq=False):
    """The attempts of a request that passes through."""

    call: OtherCall
    public_url: str
    """the address of the gateway as the client knows it"""

    async def make(self, planned: Attempt) -> RelayResult:
        """Send the request to one account and its response to the client. Raises UpstreamError if it fails."""
        provider, account = self.begin(planned)
        place = Place(provider, account, planned.model)
        outbound = other_outbound(self.context, self.call, place)
        self.context.record.upstream = planned.protocol = outbound.protocol.short
        if not notes_response(self.context, self.call.route.endpoint):
            return await self._made(planned, place, outbound)
        response = ObjectResponse(self.context, self.call.route.endpoint, provider.name)
        result = await self._made(planned, place, outbound, response)
        while response.next_page:
            # Nothing on this page is the client's, and some SDKs stop at an empty page.
            outbound = _at_page(outbound, self.call.route.endpoint, response.next_page)
            result = await self._made(planned, place, outbound, response)
        return result

    async def _made(
        self, planned: Attempt, place: Place, outbound: Outbound, noted: ObjectResponse | None = None
    ) -> RelayResult:
        attempt = UpstreamAttempt(planned, place, outbound)
        await self.send(attempt, False)
        planned.first_byte = time.monotonic() + STEADY_OFFSET - self.plan.decision.at
        try:
            await attempt.check()
            return await self._relay(attempt, noted)
        finally:
            if not attempt.response.complete:
                await attempt.response.aclose()

    async def may_retry(self, error: UpstreamError) -> bool:
        """Report a failed attempt. Return whether another one may follow."""
        spent = self.call.upload is not None and not self.call.upload.replayable
        may_retry = self.plan.failed(steady_time(), error, committed=spent or self.context.responder.started)
        self.notify_ended(failure_of(error))
        return may_retry

    async def _relay(self, attempt: UpstreamAttempt, noted: ObjectResponse | None) -> RelayResult:
        """Send the response to the client. Raises UpstreamError as long as nothing was sent."""
        response, responder, endpoint = attempt.response, self.context.responder, self.call.route.endpoint
        kind = _content_type(response)
        is_json = kind.startswith("application/json")
        if (is_json and (noted is not None or endpoint.links)) or (noted is not None and noted.is_list):
            body = await response.read(self.gateway.settings.max_body_bytes)
            if noted is not None:
                body = await noted.read(body)
                if noted.next_page:
                    return RelayResult()
            if endpoint.links:
                body = with_links(body, endpoint, self.public_url)
            responder.reply(response.status, _headers(response), body)
            return RelayResult()
        data = await response.chunk()
        self._note_start(streamed=kind.startswith(_STREAM))
        responder.start(response.status, _headers(response))
        tail = b""
        try:
            while data:
                if endpoint.usage is not None:
                    tail = (tail + data)[-_TAIL_BYTES:]
                await responder.write(data)
                data = await response.chunk()
        except UpstreamError as error:
            # The response is left without its end, so the client can see that it is not complete.
            failure = attempt.redactor.failure(failure_of(error))
            self.context.record.mark_failed(for_client(failure, self.context.record))
            return RelayResult(failure=failure)
        finally:
            # Also if the client has gone: official SDKs close the connection when they have read the last event.
            usage = self.context.record.usage = read_usage(tail, endpoint, streamed=kind.startswith(_STREAM))
        settle = self.gateway.observers.request_settled
        if settle is not None:
            settle(self.context.record)
        responder.end()
        return RelayResult(usage=usage)

    def _note_start(self, *, streamed: bool) -> None:
        record = self.context.record
        record.stream = streamed
        if streamed:
            record.content_at = time.monotonic()
        if self.gateway.observers.response_began is not None:
            self.gateway.observers.response_began(record)


def read_usage(tail: bytes, endpoint: OtherEndpoint, *, streamed: bool = False) -> Usage | None:
    """Return the usage that the end of a response reports: in JSON, or in the last event of a stream that has it."""
    if endpoint.usage is None or tail.find(b'"usage"') < 0:
        return None
    text = tail.decode("utf-8", "replace")
    for found in reversed(list(_USAGE.finditer(text))):
        try:
            value, end = _decode(text, found.end())
        except ValueError:
            continue
        if _is_outermost(text[end:].partition("\n")[0] if streamed else text[end:]):
            return endpoint.usage(value)
    return None


def _is_outermost(rest: str) -> bool:
    """Return whether this is how an object goes on after one of its fields.

    Objects inside of it may come from the client, such as documents to rank, and have a field of the same name.
    """
    text = "{" + rest.strip().removeprefix(",")
    try:
        end: int = _decode(text)[1]
    except ValueError:
        return False
    return end == len(text)


def _content_type(response: UpstreamResponse) -> str:
    return dict(response.headers).get("content-type", "").lower()


def _headers(response: UpstreamResponse) -> Headers:
    """Return the upstream's headers that the client gets."""
    passed = [
        (name.encode("latin-1"), value.encode("latin-1", "replace"))
        for name, value in response.headers
        if name in _PASSED
    ]
    if _content_type(response).startswith(_STREAM):
        # nginx would collect events and send them together.
        passed.append((b"x-accel-buffering", b"no"))
    return [*passed, *kept_headers(response)]


def _at_page(outbound: Outbound, endpoint: OtherEndpoint, cursor: str) -> Outbound:
    """Return a request for the page of a list that follows this cursor."""
    url, _, query = outbound.request.url.partition("?")
    name = endpoint.cursor[0]
    kept = [part for part in query.split("&") if part and part.partition("=")[0] != name]
    asked = "&".join([*kept, f"{name}={quote(cursor, safe='')}"])
    return replace(outbound, request=replace(outbound.request, url=f"{url}?{asked}"))


def with_links(body: bytes, endpoint: OtherEndpoint, public_url: str) -> bytes:
    """Return a JSON body in which links to the upstream lead to the gateway. Every other byte stays.

    A client would follow such a link with its key for the gateway, which the upstream must not get.
    """
    return _link(endpoint).sub(rb"\1" + f"{public_url}/v1".encode() + rb"\2", body)


@lru_cache
def _link(endpoint: OtherEndpoint) -> re.Pattern[bytes]:
    names, path = "|".join(map(re.escape, endpoint.links)).encode(), re.escape(endpoint.path).encode()
    return re.compile(rb'("(?:%b)"\s*:\s*")https?://[^"\\]*?(%b/)' % (names, path))
