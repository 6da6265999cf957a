import json
from typing import Any

import pytest

from trilogue.model import Failure, FailureKind, Protocol
from trilogue.protocols.messages import CODEC
from trilogue.protocols.messages.errors import find_failure


def decode(status: int, body: Any, **headers: str) -> Failure:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return CODEC.decode_error(status, {name.replace("_", "-"): value for name, value in headers.items()}, data)


def error(kind: str, message: str = "m", **fields: Any) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message, **fields}, "request_id": "req_up"}


@pytest.mark.parametrize(
    ("status", "kind", "expected"),
    [
        (400, "invalid_request_error", FailureKind.INVALID_REQUEST),
        (401, "authentication_error", FailureKind.AUTHENTICATION),
        (402, "billing_error", FailureKind.BILLING),
        (403, "permission_error", FailureKind.PERMISSION),
        (404, "not_found_error", FailureKind.NOT_FOUND),
        (409, "conflict_error", FailureKind.CONFLICT),
        (413, "request_too_large", FailureKind.TOO_LARGE),
        (429, "rate_limit_error", FailureKind.RATE_LIMIT),
        (500, "api_error", FailureKind.SERVER),
        (504, "timeout_error", FailureKind.TIMEOUT),
        (529, "overloaded_error", FailureKind.OVERLOADED),
        (418, "teapot_error", FailureKind.INVALID_REQUEST),
        (429, "teapot_error", FailureKind.RATE_LIMIT),
    ],
)
def test_kinds_by_type_then_status(status: int, kind: str, expected: FailureKind) -> None:
    """The type says more than the status, a type nobody knows says nothing."""
    failure = decode(status, error(kind))
    assert (failure.kind, failure.message, failure.status) == (expected, "m", status)
    assert failure.request_id == "req_up"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (error("rate_limit_error", details={"error_code": "enforced_spend_limit_reached"}), FailureKind.QUOTA),
        (error("rate_limit_error", code="insufficient_quota"), FailureKind.QUOTA),
        (error("insufficient_user_quota"), FailureKind.QUOTA),
        (error("invalid_request_error", details={"error_code": "organization_on_hold"}), FailureKind.BILLING),
        (error("invalid_request_error", details={"error_code": "brand_new"}), FailureKind.INVALID_REQUEST),
        (error("invalid_request_error", "prompt is too long: 9 > 8"), FailureKind.CONTEXT_LENGTH),
        (error("invalid_request_error", "Your credit balance is too low to access"), FailureKind.QUOTA),
        (error("not_found_error", "model: claude-x"), FailureKind.MODEL_NOT_FOUND),
    ],
)
def test_finer_kinds(body: dict[str, Any], expected: FailureKind) -> None:
    """Codes and known texts say what waiting or another account would change."""
    assert decode(400, body).kind is expected


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"code": 429, "message": json.dumps(error("rate_limit_error", "slow")), "status": "EXHAUSTED"}},
        [{"error": {"code": 429, "message": json.dumps(error("rate_limit_error", "slow"))}}],
        {"error": {"type": "request_fail", "upstream_error": error("rate_limit_error", "slow")}},
        {"error": json.dumps(error("rate_limit_error", "slow"))},
        {"type": "error", "error": {"error": {"type": "rate_limit_error", "message": "slow"}}},
    ],
)
def test_wrapped_errors(body: Any) -> None:
    """Vertex and resellers put the error inside another one."""
    failure = decode(400, body)
    assert (failure.kind, failure.message) == (FailureKind.RATE_LIMIT, "slow")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"<html><head><style>x{}</style></head><body><h1>502</h1> Bad\nGateway</body></html>", "502 Bad Gateway"),
        (b"upstream connect error", "upstream connect error"),
        (b"", "the upstream responded with status 502"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b'{"message":"no access"}', "no access"),
        (b'{"detail":"nope"}', "nope"),
        (b'{"error":"bare"}', "bare"),
        (b"{}", "{}"),
    ],
)
def test_bodies_that_are_no_error_of_this_protocol(body: bytes, message: str) -> None:
    """Whatever came, there is a message and a kind."""
    failure = decode(502, body)
    assert (failure.kind, failure.message) == (FailureKind.SERVER, message)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"retry_after": "7"}, 7.0),
        ({"Retry_After": "1.5"}, 1.5),
        ({"retry_after_ms": "250", "retry_after": "9"}, 0.25),
        (
            {"retry_after": "Wed, 21 Oct 2026 07:28:30 GMT", "date": "Wed, 21 Oct 2026 07:28:00 GMT"},
            30.0,
        ),
        ({"retry_after": "Wed, 21 Oct 2026 07:28:00 GMT"}, None),
        ({"retry_after": "soon"}, None),
        ({"retry_after": "-5"}, None),
        ({"retry_after": "nan"}, None),
        ({}, None),
    ],
)
def test_when_to_come_back(headers: dict[str, str], expected: float | None) -> None:
    """Seconds, milliseconds or a date, which only means something beside the answer's own."""
    assert decode(429, error("rate_limit_error"), **headers).retry_after == expected


def test_a_complete_response_is_not_a_failure() -> None:
    """A null error field is no error."""
    assert find_failure({"type": "message", "content": [], "error": None}) is None


@pytest.mark.parametrize("kind", FailureKind)
def test_every_kind_has_a_response(kind: FailureKind) -> None:
    """Each has a status and a type that clients know, and the ids that they need."""
    reply = CODEC.encode_error(Failure(kind=kind, message="m", request_id="secret"), "req_1")
    assert 400 <= reply.status < 600
    assert reply.body["type"] == "error"
    assert reply.body["error"]["message"].removeprefix("prompt is too long: ") == "m"
    assert reply.body["request_id"] == reply.headers["request-id"] == "req_1"
    assert reply.headers["x-should-retry"] in ("true", "false")
    assert "secret" not in str(reply)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("maximum context length is 8k", "prompt is too long: maximum context length is 8k"),
        ("Prompt is too long: 9 tokens > 8 maximum", "Prompt is too long: 9 tokens > 8 maximum"),
        (
            "input length and `max_tokens` exceed context limit: 9 + 1 > 8",
            "input length and `max_tokens` exceed context limit: 9 + 1 > 8",
        ),
    ],
)
def test_a_full_context_is_reported_in_the_official_words(given: str, told: str) -> None:
    """Claude Code compacts the conversation when it reads them; there is no type or code that says it."""
    reply = CODEC.encode_error(Failure(kind=FailureKind.CONTEXT_LENGTH, message=given), "req_1")
    assert reply.body["error"] == {"type": "invalid_request_error", "message": told}


def test_waiting_times_are_passed_on() -> None:
    """As the upstream gave them; where waiting does not help there is none."""

    def header(kind: FailureKind, seconds: float) -> str | None:
        failure = Failure(kind=kind, message="m", retry_after=seconds)
        return CODEC.encode_error(failure, "r").headers.get("retry-after")

    assert header(FailureKind.RATE_LIMIT, 1.2) == "2"
    assert header(FailureKind.RATE_LIMIT, 1e9) == "1000000000"
    assert header(FailureKind.QUOTA, 5) is None


def test_errors_of_this_protocol_keep_their_own_words() -> None:
    """Details survive, the upstream's request id does not."""
    details = {"error_code": "tool_name_conflict", "name": "f"}
    reply = CODEC.encode_error(decode(400, error("invalid_request_error", "dup", details=details)), "req_1")
    assert reply.body == {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": "dup", "details": details},
        "request_id": "req_1",
    }


def test_quota_of_another_protocol() -> None:
    """The code that this protocol's clients look for."""
    reply = CODEC.encode_error(Failure(kind=FailureKind.QUOTA, message="m", protocol=Protocol.CHAT), "")
    assert reply.status == 429
    assert reply.body["error"]["details"] == {"error_code": "enforced_spend_limit_reached"}
    assert reply.body["request_id"] is None
