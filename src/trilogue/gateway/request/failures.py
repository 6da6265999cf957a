"""Errors on their way through the gateway: an upstream's error in, the HTTP response for the client out.

`protocols.failure` lists all calls on that way. The status shows who is at fault: a client gets a 4xx only if
it has to change something. If an upstream rejects the gateway's key, its 401 becomes a 503. The module does not know
whether another attempt is made; that is decided in `pool`.
"""

from __future__ import annotations

import asyncio
import time
from codecs import BOM_UTF8

from msgspec.structs import replace

from trilogue.base.clock import steady_time
from trilogue.errors import TrilogueError, UpstreamError, UpstreamFailure
from trilogue.gateway.record import RequestRecord
from trilogue.model import Failure, FailureKind, Protocol
from trilogue.net.client.interface import UpstreamResponse
from trilogue.net.server.responder import Headers
from trilogue.protocols.codec import ErrorReply
from trilogue.protocols.endpoint import OVERLOADED
from trilogue.protocols.failure import (
    FINAL_CODES,
    failure_of,
    http_date,
    own_failure,
    reset_delay,
    with_retry_after,
)
from trilogue.protocols.registry import codec
from trilogue.routing.pool.classify import LOOP_TEXT
from trilogue.routing.pool.plan import CREDENTIAL, QUOTA
from trilogue.upstreams.redaction import Redactor

LOOP = "gateway_loop"
LOOP_STATUS = 508

SHUTTING_DOWN = own_failure(503, "the gateway is shutting down", "unavailable")
"""What requests get that cannot be finished while the gateway drains."""

REVOKED = own_failure(403, "the client key of this request was revoked", "key_revoked")
"""What requests get that run while their key is revoked, if they are to be ended."""

MAX_ERROR_BYTES = 1024 * 1024
ERROR_SECONDS = 5.0
"""How long to wait for the body of an error. Its status is known, and that says most."""

MAX_RETRY_AFTER = 60
"""Seconds. SDKs sleep as long as the header says: one of them slept a hundred thousand seconds."""

_OPERATOR = {
    FailureKind.AUTHENTICATION: ("{provider} refused the key of {account}", CREDENTIAL),
    FailureKind.BILLING: ("{provider}/{account} has no credit left", QUOTA),
    FailureKind.QUOTA: ("{provider}/{account} has used up its quota", QUOTA),
}
"""Failures that only the operator of the gateway can fix, as the client sees them."""

_NEXT_STEPS = {
    "upstream_connect": "check that it runs, and its base_url",
    "upstream_unreachable": "check that it runs, its base_url, and the network",
    "upstream_tls": "check its certificate, and whether its base_url is http or https",
    "upstream_timeout": "try again, or raise its timeouts",
    "upstream_truncated": "try again; `trilogue lint --url` checks an upstream",
    "upstream_protocol_error": "check its base_url and protocol; `trilogue lint --url` checks an upstream",
    "upstream_error": "try again; `trilogue lint --url` checks an upstream",
    CREDENTIAL: "check its keys; `trilogue accounts` shows which were refused",
    QUOTA: "top it up, or add accounts",
}
"""What to do about failures that the gateway has found, by their code. The upstream's own words say it themselves."""
_ABOUT_REQUEST = frozenset(
    {FailureKind.INVALID_REQUEST, FailureKind.TOO_LARGE, FailureKind.CONFLICT, FailureKind.NOT_FOUND}
)
"""Failures that another provider would report as well: the upstream's words are passed on unchanged."""

_MOST_SAID = 300
"""Characters of an upstream's words about the account."""
_SPENT = frozenset({FailureKind.QUOTA, FailureKind.BILLING})
_RETRYABLE = frozenset({408, 409, 429, 500, 502, 503, 504, OVERLOADED})


async def error_body(response: UpstreamResponse) -> bytes:
    """Return the body of an HTTP error; b"" if it does not arrive in time, is too long or is compressed."""
    if dict(response.headers).get("content-encoding", "").lower() not in ("", "identity"):
        return b""
    try:
        async with asyncio.timeout(ERROR_SECONDS):
            return (await response.read(MAX_ERROR_BYTES)).removeprefix(BOM_UTF8)
    except (UpstreamError, TimeoutError):
        return b""


def response_failure(response: UpstreamResponse, body: bytes, protocol: Protocol, redactor: Redactor) -> Failure:
    """Return the failure that an HTTP error of an upstream reports, without secrets of the account.

    They are removed before the codec cuts long texts: half a key at the end of a text is harder to recognise.
    """
    headers = _dated_headers(response)
    failure = codec(protocol).decode_error(response.status, headers, redactor.body(body))
    if failure.kind is FailureKind.RATE_LIMIT:
        # Some upstreams only say when their limits are reset.
        failure = with_retry_after(failure, reset_delay(headers, steady_time()))
    return failure


def redacted(error: UpstreamFailure, redactor: Redactor) -> UpstreamFailure:
    """Return the error of an attempt without secrets of its account. Call it before the error is logged or sent."""
    return UpstreamFailure(redactor.failure(failure_of(error)))


def client_failure(error: TrilogueError, protocol: Protocol, record: RequestRecord) -> Failure:
    """Return any error as the failure that the client gets. `protocol`: the client's. `record`: of the request."""
    failure = failure_of(error, protocol)
    return for_client(failure, record) if isinstance(error, UpstreamError) else failure


def for_client(failure: Failure, record: RequestRecord) -> Failure:
    """Return an upstream's failure as the client may see it: what only the operator can fix becomes a 503.

    What is wrong with the client's own key is the client's to fix. The message names the provider of the last attempt.
    """
    provider = record.provider
    if record.own_key and failure.kind in _OPERATOR:
        words = f"{failure.message} (provider {provider}, which was asked with the key that the client sent)"
        return replace(failure, message=words)
    failure = _without_operators_words(failure, record)
    if not provider or provider in failure.message or failure.kind in _ABOUT_REQUEST or failure.code == LOOP:
        return failure
    is_theirs = failure.native is not None
    if is_theirs and failure.protocol is not None and failure.protocol.short == record.client:
        # The upstream's own words, in the client's own protocol: they are passed on as they are.
        return failure
    step = "" if is_theirs else _NEXT_STEPS.get(failure.code or "", "")
    return replace(failure, message=f"{failure.message} (provider {provider}{f': {step}' if step else ''})")


def _without_operators_words(failure: Failure, record: RequestRecord) -> Failure:
    if failure.status == LOOP_STATUS and LOOP_TEXT.search(failure.message):
        # The gateways of a circle may speak any protocol to each other. Each must see the loop, so that none retries.
        return Failure(kind=FailureKind.SERVER, message=failure.message, code=LOOP, status=LOOP_STATUS)
    if failure.kind not in _OPERATOR:
        return failure
    # Not UNAVAILABLE: Messages clients read that as an overload and retry for minutes, whatever x-should-retry says.
    words, code = _OPERATOR[failure.kind]
    who = words.format(provider=record.provider or "the upstream", account=record.account or "its account")
    said = " ".join(f"{failure.status or ''} {failure.message}".split())[:_MOST_SAID]
    return Failure(kind=FailureKind.SERVER, message=f"{who}: {said} (see `trilogue accounts`)", code=code, status=503)


def _dated_headers(response: UpstreamResponse) -> dict[str, str]:
    """Return the headers of an upstream's error, with a date: a `retry-after` that is a date counts from it."""
    headers = dict(response.headers)
    if http_date(headers.get("date", "")) is None:
        headers["date"] = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime())
    return headers


def next_step(code: str) -> str:
    """Return what to do about a failure that the gateway has found, by its code; "" if nothing is known."""
    return _NEXT_STEPS.get(code, "")


def error_reply(failure: Failure, client: Protocol, request_id: str) -> ErrorReply:
    """Return the HTTP response in the client's protocol, with the headers by which SDKs decide whether to retry."""
    reply = codec(client).encode_error(failure, request_id)
    # Every response has the request id already.
    headers = {name: value for name, value in reply.headers.items() if name not in ("x-request-id", "request-id")}
    headers["content-type"] = "application/json"
    # The gateway's own failures name their status. For those of an upstream the codec chooses one by kind.
    status = failure.status if failure.protocol is None and failure.status else reply.status
    status = codec(client).endpoint.error_status(status)
    again = status in _RETRYABLE and failure.kind not in _SPENT and failure.code not in FINAL_CODES
    headers["x-should-retry"] = "true" if again else "false"
    # Codex does not read x-should-retry, and waits without a word for as long as retry-after says, twenty times.
    if again and failure.retry_after is not None:
        headers["retry-after"] = str(clamped(failure.retry_after))
    else:
        headers.pop("retry-after", None)
    return ErrorReply(status, reply.body, headers)


def clamped(seconds: float) -> int:
    """Return a delay in whole seconds that a client can sleep without its user giving up."""
    return max(0, min(MAX_RETRY_AFTER, round(seconds + 0.499)))


def raw_headers(headers: dict[str, str]) -> Headers:
    """Return headers as bytes, as the server writes them."""
    return [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers.items()]
