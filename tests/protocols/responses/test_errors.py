"""Errors in every shape that servers have been seen to send, and in the one that clients take."""

import json
from typing import Any

import openai
import pytest

from tests.judges import sdk
from trilogue.model import Failure, FailureKind, Protocol
from trilogue.protocols.responses.errors import decode_error, encode_error


def decode(status: int, body: Any, headers: dict[str, str] | None = None) -> Failure:
    return decode_error(status, headers or {}, body if isinstance(body, bytes) else json.dumps(body).encode())


@pytest.mark.parametrize(
    ("status", "body", "kind", "message"),
    [
        (400, {"error": {"message": "m", "type": "invalid_request_error"}}, FailureKind.INVALID_REQUEST, "m"),
        (400, {"error": {"message": "m", "code": "context_length_exceeded"}}, FailureKind.CONTEXT_LENGTH, "m"),
        (400, {"code": "invalid-argument", "error": "Incorrect API key provided."}, FailureKind.AUTHENTICATION, None),
        (401, {"detail": "no token"}, FailureKind.AUTHENTICATION, "no token"),
        (422, {"detail": [{"loc": ["body"], "msg": "x"}]}, FailureKind.INVALID_REQUEST, "x"),
        (404, {"error": {"message": "m", "code": "model_not_found"}}, FailureKind.MODEL_NOT_FOUND, "m"),
        (429, {"error": {"message": "m", "type": "insufficient_quota"}}, FailureKind.QUOTA, "m"),
        (429, {"error": {"message": "m", "code": 429}}, FailureKind.RATE_LIMIT, "m"),
        (500, {"object": "error", "message": "m", "code": 500}, FailureKind.SERVER, "m"),
        (502, b"<html>bad gateway</html>", FailureKind.SERVER, "the upstream responded with status 502"),
        (503, b"", FailureKind.OVERLOADED, "the upstream responded with status 503"),
        (529, b"busy", FailureKind.OVERLOADED, "busy"),
        (
            400,
            {"error": {"type": "fail", "upstream_error": {"error": {"message": "m"}}}},
            FailureKind.INVALID_REQUEST,
            "m",
        ),
        (400, {"error": '{"error": {"message": "m"}}'}, FailureKind.INVALID_REQUEST, "m"),
        (400, [1, 2], FailureKind.INVALID_REQUEST, "the upstream responded with status 400"),
    ],
)
def test_shapes(status: int, body: Any, kind: FailureKind, message: str | None) -> None:
    """Whatever the body, there is a kind and a message."""
    failure = decode(status, body)
    assert failure.kind is kind
    assert failure.status == status
    if message is not None:
        assert failure.message == message


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:10 GMT", "date": "Wed, 21 Oct 2026 07:28:00 GMT"}, 10.0),
        ({"retry-after": "soon"}, 20.0),
        ({"retry-after": "nan"}, 20.0),
    ],
)
def test_when_to_come_back(headers: dict[str, str], seconds: float) -> None:
    """Seconds, milliseconds, a date, or the words of the message."""
    body = {"error": {"message": "Please try again in 20s.", "code": "rate_limit_exceeded"}}
    assert decode(429, body, headers).retry_after == seconds


def test_waiting_does_not_fill_an_empty_account() -> None:
    """So that no client is told to wait for it."""
    failure = decode(429, {"error": {"message": "m", "code": "insufficient_quota"}}, {"retry-after": "3"})
    assert failure.retry_after is None
    assert "retry-after" not in encode_error(failure, "r").headers


@pytest.mark.parametrize("kind", list(FailureKind))
def test_every_kind_becomes_a_typed_exception(kind: FailureKind) -> None:
    """With a string or no code at all, never a number."""
    reply = encode_error(Failure(kind=kind, message="m", retry_after=1.2), "req_1")
    error = reply.body["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert reply.headers["x-request-id"] == "req_1"
    raised = sdk.raised(Protocol.RESPONSES, reply.status, reply.body, reply.headers)
    assert isinstance(raised, openai.APIStatusError)
    assert raised.status_code == reply.status


def test_names_of_another_protocol_do_not_leak() -> None:
    """A client of this protocol does not know them."""
    failure = Failure(
        kind=FailureKind.OVERLOADED,
        message="m",
        status=529,
        type="overloaded_error",
        code="x",
        protocol=Protocol.MESSAGES,
    )
    reply = encode_error(failure, "")
    assert (reply.status, reply.body["error"]["type"]) == (503, "server_error")
    assert reply.body["error"]["code"] == "server_is_overloaded"


def test_own_error_keeps_status_type_and_code() -> None:
    """Clients branch on them."""
    failure = decode(422, {"error": {"message": "m", "type": "odd_error", "code": "odd", "param": "input"}})
    reply = encode_error(failure, "")
    assert reply.status == 422
    assert reply.body == {"error": {"message": "m", "type": "odd_error", "param": "input", "code": "odd"}}
