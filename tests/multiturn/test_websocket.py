"""Responses over WebSocket, with the official SDK, towards upstreams of all protocols."""

from __future__ import annotations

import asyncio
import importlib
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.process import until
from tests.multiturn.agents import RESPONSES_TOOLS, TERMINAL, ResponsesAgent, Said, all_results
from tests.multiturn.gateways import EVERY_UPSTREAM, MODELS, OTHER_KEY, Gateway, gateway, settings
from tests.multiturn.strict import StrictUpstream
from trilogue.model import Protocol

STEPS = 10
GOING_AWAY = 1012


def events_of(connection: Any) -> list[Any]:
    """Return the events of the next response, or the error that comes instead."""
    found = [connection.recv()]
    while found[-1].type not in (*TERMINAL, "error"):
        found.append(connection.recv())
    return found


class SocketAgent(ResponsesAgent):
    """An agent that sends `response.create` over a connection."""

    def __init__(self, connection: Any, model: str, **options: Any) -> None:
        client: Any = None
        super().__init__(client, model, **options)
        self.connection = connection
        self.events: list[Any] = []

    def _ask(self) -> Said:
        self.connection.response.create(**self.request())
        self.events = events_of(self.connection)
        assert self.events[-1].type == "response.completed", self.events[-1]
        assert self.events[0].type == "response.created"
        return self.take(self.events[-1].response.to_dict(mode="json", warnings=False))


@EVERY_UPSTREAM
@pytest.mark.parametrize("store", [True, False], ids=["stored", "unstored"])
def test_ten_turns(either: Gateway, upstream: Protocol, store: bool) -> None:
    """By `previous_response_id`, from the connection's own state if nothing is stored."""
    with either.client.responses.connect() as connection:
        agent = SocketAgent(connection, MODELS[upstream], store=store)
        assert agent.work(f"loop {STEPS}").text == f"Done after {STEPS} steps."
        numbers = [event.sequence_number for event in agent.events]
        assert numbers == list(range(len(numbers)))
        seen = agent.recall()
    assert seen["users"] == [f"loop {STEPS}", "recall"]
    assert seen["results"] == all_results(STEPS)
    assert either.up.refusals == []


@EVERY_UPSTREAM
def test_what_is_stored_is_there_without_the_connection(either: Gateway, upstream: Protocol) -> None:
    """And what is not stored is gone with it."""
    with either.client.responses.connect() as connection:
        stored = SocketAgent(connection, MODELS[upstream]).say("say kept").native["id"]
        unstored = SocketAgent(connection, MODELS[upstream], store=False).say("say gone").native["id"]
    assert either.client.responses.retrieve(stored).output_text == "kept"
    with either.client.responses.connect() as connection:
        agent = SocketAgent(connection, MODELS[upstream])
        agent.previous = stored
        assert agent.recall()["users"] == ["say kept", "recall"]
        connection.response.create(model=MODELS[upstream], input="say x", previous_response_id=unstored)
        error: Any = events_of(connection)[-1]
        assert (error.type, error.status) == ("error", 400)
        assert error.error.code == "previous_response_not_found"
        assert error.error.param == "previous_response_id"


@EVERY_UPSTREAM
def test_the_connection_survives_an_error(one: Gateway, upstream: Protocol) -> None:
    """Errors have the shape of the WebSocket API, and the next request works."""
    with one.client.responses.connect() as connection:
        for bad in (
            json.dumps({"type": "response.create", "model": "no-such/model", "input": "x"}),
            json.dumps({"type": "response.unknown"}),
            "{",
            json.dumps({"type": "response.create", "model": MODELS[upstream], "input": "x", "background": True}),
        ):
            connection.send_raw(bad)
            error: Any = events_of(connection)[-1]
            assert error.type == "error", bad
            assert error.status >= 400
            assert error.error.type
            assert error.error.message
        assert SocketAgent(connection, MODELS[upstream]).say("say fine").text == "fine"


@EVERY_UPSTREAM
def test_a_failed_continuation_forgets_what_it_continued(one: Gateway, upstream: Protocol) -> None:
    """As in the API. What is stored, and other responses of the connection, can still be continued."""
    model = MODELS[upstream]
    orphan: Any = [{"type": "function_call_output", "call_id": "call_of_nobody", "output": "x"}]

    def fails(previous: str, items: Any, **more: Any) -> str:
        connection.response.create(model=model, input=items, previous_response_id=previous, **more)
        error: Any = events_of(connection)[-1]
        assert (error.type, error.status) == ("error", 400)
        return str(error.error.code)

    with one.client.responses.connect() as connection:
        agent = SocketAgent(connection, model, store=False)
        other = SocketAgent(connection, model, store=False).say("say other").native["id"]
        first = agent.say("say one").native["id"]
        assert fails(first, orphan, store=False) != "previous_response_not_found"
        assert fails(first, "say two", store=False) == "previous_response_not_found"
        agent.previous = other
        assert agent.say("say three").text == "three"
        kept = SocketAgent(connection, model)
        stored = kept.say("say four").native["id"]
        assert fails(stored, orphan) != "previous_response_not_found"
        assert kept.say("say five").text == "five"


@EVERY_UPSTREAM
def test_a_compacted_chain_goes_on(either: Gateway, upstream: Protocol) -> None:
    """What the connection remembers begins with what the summary does not stand for."""
    with either.client.responses.connect() as connection:
        agent = SocketAgent(connection, MODELS[upstream], store=False)
        agent.work("loop 2")
        connection.response.create(**{**agent.request(), "input": [{"type": "compaction_trigger"}]})
        compacted = events_of(connection)[-1].response
        assert [item.type for item in compacted.output] == ["compaction"]
        agent.previous = compacted.id
        assert agent.say("say after").text == "after"
        if upstream is not Protocol.RESPONSES:
            assert agent.recall()["results"] == []


@EVERY_UPSTREAM
def test_a_second_request_waits_its_turn(one: Gateway, upstream: Protocol) -> None:
    with one.client.responses.connect() as connection:
        connection.response.create(model=MODELS[upstream], input="slow 5 20")
        connection.response.create(model=MODELS[upstream], input="say second")
        first, second = events_of(connection), events_of(connection)
    assert len({event.response.id for event in first if hasattr(event, "response")}) == 1
    assert first[-1].response.output_text == "word0 word1 word2 word3 word4 "
    assert second[-1].response.output_text == "second"


@EVERY_UPSTREAM
def test_without_generating(one: Gateway, upstream: Protocol) -> None:
    """`generate: false` asks no model, and its id can be gone on from."""
    with one.client.responses.connect() as connection:
        connection.response.create(model=MODELS[upstream], input="say before", generate=False, tools=[])
        warm = events_of(connection)[-1].response
        assert warm.output == []
        assert one.up.bodies() == []
        agent = SocketAgent(connection, MODELS[upstream])
        agent.previous = warm.id
        assert agent.recall()["users"] == ["say before", "recall"]


@EVERY_UPSTREAM
def test_a_closed_connection_ends_the_upstream_call(one: Gateway, upstream: Protocol) -> None:
    with one.client.responses.connect() as connection:
        connection.response.create(model=MODELS[upstream], input="hang")
        while connection.recv().type != "response.output_text.delta":
            pass
        asked = one.up.requests[-1]
        assert asked.closed is None
    until(lambda: asked.closed is not None)


def test_asynchronous_client(either: Gateway) -> None:
    async def talk() -> list[str]:
        async with either.asynchronous() as client, client.responses.connect() as connection:
            texts = []
            for upstream in Protocol:
                tools: Any = RESPONSES_TOOLS
                await connection.response.create(model=MODELS[upstream], input=f"say {upstream.short}", tools=tools)
                async for event in connection:
                    if event.type == "response.completed":
                        texts.append(event.response.output_text)
                        break
            return texts

    assert asyncio.run(talk()) == [upstream.short for upstream in Protocol]


def test_keys_count(one: Gateway) -> None:
    """Without a known key there is no connection, and another key's responses are unknown."""
    refused = importlib.import_module("websockets.exceptions").InvalidStatus
    with pytest.raises(refused) as error, one.client_of("wrong-key-canary").responses.connect():
        pass
    assert error.value.response.status_code == 401
    made = one.client.responses.create(model=MODELS[Protocol.CHAT], input="say mine")
    with one.client_of(OTHER_KEY).responses.connect() as connection:
        connection.response.create(model=MODELS[Protocol.CHAT], input="recall", previous_response_id=made.id)
        unknown: Any = events_of(connection)[-1]
        assert unknown.error.code == "previous_response_not_found"


def test_drain(tmp_path: Path, up: StrictUpstream) -> None:
    """A running response is finished; then the connection is closed with the code that makes clients come back."""
    closed = importlib.import_module("websockets.exceptions").ConnectionClosed
    with gateway(tmp_path, up) as running, running.client.responses.connect() as connection:
        connection.response.create(model=MODELS[Protocol.CHAT], input="slow 10 50")
        assert connection.recv().type == "response.created"
        running.process.signal(signal.SIGTERM)
        assert events_of(connection)[-1].type == "response.completed"
        with pytest.raises(closed) as error:
            connection.recv()
        assert error.value.rcvd.code == GOING_AWAY
        assert running.process.process.wait(30) == 0


def test_a_message_that_is_too_large(tmp_path: Path, up: StrictUpstream) -> None:
    """More than `server.max_body_bytes` is refused, and the gateway goes on."""
    closed = importlib.import_module("websockets.exceptions").ConnectionClosed
    config = settings().replace("workers: 1", "workers: 1, max_body_bytes: 100000")
    with gateway(tmp_path, up, config) as running:
        with running.client.responses.connect() as connection:
            connection.response.create(model=MODELS[Protocol.CHAT], input="say " + "x" * 200_000)
            with pytest.raises(closed) as error:
                events_of(connection)
            assert error.value.rcvd.code == 1009
        with running.client.responses.connect() as connection:
            assert SocketAgent(connection, MODELS[Protocol.CHAT]).say("say small").text == "small"
        assert len(up.bodies()) == 1
