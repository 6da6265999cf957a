"""The HTTP error that a client gets for an upstream's, for every pair of protocols."""

from __future__ import annotations

import json

import pytest

from trilogue.gateway.record import RequestRecord
from trilogue.gateway.request.failures import error_reply, for_client
from trilogue.lint import lint_error
from trilogue.model import Protocol
from trilogue.protocols.codec import ErrorReply
from trilogue.protocols.failure import FINAL_CODES
from trilogue.protocols.registry import codec
from trilogue.routing.pool.plan import CREDENTIAL, QUOTA

EVERY_CLIENT = pytest.mark.parametrize("client", Protocol, ids=lambda protocol: f"to-{protocol.short}")
EVERY_UPSTREAM = pytest.mark.parametrize("upstream", Protocol, ids=lambda protocol: f"from-{protocol.short}")


def answered(upstream: Protocol, client: Protocol, status: int, kind: str = "invalid_request_error") -> ErrorReply:
    """What the client gets for a status of the upstream."""
    error: dict[str, object] = {"message": "no", "type": kind}
    body = {"type": "error", "error": error} if upstream is Protocol.MESSAGES else {"error": error | {"code": None}}
    failure = codec(upstream).decode_error(status, {}, json.dumps(body).encode())
    return error_reply(for_client(failure, RequestRecord(request_id="req_1", began_at=0.0)), client, "req_1")


@EVERY_CLIENT
@EVERY_UPSTREAM
@pytest.mark.parametrize("status", [405, 409, 410, 418, 422, 451])
def test_what_is_wrong_with_a_request_keeps_its_status(upstream: Protocol, client: Protocol, status: int) -> None:
    """SDKs have exceptions of their own for some, and a 451 is no typing mistake."""
    reply = answered(upstream, client, status)
    assert reply.status == status
    assert reply.headers["x-should-retry"] == ("true" if status == 409 else "false")
    assert lint_error(client, reply.body) == []


@EVERY_CLIENT
@EVERY_UPSTREAM
@pytest.mark.parametrize(("status", "told"), [(407, 502), (408, 504)])
def test_what_is_between_us_and_the_upstream_is_ours(
    upstream: Protocol, client: Protocol, status: int, told: int
) -> None:
    """The client has no proxy to log in to, and was not slow."""
    reply = answered(upstream, client, status)
    assert reply.status == told
    error = reply.body["error"]
    assert isinstance(error, dict)
    assert error["type"] != "invalid_request_error"
    assert lint_error(client, reply.body) == []


@EVERY_CLIENT
@pytest.mark.parametrize(("status", "told"), [(401, 503), (413, 413), (529, 529)])
def test_a_status_says_more_than_a_general_type(client: Protocol, status: int, told: int) -> None:
    """Servers that speak Messages call everything an invalid request or an API error."""
    kind = "api_error" if status == 529 else "invalid_request_error"
    reply = answered(Protocol.MESSAGES, client, status, kind)
    assert reply.status == (503 if told == 529 and client is not Protocol.MESSAGES else told)


def test_what_only_the_operator_can_fix_is_final() -> None:
    assert {CREDENTIAL, QUOTA} <= FINAL_CODES
