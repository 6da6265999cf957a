"""Raw reasoning for Responses clients: in `content` as it is, or as a summary where the configuration says so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.gateway.running import CONFIG, Gateway, running
from tests.gateway.wire import Answer
from tests.scripted.scenario import Think
from tests.scripted.server import ScriptedUpstream
from trilogue.lint import lint_response, lint_stream
from trilogue.model import Protocol

SHOWING = CONFIG.replace("profile: {reasoning_field", "profile: {raw_as_summary: true, reasoning_field")
TOOL: Any = {"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}}
QUESTION = {"type": "message", "role": "user", "content": "Weather?"}
STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


@pytest.fixture(scope="module")
def showing(_upstream: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway that shows raw reasoning as summaries."""
    with running(tmp_path_factory.mktemp("showing"), SHOWING, _upstream.url) as gateway:
        yield gateway


def ask(gateway: Gateway, items: list[Any], *, stream: bool) -> tuple[list[Any], set[str]]:
    """The output items and the names of events, of an answer that keeps the rules of its protocol."""
    asked: dict[str, Any] = {"model": "chat/reasoning-tools", "input": items, "tools": [TOOL], "store": False}
    answer = gateway.http.post("/v1/responses", json=asked | {"stream": stream})
    assert answer.status_code == 200
    if not stream:
        assert lint_response(Protocol.RESPONSES, answer.json(), request=asked) == []
        return list(answer.json()["output"]), set()
    assert lint_stream(Protocol.RESPONSES, answer.content, request=asked) == []
    events = Answer(body=answer.content).events
    return list(events[-1][1]["response"]["output"]), {name for name, _ in events}


@STREAMED
def test_shown_as_a_summary_and_sent_back_raw(showing: Gateway, up: ScriptedUpstream, stream: bool) -> None:
    """The client sees a summary; the upstream gets its own words back where they came from."""
    output, names = ask(showing, [QUESTION], stream=stream)
    thought = Think().text
    assert [part["text"] for part in output[0]["summary"]] == [thought]
    assert "content" not in output[0]
    assert not stream or "response.reasoning_summary_text.delta" in names
    assert "response.reasoning_text.delta" not in names
    result = {"type": "function_call_output", "call_id": output[-1]["call_id"], "output": "sunny"}
    ask(showing, [QUESTION, *output, result], stream=stream)
    said = next(message for message in up.last().json["messages"] if message["role"] == "assistant")
    assert said["reasoning_content"] == thought


@STREAMED
def test_content_by_default(gateway: Gateway, up: ScriptedUpstream, stream: bool) -> None:
    """It is raw, and is called so."""
    output, names = ask(gateway, [QUESTION], stream=stream)
    assert output[0]["summary"] == []
    assert [part["text"] for part in output[0]["content"]] == [Think().text]
    assert not stream or "response.reasoning_text.delta" in names


@pytest.mark.parametrize("client", [Protocol.CHAT, Protocol.MESSAGES], ids=lambda protocol: protocol.short)
def test_only_for_responses(showing: Gateway, gateway: Gateway, client: Protocol) -> None:
    """Other clients see no difference."""
    path = {Protocol.CHAT: "/v1/chat/completions", Protocol.MESSAGES: "/v1/messages"}[client]
    asked = {"model": "chat/reasoning", "max_tokens": 500, "messages": [{"role": "user", "content": "Hi"}]}
    texts = []
    for one in (showing, gateway):
        answer = one.http.post(path, json=asked).json()
        message = answer["choices"][0]["message"] if client is Protocol.CHAT else answer["content"][0]
        texts.append(message["reasoning_content" if client is Protocol.CHAT else "thinking"])
    assert texts == [Think().text] * 2
