"""What one gateway has stored, another one continues, streams, cancels and deletes; other client keys never see it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import openai
import pytest

from tests.gateway.process import until
from tests.machines.conftest import Pair
from tests.multiturn.agents import Agent, ChatAgent, Link, MessagesAgent, ResponsesAgent, all_results
from tests.multiturn.gateways import EVERY_UPSTREAM, MODELS
from trilogue.model import Protocol

pytestmark = pytest.mark.slow

STEPS = 4
RUNNING = ("queued", "in_progress")
DEAD_SECONDS = 30.0
"""Ten seconds are promised; the test machine may be busy."""


@pytest.mark.smoke
@EVERY_UPSTREAM
@pytest.mark.parametrize("link", ["previous", "conversation"])
def test_every_turn_at_another_gateway(pair: Pair, upstream: Protocol, link: Link) -> None:
    agent = ResponsesAgent(pair.node(0).client, MODELS[upstream], link=link)
    clients = [pair.node(0).client, pair.node(1).client]

    def change(turn: int) -> None:
        agent.client = clients[turn % 2]

    assert agent.work(f"loop {STEPS}", change).text == f"Done after {STEPS} steps."
    assert agent.recall()["results"] == all_results(STEPS)
    for client in clients:
        assert [client.responses.retrieve(said.native["id"]).id for said in agent.said]
    assert pair.up.refusals == []


MakeAgent = Callable[[Pair], Agent]
CARRIERS: dict[str, MakeAgent] = {
    "sealed, Responses": lambda pair: ResponsesAgent(
        pair.front.client, MODELS[Protocol.MESSAGES], link="items", reasoning={"effort": "high"}
    ),
    "sealed, Messages": lambda pair: MessagesAgent(
        pair.front.anthropic, MODELS[Protocol.RESPONSES], thinking={"type": "enabled", "budget_tokens": 4_096}
    ),
    "kept, Chat": lambda pair: ChatAgent(pair.front.client, MODELS[Protocol.MESSAGES], echo="nothing"),
}


@pytest.mark.parametrize("carrier", CARRIERS)
def test_reasoning_is_readable_on_every_gateway(pair: Pair, carrier: str) -> None:
    """Gateways have one key without any setting: what one has sealed or kept, another can read."""
    assert CARRIERS[carrier](pair).work(f"loop {STEPS}").text == f"Done after {STEPS} steps."
    assert pair.up.refusals == []
    expected, got = (sum(getattr(replay, name) for replay in pair.up.replays) for name in ("expected", "got"))
    assert expected == got > 0


def test_a_background_response_is_streamed_and_polled_elsewhere(pair: Pair) -> None:
    here: Any = pair.node(0).client.responses
    there: Any = pair.node(1).client.responses
    stream = here.create(model=MODELS[Protocol.CHAT], input="slow 12 50", background=True, stream=True)
    first = []
    for event in stream:
        first.append(event)
        if sum(one.type == "response.output_text.delta" for one in first) == 3:
            break
    stream.close()
    response_id, last = first[0].response.id, first[-1].sequence_number
    assert there.retrieve(response_id).status in RUNNING
    rest = list(there.retrieve(response_id, stream=True, starting_after=last))
    assert [event.sequence_number for event in (*first, *rest)] == list(range(len(first) + len(rest)))
    assert rest[-1].type == "response.completed"
    assert there.retrieve(response_id).output_text == "".join(f"word{number} " for number in range(12))


@pytest.mark.parametrize("how", ["cancel", "delete"])
def test_a_running_response_is_ended_from_elsewhere(pair: Pair, how: str) -> None:
    """The call to the upstream ends too."""
    made = pair.node(0).client.responses.create(model=MODELS[Protocol.CHAT], input="hang", background=True)
    until(lambda: bool(pair.up.bodies()), 10)
    asked = next(request for request in pair.up.requests if request.method == "POST")
    there: Any = pair.node(1).client.responses
    there.cancel(made.id) if how == "cancel" else there.delete(made.id)
    until(lambda: asked.closed is not None, 10)
    for number in range(2):
        client = pair.node(number).client
        if how == "cancel":
            assert client.responses.retrieve(made.id).status == "cancelled"
        else:
            with pytest.raises(openai.NotFoundError):
                client.responses.retrieve(made.id)


def test_another_key_finds_nothing_on_any_gateway(pair: Pair) -> None:
    mine = pair.node(0).client
    done = mine.responses.create(model=MODELS[Protocol.CHAT], input="say secret").id
    running = mine.responses.create(model=MODELS[Protocol.CHAT], input="hang", background=True).id
    conversation = mine.conversations.create(items=[{"type": "message", "role": "user", "content": "secret"}]).id
    for number in range(2):
        other: Any = pair.node(number).other
        attempts: list[tuple[Callable[..., Any], str]] = [
            (other.responses.retrieve, done),
            (other.responses.delete, done),
            (other.responses.input_items.list, done),
            (partial(other.responses.retrieve, stream=True), running),
            (other.responses.cancel, running),
            (other.conversations.retrieve, conversation),
            (other.conversations.items.list, conversation),
            (other.conversations.delete, conversation),
        ]
        for attempt, identifier in attempts:
            with pytest.raises(openai.NotFoundError):
                attempt(identifier)
        for link in ({"previous_response_id": done}, {"conversation": conversation}):
            with pytest.raises((openai.BadRequestError, openai.NotFoundError)):
                other.responses.create(model=MODELS[Protocol.CHAT], input="recall", **link)
    assert pair.node(1).client.responses.retrieve(done).output_text == "secret"
    assert pair.node(1).client.responses.cancel(running).status == "cancelled"


def test_background_work_of_a_gateway_that_dies_is_failed_once(pair: Pair) -> None:
    """By the other one, which no client has asked about it, and for every client that streams it."""
    doomed, other = pair.cluster.nodes[0], pair.node(1).client
    here: Any = pair.node(0).client
    conversation = here.conversations.create()
    made = here.responses.create(
        model=MODELS[Protocol.CHAT], input="hang", background=True, conversation=conversation.id
    )
    until(lambda: bool(pair.up.bodies()), 10)
    there: Any = other.responses
    stream = there.retrieve(made.id, stream=True)
    doomed.kill()
    try:
        events = [event.type for event in stream]
        assert events.count("response.failed") == 1
        assert events[-1] == "response.failed"
        found = other.responses.retrieve(made.id)
        assert (found.status, found.error and found.error.code) == ("failed", "server_error")
        until(lambda: made.id in pair.cluster.logs, DEAD_SECONDS)
        follow = other.responses.create(model=MODELS[Protocol.CHAT], input="say on", conversation=conversation.id)
        assert follow.output_text == "on"
    finally:
        doomed.start()
    failed = [line for line in pair.cluster.logs.splitlines() if "its worker has died" in line and made.id in line]
    assert len(failed) == 1
    assert pair.node(0).client.responses.retrieve(made.id).status == "failed"
