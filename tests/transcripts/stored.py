"""Cases: stored responses, conversations, background, WebSocket, compaction, and turns that an upstream pauses."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import partial
from typing import Any

from tests.gateway.sockets import socket_to
from tests.scripted.http import Do, Step, json_answer, sse_answer
from tests.timing import eventually
from tests.transcripts.gateway import PATIENCE, Stage
from tests.transcripts.group import ADMIN, KEYS, Group, Run, asking, call, provider, providers, server
from trilogue import Protocol

C, M, R = Protocol.CHAT, Protocol.MESSAGES, Protocol.RESPONSES
ALL = tuple(Protocol)
HERE = "accounts: [{name: only, key: up-key}], profile: {keeps_state: false}"
CONFIG = KEYS + ADMIN + server() + providers() + provider("plain", R, HERE)
MODELS = {"chat": "chat/text", "messages": "messages/reasoning", "responses": "responses/text", "plain": "plain/text"}
PATH = "/v1/responses"
TRIGGER = {"type": "compaction_trigger"}
SAID = {"role": "user", "content": "My name is Ada."}


def _made(stage: Stage, model: str, **fields: Any) -> str:
    """Ask for a response, and return its id."""
    answer = stage.request("POST", PATH, {"model": model, "input": "Hi", **fields})
    return str(answer.json["id"])


def _continued(model: str, stream: bool, stage: Stage) -> None:
    first = _made(stage, model)
    data = {"model": model, "input": "And then?", "previous_response_id": first, "stream": stream}
    stage.request("POST", PATH, data)


def _elsewhere(stage: Stage) -> None:
    """A chain that goes on in another protocol."""
    first = _made(stage, "messages/reasoning-tools", tools=[{"type": "function", "name": "look", "parameters": {}}])
    _made(stage, "chat/text", previous_response_id=first)


def _shown(stage: Stage) -> None:
    made = _made(stage, "chat/text", metadata={"a": "b"})
    stage.request("GET", f"{PATH}/{made}")
    stage.request("GET", f"{PATH}/{made}/input_items")
    stage.request("GET", f"{PATH}/{made}?stream=true")
    stage.request("POST", f"{PATH}/{made}/cancel", {})
    stage.request("DELETE", f"{PATH}/{made}")
    stage.request("GET", f"{PATH}/{made}")


def _conversation(stage: Stage) -> None:
    made = stage.request("POST", "/v1/conversations", {"items": [SAID], "metadata": {"a": "b"}}).json["id"]
    place = f"/v1/conversations/{made}"
    stage.request("POST", PATH, {"model": "messages/text", "input": "Hi", "conversation": made})
    stage.request("POST", PATH, {"model": "chat/text", "input": "Again", "conversation": {"id": made}, "stream": True})
    listed = stage.request("GET", f"{place}/items?order=asc").json["data"]
    stage.request("POST", f"{place}/items", {"items": [SAID]})
    stage.request("GET", f"{place}/items/{listed[0]['id']}")
    stage.request("DELETE", f"{place}/items/{listed[0]['id']}")
    stage.request("POST", place, {"metadata": {"c": "d"}})
    stage.request("GET", place)
    stage.request("DELETE", place)
    stage.request("GET", place)


def _background(model: str, stage: Stage) -> None:
    made = _made(stage, model, background=True)
    # This upstream says that it keeps state, so it would run the response itself.
    stage.more_lines(0 if model.startswith("responses/") else 1)
    stage.request("GET", f"{PATH}/{made}")
    stage.request("GET", f"{PATH}/{made}?stream=true&starting_after=2")


def _background_stream(stage: Stage) -> None:
    data = {"model": "messages/text", "input": "Hi", "background": True, "stream": True}
    stage.request("POST", PATH, data)
    stage.more_lines(1)


def _cancelled(stage: Stage) -> None:
    before = len(stage.up.requests)
    stage.up.say(Do.HANG)
    made = _made(stage, "chat/text", background=True)
    eventually(lambda: len(stage.up.requests) > before, PATIENCE)
    stage.request("POST", f"{PATH}/{made}/cancel", {})
    stage.more_lines(1)
    stage.request("GET", f"{PATH}/{made}")


def _socket(stage: Stage) -> None:
    """Two turns, a model that is not there, and a message that is none."""
    with socket_to(stage.url) as connection:
        stage.more_lines(1)
        for number, model in enumerate(("chat/text", "responses/text", "messages/text", "nowhere/text")):
            connection.create(model, f"Turn {number}")
            stage.say("\n".join(map(json.dumps, connection.events())))
            stage.more_lines(1)
        connection.create("chat/text", "Warm", generate=False)
        stage.say("\n".join(map(json.dumps, connection.events())))
        stage.more_lines(1)
        connection.send('{"type": "response.')
        stage.say(json.dumps(connection.event()))
        stage.more_lines(1)


def _paused(client: Protocol, stream: bool, stage: Stage) -> None:
    """The upstream pauses once, for tools that it runs itself."""
    stage.up.say(*_part("pause_turn", "First. ", stream))
    stage.up.say(*_part("end_turn", "The end.", stream))
    search: dict[str, Any] = {"web_search_options": {}} if client is C else {"tools": [{"type": "web_search"}]}
    stage.send(asking(client, "messages/claude-sonnet-4-5", stream=stream, **search))


def _part(reason: str, text: str, stream: bool) -> Iterable[Step]:
    usage = {"input_tokens": 20, "output_tokens": 10}
    block = {"type": "text", "text": text}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [block], "usage": usage}
    if not stream:
        return [json_answer(200, [], {**message, "stop_reason": reason, "stop_sequence": None})]
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**message, "content": [], "stop_reason": None, "stop_sequence": None}},
        {"type": "content_block_start", "index": 0, "content_block": {**block, "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    ]
    # In one piece: where a network cuts a stream is chance.
    return sse_answer([b"".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode() for one in events)])


def _cases() -> dict[str, Run]:
    cases: dict[str, Run] = {}
    for name, model in MODELS.items():
        cases[f"continued, {name}"] = partial(_continued, model, False)
        cases[f"continued in a stream, {name}"] = partial(_continued, model, True)
        cases[f"background, {name}"] = partial(_background, model)
        cases[f"compacted, {name}"] = call("POST", f"{PATH}/compact", {"model": model, "input": [SAID]})
        cases[f"trigger of a compaction, {name}"] = call(
            "POST", PATH, {"model": model, "input": [SAID, TRIGGER], "stream": True}
        )
    cases["background stream"] = _background_stream
    cases["background cancelled"] = _cancelled
    cases["background fails"] = partial(_background, "chat/error-400")
    cases["continued elsewhere"] = _elsewhere
    cases["shown and deleted"] = _shown
    cases["conversation"] = _conversation
    cases["not stored"] = call("POST", PATH, {"model": "chat/text", "input": "Hi", "store": False})
    cases["unknown response"] = call("GET", f"{PATH}/resp_unknown")
    cases["unknown response continued"] = call(
        "POST", PATH, {"model": "chat/text", "input": "Hi", "previous_response_id": "resp_unknown"}
    )
    cases["unknown conversation"] = call(
        "POST", PATH, {"model": "chat/text", "input": "Hi", "conversation": "conv_unknown"}
    )
    cases["background that is not stored"] = call(
        "POST", PATH, {"model": "chat/text", "input": "Hi", "background": True, "store": False}
    )
    cases["websocket"] = _socket
    cases["websocket with a wrong key"] = call("GET", PATH, key="wrong", headers=UPGRADE)
    cases["websocket elsewhere"] = call("GET", "/v1/chat/completions", headers=UPGRADE)
    for client in (C, R):
        for stream in (False, True):
            name = f"pause continued, {client.short} {'stream' if stream else 'whole'}"
            cases[name] = partial(_paused, client, stream)
    return cases


UPGRADE = {
    "connection": "upgrade",
    "upgrade": "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
}
GROUPS = (Group("state", CONFIG, _cases()),)
