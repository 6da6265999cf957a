"""`pause_turn` of a Messages upstream, for clients whose protocol has no such thing: the gateway goes on by itself.

Anthropic pauses only turns with tools that it runs itself, so every client here offers web search.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.multiturn import strict_messages
from tests.multiturn.agents import ChatAgent, MessagesAgent, ResponsesAgent
from tests.multiturn.gateways import MODELS, Gateway, gateway, settings
from tests.multiturn.refusal import RefusedError
from tests.multiturn.strict import StrictUpstream
from tests.scripted import thread
from tests.scripted.http import Recorded, Step
from trilogue.model import Protocol

MODEL = MODELS[Protocol.MESSAGES]
EITHER = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
MOST = 10
"""how often the gateway goes on at most, unless it is set otherwise"""
IN, OUT, CACHED = 25, 10, 5
"""tokens of one upstream response; cached tokens are part of the input"""

SEARCH: Any = {"web_search_options": {}}
TOOLS: Any = {"tools": [{"type": "web_search"}]}


def text(pauses: int) -> str:
    """Return what the model says in all."""
    return "".join(f"Part {number}. " for number in range(1, pauses + 1)) + f"The end after {pauses} pauses."


@EITHER
@pytest.mark.parametrize("pauses", [1, 3, MOST])
def test_responses(one: Gateway, pauses: int, stream: bool) -> None:
    """One response with all the text, and the tokens of all upstream calls."""
    agent = ResponsesAgent(one.client, MODEL, stream=stream, **TOOLS)
    said = agent.say(f"pause {pauses}")
    assert said.text == text(pauses)
    assert said.native["status"] == "completed"
    usage, calls = said.native["usage"], pauses + 1
    assert (usage["input_tokens"], usage["output_tokens"]) == (IN * calls, OUT * calls)
    assert usage["total_tokens"] == (IN + OUT) * calls
    assert usage["input_tokens_details"]["cached_tokens"] == CACHED * calls
    assert len(one.up.bodies()) == calls
    assert one.up.refusals == []
    assert agent.recall()["users"] == [f"pause {pauses}", "recall"]


@EITHER
def test_chat(one: Gateway, stream: bool) -> None:
    agent = ChatAgent(one.client, MODEL, stream=stream, **SEARCH)
    said = agent.say("pause 3")
    choice = said.native["choices"][0]
    assert (said.text, choice["finish_reason"]) == (text(3), "stop")
    if not stream:
        assert said.native["usage"]["prompt_tokens"] == IN * 4
        assert said.native["usage"]["completion_tokens"] == OUT * 4
    assert len(one.up.bodies()) == 4
    assert agent.recall()["users"] == ["pause 3", "recall"]


def test_chat_streams_the_sum(one: Gateway) -> None:
    """The usage chunk comes once, at the end."""
    question: Any = [{"role": "user", "content": "pause 2"}]
    chunks = list(
        one.client.chat.completions.create(
            model=MODEL, messages=question, stream=True, stream_options={"include_usage": True}, **SEARCH
        )
    )
    usages = [chunk.usage for chunk in chunks if chunk.usage is not None]
    assert [(usage.prompt_tokens, usage.completion_tokens) for usage in usages] == [(IN * 3, OUT * 3)]
    reasons = [choice.finish_reason for chunk in chunks for choice in chunk.choices if choice.finish_reason]
    assert reasons == ["stop"]


@EITHER
def test_bounded(one: Gateway, stream: bool) -> None:
    """At the bound the client gets what has come, as incomplete, with what it cost."""
    said = ResponsesAgent(one.client, MODEL, stream=stream, **TOOLS).say("pause 30")
    calls = MOST + 1
    assert said.native["status"] == "incomplete"
    assert said.native["incomplete_details"]["reason"]
    assert said.text == "".join(f"Part {number}. " for number in range(1, calls + 1))
    assert said.native["usage"]["output_tokens"] == OUT * calls
    assert len(one.up.bodies()) == calls
    one.up.reset()
    chat = ChatAgent(one.client, MODEL, stream=False, **SEARCH).say("pause 30")
    assert chat.native["choices"][0]["finish_reason"] == "length"
    assert len(one.up.bodies()) == calls


@EITHER
def test_messages_clients_pause_themselves(one: Gateway, stream: bool) -> None:
    """They know the stop reason, and send the response back as it came."""
    agent = MessagesAgent(one.anthropic, MODEL, stream=stream)
    agent.say("pause 1")
    assert agent.said[-1].native["stop_reason"] == "pause_turn"
    assert agent._ask().native["stop_reason"] == "end_turn"
    assert len(one.up.bodies()) == 2


def test_what_is_sent_back_is_what_came(one: Gateway) -> None:
    """Each continuation ends with the assistant's turn so far, and nothing before it changes."""
    ResponsesAgent(one.client, MODEL, **TOOLS).say("pause 3")
    bodies = one.up.bodies()
    assert [len(body["messages"]) for body in bodies[1:]] == [len(bodies[0]["messages"]) + 1] * 3
    for number, body in enumerate(bodies[1:], 1):
        assert body["messages"][:-1] == bodies[0]["messages"]
        texts = [block["text"] for block in body["messages"][-1]["content"]]
        assert "".join(texts) == "".join(f"Part {part}. " for part in range(1, number + 1))
        assert {name: value for name, value in body.items() if name != "messages"} == {
            name: value for name, value in bodies[0].items() if name != "messages"
        }


class FailingLater(StrictUpstream):
    """A strict upstream whose third part fails."""

    def _messages(self, request: Recorded, account: str, number: int) -> Iterable[Step]:
        if strict_messages.read(request.json).parts == 2:
            raise RefusedError("This part is wrong.")
        return super()._messages(request, account, number)


@pytest.fixture
def failing(tmp_path: Path) -> Iterator[Gateway]:
    """A gateway before an upstream whose third part fails."""
    with thread.running(FailingLater()) as up:
        assert isinstance(up, FailingLater)
        with gateway(tmp_path, up, settings(accounts=("a",))) as running:
            yield running


def test_a_part_that_fails(failing: Gateway) -> None:
    """What has come stays, and the failure is one of the response: no end is invented."""
    with pytest.raises(openai.APIStatusError) as refused:
        ChatAgent(failing.client, MODEL, stream=False, **SEARCH).say("pause 5")
    assert refused.value.status_code == 400
    question: Any = [{"role": "user", "content": "pause 5"}]
    stream = failing.client.chat.completions.create(model=MODEL, messages=question, stream=True, **SEARCH)
    texts = (choice.delta.content or "" for chunk in stream for choice in chunk.choices)
    pieces: list[str] = []
    with pytest.raises(openai.APIError, match="This part is wrong"):
        pieces.extend(texts)
    assert "".join(pieces) == "Part 1. Part 2. "
    assert len(failing.up.bodies()) == 6


def test_the_setting(tmp_path: Path, up: StrictUpstream) -> None:
    """With 0, nothing is continued: the client gets what has come as incomplete."""
    config = settings().replace("server: {", "server: {max_continuations: 0, ")
    with gateway(tmp_path, up, config) as running:
        for stream in (False, True):
            said = ResponsesAgent(running.client, MODEL, stream=stream, **TOOLS).say("pause 1")
            assert (said.text, said.native["status"]) == ("Part 1. ", "incomplete")
    assert len(up.bodies()) == 2


def test_the_loss_is_declared(one: Gateway) -> None:
    raw = one.client.responses.with_raw_response.create(model=MODEL, input="pause 30", **TOOLS)
    assert "stop.pause_turn" in raw.headers["trilogue-loss"]
    raw = one.client.responses.with_raw_response.create(model=MODEL, input="pause 3", **TOOLS)
    assert "stop.pause_turn" not in raw.headers.get("trilogue-loss", "")


class InOnePiece(StrictUpstream):
    """A strict upstream that sends each part at once."""

    def _messages(self, request: Recorded, account: str, number: int) -> Iterable[Step]:
        steps = list(super()._messages(request, account, number))
        return [b"".join(step for step in steps if isinstance(step, bytes))]


@EITHER
def test_all_parts_are_counted(tmp_path: Path, stream: bool) -> None:
    """The usage ledger has what the client was told, also where a part comes in one piece."""
    with thread.running(InOnePiece()) as up:
        assert isinstance(up, InOnePiece)
        with gateway(tmp_path, up, settings(accounts=("a",))) as running:
            said = ResponsesAgent(running.client, MODEL, stream=stream, **TOOLS).say("pause 3")
            total = running.http().get("/v1/usage").json()["usage"]["total"]
    assert said.native["usage"]["input_tokens"] == IN * 4
    assert (total["input_tokens"], total["output_tokens"]) == (IN * 4, OUT * 4)
