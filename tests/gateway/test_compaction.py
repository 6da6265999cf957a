"""Compaction for Responses clients: by the upstream, by the model, or refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.gateway.process import until
from tests.gateway.running import Gateway, running
from tests.scripted.http import json_answer
from tests.scripted.scenario import ANSWER_TEXT
from tests.scripted.server import ScriptedUpstream
from trilogue.gateway.conversations.summaries import INTRODUCTION, PROMPT
from trilogue.lint import lint_error, lint_response, lint_stream
from trilogue.model import Protocol

CONFIG = """\
keys: [env:TRILOGUE_KEY]
providers:
  chat: {protocol: openai_chat_completions, base_url: UPSTREAM/v1, accounts: [{key: env:UP_KEY}]}
  messages: {protocol: anthropic_messages, base_url: UPSTREAM, accounts: [{key: env:UP_KEY}]}
  responses: {protocol: openai_responses, base_url: UPSTREAM/v1, accounts: [{key: env:UP_KEY}]}
  native:
    protocol: openai_responses
    base_url: UPSTREAM/v1
    accounts: [{key: env:UP_KEY}]
    profile: {compacts: true}
  two: &two
    protocol: openai_responses
    base_url: UPSTREAM/v1
    accounts: [{name: a, key: env:UP_KEY}, {name: b, key: env:UP_KEY}]
    profile: {compacts: true}
  two-by-upstream: {<<: *two, compaction: upstream}
  openai: {protocol: openai_responses, base_url: UPSTREAM/v1, accounts: [{key: env:UP_KEY}]}
  openai-only: {protocol: openai_responses, base_url: UPSTREAM/v1, accounts: [{key: env:UP_KEY}], compaction: none}
  never: {protocol: openai_chat_completions, base_url: UPSTREAM/v1, accounts: [{key: env:UP_KEY}], compaction: none}
  demo: {protocol: openai_responses, base_url: "demo:"}
routes:
  - {match: refused-first, targets: [never/text, messages/text]}
  - {match: with-fallback, targets: [native/text, chat/text]}
"""
PATHS = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}
BY_MODEL = ("chat/text", "messages/text", "responses/text", "demo/demo")
SUMMARY = "".join(ANSWER_TEXT)
TRIGGER: Any = {"type": "compaction_trigger"}
SAID: Any = {"role": "user", "content": "My name is Ada."}
TOOLS: Any = [{"type": "function", "name": "look", "description": "Look.", "parameters": {"type": "object"}}]
LOOP: Any = [
    SAID,
    {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "call_1", "output": "a secret garden"},
]


@pytest.fixture(scope="module")
def compacting(_upstream: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with running(tmp_path_factory.mktemp("compacting"), CONFIG, _upstream.url) as gateway:
        yield gateway


def texts(upstream: ScriptedUpstream) -> str:
    """Return the last request as text, in which the words of a conversation are found in every protocol."""
    return json.dumps(json.loads(upstream.requests[-1].body), ensure_ascii=False)


@pytest.mark.parametrize("model", BY_MODEL)
def test_the_endpoint_by_the_model(compacting: Gateway, up: ScriptedUpstream, model: str) -> None:
    """The messages of the user stay, and the rest is in an item that any upstream gets as text."""
    compacted = compacting.openai.responses.compact(model=model, input=LOOP, instructions="Be brief.")
    assert compacted.object == "response.compaction"
    assert [item.type for item in compacted.output] == ["message", "compaction"]
    assert compacted.usage.total_tokens > 0
    assert "compaction.model" in compacting.recorder.last.losses
    wire = json.loads(compacting.recorder.last.body)
    assert wire["output"][0]["content"] == [{"type": "input_text", "text": "My name is Ada."}]
    sealed = wire["output"][1]["encrypted_content"]
    assert sealed.startswith("trl2.")
    if model != "demo/demo":
        assert [request.path for request in up.requests] == [PATHS[model.partition("/")[0]]]
        assert PROMPT in texts(up)
        assert "a secret garden" in texts(up)
    for target in ("chat/text", "messages/text", "responses/text"):
        compacting.openai.responses.create(model=target, input=[*wire["output"], {"role": "user", "content": "And?"}])
        assert INTRODUCTION.strip() in texts(up)
        assert sealed not in texts(up)
        if model != "demo/demo":
            assert SUMMARY in texts(up)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("model", BY_MODEL)
def test_the_trigger_by_the_model(compacting: Gateway, up: ScriptedUpstream, model: str, stream: bool) -> None:
    """This is what Codex sends: an ordinary request, whose only output is the item."""
    asked: dict[str, Any] = {"model": model, "input": [*LOOP, TRIGGER], "tools": TOOLS, "store": False}
    if stream:
        events = list(compacting.openai.responses.create(**asked, stream=True))
        assert [event.type for event in events][-3:] == [
            "response.output_item.added",
            "response.output_item.done",
            "response.completed",
        ]
        assert lint_stream(Protocol.RESPONSES, compacting.recorder.last.body) == []
        final = json.loads(events[-1].model_dump_json())["response"]
    else:
        final = json.loads(compacting.openai.responses.create(**asked).model_dump_json())
        assert lint_response(Protocol.RESPONSES, json.loads(compacting.recorder.last.body)) == []
    assert [item["type"] for item in final["output"]] == ["compaction"]
    assert (final["status"], final["store"], final["tool_choice"]) == ("completed", False, "auto")
    assert final["usage"]["total_tokens"] > 0
    assert "compaction.model" in compacting.recorder.last.losses
    if model != "demo/demo":
        assert len(up.requests) == 1
        assert "compaction_trigger" not in texts(up)
        assert json.loads(up.requests[0].body).get("stream") in (None, False)


@pytest.mark.parametrize("model", ["chat/text", "messages/text", "responses/text"])
def test_a_chain_goes_on_from_the_summary(compacting: Gateway, up: ScriptedUpstream, model: str) -> None:
    """The next turn gets what the user said and the summary, and nothing else of what came before."""
    create = compacting.openai.responses.create
    first = create(model=model, input=LOOP, tools=TOOLS)
    compacted: Any = create(model=model, previous_response_id=first.id, input=[TRIGGER], tools=TOOLS)
    assert (compacted.previous_response_id, compacted.store) == (first.id, True)
    assert "a secret garden" in texts(up)
    create(model=model, previous_response_id=compacted.id, input="Go on.")
    sent = texts(up)
    assert "a secret garden" not in sent
    assert all(words in sent for words in ("My name is Ada.", SUMMARY, "Go on."))
    create(model=model, previous_response_id=first.id, input="Without it.")
    assert "a secret garden" in texts(up) or model == "responses/text"


def test_the_endpoint_continues_a_response(compacting: Gateway, up: ScriptedUpstream) -> None:
    first = compacting.openai.responses.create(model="chat/text", input=[SAID])
    more: Any = [{"role": "user", "content": "I like tea."}]
    compacted = compacting.openai.responses.compact(model="chat/text", previous_response_id=first.id, input=more)
    assert [item.type for item in compacted.output] == ["message", "message", "compaction"]
    assert SUMMARY in texts(up)
    with pytest.raises(openai.BadRequestError) as refused:
        compacting.openai.responses.compact(model="chat/text", previous_response_id="resp_unknown", input=more)
    assert refused.value.code == "previous_response_not_found"
    with pytest.raises(openai.NotFoundError):
        compacting.openai.responses.retrieve(compacted.id)


def test_passed_on_to_an_upstream_that_compacts(compacting: Gateway, up: ScriptedUpstream) -> None:
    """Both forms reach the upstream as they are, and its own item comes back untouched."""
    item = {"id": "cmp_1", "type": "compaction", "encrypted_content": "b3BhcXVl"}
    usage = {"input_tokens": 7, "output_tokens": 2, "total_tokens": 9, "input_tokens_details": {"cached_tokens": 0}}
    usage["output_tokens_details"] = {"reasoning_tokens": 0}
    said = {"id": "resp_1", "object": "response.compaction", "created_at": 1, "output": [item], "usage": usage}
    up.say(json_answer(200, [], said))
    compacted = compacting.openai.responses.compact(model="native/text", input=[SAID])
    assert json.loads(compacting.recorder.last.body) == said
    assert compacted.output[0].type == "compaction"
    assert compacting.recorder.last.losses == []
    assert up.requests[-1].path == "/v1/responses/compact"
    assert json.loads(up.requests[-1].body) == {"model": "text", "input": [SAID]}
    compacting.openai.responses.create(model="native/text", input=[SAID, TRIGGER])
    assert json.loads(up.requests[-1].body)["input"] == [SAID, TRIGGER]
    sent: Any = [item, SAID]
    compacting.openai.responses.create(model="native/text", input=sent)
    assert json.loads(up.requests[-1].body)["input"] == sent


@pytest.mark.parametrize(
    ("model", "passed"), [("two/text", False), ("with-fallback", False), ("two-by-upstream/text", True)]
)
def test_where_another_account_may_have_to_go_on(
    compacting: Gateway, up: ScriptedUpstream, model: str, passed: bool
) -> None:
    """Nobody but the account that compacts could read its item: the model writes a summary that all can read."""
    compacting.openai.responses.create(model=model, input=[SAID, TRIGGER])
    assert (TRIGGER in json.loads(up.requests[-1].body)["input"]) is passed
    assert compacting.recorder.last.losses == ([] if passed else ["compaction.model"])
    strictly = {"trilogue-mode": "strict"}
    compacting.openai.responses.create(model=model, input=[SAID, TRIGGER], extra_headers=strictly)
    assert TRIGGER in json.loads(up.requests[-1].body)["input"]


@pytest.mark.parametrize("trigger", [False, True], ids=["endpoint", "trigger"])
def test_refused_elsewhere(compacting: Gateway, up: ScriptedUpstream, trigger: bool) -> None:
    """Nothing is sent, and the error says what the operator can do. Another target of the route may compact."""

    def compact(model: str) -> object:
        responses = compacting.openai.responses
        if trigger:
            return responses.create(model=model, input=[SAID, TRIGGER])
        return responses.compact(model=model, input=[SAID])

    with pytest.raises(openai.BadRequestError) as refused:
        compact("never/text")
    assert refused.value.code == "unsupported_parameter"
    assert refused.value.param == ("input[1]" if trigger else "input")
    assert "compaction: model" in refused.value.message
    assert lint_error(Protocol.RESPONSES, json.loads(compacting.recorder.last.body)) == []
    assert up.requests == []
    compact("refused-first")
    assert [request.path for request in up.requests] == ["/v1/messages"]


def test_strict_mode_refuses_the_loss(compacting: Gateway, up: ScriptedUpstream) -> None:
    headers = {"trilogue-mode": "strict"}
    body = {"model": "chat/text", "input": [SAID]}
    refused = compacting.http.post("/v1/responses/compact", json=body, headers=headers)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "lossy_translation")
    assert up.requests == []


@pytest.mark.parametrize(
    ("content", "code"),
    [
        ("b3BhcXVl", "unsupported_parameter"),
        ("trl2." + "A" * 60, "unsupported_parameter"),
        ("trl2.AAAAAAAA", "invalid_encrypted_content"),
    ],
    ids=["of a provider", "of another gateway", "of nothing"],
)
def test_items_of_others_are_refused(compacting: Gateway, up: ScriptedUpstream, content: str, code: str) -> None:
    """Without its summary the model would not know the conversation."""
    item: Any = {"type": "compaction", "encrypted_content": content}
    with pytest.raises(openai.BadRequestError) as refused:
        compacting.openai.responses.create(model="chat/text", input=[item, SAID])
    assert refused.value.code == code
    assert up.requests == []


def test_a_changed_item_is_refused(compacting: Gateway, up: ScriptedUpstream) -> None:
    compacting.openai.responses.compact(model="chat/text", input=[SAID])
    item = json.loads(compacting.recorder.last.body)["output"][-1]
    sealed = item["encrypted_content"]
    item["encrypted_content"] = sealed[:-6] + ("AAAAAA" if sealed[-6:] != "AAAAAA" else "BBBBBB")
    up.requests.clear()
    for model in ("chat/text", "responses/text"):
        with pytest.raises(openai.BadRequestError) as refused:
            compacting.openai.responses.create(model=model, input=[item, SAID])
        assert (refused.value.code, refused.value.param) == ("invalid_encrypted_content", "input[0]")
    assert up.requests == []


def test_the_trigger_is_the_last_item(compacting: Gateway, up: ScriptedUpstream) -> None:
    with pytest.raises(openai.BadRequestError, match="must be the last item"):
        compacting.openai.responses.create(model="chat/text", input=[TRIGGER, SAID])
    assert up.requests == []


def test_a_failed_summary_is_an_error(compacting: Gateway, up: ScriptedUpstream) -> None:
    """A summary that was cut off, or an error of the upstream, is never taken for a summary."""
    with pytest.raises(openai.InternalServerError):
        compacting.openai.responses.compact(model="chat/length", input=[SAID])
    with pytest.raises(openai.APIStatusError):
        compacting.openai.responses.compact(model="chat/error-500", input=[SAID])
    with pytest.raises(openai.APIError):
        list(compacting.openai.responses.create(model="chat/length", input=[SAID, TRIGGER], stream=True))


def test_without_state(tmp_path: Path, up: ScriptedUpstream) -> None:
    """Compaction needs no store; what refers to stored responses is refused, or passed on to who keeps them."""
    with running(tmp_path, f"state: none\n{CONFIG}", up.url) as gateway:
        compacted = gateway.openai.responses.compact(model="chat/text", input=[SAID])
        assert compacted.output[-1].type == "compaction"
        response = gateway.openai.responses.create(model="messages/text", input=[SAID, TRIGGER])
        assert [item.type for item in response.output] == ["compaction"]
        with pytest.raises(openai.BadRequestError) as refused:
            gateway.openai.responses.compact(model="chat/text", previous_response_id="resp_1", input=[SAID])
        assert refused.value.param == "previous_response_id"
        gateway.openai.responses.compact(model="responses/text", previous_response_id="resp_1", input=[SAID])
        assert json.loads(up.requests[-1].body)["previous_response_id"] == "resp_1"


@pytest.mark.parametrize("model", ["chat/text", "responses/text"])
def test_in_the_background(compacting: Gateway, model: str) -> None:
    """A job compacts like any other request."""
    responses = compacting.openai.responses
    started = responses.create(model=model, input=[SAID, TRIGGER], background=True)
    until(lambda: responses.retrieve(started.id).status in ("completed", "failed"))
    found = responses.retrieve(started.id)
    assert (found.id, found.status) == (started.id, "completed")
    assert [item.type for item in found.output] == ["compaction"]
