"""A parameter that an upstream refuses is left out: at once, from then on, and never behind the client's back.

The errors are those that vendors really send (`tests/vendors/refusal_texts.py`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.gateway.pairs import PATHS
from tests.gateway.running import CLIENT_KEY, Gateway, running
from tests.scripted.ask import body
from tests.scripted.server import ScriptedUpstream
from tests.vendors.refusal_texts import NOT_LEARNED, REFUSALS, RefusalText
from trilogue.model import Protocol

CHAT, MESSAGES, RESPONSES = Protocol.CHAT, Protocol.MESSAGES, Protocol.RESPONSES
NOT_PERMITTED = "Extra inputs are not permitted"
OPEN = "top_k: true, max_stops: 9, openai_fields: true, efforts: [none, minimal, low, medium, high, xhigh, max]"
CONFIG = f"""\
keys: [env:TRILOGUE_KEY]
providers:
  chat:
    protocol: openai_chat_completions
    base_url: UPSTREAM/v1
    vendor: none
    accounts: [{{key: env:UP_KEY}}]
    profile: {{{OPEN}, max_tokens_field: max_completion_tokens}}
  older:
    protocol: openai_chat_completions
    base_url: UPSTREAM/v1
    vendor: none
    accounts: [{{key: env:UP_KEY}}]
    profile: {{{OPEN}, max_tokens_field: max_tokens}}
  messages: {{protocol: anthropic_messages, base_url: UPSTREAM, vendor: none, accounts: [{{key: env:UP_KEY}}]}}
  anthropic: {{base_url: UPSTREAM, accounts: [{{key: env:UP_KEY}}]}}
  responses:
    protocol: openai_responses
    base_url: UPSTREAM/v1
    vendor: none
    accounts: [{{key: env:UP_KEY}}]
    profile: {{{OPEN}, summaries: [auto, concise, detailed]}}
  thinker:
    protocol: anthropic_messages
    base_url: UPSTREAM
    vendor: none
    accounts: [{{key: env:UP_KEY}}]
    profile: {{adaptive_thinking: true}}
routes:
  - {{match: two-targets, targets: [chat/first, older/second]}}
"""


FIRST_BETA, SECOND_BETA = "context-management-2025-06-27", "fine-grained-tool-streaming-2025-05-14"
BETAS = f"{FIRST_BETA},{SECOND_BETA}"
NEW_FIELDS: dict[str, Any] = {
    "model": "",
    "max_tokens": 100,
    "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
    "messages": [{"role": "user", "content": "Hi"}],
    "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    "output_config": {"effort": "high"},
}
"""a request of Claude Code, reduced to what compatible servers refuse"""


def unknown(path: str) -> dict[str, Any]:
    """Return Anthropic's words for a field that it does not know."""
    return {"type": "error", "error": {"type": "invalid_request_error", "message": f"{path}: {NOT_PERMITTED}"}}


class Case(NamedTuple):
    """What a client asks, what the upstream refuses of it, and how the field looks in the second attempt."""

    vendor: str
    sent: str
    provider: str
    client: Protocol
    settings: dict[str, Any]
    then: Any


CASES = [
    Case("openai", "temperature", "chat", MESSAGES, {"temperature": 0.2}, None),
    Case("openai", "max_tokens", "older", MESSAGES, {"max_tokens": 1024}, None),
    Case("openai", "include[0]", "responses", MESSAGES, {}, None),
    Case("azure", "reasoning_effort", "chat", MESSAGES, {"thinking": {"type": "disabled"}}, "low"),
    Case("anthropic", "thinking", "thinker", CHAT, {"reasoning_effort": "high"}, None),
    Case("anthropic", "max_tokens", "messages", CHAT, {"max_completion_tokens": 10_000}, 4096),
    Case("mistral", "max_completion_tokens", "chat", MESSAGES, {"max_tokens": 900}, None),
    Case("groq", "reasoning_effort", "chat", RESPONSES, {"reasoning": {"effort": "low"}}, None),
    Case("xai", "stop", "chat", MESSAGES, {"stop_sequences": ["END"]}, None),
    Case("deepseek", "max_tokens", "older", MESSAGES, {"max_tokens": 16_000}, 8192),
    Case("gemini", "top_k", "chat", MESSAGES, {"top_k": 40}, None),
    Case("openrouter", "temperature", "chat", RESPONSES, {"temperature": 0.0}, None),
    Case("vllm", "max_completion_tokens", "chat", MESSAGES, {"max_tokens": 800}, None),
]
IDS = [f"{case.vendor}-{case.sent}" for case in CASES]


def refusal_of(case: Case) -> RefusalText:
    """Return the first error of the vendor about this field."""
    protocol = {"older": "chat", "thinker": "messages"}.get(case.provider, case.provider)
    return next(one for one in REFUSALS if (one.vendor, one.protocol, one.sent) == (case.vendor, protocol, case.sent))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lessons")


@pytest.fixture(scope="module")
def learning(_upstream: ScriptedUpstream, home: Path) -> Iterator[Gateway]:
    """A gateway that sends much, to upstreams that nobody knows."""
    with running(home, CONFIG, _upstream.url) as gateway:
        yield gateway


def refuse(up: ScriptedUpstream, status: int, answer: Any) -> None:
    """Have the upstream refuse the next request."""
    data = answer if isinstance(answer, str) else json.dumps(answer)
    head = f"HTTP/1.1 {status} No\r\ncontent-type: application/json\r\ncontent-length: {len(data.encode())}\r\n\r\n"
    up.say(head.encode() + data.encode())


def ask(gateway: Gateway, up: ScriptedUpstream, case: Case, name: str, *, stream: bool = False, mode: str = "") -> Any:
    up.aliases[name] = "text"
    asked = body(case.client, f"{case.provider}/{name}", stream=stream, tools=False)
    asked.pop("thinking", None)
    headers = {"trilogue-mode": mode} if mode else {}
    return gateway.http.post(PATHS[case.client], json=asked | case.settings, headers=headers)


def field(sent: dict[str, Any], path: str) -> Any:
    return sent.get(path.partition("[")[0])


@pytest.mark.parametrize("case", CASES, ids=IDS)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_what_was_refused_is_left_out_at_once_and_from_then_on(
    learning: Gateway, up: ScriptedUpstream, case: Case, stream: bool
) -> None:
    """The client gets its response, is told what was changed, and the upstream is not bothered again."""
    name = f"{case.vendor}-{case.sent}-{stream}".replace("[0]", "")
    error = refusal_of(case)
    refuse(up, error.status, error.body)
    response = ask(learning, up, case, name, stream=stream)
    assert response.status_code == 200, response.text
    first, second = (request.json for request in up.requests)
    assert field(first, case.sent) is not None
    assert field(second, case.sent) == case.then
    loss = "stop.emulated" if case.sent == "stop" else "param.refused"
    assert loss in response.headers["trilogue-loss"]
    attempts = learning.record(response.headers["x-request-id"])["decision"]["attempts"]
    assert [(one["how"], one["action"], one["why"]) for one in attempts] == [
        ("strategy", "adjust", "parameter_refused"),
        ("adjusted", "answered", ""),
    ]
    up.requests.clear()
    again = ask(learning, up, case, name, stream=stream)
    assert again.status_code == 200
    assert [field(request.json, case.sent) for request in up.requests] == [case.then]
    assert loss in again.headers["trilogue-loss"]


def test_it_is_logged_once(learning: Gateway, up: ScriptedUpstream) -> None:
    """As a suggestion for the table."""
    case, error = CASES[0], refusal_of(CASES[0])
    refuse(up, error.status, error.body)
    for _ in range(2):
        assert ask(learning, up, case, "logged-once").status_code == 200
    lines = [json.loads(line) for line in learning.log_file.read_text().splitlines() if "logged-once" in line]
    said = [line for line in lines if line["event"] == "model refused a parameter"]
    assert [(line["provider"], line["parameter"]) for line in said] == [("chat", "temperature")]


def test_a_few_times_per_request(learning: Gateway, up: ScriptedUpstream) -> None:
    """Many servers name only the first field that they refuse, but none can make the gateway ask for ever."""
    names = ["speed", "context_management", "moderation", "thinking", "cache_control"]
    for name in names:
        refuse(up, 400, unknown(name))
    fields = {name: {"type": "enabled"} for name in names}
    case = Case("", "", "messages", MESSAGES, fields, None)
    response = ask(learning, up, case, "a-few-times")
    assert response.status_code == 400
    assert "cache_control" in response.json()["error"]["message"]
    assert [[name for name in names if name in request.json] for request in up.requests] == [
        names[n:] for n in range(5)
    ]


def test_what_a_client_asked_for_in_strict_mode_is_never_changed(learning: Gateway, up: ScriptedUpstream) -> None:
    """It said that nothing may be lost."""
    case, error = CASES[0], refusal_of(CASES[0])
    refuse(up, error.status, error.body)
    response = ask(learning, up, case, "strict-one", mode="strict")
    assert response.status_code == 400
    assert "temperature" in response.json()["error"]["message"]
    assert len(up.requests) == 1


def test_what_we_added_ourselves_may_go_in_strict_mode_too(learning: Gateway, up: ScriptedUpstream) -> None:
    """No client asked for encrypted reasoning."""
    case = next(one for one in CASES if one.sent == "include[0]")
    error = refusal_of(case)
    refuse(up, error.status, error.body)
    response = ask(learning, up, case, "strict-two", mode="strict")
    assert response.status_code == 200, response.text
    assert "include" not in up.last().json
    assert "trilogue-loss" not in response.headers


@pytest.mark.parametrize("number", range(0, len(NOT_LEARNED), 5))
def test_other_errors_reach_the_client(learning: Gateway, up: ScriptedUpstream, number: int) -> None:
    """Context, policy, history, limits: nothing that leaving out a parameter would cure."""
    error = NOT_LEARNED[number]
    if error.status not in (400, 422) or "signature" in str(error.body):
        return  # the pool has an answer of its own to these
    refuse(up, error.status, error.body)
    provider = {"messages": "messages", "responses": "responses"}.get(error.protocol, "chat")
    client = CHAT if provider == "messages" else MESSAGES
    case = Case("", "", provider, client, {"temperature": 0.3}, None)
    response = ask(learning, up, case, f"not-learned-{number}")
    assert response.status_code >= 400
    assert len(up.requests) == 1


def claude_code(gateway: Gateway, model: str, *, mode: str = "") -> Any:
    """Send what Claude Code sends, with its new fields and betas, spaced as no encoder here would write it."""
    headers = {"anthropic-beta": BETAS, "content-type": "application/json"}
    return gateway.http.post(
        "/v1/messages",
        content=json.dumps(NEW_FIELDS | {"model": model}, indent=1),
        headers=headers | ({"trilogue-mode": mode} if mode else {}),
    )


def test_requests_that_are_passed_through_learn_too(learning: Gateway, up: ScriptedUpstream) -> None:
    """New fields and betas of Claude Code, at a Messages server that refuses one after the other."""
    up.aliases["passed"] = "text"
    refuse(up, 400, unknown("context_management"))
    refuse(up, 400, unknown("system.0.cache_control.ephemeral.ttl"))
    named = f"Unexpected value(s) `{FIRST_BETA}` for the `anthropic-beta` header."
    refuse(up, 400, {"type": "error", "error": {"type": "invalid_request_error", "message": named}})
    for _ in range(2):
        response = claude_code(learning, "messages/passed")
        assert response.status_code == 200, response.text
        sent = up.last()
        assert sent.header("anthropic-beta") == SECOND_BETA
        expected = {name: value for name, value in NEW_FIELDS.items() if name != "context_management"}
        system = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
        assert sent.json == expected | {"model": "passed", "system": system}
        paths = ("context_management", "system[].cache_control.ttl", f"anthropic-beta[{FIRST_BETA}]")
        declared = ", ".join(f'param.refused;at="{path}"' for path in paths)
        assert response.headers["trilogue-loss"] == declared
    assert len(up.requests) == 5


def test_a_server_that_does_not_name_the_beta(learning: Gateway, up: ScriptedUpstream) -> None:
    """Bedrock's words. Then no beta is sent."""
    up.aliases["unnamed-beta"] = "text"
    refuse(up, 400, {"message": "invalid beta flag"})
    assert claude_code(learning, "messages/unnamed-beta").status_code == 200
    assert up.last().header("anthropic-beta") is None
    assert up.last().json == NEW_FIELDS | {"model": "unnamed-beta"}


def test_bytes_stay_where_nothing_was_learned(learning: Gateway, up: ScriptedUpstream) -> None:
    """What one model has refused changes no request to another one."""
    up.aliases |= {"learned-here": "text", "nothing-here": "text"}
    refuse(up, 400, unknown("context_management"))
    assert claude_code(learning, "messages/learned-here").status_code == 200
    assert claude_code(learning, "messages/nothing-here").status_code == 200
    assert up.last().body.decode() == json.dumps(NEW_FIELDS | {"model": "nothing-here"}, indent=1)
    assert up.last().header("anthropic-beta") == BETAS


@pytest.mark.parametrize(("model", "mode"), [("messages/strict-pass", "strict"), ("anthropic/own-api", "")])
def test_who_hears_of_the_refusal(learning: Gateway, up: ScriptedUpstream, model: str, mode: str) -> None:
    """A client in strict mode, and one whose upstream is the vendor's own API: there it is the client's mistake."""
    refuse(up, 400, unknown("context_management"))
    response = claude_code(learning, model, mode=mode)
    assert response.status_code == 400
    assert "context_management" in response.json()["error"]["message"]
    assert len(up.requests) == 1


def test_only_what_has_helped_is_remembered(learning: Gateway, up: ScriptedUpstream) -> None:
    """The second attempt failed as well: it was something else, and other clients must not suffer for it."""
    case, error = CASES[0], refusal_of(CASES[0])
    for _ in range(2):
        refuse(up, error.status, error.body)
    assert ask(learning, up, case, "no-help").status_code == 400
    up.requests.clear()
    assert ask(learning, up, case, "no-help").status_code == 200
    assert [request.json["temperature"] for request in up.requests] == [0.2]


def test_what_one_target_refuses_is_sent_to_the_next(up: ScriptedUpstream, tmp_path: Path) -> None:
    """A fallback is another model, with rules of its own."""
    case, error = CASES[0], refusal_of(CASES[0])
    up.aliases |= {"first": "text", "second": "text"}
    refuse(up, error.status, error.body)
    refuse(up, 500, {"error": {"message": "oops"}})
    asked = body(MESSAGES, "two-targets", stream=False, tools=False) | case.settings
    asked.pop("thinking", None)
    with running(tmp_path, CONFIG, up.url) as gateway:
        response = gateway.http.post(PATHS[MESSAGES], json=asked)
    assert response.status_code == 200, response.text
    assert ["temperature" in request.json for request in up.requests] == [True, False, True]
    assert "param.refused" not in response.headers.get("trilogue-loss", "")


def test_what_a_client_says_itself_stays_in_strict_mode(up: ScriptedUpstream, tmp_path: Path) -> None:
    """Also where it is a field that the translation adds for others."""
    refuse(up, 400, {"error": {"message": "Unsupported parameter: 'store'.", "param": "store"}})
    up.aliases["strict-three"] = "text"
    asked = body(CHAT, "responses/strict-three", stream=False, tools=False) | {"store": True}
    with running(tmp_path, CONFIG, up.url) as gateway:
        response = gateway.http.post(PATHS[CHAT], json=asked, headers={"trilogue-mode": "strict"})
    assert response.status_code == 400
    assert len(up.requests) == 1


def command(home: Path, *arguments: str) -> str:
    """Run `trilogue models` beside the gateway."""
    keys = {"XDG_STATE_HOME": str(home), "TRILOGUE_KEY": CLIENT_KEY, "UP_KEY": "x"}
    environ = {**keys, "PATH": "", "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    line = [sys.executable, "-m", "trilogue", "models", "--config", str(home / "trilogue.yaml"), *arguments]
    return subprocess.run(line, env=environ, capture_output=True, text=True, check=True).stdout


def test_people_can_see_it_and_make_it_start_anew(learning: Gateway, up: ScriptedUpstream, home: Path) -> None:
    """The command shows what was learned, and a running gateway hears what was forgotten."""
    case, error = CASES[0], refusal_of(CASES[0])
    refuse(up, error.status, error.body)
    ask(learning, up, case, "to-see")
    assert "to-see has refused temperature: left out" in command(home)
    assert "temperature: left out" in command(home, "chat/to-see")
    assert "is reset" in command(home, "--forget", "chat/to-see")
    assert "to-see" not in command(home)
    up.requests.clear()
    assert ask(learning, up, case, "to-see").status_code == 200
    assert up.last().json["temperature"] == 0.2


def test_it_survives_a_restart(up: ScriptedUpstream, tmp_path: Path) -> None:
    """Nobody pays for the same lesson twice."""
    case, error = CASES[0], refusal_of(CASES[0])
    with running(tmp_path, CONFIG, up.url) as first:
        refuse(up, error.status, error.body)
        assert ask(first, up, case, "kept").status_code == 200
    up.requests.clear()
    with running(tmp_path, CONFIG, up.url) as second:
        assert ask(second, up, case, "kept").status_code == 200
    assert ["temperature" in request.json for request in up.requests] == [False]
