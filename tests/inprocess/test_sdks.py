"""The official SDKs in process, with every upstream: text, tools, reasoning, stops, losses."""

from __future__ import annotations

import pytest

from tests.gateway.conversations import TOOLS, Wish
from tests.gateway.pairs import EVERY_PAIR, EVERY_TRANSLATION, PATHS, Pair, check_wire
from tests.inprocess.sdks import SDK_KEY, Sdks
from tests.judges import answers
from tests.judges.answers import Usage
from tests.judges.loss_header import codes
from tests.scripted.scenario import ANSWER_TEXT, THOUGHT
from tests.scripted.server import KEY, ScriptedUpstream
from trilogue.model import Protocol

TEXT = "".join(ANSWER_TEXT)
CITIES = [{"city": "Paris"}, {"city": "Rome"}]


@EVERY_PAIR
def test_text(sdks: Sdks, up: ScriptedUpstream, pair: Pair) -> None:
    """Text, stop reason and usage arrive, the upstream gets its own model name, and the report says so."""
    talked, clients = sdks.talk(pair, "text")
    answer = talked.say()
    assert answer.text == TEXT
    assert answer.stop == answers.END
    assert answer.usage == Usage(input=25, cached=5, output=10)
    assert talked.native["model"] == "text"
    assert up.last(PATHS[pair.upstream]).json["model"] == "text"
    check_wire(talked, up, pair.upstream)
    report = clients.tally.last
    assert report is not None
    assert (report.client, report.upstream, report.model, report.complete) == (pair.client, pair.upstream, "text", True)
    assert report.usage is not None
    assert report.usage.output == 10


@EVERY_PAIR
@pytest.mark.parametrize(("model", "count"), [("tools", 1), ("parallel-tools", 2), ("interleaved-tools", 2)])
def test_calls_and_their_results(sdks: Sdks, up: ScriptedUpstream, pair: Pair, model: str, count: int) -> None:
    """Calls come with their own arguments, and their results reach the upstream."""
    if pair.same and model == "interleaved-tools":
        pytest.skip("passed through as it came")
    talked, clients = sdks.talk(pair, model, Wish(tools=True))
    answer = talked.say()
    assert [(call.name, call.arguments) for call in answer.calls] == list(zip(TOOLS, CITIES, strict=True))[:count]
    assert answer.stop == answers.TOOL_CALLS
    answer = talked.give({call.id: f"sunny in {call.arguments['city']}" for call in answer.calls})
    assert answer.text == f"The tool said: sunny in {CITIES[count - 1]['city']}"
    check_wire(talked, up, pair.upstream)
    assert clients.tally.requests == 2


@EVERY_PAIR
def test_reasoning_goes_back_to_the_upstream(sdks: Sdks, up: ScriptedUpstream, pair: Pair) -> None:
    """The scripted upstream refuses reasoning that it did not write: what the SDK sends back is its own, or nothing."""
    talked, _ = sdks.talk(pair, "reasoning-tools", Wish(tools=True, reasoning=True))
    answer = talked.say()
    if Protocol.CHAT not in (pair.client, pair.upstream):
        assert answer.reasoning == "".join(THOUGHT)
    answer = talked.give({call.id: "sunny" for call in answer.calls})
    assert answer.text == "The tool said: sunny"


@EVERY_PAIR
@pytest.mark.parametrize(("model", "stop"), [("length", answers.LENGTH), ("empty", answers.END)])
def test_other_stops(sdks: Sdks, up: ScriptedUpstream, pair: Pair, model: str, stop: str) -> None:
    talked, _ = sdks.talk(pair, model)
    assert talked.say().stop == stop


@EVERY_PAIR
def test_the_upstream_gets_its_own_key_only(sdks: Sdks, up: ScriptedUpstream, pair: Pair) -> None:
    talked, _ = sdks.talk(pair, "text")
    talked.say()
    sent = up.last()
    values = [value for _, value in sent.headers]
    assert not [value for value in values if SDK_KEY in value]
    assert sum(KEY in value for value in values) == 1
    assert SDK_KEY not in sent.target


@EVERY_TRANSLATION
def test_losses_are_declared_and_counted(sdks: Sdks, up: ScriptedUpstream, pair: Pair) -> None:
    """A loss of the request is in the header of its response and in the count."""
    clients = sdks.of(pair, "text")
    asked = {"model": "m", "stream": pair.stream, **_ASKED[pair.client]}
    response = clients.http.post(f"http://unused{PATHS[pair.client]}", json=asked)
    assert response.status_code == 200, response.text
    assert "param.dropped" in codes(response.headers)
    assert clients.tally.losses["param.dropped"] == 1


_MESSAGES = [{"role": "user", "content": "Hello"}]
_ASKED: dict[Protocol, dict[str, object]] = {
    Protocol.CHAT: {"messages": _MESSAGES, "unheard_of": 1},
    Protocol.MESSAGES: {"messages": _MESSAGES, "max_tokens": 2000, "unheard_of": 1},
    Protocol.RESPONSES: {"input": "Hello", "unheard_of": 1},
}


def test_the_model_of_the_client_is_the_one_that_responds(sdks: Sdks, up: ScriptedUpstream) -> None:
    """The request may name any model: the upstream gets the client's own, and the response names it."""
    http = sdks.http("x/text", protocol="messages")
    response = http.post("http://unused/v1/chat/completions", json={"model": "gpt-5.5", **_ASKED[Protocol.CHAT]})
    assert response.json()["model"] == "text"
    assert up.last().json["model"] == "text"


def test_strict_refuses_before_anything_is_sent(sdks: Sdks, up: ScriptedUpstream) -> None:
    http = sdks.http("x/text", protocol="messages", strict=True)
    asked = {"model": "m", **_ASKED[Protocol.CHAT]}
    response = http.post("http://unused/v1/chat/completions", json=asked)
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "lossy_translation"
    assert up.requests == []


def test_bytes_pass_through_unchanged_if_the_request_names_the_model(sdks: Sdks, up: ScriptedUpstream) -> None:
    http = sdks.http("x", protocol="chat")
    body = b'{ "model":"text",  "messages":[{"role":"user","content":"caf\\u00e9"}] }'
    response = http.post("http://unused/v1/chat/completions", content=body)
    assert response.status_code == 200
    assert up.last().body == body


def test_extra_headers(sdks: Sdks, up: ScriptedUpstream) -> None:
    given = {"X-Title": "Mine"}
    http = sdks.http("x/text", protocol="chat", headers=given)
    http.post("http://unused/v1/messages", json={"model": "m", **_ASKED[Protocol.MESSAGES]})
    assert up.last().header("x-title") == "Mine"


@pytest.mark.parametrize("path", ["/v1/embeddings", "/v1/messages/count_tokens", "/v1/models"])
def test_other_endpoints_are_not_found(sdks: Sdks, up: ScriptedUpstream, path: str) -> None:
    http = sdks.http("x/text", protocol="chat")
    response = http.post(f"http://unused{path}", json={})
    assert response.status_code == 404
    assert "/chat/completions" in response.json()["error"]["message"]
    assert up.requests == []
