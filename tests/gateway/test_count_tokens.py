"""Counting input tokens: asked of the upstream in its own words where it counts, else estimated and said so."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import openai
import pytest

from tests.gateway.conversations import PIXEL
from tests.gateway.running import Gateway
from tests.scripted.http import json_answer
from tests.scripted.server import ScriptedUpstream
from trilogue.model import Protocol

COUNTERS = {Protocol.MESSAGES: "/v1/messages/count_tokens", Protocol.RESPONSES: "/v1/responses/input_tokens"}
EVERY_COUNTER = pytest.mark.parametrize("client", COUNTERS, ids=lambda protocol: protocol.short)


def count(gateway: Gateway, client: Protocol, model: str, **headers: str) -> int:
    """What the official client is told."""
    text = "How many tokens are these?"
    if client is Protocol.MESSAGES:
        asked: Any = [{"role": "user", "content": text}]
        return gateway.anthropic.messages.count_tokens(
            model=model, messages=asked, system="Count.", extra_headers=headers
        ).input_tokens
    counted = gateway.openai.responses.input_tokens.count(model=model, input=text, extra_headers=headers)
    assert counted.object == "response.input_tokens"
    return counted.input_tokens


@EVERY_COUNTER
def test_passed_on(gateway: Gateway, up: ScriptedUpstream, client: Protocol) -> None:
    """The same protocol: the request goes through with only the model changed, the answer as it came."""
    asked = {"model": f"{client.short}/text", "messages": [], "input": "x", "unknown": 1}
    up.say(json_answer(200, [], {"input_tokens": 42, "object": "response.input_tokens", "later": [1]}))
    answer = gateway.http.post(COUNTERS[client] + "?beta=true", json=asked, headers={"anthropic-beta": "b"})
    assert answer.json() == {"input_tokens": 42, "object": "response.input_tokens", "later": [1]}
    assert up.last().json == {**asked, "model": "text"}
    assert (up.last().path, up.last().query, up.last().header("anthropic-beta")) == (COUNTERS[client], "beta=true", "b")
    assert "trilogue-loss" not in answer.headers


@EVERY_COUNTER
@pytest.mark.parametrize("upstream", COUNTERS, ids=lambda protocol: f"to-{protocol.short}")
def test_asked_of_the_upstream(gateway: Gateway, up: ScriptedUpstream, client: Protocol, upstream: Protocol) -> None:
    """The upstream counts, in its own words and without what only generation needs."""
    assert count(gateway, client, f"{upstream.short}/text") == len(up.last().body) // 4
    assert up.last().path == COUNTERS[upstream]
    assert not {"max_tokens", "max_output_tokens", "stream", "store"} & up.last().json.keys()
    assert "How many tokens" in up.last().body.decode()


@pytest.mark.parametrize("model", ["claude-opus-5", "claude-sonnet-4-5", "text"])
def test_counts_name_the_same_version_as_completions(gateway: Gateway, up: ScriptedUpstream, model: str) -> None:
    """What one version of the API takes another may refuse."""
    up.say(json_answer(200, [], {"input_tokens": 42}))
    assert count(gateway, Protocol.RESPONSES, f"messages/{model}") == 42
    counted = up.last().header("anthropic-version")
    up.say(json_answer(500, [], {}))
    gateway.http.post("/v1/responses", json={"model": f"messages/{model}", "input": "x"})
    assert up.last().path == "/v1/messages"
    assert counted == up.last().header("anthropic-version")


@EVERY_COUNTER
def test_estimated_where_no_upstream_counts(gateway: Gateway, up: ScriptedUpstream, client: Protocol) -> None:
    """Chat has no counting: an estimate that says so, and in strict mode none."""
    assert 5 < count(gateway, client, "chat/text") < 60
    assert gateway.recorder.last.losses == ["count.estimated"]
    assert up.requests == []
    with pytest.raises((openai.BadRequestError, anthropic.BadRequestError), match=r"count\.estimated"):
        count(gateway, client, "chat/text", **{"trilogue-mode": "strict"})


@EVERY_COUNTER
@pytest.mark.parametrize("status", [404, 405, 501])
def test_estimated_where_the_server_cannot(
    gateway: Gateway, up: ScriptedUpstream, client: Protocol, status: int
) -> None:
    """A compatible server often lacks this endpoint."""
    up.say(json_answer(status, [], {"detail": "Not Found"}))
    assert 5 < count(gateway, client, f"{client.short}/text") < 60
    assert gateway.recorder.last.losses == ["count.estimated"]


@EVERY_COUNTER
def test_errors(gateway: Gateway, up: ScriptedUpstream, client: Protocol) -> None:
    """Other errors are errors here too."""
    up.say(json_answer(429, [("retry-after", "9")], {"error": {"message": "slow", "type": "rate_limit_error"}}))
    with pytest.raises((openai.RateLimitError, anthropic.RateLimitError)):
        count(gateway, client, f"{client.short}/text")
    assert gateway.recorder.last.headers["retry-after"] == "9"


def test_pictures_are_not_prose(gateway: Gateway) -> None:
    """A picture of a megabyte is not a quarter of a million tokens."""
    source = {"type": "base64", "media_type": "image/png", "data": PIXEL * 10_000}
    asked = {"model": "chat/text", "messages": [{"role": "user", "content": [{"type": "image", "source": source}]}]}
    answer = gateway.http.post(COUNTERS[Protocol.MESSAGES], content=json.dumps(asked))
    assert 1000 < answer.json()["input_tokens"] < 3000


def test_deep_nesting(gateway: Gateway) -> None:
    """What is nested too deeply to be real is a mistake of the client."""
    deep = "[" * 900 + "]" * 900
    body = f'{{"model":"chat/text","messages":{deep}}}'
    assert gateway.http.post(COUNTERS[Protocol.MESSAGES], content=body).status_code in (200, 400)
