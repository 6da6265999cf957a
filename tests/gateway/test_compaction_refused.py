"""Compaction where the upstream turns out to have none, and how the model is asked for a summary."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from tests.gateway.running import Gateway, running
from tests.gateway.test_compaction import LOOP, SAID, TOOLS, TRIGGER
from tests.gateway.test_prompt_caching import unmarked
from tests.scripted.http import json_answer
from tests.scripted.server import ScriptedUpstream
from trilogue.gateway.conversations.summaries import PROMPT

ONE = "base_url: UPSTREAM/v1, accounts: [{key: env:UP_KEY}]"
NAMES = ("path", "method", "item", "place", "other", "twice", "strict")
CONFIG = "\n".join(
    [
        "keys: [env:TRILOGUE_KEY]",
        "providers:",
        *(f"  openai-{name}: {{protocol: openai_responses, {ONE}}}" for name in NAMES),
        f"  openai-never: {{protocol: openai_responses, {ONE}, compaction: none}}",
        f"  unknown: {{protocol: openai_responses, {ONE}}}",
        f"  chat: {{protocol: openai_chat_completions, {ONE}}}",
        "  messages: {protocol: anthropic_messages, base_url: UPSTREAM, accounts: [{key: env:UP_KEY}]}",
        "aliases: {gpt-5.4: unknown/text}",
    ]
)
NO_PATH = {"detail": "Not Found"}


@pytest.fixture(scope="module")
def served(_upstream: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with running(tmp_path_factory.mktemp("refused"), CONFIG, _upstream.url) as gateway:
        yield gateway


def invalid(message: str, param: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": None}}


REFUSALS = {
    "path": (404, NO_PATH),
    "method": (405, {"detail": "Method Not Allowed"}),
    "item": (400, invalid("Invalid value: 'compaction_trigger'. Supported values are: 'message'.")),
    "place": (422, invalid("Input should be a valid dictionary", "input[3]")),
}
"""what servers say that lack the path, or do not know the item"""


def ask(served: Gateway, model: str, *, trigger: bool, stream: bool = False) -> str:
    """Ask for a compaction. Return the type of the last item."""
    responses = served.openai.responses
    if not trigger:
        return responses.compact(model=model, input=LOOP, instructions="Be brief.").output[-1].type
    asked: dict[str, Any] = {"model": model, "input": [*LOOP, TRIGGER], "tools": TOOLS, "store": False}
    if stream:
        final = list(responses.create(**asked, stream=True))[-1]
        return str(json.loads(final.model_dump_json())["response"]["output"][-1]["type"])
    return str(responses.create(**asked).output[-1].type)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("name", REFUSALS)
def test_the_model_writes_the_summary_and_it_is_remembered(
    served: Gateway, up: ScriptedUpstream, name: str, stream: bool
) -> None:
    """The client gets its item after one refusal, and later requests ask the model at once."""
    status, body = REFUSALS[name]
    trigger, model = name in ("item", "place"), f"openai-{name}/{'reasoning' if stream else 'text'}"
    up.say(json_answer(status, [], body))
    assert ask(served, model, trigger=trigger, stream=stream) == "compaction"
    assert "compaction.model" in served.recorder.last.losses
    assert [request.path for request in up.requests] == [
        "/v1/responses" if trigger else "/v1/responses/compact",
        "/v1/responses",
    ]
    assert PROMPT in up.requests[-1].body.decode()
    up.requests.clear()
    assert ask(served, model, trigger=trigger, stream=stream) == "compaction"
    assert len(up.requests) == 1
    assert PROMPT in up.requests[-1].body.decode()


def test_other_errors_are_the_clients(served: Gateway, up: ScriptedUpstream) -> None:
    """They say nothing about compaction, so nothing is sent again, and the upstream is asked the next time."""
    for body in (invalid("Unknown parameter: 'color'.", "color"), invalid("The input is too long for this model")):
        up.say(json_answer(400, [], body))
        with pytest.raises(openai.BadRequestError):
            ask(served, "openai-other/text", trigger=True)
    assert len(up.requests) == 2
    up.requests.clear()
    assert ask(served, "openai-other/text", trigger=True) != "compaction"
    assert json.loads(up.requests[-1].body)["input"][-1] == TRIGGER
    up.say(json_answer(404, [], {"error": {"message": "no model", "code": "model_not_found", "type": "x"}}))
    with pytest.raises(openai.APIStatusError):
        ask(served, "openai-other/text", trigger=False)
    assert up.requests[-1].path == "/v1/responses/compact"


def test_only_the_refused_form_is_remembered(served: Gateway, up: ScriptedUpstream) -> None:
    """Azure's older addresses lack the path only."""
    up.say(json_answer(404, [], NO_PATH))
    assert ask(served, "openai-twice/text", trigger=False) == "compaction"
    ask(served, "openai-twice/text", trigger=True)
    assert json.loads(up.requests[-1].body)["input"][-1] == TRIGGER


@pytest.mark.parametrize("mode", ["setting", "strict"])
def test_a_refusal_is_passed_on_if_the_model_may_not_write(served: Gateway, up: ScriptedUpstream, mode: str) -> None:
    up.say(json_answer(404, [], NO_PATH))
    strict = mode == "strict"
    model = "openai-strict/text" if strict else "openai-never/text"
    headers = {"trilogue-mode": "strict"} if strict else {}
    refused = served.http.post("/v1/responses/compact", json={"model": model, "input": [SAID]}, headers=headers)
    assert refused.status_code == 404
    assert len(up.requests) == 1


def test_an_unknown_server_is_not_asked(served: Gateway, up: ScriptedUpstream) -> None:
    """Any server may call its model gpt-5.4, and many drop items that they do not know."""
    for trigger in (False, True):
        assert ask(served, "gpt-5.4", trigger=trigger) == "compaction"
    assert [request.path for request in up.requests] == ["/v1/responses"] * 2


@pytest.mark.parametrize("model", ["chat/text", "messages/text", "unknown/text"])
def test_the_prompt_of_the_summary_begins_like_the_turn_before(
    served: Gateway, up: ScriptedUpstream, model: str
) -> None:
    """The upstream reads tools, instructions and history from its cache: the request only adds a user turn."""
    shared: Any = {"model": model, "tools": TOOLS, "instructions": "Be brief.", "store": False, "tool_choice": "auto"}
    served.openai.responses.create(input=LOOP, text={"verbosity": "low"}, **shared)
    served.openai.responses.create(input=[*LOOP, TRIGGER], text={"verbosity": "low"}, **shared)
    # Cache marks move with the end of the conversation.
    before, after = [unmarked(json.loads(request.body)) for request in up.requests]
    turns = "input" if model.startswith("unknown") else "messages"
    earlier, later = before.pop(turns), after.pop(turns)
    if model.startswith("messages"):
        # The prompt follows the result in the same turn.
        earlier, *rest = [*earlier[:-1], *earlier[-1]["content"]], later
        later = [*rest[0][:-1], *rest[0][-1]["content"]]
    assert later[: len(earlier)] == earlier
    assert PROMPT in json.dumps(later[len(earlier) :])
    after.pop("store", None), before.pop("store", None)
    assert after == before


@pytest.mark.parametrize("model", ["chat", "messages", "unknown"])
def test_a_model_that_calls_a_tool_is_asked_again_without_calls(
    served: Gateway, up: ScriptedUpstream, model: str
) -> None:
    """Once: a second call instead of a summary is an error."""
    with pytest.raises(openai.InternalServerError):
        served.openai.responses.create(model=f"{model}/tools", input=[SAID, TRIGGER], tools=TOOLS)
    first, second = [json.loads(request.body) for request in up.requests]
    assert "tool_choice" not in first or first["tool_choice"] in ("auto", {"type": "auto"})
    assert second["tool_choice"] in ("none", {"type": "none"})
    assert first["tools"] == second["tools"]


@pytest.mark.parametrize("choice", ["required", {"type": "function", "name": "look"}], ids=["required", "named"])
def test_forced_calls_are_not_forced_for_the_summary(served: Gateway, up: ScriptedUpstream, choice: Any) -> None:
    made = served.openai.responses.create(model="chat/text", input=[SAID, TRIGGER], tools=TOOLS, tool_choice=choice)
    assert made.output[-1].type == "compaction"
    assert json.loads(up.requests[-1].body)["tool_choice"] == "none"
