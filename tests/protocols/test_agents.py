"""What agents do with errors inside streams, by the rules that were read from their sources (docs/errors.md)."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from trilogue.model import Failed, Failure, FailureKind, Protocol
from trilogue.protocols.failure import FINAL_CODES, TOO_LONG
from trilogue.protocols.registry import codec
from trilogue.protocols.stream.response_context import ResponseContext

OPENCODE = re.compile(
    r"429|500|502|503|504|524|rate limit|rate-limit|rate_limit|too many requests|overloaded|service unavailable"
    r"|service_unavailable|internal error|internal_error|internal server error|server error|server_error"
    r"|provider returned error|network[-_\s]error|connection error|connection refused|connection lost"
    r"|resource exhausted|exhausted|unavailable|\btry again (?:later|in\b)",
    re.IGNORECASE,
)
CODEX_STOPS = {
    "context_length_exceeded",
    "insufficient_quota",
    "usage_not_included",
    "invalid_prompt",
    "cyber_policy",
    "server_is_overloaded",
    "slow_down",
}
OPENCODE_STOPS = {"context_length_exceeded", "insufficient_quota", "usage_not_included", "invalid_prompt"}
CLINE = re.compile("provider returned error", re.IGNORECASE)

PASSES = [
    FailureKind.CONFLICT,
    FailureKind.RATE_LIMIT,
    FailureKind.SERVER,
    FailureKind.OVERLOADED,
    FailureKind.TIMEOUT,
    FailureKind.UNAVAILABLE,
    FailureKind.UPSTREAM_PROTOCOL,
    FailureKind.UPSTREAM_TRUNCATED,
    FailureKind.UPSTREAM_CONNECT,
]
STAYS = [kind for kind in FailureKind if kind not in PASSES]
EVERY_CLIENT = pytest.mark.parametrize("client", Protocol, ids=lambda protocol: protocol.short)
SAID = "the upstream closed the connection in the middle of the response"


def told(client: Protocol, failure: Failure) -> dict[str, Any]:
    """The last event that a client gets."""
    sent = codec(client).encoder(ResponseContext(request_id="req_1")).encode([Failed(failure)])
    events: list[dict[str, Any]] = [json.loads(line[5:]) for line in sent.decode().split("\n") if line[:5] == "data:"]
    return events[-1]


def opencode_retries(client: Protocol, event: dict[str, Any]) -> bool:
    """By the code from Responses, else by the words: of the message from Chat, of the whole error from Messages."""
    if client is Protocol.RESPONSES:
        return event["response"]["error"]["code"] not in OPENCODE_STOPS
    error = event["error"]
    return OPENCODE.search(error["message"] if client is Protocol.CHAT else json.dumps(error)) is not None


@EVERY_CLIENT
@pytest.mark.parametrize("source", [None, *Protocol])
@pytest.mark.parametrize("kind", PASSES)
def test_agents_try_again_at_what_may_pass(client: Protocol, source: Protocol | None, kind: FailureKind) -> None:
    event = told(client, Failure(kind=kind, message=SAID, protocol=source))
    assert opencode_retries(client, event)
    error = event["response"]["error"] if client is Protocol.RESPONSES else event["error"]
    assert CLINE.search(error["message"])
    assert error["message"].endswith(SAID)
    if client is Protocol.RESPONSES:
        assert error["code"] not in CODEX_STOPS


@EVERY_CLIENT
@pytest.mark.parametrize("kind", STAYS)
def test_agents_stop_at_what_will_not_pass(client: Protocol, kind: FailureKind) -> None:
    event = told(client, Failure(kind=kind, message="no", protocol=Protocol.MESSAGES))
    # Anthropic has one type for limits that pass and for quota that does not.
    assert not opencode_retries(client, event) or (client, kind) == (Protocol.MESSAGES, FailureKind.QUOTA)
    if client is Protocol.RESPONSES:
        assert event["response"]["error"]["code"] in CODEX_STOPS


@EVERY_CLIENT
@pytest.mark.parametrize("code", sorted(FINAL_CODES))
def test_agents_stop_at_what_only_people_can_mend(client: Protocol, code: str) -> None:
    event = told(client, Failure(kind=FailureKind.SERVER, message="no account can be used", code=code, status=503))
    assert not opencode_retries(client, event)
    if client is Protocol.RESPONSES:
        assert event["response"]["error"]["code"] in CODEX_STOPS


def test_words_that_are_there_already_are_enough() -> None:
    event = told(Protocol.CHAT, Failure(kind=FailureKind.OVERLOADED, message="Overloaded"))
    assert event["error"]["message"] == "Overloaded"


@pytest.mark.parametrize("code", ["server_is_overloaded", "slow_down"])
def test_codex_does_not_give_up_at_an_overload(code: str) -> None:
    failure = Failure(kind=FailureKind.SERVER, message="m", code=code, protocol=Protocol.RESPONSES)
    assert told(Protocol.RESPONSES, failure)["response"]["error"]["code"] == "server_error"


def test_a_code_of_the_protocol_itself_stays() -> None:
    failure = Failure(kind=FailureKind.INVALID_REQUEST, message="m", code="cyber_policy", protocol=Protocol.RESPONSES)
    assert told(Protocol.RESPONSES, failure)["response"]["error"]["code"] == "cyber_policy"


FULL = [
    "prompt is too long: 210000 tokens > 200000 maximum",
    "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
    "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.",
    "the request exceeds the available context size (4096 tokens), try increasing it",
    "Input is too long for requested model.",
    "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    "This model's maximum prompt length is 131072 but the request contains 140000 tokens.",
    "Please reduce the length of the messages or completion.",
    "Your request exceeded model token limit: 262144",
    "tokens to keep from the initial prompt is greater than the context length",
]


@pytest.mark.parametrize("protocol", Protocol)
@pytest.mark.parametrize("text", FULL)
def test_a_full_context_is_known_by_its_words(protocol: Protocol, text: str) -> None:
    """Anthropic, OpenAI twice, llama.cpp, Bedrock, Gemini, xAI, Groq, Moonshot, LM Studio."""
    assert TOO_LONG.search(text)
    body = json.dumps({"type": "error", "error": {"type": "invalid_request_error", "message": text}}).encode()
    assert codec(protocol).decode_error(400, {}, body).kind is FailureKind.CONTEXT_LENGTH


@pytest.mark.parametrize("client", [Protocol.CHAT, Protocol.RESPONSES])
def test_a_full_context_is_said_in_openais_words(client: Protocol) -> None:
    """LiteLLM, and with it aider, knows it by the message and not by the code."""
    failure = Failure(kind=FailureKind.CONTEXT_LENGTH, message=FULL[0], status=400, protocol=Protocol.MESSAGES)
    error = codec(client).encode_error(failure, "").body["error"]
    assert isinstance(error, dict)
    assert error["message"] == f"This model's maximum context length is exceeded: {FULL[0]}"
    assert error["code"] == "context_length_exceeded"
