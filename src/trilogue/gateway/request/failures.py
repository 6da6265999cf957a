"""Errors on their way to the client: what the gateway answers for what went wrong, in the client's own protocol.

Whose fault it is stays visible: a 4xx only where the client must change something. An upstream that does not accept
our credential is our problem, so its 401 becomes a 503.
"""

from __future__ import annotations

import time

from trilogue.errors import ClientError, TrilogueError, UpstreamError
from trilogue.model import Failure, FailureKind, Protocol
from trilogue.pool.health.classify import LOOP_TEXT
from trilogue.pool.plan import CREDENTIAL, QUOTA
from trilogue.protocols.codec import ErrorReply
from trilogue.protocols.failure.codes import FINAL_CODES
from trilogue.protocols.failure.retry import http_date
from trilogue.protocols.registry import codec
from trilogue.protocols.stream.decoder import failure_of
from trilogue.serving import Headers
from trilogue.upstream import UpstreamResponse

LOOP = "gateway_loop"
LOOP_STATUS = 508

MAX_RETRY_AFTER = 60
"""Seconds. SDKs sleep whatever we say: one of them a hundred thousand seconds."""

_OURS = {
    FailureKind.AUTHENTICATION: ("the upstream did not accept the gateway's credential", CREDENTIAL),
    FailureKind.BILLING: ("the upstream account has run out of credit", QUOTA),
    FailureKind.QUOTA: ("the upstream account has run out of quota", QUOTA),
}
"""what only who runs the gateway can mend"""

_KINDS = {
    400: FailureKind.INVALID_REQUEST,
    401: FailureKind.AUTHENTICATION,
    403: FailureKind.PERMISSION,
    404: FailureKind.NOT_FOUND,
    405: FailureKind.INVALID_REQUEST,
    408: FailureKind.INVALID_REQUEST,
    413: FailureKind.TOO_LARGE,
    415: FailureKind.INVALID_REQUEST,
    426: FailureKind.INVALID_REQUEST,
    429: FailureKind.RATE_LIMIT,
    431: FailureKind.TOO_LARGE,
    503: FailureKind.UNAVAILABLE,
}

_SPENT = frozenset({FailureKind.QUOTA, FailureKind.BILLING})
OVERLOADED = 529
"""a status that only Anthropic's clients know"""
_RETRYABLE = frozenset({408, 409, 429, 500, 502, 503, 504, OVERLOADED})


def upstream_failure(failure: Failure) -> Failure:
    """An upstream's failure as the client may see it."""
    if failure.status == LOOP_STATUS and LOOP_TEXT.search(failure.message):
        # Whatever is spoken between the gateways of a circle, each must know it for what it is: nobody tries again.
        return Failure(kind=FailureKind.SERVER, message=failure.message, code=LOOP, status=LOOP_STATUS)
    if failure.kind not in _OURS:
        return failure
    # Not UNAVAILABLE: Messages clients read that as an overload and try for minutes, whatever x-should-retry says.
    message, code = _OURS[failure.kind]
    return Failure(kind=FailureKind.SERVER, message=message, code=code, status=503)


def failure_from(error: TrilogueError, protocol: Protocol) -> Failure:
    """Any of our own errors as data."""
    if isinstance(error, ClientError):
        kind = FailureKind.MODEL_NOT_FOUND if error.code == "model_not_found" else _KINDS[error.status]
        return Failure(kind=kind, message=error.message, status=error.status, code=error.code, param=error.path or None)
    if isinstance(error, UpstreamError):
        return upstream_failure(failure_of(error, protocol))
    return Failure(kind=FailureKind.SERVER, message="internal error", status=500, code="internal_error")


def plain_failure(status: int, message: str, code: str) -> Failure:
    """A failure that the gateway itself found: no key, no such path, a body too large."""
    return Failure(kind=_KINDS.get(status, FailureKind.SERVER), message=message, status=status, code=code)


def error_headers(response: UpstreamResponse) -> dict[str, str]:
    """The headers of an upstream's error. They have a date: a `retry-after` that is one counts from it."""
    headers = dict(response.headers)
    if http_date(headers.get("date", "")) is None:
        headers["date"] = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime())
    return headers


def error_reply(failure: Failure, client: Protocol, request_id: str) -> ErrorReply:
    """The HTTP answer in the client's own shape, with what SDKs need to decide whether to try again."""
    reply = codec(client).encode_error(failure, request_id)
    # Every answer carries the request id already.
    headers = {name: value for name, value in reply.headers.items() if name not in ("x-request-id", "request-id")}
    headers["content-type"] = "application/json"
    if failure.retry_after is not None:
        headers["retry-after"] = str(clamped(failure.retry_after))
    else:
        headers.pop("retry-after", None)
    # A failure of our own has a status of its own; that of an upstream goes by its kind.
    status = failure.status if failure.protocol is None and failure.status else reply.status
    if status == OVERLOADED and client is not Protocol.MESSAGES:
        status = 503
    again = status in _RETRYABLE and failure.kind not in _SPENT and failure.code not in FINAL_CODES
    headers["x-should-retry"] = "true" if again else "false"
    return ErrorReply(status, reply.body, headers)


def clamped(seconds: float) -> int:
    """A delay that a client may sleep without being lost to its user."""
    return max(0, min(MAX_RETRY_AFTER, round(seconds + 0.499)))


def raw_headers(headers: dict[str, str]) -> Headers:
    """Headers as the server writes them."""
    return [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers.items()]
