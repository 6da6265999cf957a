"""Errors, both ways."""

import json
from typing import Any

import pytest

from trilogue.model import Failure, FailureKind, Protocol
from trilogue.protocols.chat import CODEC
from trilogue.protocols.chat.errors import find_failure


def read(status: int, body: Any, headers: dict[str, str] | None = None) -> Failure:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return CODEC.decode_error(status, headers or {}, data)


@pytest.mark.parametrize(
    ("status", "body", "kind", "message"),
    [
        (
            401,
            {"error": {"message": "bad key", "type": "invalid_request_error", "code": "invalid_api_key"}},
            "authentication",
            "bad key",
        ),
        (
            400,
            {"error": "Model does not support it", "code": "invalid argument"},
            "invalid_request",
            "Model does not support it",
        ),
        (404, {"error": "no such model"}, "not_found", "no such model"),
        (401, {"detail": "Invalid API Key"}, "authentication", "Invalid API Key"),
        (422, {"detail": [{"loc": ["body"], "msg": "field required"}]}, "invalid_request", "field required"),
        (
            400,
            {"object": "error", "message": "no logprobs", "type": "invalid_request", "code": "3051"},
            "invalid_request",
            "no logprobs",
        ),
        (
            400,
            {"object": "error", "message": "gone", "type": "invalid_model", "code": "1500"},
            "model_not_found",
            "gone",
        ),
        (404, {"error": {"code": 404, "message": "No endpoints"}}, "not_found", "No endpoints"),
        (
            400,
            {"error": {"code": 400, "message": "too big", "type": "exceed_context_size_error"}},
            "context_length",
            "too big",
        ),
        (
            400,
            {"error": {"message": "maximum context length is 8k", "code": None}},
            "context_length",
            "maximum context length is 8k",
        ),
        (403, {"message": "not allowed"}, "permission", "not allowed"),
        (400, {"code": 400, "message": "bad temperature", "type": "Bad Request"}, "invalid_request", "bad temperature"),
        (
            500,
            {
                "error": {
                    "type": "request_fail",
                    "upstream_error": {"error": {"message": "deep", "type": "overloaded_error"}},
                }
            },
            "overloaded",
            "deep",
        ),
        (
            400,
            {
                "error": {
                    "code": 400,
                    "message": "Provider returned error",
                    "metadata": {"raw": '{"error": {"message": "inner", "code": "unsupported_value"}}'},
                }
            },
            "unsupported",
            "inner",
        ),
        (400, {"error": {"message": '{"error": {"message": "in a string"}}'}}, "invalid_request", "in a string"),
        (
            429,
            {"error": {"message": "pay", "type": "insufficient_quota", "code": "insufficient_quota"}},
            "quota",
            "pay",
        ),
        (429, [{"error": {"code": 429, "message": "quota", "status": "RESOURCE_EXHAUSTED"}}], "rate_limit", "quota"),
        (
            400,
            {"errors": [{"code": 5006, "message": "no such field"}], "success": False},
            "invalid_request",
            "no such field",
        ),
        (400, {"error_code": 336003, "error_msg": "no messages"}, "invalid_request", "no messages"),
        (502, b"<html><body>Bad gateway</body></html>", "server", "the upstream responded with status 502"),
        (503, b"", "overloaded", "the upstream responded with status 503"),
        (429, b"slow down", "rate_limit", "slow down"),
        (418, b"\xff\xfe", "invalid_request", "\ufffd\ufffd"),
    ],
)
def test_shapes(status: int, body: Any, kind: str, message: str) -> None:
    """All that recorded servers send has a kind and a message."""
    failure = read(status, body)
    assert (failure.kind, failure.message, failure.status) == (FailureKind(kind), message, status)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"retry-after-ms": "0", "retry-after": "3"}, 3.0),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT", "date": "Wed, 21 Oct 2026 07:28:00 GMT"}, 30.0),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT"}, None),
        ({}, None),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    """Seconds, milliseconds and dates; garbage is no delay."""
    assert read(429, {"error": {"message": "x"}}, headers).retry_after == seconds


@pytest.mark.parametrize(
    ("words", "seconds"),
    [
        ("Rate limit reached. Please try again in 1.5s. Visit …", 1.5),
        ("Please try again in 250ms.", 0.25),
        ("Please try again in 6m0s.", 360.0),
        ("Please try again in 1h2m3s", 3723.0),
        ("Please retry in 34.07s.", 34.07),
        ("Please retry after 20 seconds.", 20.0),
        ("Please retry after some time", None),
        ("try again in 5", None),
    ],
)
def test_words_that_say_when(words: str, seconds: float | None) -> None:
    """Providers without the header say it in the message."""
    assert read(429, {"error": {"message": words}}).retry_after == seconds


def test_when_to_come_back_to_google() -> None:
    """It stands among the details of the error."""
    retry = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"}
    body = [{"error": {"code": 429, "message": "quota", "details": [{"@type": "other"}, retry]}}]
    assert read(429, body).retry_after == 7.0
    assert read(429, body, {"retry-after": "3"}).retry_after == 3.0


@pytest.mark.parametrize("kind", list(FailureKind))
def test_every_kind_has_a_response(kind: FailureKind) -> None:
    """The official SDK needs all four keys, and code is never a number."""
    answer = CODEC.encode_error(Failure(kind=kind, message="m", retry_after=500.0), "req_1")
    error = answer.body["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["code"] is None or isinstance(error["code"], str)
    assert 400 <= answer.status < 600
    assert answer.headers["x-request-id"] == "req_1"
    assert answer.headers.get("retry-after", "500") == "500"


def test_names_of_another_protocol_are_not_passed_on() -> None:
    """A Chat client knows nothing of Messages' error types."""
    failure = Failure(
        kind=FailureKind.OVERLOADED, message="m", code="overloaded_error", param="x", protocol=Protocol.MESSAGES
    )
    answer = CODEC.encode_error(failure, "")
    assert answer.status == 503
    assert answer.body["error"] == {
        "message": "m",
        "type": "server_error",
        "param": None,
        "code": "server_is_overloaded",
    }


def test_quota_has_no_retry_after() -> None:
    """Waiting does not help, and the SDK would wait."""
    answer = CODEC.encode_error(Failure(kind=FailureKind.QUOTA, message="m", retry_after=5.0), "")
    assert "retry-after" not in answer.headers
    assert answer.headers["x-should-retry"] == "false"


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"base_resp": {"status_code": 1008, "status_msg": "m"}, "choices": None}, "billing"),
        ({"base_resp": {"status_code": 1002, "status_msg": "m"}}, "rate_limit"),
        ({"base_resp": {"status_code": 9999, "status_msg": "m"}, "choices": []}, "server"),
        ({"code": "InvalidParameter", "message": "m", "choices": None}, "server"),
        ({"success": False, "msg": "m"}, "server"),
        ({"errors": [{"message": "m"}]}, "server"),
        ({"error_code": 17, "error_msg": "m"}, "server"),
    ],
)
def test_errors_with_a_good_status(body: dict[str, Any], kind: str) -> None:
    """What providers send instead of an answer."""
    failure = find_failure(body)
    assert failure is not None
    assert (failure.kind, failure.message) == (FailureKind(kind), "m")


def test_a_complete_response_is_not_a_failure() -> None:
    """MiniMax says of good ones that they are, and usage comes without choices."""
    verdict = {"status_code": 0, "status_msg": ""}
    assert find_failure({"choices": [{"index": 0}], "base_resp": verdict, "error": None}) is None
    assert find_failure({"choices": [], "usage": {}, "detail": None}) is None
