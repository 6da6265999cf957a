"""What upstreams get for their prompt caches, over the turns of a session, from a real gateway."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.running import CLIENT_KEY, Gateway, running
from tests.scripted.server import ScriptedUpstream
from tests.vendors.refusal_texts import REFUSALS

Json = dict[str, Any]
OTHER_KEY = "client-key-other-77aa"
CONFIG = """\
keys:
  - {name: team-a, key: env:TRILOGUE_KEY}
  - {name: team-b, key: env:OTHER_KEY}
providers:
  claude: {protocol: messages, base_url: UPSTREAM, vendor: anthropic, accounts: [env:UP_KEY]}
  as-is: {protocol: messages, base_url: UPSTREAM, vendor: anthropic, accounts: [env:UP_KEY], cache: client}
  bare: {protocol: messages, base_url: UPSTREAM, vendor: anthropic, accounts: [env:UP_KEY], cache: "off"}
  gpt: {protocol: chat, base_url: UPSTREAM/v1, vendor: openai, accounts: [env:UP_KEY, env:UP_KEY]}
  gpt-responses: {protocol: responses, base_url: UPSTREAM/v1, vendor: openai, accounts: [env:UP_KEY]}
  gpt-as-is: {protocol: chat, base_url: UPSTREAM/v1, vendor: openai, accounts: [env:UP_KEY], cache: client}
  unknown: {protocol: chat, base_url: UPSTREAM/v1, vendor: none, accounts: [env:UP_KEY]}
  unknown-responses: {protocol: responses, base_url: UPSTREAM/v1, vendor: none, accounts: [env:UP_KEY]}
  deepseek: {protocol: chat, base_url: UPSTREAM/v1, vendor: deepseek, accounts: [env:UP_KEY]}
"""
PARAMETERS: Json = {"type": "object", "properties": {"path": {"type": "string"}}}
SESSION = "7f3b1c52-0000-4000-8000-000000000001"


@pytest.fixture(scope="module")
def caching(_upstream: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    _upstream.aliases |= {"claude-opus-5": "text", "gpt-5.4": "text", "gpt-5.6": "text", "m": "text"}
    with running(tmp_path_factory.mktemp("caching"), CONFIG, _upstream.url, {"OTHER_KEY": OTHER_KEY}) as gateway:
        yield gateway


def codex(turns: int) -> Json:
    """A request as Codex sends it."""
    history: list[Json] = [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "<permissions>"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Fix the tests."}]},
    ]
    for turn in range(turns):
        call: Json = {"type": "function_call", "call_id": f"c{turn}", "name": "shell", "arguments": '{"path":"a"}'}
        history += [call, {"type": "function_call_output", "call_id": f"c{turn}", "output": f"{turn} failed"}]
    return {
        "instructions": "You are Codex.",
        "input": history,
        "tools": [{"type": "function", "name": "shell", "parameters": PARAMETERS, "strict": False}],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "store": False,
        "stream": True,
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": SESSION,
    }


def opencode(turns: int) -> Json:
    """A request as opencode sends it over Chat Completions."""
    messages: list[Json] = [
        {"role": "system", "content": "You are opencode."},
        {"role": "system", "content": "<env>"},
        {"role": "user", "content": [{"type": "text", "text": "Fix the tests."}]},
    ]
    for turn in range(turns):
        function = {"name": "shell", "arguments": '{"path":"a"}'}
        calls = [{"id": f"c{turn}", "type": "function", "function": function}]
        messages += [
            {"role": "assistant", "content": "Let me see.", "tool_calls": calls},
            {"role": "tool", "tool_call_id": f"c{turn}", "content": f"{turn} failed"},
        ]
    tool = {"type": "function", "function": {"name": "shell", "parameters": PARAMETERS}}
    return {"messages": messages, "tools": [tool], "stream": True, "max_tokens": 32_000}


def claude(text: str = "Fix the tests.", **more: Any) -> Json:
    """A request of a Messages client."""
    return {"max_tokens": 999, "system": "You are Claude.", "messages": [{"role": "user", "content": text}], **more}


PATHS = {"codex": "/v1/responses", "opencode": "/v1/chat/completions", "claude": "/v1/messages"}
CLIENTS = {"codex": codex, "opencode": opencode}


def sent(
    gateway: Gateway, up: ScriptedUpstream, path: str, body: Json, *, key: str = CLIENT_KEY, **headers: str
) -> Json:
    """The body that the upstream got."""
    up.requests.clear()
    asked = {name.replace("_", "-"): value for name, value in headers.items()} | {"authorization": f"Bearer {key}"}
    response = gateway.http.post(path, json=body, headers=asked)
    assert response.status_code == 200, response.text
    found: Json = up.last().json
    return found


def marks(body: Any) -> int:
    """How many cache marks a body has."""
    return json.dumps(body).count('"cache_control"')


def unmarked(value: Any) -> Any:
    if isinstance(value, list):
        return [unmarked(item) for item in value]
    if isinstance(value, dict):
        return {name: unmarked(item) for name, item in value.items() if name != "cache_control"}
    return value


@pytest.mark.parametrize("client", CLIENTS)
def test_a_session_on_claude_is_read_from_the_cache(caching: Gateway, up: ScriptedUpstream, client: str) -> None:
    """Each request has a mark where the one before wrote, and is the same up to there."""
    bodies = [
        sent(caching, up, PATHS[client], {"model": "claude/claude-opus-5", **CLIENTS[client](turn)})
        for turn in range(4)
    ]
    assert [marks(body) for body in bodies] == [3, 4, 4, 4]
    for before, after in itertools.pairwise(bodies):
        written = before["messages"][-1]["content"][-1]
        assert written["cache_control"] == {"type": "ephemeral"}
        assert after["messages"][len(before["messages"]) - 1]["content"][-1] == written
        assert after["tools"] == before["tools"]
        assert after["system"] == before["system"]
        assert "cache_control" in after["system"][-1]
        assert unmarked(after["messages"])[: len(before["messages"])] == unmarked(before["messages"])


@pytest.mark.parametrize(("provider", "count"), [("claude", 4), ("as-is", 0), ("bare", 0)])
def test_the_setting_says_who_sets_marks(caching: Gateway, up: ScriptedUpstream, provider: str, count: int) -> None:
    body = {"model": f"{provider}/claude-opus-5", **opencode(1)}
    assert marks(sent(caching, up, PATHS["opencode"], body)) == count


@pytest.mark.parametrize(("provider", "count"), [("claude", 1), ("as-is", 1), ("bare", 0)])
def test_marks_of_the_client_are_sent_unless_there_are_to_be_none(
    caching: Gateway, up: ScriptedUpstream, provider: str, count: int
) -> None:
    body = {"model": f"{provider}/claude-opus-5", **opencode(1)}
    body["messages"][0]["content"] = [
        {"type": "text", "text": "You are opencode.", "cache_control": {"type": "ephemeral"}}
    ]
    assert marks(sent(caching, up, PATHS["opencode"], body)) == count


def test_what_stays_in_its_protocol_is_left_alone(caching: Gateway, up: ScriptedUpstream) -> None:
    tools = [{"name": "f", "input_schema": PARAMETERS}]
    for provider in ("claude", "bare"):
        for mark in ({}, {"cache_control": {"type": "ephemeral"}}):
            system = [{"type": "text", "text": "You are Claude.", **mark}]
            asked = {"model": f"{provider}/claude-opus-5", **claude(system=system, tools=tools)}
            assert sent(caching, up, PATHS["claude"], asked) == {**asked, "model": "claude-opus-5"}
    asked = {"model": "gpt/gpt-5.4", **opencode(1)}
    assert sent(caching, up, PATHS["opencode"], asked) == {**asked, "model": "gpt-5.4"}


def test_a_stored_chain_is_a_session(caching: Gateway, up: ScriptedUpstream) -> None:
    """The client sends only what is new; the upstream gets, and caches, the whole of it."""
    first = caching.openai.responses.create(model="claude/claude-opus-5", instructions="Be brief.", input="Hi")
    assert marks(up.last().json) == 0  # so far a single request
    second = caching.openai.responses.create(
        model="claude/claude-opus-5", instructions="Be brief.", input="Go on", previous_response_id=first.id
    )
    assert marks(up.last().json) == 3
    caching.openai.responses.create(
        model="claude/claude-opus-5", instructions="Be brief.", input="And then?", previous_response_id=second.id
    )
    body = up.last().json
    assert [marks(message) for message in body["messages"]] == [0, 0, 1, 0, 1]


def key_of(caching: Gateway, up: ScriptedUpstream, body: Json, model: str = "gpt/gpt-5.4", **more: str) -> str:
    found: str = sent(caching, up, PATHS["claude"], {"model": model, **body}, **more)["prompt_cache_key"]
    assert 16 <= len(found) <= 64
    return found


def test_a_session_has_one_key(caching: Gateway, up: ScriptedUpstream) -> None:
    """Whatever it says, and however it names itself."""
    by_header = key_of(caching, up, claude(), x_claude_code_session_id=SESSION)
    assert key_of(caching, up, claude("Something else"), x_claude_code_session_id=SESSION) == by_header
    for user in (
        f"user_0123_account__session_{SESSION}",
        json.dumps({"device_id": "d", "account_uuid": "", "session_id": SESSION}),
    ):
        assert key_of(caching, up, claude(metadata={"user_id": user})) == by_header
    assert SESSION not in by_header


def test_other_sessions_agents_models_and_client_keys_have_others(caching: Gateway, up: ScriptedUpstream) -> None:
    keys = [
        key_of(caching, up, claude(), x_claude_code_session_id=SESSION),
        key_of(caching, up, claude(), x_claude_code_session_id="other"),
        key_of(caching, up, claude(), x_claude_code_session_id=SESSION, x_claude_code_agent_id="a1"),
        key_of(caching, up, claude(), "gpt/gpt-5.6", x_claude_code_session_id=SESSION),
        key_of(caching, up, claude(), x_claude_code_session_id=SESSION, key=OTHER_KEY),
    ]
    assert len(set(keys)) == len(keys)
    assert not any("team" in key for key in keys)


def test_without_a_session_the_beginning_counts(caching: Gateway, up: ScriptedUpstream) -> None:
    first = claude()
    later = {**first, "messages": [*first["messages"], {"role": "assistant", "content": "Yes"}, *first["messages"]]}
    assert key_of(caching, up, first) == key_of(caching, up, later)
    assert key_of(caching, up, first) != key_of(caching, up, claude("Something else"))


def test_a_stored_chain_has_one_key(caching: Gateway, up: ScriptedUpstream) -> None:
    first = caching.openai.responses.create(model="gpt/gpt-5.4", instructions="Be brief.", input="Hi")
    key = up.last().json["prompt_cache_key"]
    caching.openai.responses.create(
        model="gpt/gpt-5.4", instructions="Be brief.", input="Go on", previous_response_id=first.id
    )
    assert up.last().json["prompt_cache_key"] == key


def test_another_gateway_makes_the_same_key(caching: Gateway, up: ScriptedUpstream, tmp_path: Path) -> None:
    """After a restart, and on every machine."""
    keys = [key_of(caching, up, claude()), key_of(caching, up, claude(), x_claude_code_session_id=SESSION)]
    with running(tmp_path, CONFIG, up.url, {"OTHER_KEY": OTHER_KEY}) as other:
        again = [key_of(other, up, claude()), key_of(other, up, claude(), x_claude_code_session_id=SESSION)]
    assert again == keys


@pytest.mark.parametrize("model", ["gpt-responses/gpt-5.4", "gpt-responses/gpt-5.6", "gpt/gpt-5.6"])
def test_both_protocols_of_openai_get_it(caching: Gateway, up: ScriptedUpstream, model: str) -> None:
    assert key_of(caching, up, claude(), model)
    if model.startswith("gpt-responses"):
        assert sent(caching, up, PATHS["opencode"], {"model": model, **opencode(1)})["prompt_cache_key"]


def test_a_key_of_the_client_is_kept(caching: Gateway, up: ScriptedUpstream) -> None:
    assert sent(caching, up, PATHS["codex"], {"model": "gpt/gpt-5.4", **codex(1)})["prompt_cache_key"] == SESSION


@pytest.mark.parametrize("model", ["unknown/m", "unknown-responses/m", "deepseek/m", "gpt-as-is/gpt-5.4"])
def test_others_get_neither_key_nor_marks(caching: Gateway, up: ScriptedUpstream, model: str) -> None:
    for path, body in ((PATHS["claude"], claude()), (PATHS["opencode"], opencode(1))):
        asked = sent(caching, up, path, {"model": model, **body}, x_claude_code_session_id=SESSION)
        assert "cache" not in json.dumps(asked)


def test_a_server_that_refuses_the_key_is_not_asked_again(caching: Gateway, up: ScriptedUpstream) -> None:
    """Nothing is lost by that, so that it may also happen in strict mode."""
    error = next(one for one in REFUSALS if one.sent == "prompt_cache_key")
    data = error.body if isinstance(error.body, str) else json.dumps(error.body)
    head = f"HTTP/1.1 {error.status} No\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
    up.aliases["gpt-5.1"] = "text"
    up.requests.clear()
    up.say(head.encode() + data.encode())
    asked = {"model": "gpt/gpt-5.1", **claude()}
    response = caching.http.post(PATHS["claude"], json=asked, headers={"trilogue-mode": "strict"})
    assert response.status_code == 200, response.text
    assert ["prompt_cache_key" in request.json for request in up.requests] == [True, False]
    assert "prompt_cache_key" not in sent(caching, up, PATHS["claude"], asked)
