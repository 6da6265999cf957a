"""A protocol that only the tests have, registered with one call, in all pairs with the other three.

`tests.fourth_protocol` describes it. The gateway is a process that has registered it; this process has not.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from tests.gateway.conversations import CONVERSATIONS, TOOLS, Wish
from tests.gateway.pairs import EVERY_CLIENT
from tests.gateway.running import CLIENT_KEY, CONFIG, Gateway, running
from tests.judges import answers
from tests.judges.answers import Usage
from tests.scripted import thread
from tests.scripted.http import json_answer, sse_answer
from tests.scripted.scenario import ANSWER_TEXT
from tests.scripted.server import KEY, MODELS, ScriptedUpstream
from trilogue.model import Protocol

KEY_HEADER = "x-turns-key"
PACKAGE = Path(__file__).resolve().parent.parent / "fourth_protocol"
PROVIDER = "  turns: {protocol: example_turns, base_url: UPSTREAM, accounts: [{key: env:UP_KEY}]}\n"
WITH_TURNS = CONFIG.replace("pool:\n", f"{PROVIDER}pool:\n")

TEXT = "".join(ANSWER_TEXT)
CALL = {"id": "c1", "name": TOOLS[0], "arguments": {"city": "Paris"}}
BODY = {"id": "t1", "model": "small", "parts": [{"text": "Hello "}, {"text": "you"}, {"call": CALL}],
        "ended": "calls", "tokens": {"in": 7, "out": 5}}  # fmt: skip
STEPS: list[Any] = [
    {"start": {"id": "t1", "model": "small"}},
    {"text": "Hel"},
    {"text": "lo "},
    {"text": "you"},
    {"call": {"id": "c1", "name": TOOLS[0]}},
    {"arguments": '{"city": '},
    {"arguments": '"Paris"}'},
    {"end": {"ended": "calls", "tokens": {"in": 7, "out": 5}}},
]
EVENTS = [b"data: " + json.dumps(step).encode() + b"\n\n" for step in STEPS]
FAULT = {"fault": {"code": "busy", "text": "come back later"}}

EITHER = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
EVERY_UPSTREAM = pytest.mark.parametrize("upstream", ["chat", "messages", "responses"])


@pytest.fixture(scope="module")
def _upstream() -> Iterator[ScriptedUpstream]:
    with thread.running() as upstream:
        yield upstream


@pytest.fixture(scope="module")
def _gateway(_upstream: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("fourth")
    with running(folder, WITH_TURNS, _upstream.url, module="tests.fourth_protocol") as gateway:
        yield gateway


def post(gateway: Gateway, model: str, action: str, body: Any = None, key: str = CLIENT_KEY) -> httpx2.Response:
    """Send a request of the fourth protocol."""
    asked = {"turns": [{"by": "user", "parts": [{"text": "Hello"}]}]} if body is None else body
    content = asked if isinstance(asked, bytes) else json.dumps(asked).encode()
    url = f"{gateway.url}/v1/models/{model}:{action}"
    return httpx2.post(url, content=content, headers={KEY_HEADER: key}, timeout=20)


def steps(response: httpx2.Response) -> list[dict[str, Any]]:
    """Return the events of a stream."""
    assert response.headers["content-type"].startswith("text/event-stream")
    return [json.loads(event.removeprefix("data: ")) for event in response.text.split("\n\n") if event[:5] == "data:"]


def said(events: list[dict[str, Any]], name: str) -> str:
    return "".join(event[name] for event in events if name in event)


@EITHER
@EVERY_CLIENT
def test_clients_of_the_others(gateway: Gateway, up: ScriptedUpstream, client: Protocol, stream: bool) -> None:
    """Official clients get text, a tool call and usage from its upstream, and return the result of the call."""
    up.say(*sse_answer(EVENTS)) if stream else up.say(json_answer(200, [], BODY))
    talked = CONVERSATIONS[client](gateway, "turns/small", stream=stream, wish=Wish(tools=True))
    answer = talked.say("What is the weather?")
    assert (answer.text, answer.stop) == ("Hello you", answers.TOOL_CALLS)
    assert [(call.name, call.arguments) for call in answer.calls] == [(TOOLS[0], {"city": "Paris"})]
    assert answer.usage == Usage(input=7, output=5)
    sent = up.last()
    assert (sent.path, sent.header(KEY_HEADER)) == (f"/v1/models/small:{'stream' if stream else 'generate'}", KEY)
    assert sent.header("authorization") is None
    assert not {"model", "stream"} & sent.json.keys()
    assert sent.json["turns"] == [{"by": "user", "parts": [{"text": "What is the weather?"}]}]
    assert [tool["name"] for tool in sent.json["tools"]] == list(TOOLS)
    up.say(*sse_answer(EVENTS)) if stream else up.say(json_answer(200, [], BODY))
    talked.give({answer.calls[0].id: "sunny"})
    (result,) = up.last().json["turns"][-1]["parts"]
    assert result["result"]["text"] == "sunny"


@EVERY_UPSTREAM
def test_upstreams_of_the_others(gateway: Gateway, up: ScriptedUpstream, upstream: str) -> None:
    """The model comes from the URL, and so does whether to stream."""
    whole = post(gateway, f"{upstream}/text", "generate").json()
    assert whole["parts"] == [{"text": TEXT}]
    assert (whole["model"], whole["ended"], whole["tokens"]) == (f"{upstream}/text", "done", {"in": 25, "out": 10})
    assert (up.last().json["model"], up.last().json.get("stream", False)) == ("text", False)
    events = steps(post(gateway, f"{upstream}%2Ftext", "stream"))
    assert said(events, "text") == TEXT
    assert next(iter(events[0])) == "start"
    assert events[-1] == {"end": {"ended": "done", "tokens": {"in": 25, "out": 10}}}
    assert (up.last().json["model"], up.last().json["stream"]) == ("text", True)


@EITHER
@EVERY_UPSTREAM
def test_tools_of_the_others(gateway: Gateway, up: ScriptedUpstream, upstream: str, stream: bool) -> None:
    """A call of an upstream of another protocol, and its result."""
    tools = [{"name": name, "about": "x", "schema": {"type": "object", "properties": {}}} for name in TOOLS]
    turns: list[Any] = [{"by": "user", "parts": [{"text": "Weather?"}]}]
    asked = {"turns": turns, "tools": tools, "limit": 100}
    answered = post(gateway, f"{upstream}/tools", "stream" if stream else "generate", asked)
    if stream:
        events = steps(answered)
        call: dict[str, Any] = next(event["call"] for event in events if "call" in event)
        call["arguments"] = json.loads(said(events, "arguments"))
    else:
        call = answered.json()["parts"][-1]["call"]
    assert (call["name"], call["arguments"]) == (TOOLS[0], {"city": "Paris"})
    turns.append({"by": "model", "parts": [{"call": call}]})
    turns.append({"by": "tool", "parts": [{"result": {"id": call["id"], "text": "sunny"}}]})
    told = post(gateway, f"{upstream}/tools", "generate", asked).json()
    assert told["parts"] == [{"text": "The tool said: sunny"}]


def test_its_own_upstream(gateway: Gateway, up: ScriptedUpstream) -> None:
    """Bytes pass through unchanged in both directions, except for the model in the URL."""
    body = b' { "turns" : [ {"by":"user", "parts":[{"text":"\\u00e9"}]} ],\n "new" : 1.0 } '
    up.say(json_answer(200, [], {**BODY, "new": [1]}))
    answered = post(gateway, "turns/small", "generate", body)
    assert answered.content == json.dumps({**BODY, "new": [1]}, separators=(",", ":")).encode()
    assert up.last().body == body.lstrip()
    assert up.last().path == "/v1/models/small:generate"
    up.say(*sse_answer(EVENTS))
    assert post(gateway, "turns/small", "stream", body).content == b"".join(EVENTS)
    assert up.last().path == "/v1/models/small:stream"
    assert CLIENT_KEY not in str(up.last().headers)


def test_a_model_in_the_body_means_nothing(gateway: Gateway, up: ScriptedUpstream) -> None:
    """The URL decides; no server gets to read another model."""
    up.say(json_answer(200, [], BODY))
    asked = {"model": "chat/text", "turns": [], "stream": True}
    assert post(gateway, "turns/a b", "generate", asked).json()["id"] == "t1"
    assert (up.last().target, up.last().json) == ("/v1/models/a%20b:generate", {"turns": []})


@EVERY_CLIENT
def test_its_errors_for_clients_of_the_others(gateway: Gateway, up: ScriptedUpstream, client: Protocol) -> None:
    """A rate limit keeps its meaning, its words and its time."""
    up.say(json_answer(429, [("retry-after", "7")], FAULT))
    with pytest.raises((openai.RateLimitError, anthropic.RateLimitError), match="come back later"):
        CONVERSATIONS[client](gateway, "turns/small", stream=False).say()
    assert gateway.recorder.last.headers["retry-after"] == "7"


@EVERY_CLIENT
def test_its_streams_that_break_off(gateway: Gateway, up: ScriptedUpstream, client: Protocol) -> None:
    """An error inside a stream, and a stream without an end, are errors for every client."""
    for events in ([*EVENTS[:4], b"data: " + json.dumps(FAULT).encode() + b"\n\n"], EVENTS[:4]):
        up.say(*sse_answer(events))
        with pytest.raises((openai.APIError, anthropic.APIError)):
            CONVERSATIONS[client](gateway, "turns/small", stream=True).say()


@EVERY_UPSTREAM
def test_errors_of_the_others(gateway: Gateway, upstream: str) -> None:
    """Errors of other upstreams are faults, before a stream and inside of one."""
    limited = post(gateway, f"{upstream}/error-429", "generate")
    assert limited.status_code == 429
    assert limited.json()["fault"]["text"]
    assert limited.json()["fault"].keys() == {"code", "text"}
    events = steps(post(gateway, f"{upstream}/truncate-mid", "stream"))
    assert "fault" in events[-1]
    assert not any("end" in event for event in events)


@pytest.mark.parametrize(
    ("action", "body", "key", "fault"),
    [
        ("turns/small:generate", None, "wrong-key", (401, "invalid_api_key")),
        ("nowhere:generate", None, CLIENT_KEY, (404, "model_not_found")),
        ("turns/small:generate", b"{", CLIENT_KEY, (400, "invalid_request")),
        ("turns/small:stream", b"[]", CLIENT_KEY, (400, "invalid_request")),
        ("chat/text:generate", {"turns": 5}, CLIENT_KEY, (400, "invalid_request")),
        ("turns/small:explain", None, CLIENT_KEY, (404, "not_found")),
    ],
)
def test_own_errors(gateway: Gateway, action: str, body: Any, key: str, fault: tuple[int, str]) -> None:
    """What the gateway itself finds wrong is a fault too."""
    model, _, verb = action.partition(":")
    answered = post(gateway, model, verb, body, key)
    assert (answered.status_code, answered.json()["fault"]["code"]) == fault


def test_counts(gateway: Gateway, up: ScriptedUpstream) -> None:
    """Its clients get counts of every upstream; Chat has none, so that is an estimate."""
    for upstream in ("messages", "responses"):
        counted = post(gateway, f"{upstream}/text", "count")
        assert counted.json() == {"tokens": len(up.last().body) // 4}
    estimated = post(gateway, "chat/text", "count")
    assert estimated.json()["tokens"] > 0
    assert estimated.headers["trilogue-loss"] == "count.estimated"
    up.say(json_answer(200, [], {"tokens": 31, "new": 1}))
    assert post(gateway, "turns/small", "count").json() == {"tokens": 31, "new": 1}
    assert up.last().path == "/v1/models/small:count"


def test_counts_for_the_others(gateway: Gateway, up: ScriptedUpstream) -> None:
    """Clients of other protocols get the counts of its upstream."""
    up.say(json_answer(200, [], {"tokens": 31}))
    asked: Any = [{"role": "user", "content": "Hello"}]
    assert gateway.anthropic.messages.count_tokens(model="turns/small", messages=asked).input_tokens == 31
    up.say(json_answer(200, [], {"tokens": 32}))
    assert gateway.openai.responses.input_tokens.count(model="turns/small", input="Hello").input_tokens == 32
    assert up.last().path == "/v1/models/small:count"
    assert up.last().json == {"turns": [{"by": "user", "parts": [{"text": "Hello"}]}]}


def test_models(tmp_path: Path) -> None:
    """Every client gets one list of all models in its own form, with those of the fourth protocol's upstream."""
    config = WITH_TURNS.split("providers:")[0] + "providers:\n" + PROVIDER
    with thread.running() as up, running(tmp_path, config, up.url, module="tests.fourth_protocol") as gateway:
        up.say(json_answer(200, [], {"models": [{"name": "small", "size": 3}, {"name": "large"}]}))
        own = httpx2.get(f"{gateway.url}/v1/models", headers={KEY_HEADER: CLIENT_KEY}).json()
        assert own == {
            "models": [{"name": "small", "size": 3, "made_by": "turns"}, {"name": "large", "made_by": "turns"}]
        }
        assert up.last().header(KEY_HEADER) == KEY
        assert [model.id for model in gateway.openai.models.list()] == ["small", "large"]
        assert [model.id for model in gateway.anthropic.models.list()] == ["small", "large"]
        one = httpx2.get(f"{gateway.url}/v1/models/small", headers={KEY_HEADER: CLIENT_KEY}).json()
        assert one == {"name": "small", "size": 3, "made_by": "turns"}


def test_models_of_the_others(gateway: Gateway, up: ScriptedUpstream) -> None:
    """Its clients see the models of all upstreams."""
    listed = httpx2.get(f"{gateway.url}/v1/models", headers={KEY_HEADER: CLIENT_KEY}, timeout=20).json()["models"]
    assert set(MODELS) <= {model["name"] for model in listed}


def test_it_is_one_package_and_one_call() -> None:
    """Nothing else of the product knows it, and it is registered with one call."""
    source = (PACKAGE / "__main__.py").read_text()
    calls = [
        node.value for node in ast.parse(source).body if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    ]
    assert [ast.unparse(call) for call in calls] == ["register(CODEC)", "main()"]
    product = PACKAGE.parent.parent / "src"
    assert [path for path in product.rglob("*.py") if "example_turns" in path.read_text()] == []
