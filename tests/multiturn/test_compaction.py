"""Compaction: passed on if the upstream has it, else written by the model, or refused if the provider says so."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from tests.multiturn.agents import ResponsesAgent
from tests.multiturn.gateways import MODELS, WITHOUT_COMPACTION_BY_MODEL, Gateway, gateway, settings
from tests.multiturn.script import Json
from tests.multiturn.strict import StrictUpstream
from trilogue.model import Protocol

HISTORY: list[Json] = [
    {"role": "user", "content": "say red"},
    {"role": "assistant", "content": "red"},
    {"role": "user", "content": "say blue"},
]
WITHOUT = {
    "chat": MODELS[Protocol.CHAT],
    "messages": MODELS[Protocol.MESSAGES],
    "bare responses": "bare/gpt-5.4",
}
EVERY_OTHER = pytest.mark.parametrize("model", WITHOUT.values(), ids=list(WITHOUT))
SUMMARY = "You said something."
"""what the strict model says to a prompt that it does not know"""


@pytest.fixture(scope="module")
def refusing(_upstream: StrictUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway whose models may not write summaries."""
    folder, config = tmp_path_factory.mktemp("compaction"), settings(provider=WITHOUT_COMPACTION_BY_MODEL)
    with gateway(folder, _upstream, config) as running:
        yield running


@pytest.fixture(scope="module")
def passing(_upstream: StrictUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder, config = tmp_path_factory.mktemp("passing"), settings(provider="compaction: upstream", workers=2)
    with gateway(folder, _upstream, config) as running:
        yield running


def compact(running: Gateway, model: str, **more: Any) -> Any:
    responses: Any = running.client.responses
    return responses.compact(model=model, input=HISTORY, **more)


def test_passed_on(passing: Gateway) -> None:
    """To an upstream that has it; what it returns can be gone on from."""
    model = MODELS[Protocol.RESPONSES]
    made = compact(passing, model)
    assert made.object == "response.compaction"
    assert [item.type for item in made.output] == ["message", "message", "compaction"]
    asked = passing.up.requests[-1]
    assert asked.path == "/v1/responses/compact"
    assert asked.json["input"] == HISTORY
    given = [made.output[-1].to_dict(), {"role": "user", "content": "recall"}]
    seen = json.loads(passing.client.responses.create(model=model, input=given).output_text)
    assert json.loads(seen["summary"])["users"] == ["say red", "say blue"]
    assert seen["users"] == ["recall"]


def test_passed_on_with_a_chain(passing: Gateway) -> None:
    """`previous_response_id` means the same as elsewhere."""
    agent = ResponsesAgent(passing.client, MODELS[Protocol.RESPONSES])
    agent.work("loop 2")
    responses: Any = passing.client.responses
    made = responses.compact(model=MODELS[Protocol.RESPONSES], previous_response_id=agent.previous)
    assert made.output[-1].type == "compaction"
    given = [made.output[-1].to_dict(), {"role": "user", "content": "recall"}]
    seen = json.loads(responses.create(model=MODELS[Protocol.RESPONSES], input=given).output_text)
    assert json.loads(seen["summary"])["users"] == ["loop 2"]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_trigger_passed_on(passing: Gateway, stream: bool) -> None:
    """The item that Codex sends at the end of its input."""
    agent = ResponsesAgent(passing.client, MODELS[Protocol.RESPONSES], stream=stream, store=False)
    agent.history = [*HISTORY, {"type": "compaction_trigger"}]
    assert [item["type"] for item in agent._ask().native["output"]] == ["compaction"]


@EVERY_OTHER
def test_refused_if_the_provider_says_so(refusing: Gateway, up: StrictUpstream, model: str) -> None:
    """With a clear error in the API's form, before any upstream is asked."""
    assert up.requests == []
    with pytest.raises(openai.APIStatusError) as refused:
        compact(refusing, model)
    assert refused.value.status_code in (400, 404)
    body: Any = refused.value.body
    assert body["type"] == "invalid_request_error"
    assert "compact" in body["message"]
    given: Any = [*HISTORY, {"type": "compaction_trigger"}]
    with pytest.raises(openai.BadRequestError) as refused_item:
        refusing.client.responses.create(model=model, input=given)
    assert "compaction" in refused_item.value.message
    assert up.requests == []


@EVERY_OTHER
def test_written_by_the_model(one: Gateway, up: StrictUpstream, model: str) -> None:
    """One request to the model, declared; the result replaces the history in later requests."""
    raw: Any = one.client.responses.with_raw_response
    reply = raw.compact(model=model, input=HISTORY)
    assert reply.headers.get("trilogue-loss")
    made = reply.parse()
    assert made.object == "response.compaction"
    assert made.output[-1].type == "compaction"
    assert made.usage.input_tokens == 25
    assert len(up.bodies()) == 1
    sent = json.dumps(up.bodies()[0])
    assert "say red" in sent
    assert "say blue" in sent
    up.reset()
    given: Any = [made.output[-1].to_dict(), {"role": "user", "content": "say after"}]
    assert one.client.responses.create(model=model, input=given).output_text == "after"
    follow = json.dumps(up.bodies()[0])
    assert SUMMARY in follow
    assert "say red" not in follow


@EVERY_OTHER
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_trigger_written_by_the_model(one: Gateway, up: StrictUpstream, model: str, stream: bool) -> None:
    agent = ResponsesAgent(one.client, model, stream=stream, store=False)
    agent.history = [*HISTORY, {"type": "compaction_trigger"}]
    output = agent._ask().native["output"]
    assert [item["type"] for item in output] == ["compaction"]
    assert SUMMARY not in json.dumps(output)
    assert len(up.bodies()) == 1
    altered: Any = [{**output[0], "encrypted_content": output[0]["encrypted_content"][:-8] + "AAAAAAAA"}]
    with pytest.raises(openai.BadRequestError):
        one.client.responses.create(model=model, input=[*altered, {"role": "user", "content": "say x"}])


def test_an_upstream_that_has_it_is_asked(refusing: Gateway, up: StrictUpstream) -> None:
    """The setting is for those that don't."""
    made = compact(refusing, MODELS[Protocol.RESPONSES])
    assert up.requests[-1].path == "/v1/responses/compact"
    assert made.output[-1].encrypted_content.startswith("gAAA")
