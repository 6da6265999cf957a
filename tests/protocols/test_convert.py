"""Every error that we raise as a `Failure`: kind, status, code, and nothing else made up."""

import pytest

from trilogue.errors import (
    BadRequest,
    InternalError,
    SealError,
    TooLarge,
    TrilogueError,
    Unsupported,
    UpstreamConnect,
    UpstreamError,
    UpstreamFailure,
    UpstreamProtocolError,
    UpstreamTimeout,
    UpstreamTruncated,
)
from trilogue.model import Failure, FailureKind, Protocol
from trilogue.protocols.failure import failure_of, own_failure

UPSTREAM: list[tuple[UpstreamError, FailureKind, int]] = [
    (UpstreamProtocolError("x"), FailureKind.UPSTREAM_PROTOCOL, 502),
    (UpstreamTruncated("x"), FailureKind.UPSTREAM_TRUNCATED, 502),
    (UpstreamConnect("x", code="upstream_tls"), FailureKind.UPSTREAM_CONNECT, 502),
    (UpstreamTimeout("x"), FailureKind.TIMEOUT, 504),
    (UpstreamError("x"), FailureKind.SERVER, 502),
]


@pytest.mark.parametrize(("error", "kind", "status"), UPSTREAM)
def test_errors_of_upstreams(error: UpstreamError, kind: FailureKind, status: int) -> None:
    """They have a status where they take the place of a response, and none where only servers can have sent one."""
    told = failure_of(error, Protocol.CHAT)
    assert told == Failure(kind=kind, message="x", status=status, code=error.code, protocol=Protocol.CHAT)
    assert failure_of(error) == Failure(kind=kind, message="x", code=error.code)


def test_what_the_upstream_said_stays_as_it_is() -> None:
    """Whether it comes as a failure or inside of an error."""
    said = Failure(kind=FailureKind.RATE_LIMIT, message="slow down", status=429, protocol=Protocol.MESSAGES)
    assert failure_of(said) is said
    assert failure_of(UpstreamFailure(said)) is said
    assert failure_of(UpstreamFailure(said), Protocol.CHAT) is said


@pytest.mark.parametrize(
    ("error", "kind", "status", "code", "param"),
    [
        (BadRequest("m", path="p"), FailureKind.INVALID_REQUEST, 400, "invalid_request", "p"),
        (BadRequest("m", code="model_not_found"), FailureKind.MODEL_NOT_FOUND, 400, "model_not_found", None),
        (TooLarge("m"), FailureKind.TOO_LARGE, 413, "request_too_large", None),
        (Unsupported("p", "m"), FailureKind.INVALID_REQUEST, 400, "unsupported_parameter", "p"),
    ],
)
def test_errors_of_clients(error: TrilogueError, kind: FailureKind, status: int, code: str, param: str | None) -> None:
    failure = failure_of(error, Protocol.CHAT)
    assert failure == Failure(kind=kind, message=str(error), status=status, code=code, param=param)


@pytest.mark.parametrize("error", [InternalError("a secret"), SealError("a secret")])
def test_bugs_say_nothing(error: TrilogueError) -> None:
    """Their text is for the log."""
    assert failure_of(error) == own_failure(500, "internal error", "internal_error")
