"""Responses over WebSocket through the gateway, towards upstreams of all protocols."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from openai.types.responses import responses_server_event as wire
from openai.types.responses.response_steer_failed_event import ResponseSteerFailedEvent
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.gateway.process import until
from tests.gateway.running import Gateway
from tests.gateway.sockets import KEY, Event, socket_to, text_of
from tests.scripted.ask import PATHS, body
from tests.scripted.http import Do, chunk, stream_head
from tests.scripted.scenario import ANSWER_TEXT, TOOL_LOOP_STEPS
from tests.scripted.server import ScriptedUpstream
from tests.timing import check_within
from trilogue.gateway.endpoints.websocket import MOST_WAITING
from trilogue.model import Protocol

TURNS = 10
ANSWER = "".join(ANSWER_TEXT)
EVERY_UPSTREAM = pytest.mark.parametrize("upstream", Protocol, ids=lambda protocol: protocol.short)
RESPONSES = Protocol.RESPONSES


@EVERY_UPSTREAM
@pytest.mark.parametrize("store", [True, False], ids=["stored", "unstored"])
def test_ten_turns(gateway: Gateway, up: ScriptedUpstream, upstream: Protocol, store: bool) -> None:
    """Each request has only what is new, and the model gets the whole history."""
    texts = [f"This is turn {turn}." for turn in range(TURNS)]
    previous: str | None = None
    with socket_to(gateway.url) as socket:
        for text in texts:
            end = socket.ask(f"{upstream.short}/text", text, store=store, previous_response_id=previous)
            assert end["type"] == "response.completed"
            assert text_of(end) == ANSWER
            assert end["response"]["previous_response_id"] == previous
            previous = end["response"]["id"]
    assert len(up.requests) == TURNS
    sent = up.last(PATHS[upstream]).json
    if store and upstream is RESPONSES:
        # This upstream keeps the responses itself.
        assert sent["previous_response_id"]
        return
    assert "previous_response_id" not in sent
    history = json.dumps(sent, ensure_ascii=False)
    assert [history.count(text) for text in texts] == [1] * TURNS
    assert history.count(ANSWER) == TURNS - 1


@EVERY_UPSTREAM
def test_tool_loop_with_the_sdk(gateway: Gateway, upstream: Protocol) -> None:
    """The official client's connection, and its types."""
    tools: Any = [{"type": "function", "name": "work", "parameters": {"type": "object"}, "strict": False}]
    steps: list[int] = []
    with gateway.openai.responses.connect() as connection:
        given: Any = "Work"
        previous: Any = None
        while given:
            connection.response.create(
                model=f"{upstream.short}/tool-loop",
                input=given,
                tools=tools,
                store=False,
                previous_response_id=previous,
            )
            event: Any = None
            for event in connection:
                assert not isinstance(event, wire.ResponseWsError), event
                if isinstance(event, wire.ResponseWsCompleted):
                    break
            previous = event.response.id
            calls = [item for item in event.response.output if item.type == "function_call"]
            steps += [json.loads(call.arguments)["step"] for call in calls]
            given = [{"type": "function_call_output", "call_id": call.call_id, "output": "done"} for call in calls]
        assert event.response.output_text == f"Done after {TOOL_LOOP_STEPS} steps."
    assert steps == list(range(1, TOOL_LOOP_STEPS + 1))


@EVERY_UPSTREAM
@pytest.mark.parametrize("model", ["text", "tools", "reasoning"])
def test_the_events_of_a_stream(gateway: Gateway, upstream: Protocol, model: str) -> None:
    """The same events as over HTTP, except for ids and times."""
    asked = body(RESPONSES, f"{upstream.short}/{model}", stream=True)
    streamed = gateway.http.post(PATHS[RESPONSES], json=asked)
    over_http = [json.loads(block.partition("data: ")[2]) for block in streamed.text.split("\n\n") if block]
    with socket_to(gateway.url) as socket:
        socket.send({"type": "response.create", **asked, "stream": False})
        events = socket.events()
    losses = events[0].pop("trilogue_loss", "")
    assert [shape(event) for event in events] == [shape(event) for event in over_http]
    assert losses == streamed.headers.get("trilogue-loss", "")


def shape(event: Event) -> dict[str, Any]:
    """Return what two responses to the same request have in common."""
    return {name: sorted(value) if isinstance(value, dict) else name for name, value in event.items()} | {
        "type": event["type"],
        "sequence_number": event["sequence_number"],
    }


def test_losses_and_stream_ids(gateway: Gateway) -> None:
    """What is in the header `trilogue-loss` over HTTP is in the first event. Every event has the client's stream id."""
    with socket_to(gateway.url) as socket:
        socket.create("chat/text", stream_id='lane "1"', prompt_cache_key="x", truncation="auto")
        events = socket.events()
        assert {event["stream_id"] for event in events} == {'lane "1"'}
        assert "cache.key" in events[0]["trilogue_loss"]
        assert not any("trilogue_loss" in event for event in events[1:])
        assert "stream_id" not in socket.ask("chat/text")
        failed = socket.ask("nowhere/text", stream_id="2")
        assert (failed["type"], failed["stream_id"]) == ("error", "2")


BAD: list[tuple[str | bytes, str]] = [
    ("{", ""),
    ("[]", ""),
    ("\N{GRINNING FACE}", ""),
    (b'{"type": "response.create"}', ""),
    ('{"type": "response.unknown"}', "type"),
    ('{"model": "chat/text", "input": "Hi"}', "type"),
    ('{"type": "response.create", "model": "chat/text", "input": "Hi", "background": true}', "background"),
    ('{"type": "response.create", "model": "chat/text", "input": "Hi", "stream_id": 1}', "stream_id"),
    ('{"type": "response.create", "model": "chat/text", "input": "Hi", "generate": "no"}', "generate"),
    ('{"type": "response.create", "model": 1, "input": "Hi"}', "model"),
    ('{"type": "response.create", "model": "chat/text", "input": 1}', "input"),
]


@pytest.mark.parametrize(("message", "param"), BAD, ids=range(len(BAD)))
def test_bad_messages(gateway: Gateway, up: ScriptedUpstream, message: str | bytes, param: str) -> None:
    """They get an error in the shape of the WebSocket API, and the connection goes on."""
    with socket_to(gateway.url) as socket:
        socket.send(message)
        error = socket.event()
        assert (error["type"], error["status"]) == ("error", 400)
        assert error["error"]["type"] == "invalid_request_error"
        assert (error["error"]["param"] or "") == param
        assert error["error"]["headers"]["x-request-id"].startswith("req_")
        assert error["headers"] == error["error"]["headers"]
        assert up.requests == []
        assert socket.ask("chat/text")["type"] == "response.completed"


@EVERY_UPSTREAM
@pytest.mark.parametrize(("model", "status"), [("error-429", 429), ("error-500", 500), ("error-400", 400)])
def test_errors_of_upstreams(gateway: Gateway, upstream: Protocol, model: str, status: int) -> None:
    """Codex needs the status and, to wait before it tries again, the headers."""
    with socket_to(gateway.url) as socket:
        error = socket.ask(f"{upstream.short}/{model}")
        assert (error["type"], error["status"]) == ("error", status)
        assert error["headers"]["x-should-retry"] == ("false" if status == 400 else "true")
        assert gateway.record(error["headers"]["x-request-id"])["status"] == status
        assert socket.ask(f"{upstream.short}/text")["type"] == "response.completed"


@EVERY_UPSTREAM
@pytest.mark.parametrize("model", ["stream-error-mid", "stream-error-first", "reset-mid", "truncate-mid"])
def test_one_end_for_every_response(gateway: Gateway, upstream: Protocol, model: str) -> None:
    """A failed response has one last event: a second one would be taken for the next response."""
    with socket_to(gateway.url) as socket:
        end = socket.ask(f"{upstream.short}/{model}")
        assert end["type"] in ("response.failed", "error")
        if end["type"] == "error":
            assert end["status"] >= 400
            assert end["error"]["message"]
        socket.create(f"{upstream.short}/text")
        after = socket.events()
        assert (after[0]["type"], after[-1]["type"]) == ("response.created", "response.completed")


def test_an_error_event_of_an_upstream(gateway: Gateway, up: ScriptedUpstream) -> None:
    """If the upstream's last event is an error, that is the end, with a status."""
    created = {"type": "response.created", "response": {"id": "resp_1", "object": "response", "output": []}}
    item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
    added = {"type": "response.output_item.added", "output_index": 0, "item": item}
    part = {"type": "output_text", "text": "", "annotations": []}
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    opened = {"type": "response.content_part.added", **place, "part": part}
    delta = {"type": "response.output_text.delta", **place, "delta": "Hello"}
    error = {"type": "error", "code": "rate_limit_exceeded", "message": "slow down", "param": None}
    frames = [b"data: %b\n\n" % json.dumps(event).encode() for event in (created, added, opened, delta, error)]
    up.say(stream_head([]), *(chunk(one) for one in frames), chunk(b"data: [DONE]\n\n"), chunk(b""), Do.CLOSE)
    with socket_to(gateway.url) as socket:
        socket.create("responses/text")
        events = socket.events()
        assert events[-1]["type"] == "error"
        assert (events[-1]["status"], events[-1]["error"]["code"]) == (429, "rate_limit_exceeded")
        assert socket.ask("responses/text")["type"] == "response.completed"


def test_requests_wait_their_turn(gateway: Gateway, up: ScriptedUpstream) -> None:
    with socket_to(gateway.url) as socket:
        socket.create("chat/slow-10-20")
        socket.send("{")
        socket.create("messages/text")
        kinds = []
        for _ in range(3):
            events = socket.events()
            assert len({event["response"]["id"] for event in events if "response" in event}) <= 1
            kinds.append(events[-1]["type"])
        assert kinds == ["response.completed", "error", "response.completed"]
    assert [request.path for request in up.requests] == [PATHS[Protocol.CHAT], PATHS[Protocol.MESSAGES]]


def test_too_many_wait(gateway: Gateway, up: ScriptedUpstream) -> None:
    """A client that does not wait for responses is disconnected, and its running request is cancelled."""
    with socket_to(gateway.url) as socket:
        socket.create("chat/hang-mid")
        socket.event()
        for _ in range(MOST_WAITING + 1):
            socket.create("chat/text")
        with pytest.raises(ConnectionClosed) as error:
            socket.events()
        assert error.value.rcvd is not None
        assert error.value.rcvd.code == 1008
    until(lambda: up.requests[-1].closed is not None)
    assert len(up.requests) == 1


def test_steering_is_declined(gateway: Gateway) -> None:
    """At once, with the input, so that the client can send it later. The running response goes on."""
    with socket_to(gateway.url) as socket:
        socket.create("chat/slow-10-20")
        first = socket.event()
        socket.send({"type": "response.steer", "previous_response_id": first["response"]["id"], "input": "Stop"})
        socket.send({"type": "response.processed", "response_id": "resp_0"})
        events = socket.events()
        assert events[-1]["type"] == "response.completed"
        steered = next(event for event in events if event["type"] == "response.steer.failed")
        parsed = ResponseSteerFailedEvent.model_validate(steered)
        assert parsed.error.code == "steering_not_supported"
        assert (parsed.steer.input, parsed.steer.previous_response_id) == ("Stop", first["response"]["id"])


@EVERY_UPSTREAM
@pytest.mark.parametrize(
    "warm", [{"generate": False}, {"prompt_cache_options": {"prewarm": True}}], ids=["off", "warm"]
)
@pytest.mark.parametrize("store", [True, False], ids=["stored", "unstored"])
def test_without_generating(
    gateway: Gateway, up: ScriptedUpstream, upstream: Protocol, warm: dict[str, Any], store: bool
) -> None:
    """No upstream is asked. The id can be continued, as Codex does without any further input."""
    with socket_to(gateway.url) as socket:
        socket.create(f"{upstream.short}/text", "Before", store=store, **warm)
        events = socket.events()
        assert [event["type"] for event in events] == ["response.created", "response.in_progress", "response.completed"]
        response = events[-1]["response"]
        assert (response["output"], response["usage"]["total_tokens"], response["store"]) == ([], 0, store)
        assert up.requests == []
        continued = {"type": "response.create", "model": f"{upstream.short}/text", "store": store, "input": []}
        socket.send({**continued, "previous_response_id": response["id"]})
        assert text_of(socket.events()[-1]) == ANSWER
        assert "Before" in json.dumps(up.last(PATHS[upstream]).json)
        assert socket.ask("nowhere/text", generate=False)["error"]["code"] == "model_not_found"


def test_branches_within_a_connection(gateway: Gateway, up: ScriptedUpstream) -> None:
    """A response that is not stored can be continued more than once, by its connection only."""
    with socket_to(gateway.url) as socket:
        first = socket.ask("chat/text", "One", store=False)["response"]["id"]
        for text in ("Two", "Three"):
            assert (
                socket.ask("chat/text", text, store=False, previous_response_id=first)["type"] == "response.completed"
            )
            users = [one["content"] for one in up.last().json["messages"] if one["role"] == "user"]
            assert users == ["One", text]
    with socket_to(gateway.url) as socket:
        error = socket.ask("chat/text", previous_response_id=first)["error"]
        assert (error["code"], error["param"]) == ("previous_response_not_found", "previous_response_id")


def test_a_disconnect_cancels_the_upstream(gateway: Gateway, up: ScriptedUpstream) -> None:
    with socket_to(gateway.url) as socket:
        socket.create("chat/hang-mid")
        while socket.event()["type"] != "response.output_text.delta":
            pass
        socket.connection.socket.shutdown(2)
        left = time.monotonic()
    asked = up.requests[-1]
    until(lambda: asked.closed is not None)
    assert asked.closed is not None
    check_within(asked.closed - left, 0.1)


def test_every_response_has_its_own_line_in_the_log(gateway: Gateway) -> None:
    with socket_to(gateway.url) as socket:
        assert socket.connection.response is not None
        opened = gateway.record(socket.connection.response.headers["x-request-id"])
        socket.ask("chat/text")
        error = socket.ask("nowhere/text")
    assert (opened["status"], opened["path"]) == (101, "/responses")
    line = gateway.record(error["headers"]["x-request-id"])
    assert (line["status"], line["error"], line["client"]) == (404, "model_not_found", "responses")


@pytest.mark.parametrize("path", ["/v1/responses", "/responses", "/v1/responses/"])
def test_paths(gateway: Gateway, path: str) -> None:
    with socket_to(gateway.url, path=path) as socket:
        assert text_of(socket.ask("chat/text")) == ANSWER


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/v1/responses", (), 401),
        ("/v1/responses", (("authorization", "Bearer wrong-key-canary"),), 401),
        ("/v1/chat/completions", KEY, 426),
        ("/v1/responses/resp_1", KEY, 426),
        ("/v1/realtime", KEY, 426),
    ],
)
def test_refused_connections(gateway: Gateway, path: str, headers: Any, status: int) -> None:
    """With an ordinary HTTP error."""
    with pytest.raises(InvalidStatus) as error, socket_to(gateway.url, headers, path):
        pass
    response = error.value.response
    assert response.status_code == status
    assert json.loads(response.body)["error"]["code"] == ("invalid_api_key" if status == 401 else "upgrade_required")


def test_headers_for_the_upstream(gateway: Gateway, up: ScriptedUpstream) -> None:
    """Those of the client, except for those about the WebSocket."""
    beta = (("openai-beta", "responses_websockets=2026-02-06, other=v1"), ("x-client", "me"))
    with socket_to(gateway.url, KEY + beta) as socket:
        socket.ask("responses/text")
    sent = dict(up.last().headers)
    assert (sent["openai-beta"], sent["x-client"]) == ("other=v1", "me")
    assert "upgrade" not in sent
    assert not any(name.startswith("sec-websocket") for name in sent)


def test_large_messages(gateway: Gateway, up: ScriptedUpstream) -> None:
    """They are parsed in a thread, like large bodies."""
    text = "long " * 100_000
    with socket_to(gateway.url) as socket:
        first = socket.ask("chat/text", text, store=False)
        assert text_of(first) == ANSWER
        again = socket.ask("chat/text", text, store=False, previous_response_id=first["response"]["id"])
        assert text_of(again) == ANSWER
    assert len(up.last().body) > 2 * len(text)
