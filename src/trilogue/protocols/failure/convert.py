"""Errors as data: the one place where an exception becomes a `Failure`.

In: any error that this package raises. Out: a `Failure`, which the pool classifies and a codec writes for the client.
The module does not know how an error looks on the wire, nor what to do about it.

The way of an error from the socket to the client, in order of calls:

1. An exception is raised.
   - No connection: `upstream.failures.connect_failure` and `tls_failure` make an OSError an `UpstreamConnect`.
   - A connection that breaks or goes silent: `upstream.connection` and `upstream.exchange` raise `UpstreamConnect`,
     `UpstreamTruncated`, `UpstreamTimeout` or `UpstreamProtocolError`.
   - An HTTP status of 400 or more: `gateway.request.failures.response_failure` removes secrets from the body, and
     `decode_error` of the upstream's codec reads it. The result is raised as an `UpstreamFailure`.
   - An error inside a response with status 200: the codec's decoder raises `UpstreamFailure` or another
     `UpstreamError`. `StreamDecoder.fail` makes it the last event, `Failed`, with `failure_of`.
2. `gateway.request.failures.redacted` removes secrets of the account from what the upstream said. Nothing before this
   point is logged or sent.
3. `pool.classify.classify` decides, on the result of `failure_of`, whether another attempt is made.
4. If there is none, `gateway.request.failures.client_failure` calls `failure_of` and replaces failures that only the
   operator can fix. `error_reply` then writes an HTTP response with `encode_error` of the client's codec. Once a stream
   has begun, the client's encoder writes the failure as its last event.
"""

from __future__ import annotations

from trilogue.errors import (
    ClientError,
    LimitReached,
    TrilogueError,
    UpstreamConnect,
    UpstreamError,
    UpstreamFailure,
    UpstreamProtocolError,
    UpstreamTimeout,
    UpstreamTruncated,
)
from trilogue.model import Failure, FailureKind, Protocol

_UPSTREAM_KINDS = {
    UpstreamProtocolError: FailureKind.UPSTREAM_PROTOCOL,
    UpstreamTruncated: FailureKind.UPSTREAM_TRUNCATED,
    UpstreamConnect: FailureKind.UPSTREAM_CONNECT,
    UpstreamTimeout: FailureKind.TIMEOUT,
}

_OWN_KINDS = {
    400: FailureKind.INVALID_REQUEST,
    401: FailureKind.AUTHENTICATION,
    403: FailureKind.PERMISSION,
    404: FailureKind.NOT_FOUND,
    405: FailureKind.INVALID_REQUEST,
    408: FailureKind.INVALID_REQUEST,
    409: FailureKind.INVALID_REQUEST,
    413: FailureKind.TOO_LARGE,
    415: FailureKind.INVALID_REQUEST,
    426: FailureKind.INVALID_REQUEST,
    429: FailureKind.RATE_LIMIT,
    431: FailureKind.TOO_LARGE,
    503: FailureKind.UNAVAILABLE,
}
"""Statuses that the gateway itself gives. A 408 of ours is about the client's slow request, not an upstream's."""


def failure_of(error: TrilogueError | Failure, protocol: Protocol | None = None) -> Failure:
    """Return an error as data; a `Failure` comes back unchanged.

    `protocol`: the one whose response the failure takes the place of. Without it, an upstream error of our own has no
    status, because no server sent one: the pool's rules must not match it by status.
    """
    if isinstance(error, Failure):
        return error
    if isinstance(error, UpstreamFailure) and isinstance(error.failure, Failure):
        return error.failure
    if isinstance(error, UpstreamError):
        return Failure(
            kind=_UPSTREAM_KINDS.get(type(error), FailureKind.SERVER),
            message=str(error),
            status=error.status if protocol is not None else 0,
            code=error.code,
            protocol=protocol,
        )
    if isinstance(error, LimitReached):
        kind = FailureKind.QUOTA if error.is_budget else FailureKind.RATE_LIMIT
        return Failure(kind=kind, message=error.message, status=429, code=error.code, retry_after=error.retry_after)
    if isinstance(error, ClientError):
        kind = FailureKind.MODEL_NOT_FOUND if error.code == "model_not_found" else _OWN_KINDS[error.status]
        return Failure(kind=kind, message=error.message, status=error.status, code=error.code, param=error.path or None)
    return own_failure(500, "internal error", "internal_error")


def own_failure(status: int, message: str, code: str) -> Failure:
    """Return a failure that the gateway found itself, such as a missing key, an unknown path, a body too large."""
    return Failure(kind=_OWN_KINDS.get(status, FailureKind.SERVER), message=message, status=status, code=code)
