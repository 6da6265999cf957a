"""Every kind of failure, with bodies as upstreams send them, through the codec that reads them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from trilogue.errors import (
    UpstreamConnect,
    UpstreamCredential,
    UpstreamFailure,
    UpstreamProtocolError,
    UpstreamTimeout,
    UpstreamTruncated,
)
from trilogue.gateway.request.admission import IN_A_CIRCLE
from trilogue.model import Failure, FailureKind, Protocol
from trilogue.protocols.failure import failure_of
from trilogue.protocols.registry import codec
from trilogue.routing.pool.classify import MODEL_SECONDS, OTHERWISE, ROWS, Action, Scope, Verdict, classify
from trilogue.routing.pool.settings import RetryRule

CHAT, MESSAGES, RESPONSES = Protocol.CHAT, Protocol.MESSAGES, Protocol.RESPONSES


class Case(NamedTuple):
    """A response of an upstream, and the verdict on it."""

    protocol: Protocol
    status: int
    body: Any
    action: Action
    scope: Scope
    why: str
    headers: tuple[tuple[str, str], ...] = ()


def openai(message: str, kind: str = "invalid_request_error", code: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def anthropic(message: str, kind: str = "invalid_request_error", code: str | None = None) -> dict[str, Any]:
    error: dict[str, Any] = {"type": kind, "message": message}
    if code:
        error["details"] = {"error_code": code}
    return {"type": "error", "error": error, "request_id": "req_1"}


CLIENT, NEXT, COOL, DISABLE, STRIP = Action.CLIENT, Action.NEXT, Action.COOLDOWN, Action.DISABLE, Action.STRIP
ACCOUNT, MODEL, PROVIDER, NOBODY = Scope.ACCOUNT, Scope.ACCOUNT_MODEL, Scope.PROVIDER, Scope.NONE

COST = "The estimated cost of this request exceeds the limit."
CIRCLE = IN_A_CIRCLE.format(10)
QUOTA = "You exceeded your current quota, please check your plan and billing details."
SPEND = (
    "You have reached your specified workspace API usage limits. You will regain access on 2026-12-01 (spend limit)."
)
SIGNATURE = "messages.1.content.0: Invalid `signature` in `thinking` block"
EXPECTED = (
    "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` is "
    "enabled, a final `assistant` message must start with a thinking block"
)
REQUIRED = "Item 'fc_1' of type 'function_call' was provided without its required 'reasoning' item: 'rs_1'."
BINDING = "messages.3.content.0: this thinking block is bound to another organization"
ENCRYPTED = "The encrypted content for item rs_0f could not be verified."
LIMIT_OF_MODEL = (
    "Rate limit reached for gpt-5 in organization org-1 on tokens per min (TPM): Limit 30000. Try again in 2.5s."
)
HTML = "<html><head><title>502 Bad Gateway</title></head><body>cloudflare</body></html>"

CASES = {
    "tier 1, chat": Case(CHAT, 403, openai(COST, "permission_error"), CLIENT, NOBODY, "request_too_costly"),
    "tier 1, messages": Case(MESSAGES, 403, anthropic(COST, "permission_error"), CLIENT, NOBODY, "request_too_costly"),
    "tier 1, plain text": Case(RESPONSES, 403, COST, CLIENT, NOBODY, "request_too_costly"),
    "tier 2": Case(
        CHAT, 403, openai("This account has insufficient tokens left."), NEXT, ACCOUNT, "insufficient_tokens"
    ),
    "tier 2, plan": Case(CHAT, 403, {"detail": "Please upgrade your plan"}, NEXT, ACCOUNT, "insufficient_tokens"),
    "tier 2, limit": Case(MESSAGES, 403, anthropic("Daily Limit Reached"), NEXT, ACCOUNT, "insufficient_tokens"),
    "in a circle": Case(MESSAGES, 508, anthropic(CIRCLE), CLIENT, NOBODY, "gateway_loop"),
    "another 508": Case(CHAT, 508, "Resource Limit Is Reached", NEXT, ACCOUNT, "server_error"),
    "tier 3, 429": Case(
        CHAT, 429, openai("Too many requests", "requests", "rate_limit_exceeded"), COOL, ACCOUNT, "rate_limited"
    ),
    "tier 3, 429 empty": Case(RESPONSES, 429, "", COOL, ACCOUNT, "rate_limited"),
    "tier 3, 402": Case(CHAT, 402, openai("Payment required"), COOL, ACCOUNT, "out_of_money"),
    "tier 3, 402 messages": Case(MESSAGES, 402, anthropic("No credit", "billing_error"), COOL, ACCOUNT, "out_of_money"),
    "429 of one model": Case(
        RESPONSES, 429, openai(LIMIT_OF_MODEL, "tokens", "rate_limit_exceeded"), COOL, MODEL, "rate_limited"
    ),
    "429 messages": Case(
        MESSAGES,
        429,
        anthropic("slow down", "rate_limit_error"),
        COOL,
        ACCOUNT,
        "rate_limited",
        (("retry-after", "7"),),
    ),
    "429 messages, no time": Case(
        MESSAGES, 429, anthropic("slow down", "rate_limit_error"), COOL, ACCOUNT, "rate_limited"
    ),
    "quota, responses": Case(
        RESPONSES, 429, openai(QUOTA, "insufficient_quota", "insufficient_quota"), COOL, ACCOUNT, "out_of_quota"
    ),
    "quota, chat": Case(
        CHAT, 429, openai(QUOTA, "insufficient_quota", "insufficient_quota"), COOL, ACCOUNT, "out_of_quota"
    ),
    "quota by text alone": Case(CHAT, 429, {"detail": QUOTA}, COOL, ACCOUNT, "out_of_quota"),
    "spend limit reached": Case(
        MESSAGES,
        429,
        anthropic("limit", "rate_limit_error", "enforced_spend_limit_reached"),
        COOL,
        ACCOUNT,
        "out_of_quota",
    ),
    "spend limit as a 400": Case(MESSAGES, 400, anthropic(SPEND), COOL, ACCOUNT, "out_of_quota"),
    "credit too low as a 400": Case(
        MESSAGES, 400, anthropic("Your credit balance is too low to access the API."), COOL, ACCOUNT, "out_of_quota"
    ),
    "organisation on hold": Case(
        MESSAGES,
        400,
        anthropic("This organization is on hold.", code="organization_on_hold"),
        DISABLE,
        ACCOUNT,
        "account_closed",
    ),
    "organisation disabled": Case(
        MESSAGES,
        403,
        anthropic("This organization has been disabled.", "permission_error"),
        DISABLE,
        ACCOUNT,
        "account_closed",
    ),
    "account deactivated": Case(
        CHAT, 403, openai("No.", code="account_deactivated"), DISABLE, ACCOUNT, "account_closed"
    ),
    "401, chat": Case(
        CHAT, 401, openai("Incorrect API key provided: sk-.", code="invalid_api_key"), DISABLE, ACCOUNT, "bad_key"
    ),
    "401, messages": Case(
        MESSAGES, 401, anthropic("invalid x-api-key", "authentication_error"), DISABLE, ACCOUNT, "bad_key"
    ),
    "401, no JSON": Case(RESPONSES, 401, "Unauthorized", DISABLE, ACCOUNT, "bad_key"),
    "bad key as a 400": Case(
        RESPONSES,
        400,
        {"code": "invalid-argument", "error": "Incorrect API key provided."},
        DISABLE,
        ACCOUNT,
        "bad_key",
    ),
    "bad key as a 400, gemini": Case(
        CHAT, 400, openai("API key not valid. Please pass a valid API key."), DISABLE, ACCOUNT, "bad_key"
    ),
    "no such model, chat": Case(
        CHAT,
        404,
        openai("The model `x` does not exist or you do not have access to it.", code="model_not_found"),
        COOL,
        MODEL,
        "model_not_found",
    ),
    "no such model, messages": Case(
        MESSAGES, 404, anthropic("model: claude-x", "not_found_error"), COOL, MODEL, "model_not_found"
    ),
    "model refused, bedrock": Case(
        MESSAGES,
        403,
        {"message": "You don't have access to the model with the specified model ID."},
        COOL,
        MODEL,
        "model_not_found",
    ),
    "model refused, chat": Case(
        CHAT, 403, openai("You are not allowed to sample from this model"), COOL, MODEL, "model_not_found"
    ),
    "signature": Case(MESSAGES, 400, anthropic(SIGNATURE), STRIP, NOBODY, "reasoning_rejected"),
    "missing thinking": Case(MESSAGES, 400, anthropic(EXPECTED), STRIP, NOBODY, "reasoning_missing"),
    "missing reasoning": Case(RESPONSES, 400, openai(REQUIRED), STRIP, NOBODY, "reasoning_missing"),
    "binding": Case(MESSAGES, 400, anthropic(BINDING), STRIP, NOBODY, "reasoning_rejected"),
    "encrypted content": Case(
        RESPONSES, 400, openai(ENCRYPTED, code="invalid_encrypted_content"), STRIP, NOBODY, "reasoning_rejected"
    ),
    "reasoning item is gone": Case(
        RESPONSES,
        404,
        openai("Item with id 'rs_1' not found. Items are not persisted when `store` is set to false."),
        STRIP,
        NOBODY,
        "reasoning_rejected",
    ),
    "response of another account": Case(
        RESPONSES,
        400,
        openai("Previous response with id 'resp_1' not found.", code="previous_response_not_found"),
        NEXT,
        NOBODY,
        "kept_elsewhere",
    ),
    "response of another account, vLLM": Case(
        RESPONSES, 404, openai("Response with id 'resp_1' not found."), NEXT, NOBODY, "kept_elsewhere"
    ),
    "conversation of another account": Case(
        RESPONSES, 404, openai("Conversation with id 'conv_1' not found."), NEXT, NOBODY, "kept_elsewhere"
    ),
    "region": Case(
        CHAT,
        403,
        openai("Country not supported", code="unsupported_country_region_territory"),
        NEXT,
        ACCOUNT,
        "region_refused",
    ),
    "500": Case(CHAT, 500, openai("The server had an error", "server_error"), NEXT, ACCOUNT, "server_error"),
    "502 of a proxy": Case(MESSAGES, 502, HTML, NEXT, ACCOUNT, "server_error"),
    "503": Case(
        RESPONSES, 503, openai("overloaded", "server_error", "server_is_overloaded"), NEXT, ACCOUNT, "overloaded"
    ),
    "529": Case(MESSAGES, 529, anthropic("Overloaded", "overloaded_error"), NEXT, ACCOUNT, "overloaded"),
    "504": Case(MESSAGES, 504, anthropic("timeout", "timeout_error"), NEXT, ACCOUNT, "timeout"),
    "400": Case(CHAT, 400, openai("max_tokens: must be positive"), CLIENT, NOBODY, "client_error"),
    "context length": Case(
        CHAT,
        400,
        openai("maximum context length is 8192 tokens", code="context_length_exceeded"),
        CLIENT,
        NOBODY,
        "client_error",
    ),
    "403 of the content": Case(CHAT, 403, openai("Content violates usage guidelines"), CLIENT, NOBODY, "forbidden"),
    "404 of one request": Case(RESPONSES, 404, openai("Item with id 'msg_1' not found."), CLIENT, NOBODY, "not_found"),
    "404 of a feature": Case(
        CHAT, 404, openai("No endpoints found that support tool use."), CLIENT, NOBODY, "not_found"
    ),
    "404 of a path": Case(
        CHAT, 404, {"error": {"code": "404", "message": "Resource not found"}}, CLIENT, NOBODY, "not_found"
    ),
    "409": Case(CHAT, 409, openai("conflict"), CLIENT, NOBODY, "client_error"),
    "413": Case(MESSAGES, 413, anthropic("too large", "request_too_large"), CLIENT, NOBODY, "client_error"),
    "422": Case(CHAT, 422, {"detail": [{"msg": "Input should be a string"}]}, CLIENT, NOBODY, "client_error"),
}


def failure_in(case: Case) -> Failure:
    body = case.body.encode() if isinstance(case.body, str) else json.dumps(case.body).encode()
    return codec(case.protocol).decode_error(case.status, dict(case.headers), body)


@pytest.mark.parametrize("name", CASES)
def test_every_kind_of_failure(name: str) -> None:
    """The table is the one that users read in docs/accounts.md."""
    case = CASES[name]
    verdict = classify(failure_in(case))
    assert (verdict.action, verdict.scope, verdict.why) == (case.action, case.scope, case.why)
    assert verdict.status == case.status


DOCS = Path(__file__).resolve().parents[2] / "docs" / "accounts.md"


@pytest.mark.parametrize("why", sorted({row.why for row in ROWS} | {OTHERWISE}))
def test_every_reason_is_documented(why: str) -> None:
    """Users see these names in logs and in `trilogue accounts`."""
    assert f"| `{why}` |" in DOCS.read_text("utf-8")


def test_every_row_is_tried() -> None:
    """A row that no case reaches would be useless, or a case is missing here."""
    reached = set()
    for case in CASES.values():
        failure = failure_in(case)
        reached.add(next((number for number, row in enumerate(ROWS) if row.matches(failure)), None))
    for error in (*OURS, NO_KEY):
        reached.add(next(number for number, row in enumerate(ROWS) if row.matches(failure_of(error))))
    missing = [ROWS[number].why for number in range(len(ROWS)) if number not in reached]
    assert missing == []


OURS = {
    UpstreamConnect("the upstream refused the connection"): (NEXT, ACCOUNT, "network"),
    UpstreamConnect("certificate", code="upstream_tls"): (NEXT, ACCOUNT, "network"),
    UpstreamTimeout("no headers within 60 s"): (NEXT, ACCOUNT, "timeout"),
    UpstreamTruncated("ended early"): (NEXT, ACCOUNT, "broken_answer"),
    UpstreamProtocolError("not JSON"): (NEXT, ACCOUNT, "broken_answer"),
}


NO_KEY = UpstreamCredential("the command x ended with exit code 1")


def test_a_key_that_could_not_be_fetched() -> None:
    """Only this account is concerned, and the reason is shown with it."""
    verdict = classify(NO_KEY)
    assert (verdict.action, verdict.scope, verdict.why) == (COOL, ACCOUNT, "no_credential")
    assert not verdict.fault
    assert verdict.text == str(NO_KEY)


@pytest.mark.parametrize("error", OURS, ids=lambda error: error.code)
def test_failures_that_we_found_ourselves(error: UpstreamConnect) -> None:
    """Before the first byte nothing is lost: other accounts are used first, and many such failures are an outage."""
    verdict = classify(error)
    assert (verdict.action, verdict.scope, verdict.why) == OURS[error]
    assert verdict.fault
    assert not verdict.blame_proxy


def test_only_faults_of_servers_count_for_an_outage() -> None:
    """An account with too little money says nothing about the provider's servers."""
    faults = {row.why for row in ROWS if row.fault}
    assert faults == {"region_refused", "overloaded", "server_error", "timeout", "network", "broken_answer"}
    assert not classify(Failure(kind=FailureKind.SERVER, message="?"), [RetryRule(text="?", action="next")]).fault


def test_a_proxy_is_blamed_for_itself() -> None:
    """Neither the account nor the provider is blamed for a proxy that fails."""
    assert classify(UpstreamConnect("the egress proxy refused", proxy=True)).blame_proxy


IN_STREAM = {
    FailureKind.OVERLOADED: (NEXT, "overloaded"),
    FailureKind.RATE_LIMIT: (COOL, "rate_limited"),
    FailureKind.QUOTA: (COOL, "out_of_quota"),
    FailureKind.SERVER: (NEXT, "server_error"),
    FailureKind.AUTHENTICATION: (DISABLE, "bad_key"),
    FailureKind.INVALID_REQUEST: (CLIENT, "client_error"),
}


@pytest.mark.parametrize("kind", IN_STREAM)
def test_errors_inside_a_stream_have_no_status(kind: FailureKind) -> None:
    """An upstream may send 200 and then fail. Before any content that is the same failure."""
    verdict = classify(UpstreamFailure(Failure(kind=kind, message="?")))
    assert (verdict.action, verdict.why) == IN_STREAM[kind]


def test_a_tier_is_known_inside_a_stream_too() -> None:
    """Inside a stream, only the text of the error identifies it."""
    failure = Failure(kind=FailureKind.PERMISSION, message="insufficient tokens for this request")
    assert classify(failure).why == "insufficient_tokens"


@pytest.mark.parametrize(
    ("headers", "delay"),
    [
        ({"retry-after": "30"}, 30.0),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after": "Sun, 15 Nov 2026 10:00:20 GMT", "date": "Sun, 15 Nov 2026 10:00:00 GMT"}, 20.0),
        ({"retry-after": "soon"}, None),
        ({}, None),
    ],
)
@pytest.mark.parametrize("protocol", Protocol)
def test_the_time_an_upstream_names(protocol: Protocol, headers: dict[str, str], delay: float | None) -> None:
    """The time is read in all forms that upstreams use; garbage is ignored."""
    failure = codec(protocol).decode_error(
        429, headers, b'{"error": {"message": "slow down", "type": "rate_limit_error"}}'
    )
    assert classify(failure).delay == delay


def test_a_missing_model_is_not_asked_for_again_soon() -> None:
    """An account does not get a model within a second."""
    assert classify(failure_in(CASES["no such model, chat"])).delay == MODEL_SECONDS


def test_what_is_out_of_money_rests_for_a_while_at_least() -> None:
    """An account is not topped up within a second."""
    assert classify(failure_in(CASES["quota, chat"])).min_seconds >= 60


RULES = (
    RetryRule(status=418, action="client"),
    RetryRule(code="flaky", action="next"),
    RetryRule(status=400, text="workspace * suspended", action="disable"),
    RetryRule(status=400, text="busy", action="cooldown", scope="account_model", seconds=5),
    RetryRule(text="all of us are down", action="cooldown", scope="provider"),
)


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (Failure(kind=FailureKind.SERVER, message="?", status=418), (CLIENT, NOBODY, None, "rule_1")),
        (Failure(kind=FailureKind.SERVER, message="?", status=500, code="flaky"), (NEXT, ACCOUNT, None, "rule_2")),
        (Failure(kind=FailureKind.SERVER, message="?", type="flaky"), (NEXT, ACCOUNT, None, "rule_2")),
        (
            Failure(kind=FailureKind.INVALID_REQUEST, message="Your Workspace (x) was SUSPENDED today", status=400),
            (DISABLE, ACCOUNT, None, "rule_3"),
        ),
        (Failure(kind=FailureKind.INVALID_REQUEST, message="busy now", status=400), (COOL, MODEL, 5.0, "rule_4")),
        (
            Failure(kind=FailureKind.SERVER, message="All of us are down", status=503, retry_after=9.0),
            (COOL, PROVIDER, 9.0, "rule_5"),
        ),
        (
            Failure(kind=FailureKind.INVALID_REQUEST, message="busy now", status=401),
            (CLIENT, NOBODY, None, "client_error"),
        ),
    ],
)
def test_rules_of_the_user_come_first(failure: Failure, expected: tuple[Action, Scope, float | None, str]) -> None:
    """Status, code and text must all match, and the first rule that matches counts."""
    verdict = classify(failure, RULES)
    assert (verdict.action, verdict.scope, verdict.delay, verdict.why) == expected


@pytest.mark.parametrize("kind", [FailureKind.INVALID_REQUEST, FailureKind.SERVER, FailureKind.NOT_FOUND])
def test_no_text_of_the_upstream_gets_into_a_verdict_about_a_request(kind: FailureKind) -> None:
    """Upstreams quote prompts in their errors."""
    failure = Failure(kind=kind, message="You said: canary", code="canary")
    assert isinstance(classify(failure), Verdict)
    assert "canary" not in repr(classify(failure))


def test_what_the_upstream_says_about_an_account_is_one_short_line() -> None:
    failure = Failure(kind=FailureKind.AUTHENTICATION, message="Invalid\x1b[31m\n key" + "!" * 500, status=401)
    verdict = classify(failure)
    assert (verdict.text, verdict.words[:20], len(verdict.words)) == ("", "Invalid [31m key!!!!", 200)


def test_patterns_take_linear_time() -> None:
    """A user's pattern must not hang the gateway."""
    failure = Failure(kind=FailureKind.SERVER, message="a" * 2_000)
    assert classify(failure, (RetryRule(text="a*" * 100 + "b", action="client"),)).why == "server_error"
