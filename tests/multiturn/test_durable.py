"""State survives restarts, reloads and `kill -9`, in SQLite and in PostgreSQL; without a store it is refused."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.gateway.process import until
from tests.multiturn.agents import Link, ResponsesAgent, all_results
from tests.multiturn.gateways import EVERY_UPSTREAM, MODELS, NO_STATE, SHARED, Gateway, gateway, settings
from tests.multiturn.strict import StrictUpstream
from tests.state.responses.postgres import Server
from tests.timing import pass_time
from trilogue.model import Protocol

STEPS = 3
LINKS: tuple[Link, ...] = ("previous", "conversation")
AWAY_SECONDS = 10


@pytest.fixture(scope="module")
def postgres() -> Iterator[Server]:
    """A real PostgreSQL server."""
    server = Server()
    server.start()
    yield server
    server.remove()


@pytest.fixture(params=["sqlite", "postgresql"])
def state(request: pytest.FixtureRequest) -> str:
    """The value of the setting `state`: nothing for the default, or the URL of a database."""
    if request.param == "sqlite":
        return ""
    return str(request.getfixturevalue("postgres").new_database())


def agents() -> list[ResponsesAgent]:
    """Return an agent per upstream and way of linking turns. They get their client later."""
    client: Any = None
    return [ResponsesAgent(client, MODELS[upstream], link=link) for upstream in Protocol for link in LINKS]


def one_turn(agent: ResponsesAgent, running: Gateway) -> None:
    """Let an agent do its next turn at a gateway."""
    agent.client = running.client
    if not agent.said:
        agent.say(f"loop {STEPS}")
    elif agent.said[-1].calls:
        agent.give(agent.said[-1].results())


def check_complete(agent: ResponsesAgent, running: Gateway) -> None:
    """Check that nothing is missing from an agent's conversation."""
    assert agent.said[-1].text == f"Done after {STEPS} steps."
    agent.client = running.client
    for said in agent.said:
        assert running.client.responses.retrieve(said.native["id"]).id == said.native["id"]
    seen = agent.recall()
    assert seen["users"] == [f"loop {STEPS}", "recall"]
    assert seen["results"] == all_results(STEPS)


def test_killed_between_any_two_steps(tmp_path: Path, up: StrictUpstream, state: str) -> None:
    """What was acknowledged is there, for chains and conversations on all upstreams."""
    working = agents()
    for _ in range(STEPS + 1):
        with gateway(tmp_path, up, settings(state=state)) as running:
            for agent in working:
                one_turn(agent, running)
        # Leaving the block kills the gateway with SIGKILL.
        assert running.process.process.returncode == -signal.SIGKILL
    with gateway(tmp_path, up, settings(state=state, workers=2)) as running:
        for agent in working:
            check_complete(agent, running)
    assert up.refusals == []


def test_killed_right_after_the_terminal_event(tmp_path: Path, up: StrictUpstream) -> None:
    """A response is on disk before its terminal event leaves."""
    ids = []
    for upstream in Protocol:
        with gateway(tmp_path, up) as running:
            responses: Any = running.client.responses
            for event in responses.create(model=MODELS[upstream], input="say x", stream=True):
                if event.type == "response.completed":
                    running.process.signal(signal.SIGKILL)
                    ids.append(event.response.id)
                    break
    with gateway(tmp_path, up) as running:
        assert [running.client.responses.retrieve(one).output_text for one in ids] == ["x"] * len(ids)


def restart(running: Gateway) -> None:
    """Stop in good order."""
    running.process.signal(signal.SIGTERM)
    assert running.process.process.wait(30) == 0


def reload(running: Gateway) -> None:
    """Reload the configuration."""
    running.process.signal(signal.SIGHUP)
    running.process.wait_for_log('"reloaded"')


@pytest.mark.parametrize("interrupt", [restart, reload], ids=["restart", "reload"])
@pytest.mark.parametrize("workers", [1, 2])
def test_restart_and_reload(
    tmp_path: Path, up: StrictUpstream, interrupt: Callable[[Gateway], None], workers: int
) -> None:
    """Chains, conversations and items go on after each."""
    working, config = agents(), settings(workers=workers)
    with gateway(tmp_path, up, config) as running:
        for agent in working:
            one_turn(agent, running)
            one_turn(agent, running)
        conversation = running.client.conversations.create(metadata={"kept": "yes"})
        interrupt(running)
        if interrupt is reload:
            _finish(working, running, conversation.id)
    if interrupt is restart:
        with gateway(tmp_path, up, config) as again:
            _finish(working, again, conversation.id)


def _finish(working: list[ResponsesAgent], running: Gateway, conversation: str) -> None:
    assert running.client.conversations.retrieve(conversation).metadata == {"kept": "yes"}
    for agent in working:
        while agent.said[-1].calls:
            one_turn(agent, running)
        check_complete(agent, running)


@pytest.mark.slow
def test_the_database_away_for_a_while(tmp_path: Path, up: StrictUpstream, postgres: Server) -> None:
    """Requests that need it wait or fail; those that don't go on; and nothing that was acknowledged is lost."""
    with gateway(tmp_path, up, settings(state=postgres.new_database())) as running:
        agent = ResponsesAgent(running.client, MODELS[Protocol.CHAT])
        agent.say(f"loop {STEPS}")
        postgres.stop()
        began = time.monotonic()
        unstored = running.client.responses.create(model=MODELS[Protocol.CHAT], input="say x", store=False)
        assert unstored.output_text == "x"
        acknowledged: list[str] = []
        waiting = threading.Thread(target=_try_to_store, args=(running, acknowledged))
        waiting.start()
        pass_time(max(0, AWAY_SECONDS - (time.monotonic() - began)))
        postgres.start()
        waiting.join(20)
        until(lambda: _try_to_store(running, acknowledged))
        for response_id in acknowledged:
            assert running.client.responses.retrieve(response_id).output_text == "kept"
        while agent.said[-1].calls:
            one_turn(agent, running)
        check_complete(agent, running)


def _try_to_store(running: Gateway, acknowledged: list[str]) -> bool:
    try:
        made = running.client.responses.create(model=MODELS[Protocol.CHAT], input="say kept")
    except (openai.InternalServerError, openai.APITimeoutError):
        return False
    acknowledged.append(made.id)
    return True


@pytest.fixture(scope="module")
def stateless(_upstream: StrictUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway that keeps nothing, and whose keys share what upstreams keep."""
    with gateway(tmp_path_factory.mktemp("none"), _upstream, settings(state=NO_STATE, server=SHARED)) as running:
        yield running


@pytest.mark.parametrize("upstream", [Protocol.CHAT, Protocol.MESSAGES], ids=["chat", "messages"])
@pytest.mark.parametrize("field", ["previous_response_id", "conversation", "background"])
def test_without_a_store_it_is_refused(stateless: Gateway, up: StrictUpstream, upstream: Protocol, field: str) -> None:
    """With a 400 that names the field, before any upstream is asked."""
    value = {"previous_response_id": "resp_1", "conversation": "conv_1", "background": True}[field]
    responses: Any = stateless.client.responses
    with pytest.raises(openai.BadRequestError) as refused:
        responses.create(model=MODELS[upstream], input="say x", **{field: value})
    assert refused.value.param == field
    assert up.bodies() == []


@EVERY_UPSTREAM
def test_without_a_store_one_turn_works(stateless: Gateway, up: StrictUpstream, upstream: Protocol) -> None:
    """A response that is not stored does not claim to be, and tool loops that send all items go on."""
    made = stateless.client.responses.create(model=MODELS[upstream], input="say x")
    assert made.output_text == "x"
    if upstream is not Protocol.RESPONSES:
        assert made.to_dict()["store"] is False
        with pytest.raises(openai.APIStatusError) as refused:
            stateless.client.responses.retrieve(made.id)
        assert refused.value.status_code in (400, 404)
    agent = ResponsesAgent(stateless.client, MODELS[upstream], link="items")
    assert agent.work("loop 3").text == "Done after 3 steps."
    assert up.refusals == []


def test_without_a_store_ids_are_passed_on(stateless: Gateway, up: StrictUpstream) -> None:
    """To an upstream that keeps state itself."""
    agent = ResponsesAgent(stateless.client, MODELS[Protocol.RESPONSES])
    assert agent.work("loop 3").text == "Done after 3 steps."
    assert agent.recall()["results"] == all_results(3)
