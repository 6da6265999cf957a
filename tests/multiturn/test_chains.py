"""Responses that go on from earlier ones, on upstreams of all protocols: tool loops, branches, instructions."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import openai
import pytest

from tests.multiturn.agents import RESPONSES_TOOLS, TERMINAL, Link, ResponsesAgent, all_results, result
from tests.multiturn.gateways import EVERY_UPSTREAM, MODELS, Gateway
from tests.multiturn.script import Json
from trilogue.model import Protocol

STEPS = 10
LINKS: tuple[Link, ...] = ("previous", "conversation", "items")


def recalled(response: Any) -> Json:
    """Return what the model saw, by its own response to `recall`."""
    found: Json = json.loads(response.output_text)
    return found


@EVERY_UPSTREAM
@pytest.mark.parametrize("link", LINKS)
def test_ten_turns(either: Gateway, upstream: Protocol, link: Link) -> None:
    """The model gets every result exactly once and in order, however the turns are linked."""
    agent = ResponsesAgent(either.client, MODELS[upstream], link=link, stream=link != "items")
    assert agent.work(f"loop {STEPS}").text == f"Done after {STEPS} steps."
    assert len(agent.said) == STEPS + 1
    seen = agent.recall()
    assert seen["users"] == [f"loop {STEPS}", "recall"]
    assert seen["results"] == all_results(STEPS)
    assert either.up.refusals == []
    assert either.up.unstable == []
    for said, before in zip(agent.said[1:], agent.said, strict=False):
        linked = said.native.get("previous_response_id")
        assert linked == (before.native["id"] if link == "previous" else None)
        assert said.native["store"] is (link != "items")


@EVERY_UPSTREAM
def test_ten_turns_of_two_asynchronous_clients(either: Gateway, upstream: Protocol) -> None:
    """Two loops at the same time do not mix."""

    async def loop(client: openai.AsyncOpenAI, name: str) -> Json:
        responses: Any = client.responses
        given: Any = f"loop {STEPS} for {name}"
        previous: Any = None
        calls: Any = True
        while calls:
            stream = await responses.create(
                model=MODELS[upstream], input=given, previous_response_id=previous, tools=RESPONSES_TOOLS, stream=True
            )
            final: Any = [event async for event in stream if event.type in TERMINAL][-1]
            previous, calls = final.response.id, [i for i in final.response.output if i.type == "function_call"]
            found = [(call.call_id, json.loads(call.arguments)) for call in calls]
            given = [
                {"type": "function_call_output", "call_id": call, "output": f"{name} {result(**args)}"}
                for call, args in found
            ]
        last = await responses.create(model=MODELS[upstream], input="recall", previous_response_id=previous)
        return recalled(last)

    async def both() -> list[Json]:
        async with either.asynchronous() as client:
            return list(await asyncio.gather(loop(client, "x"), loop(client, "y")))

    for name, seen in zip("xy", asyncio.run(both()), strict=True):
        assert seen["users"] == [f"loop {STEPS} for {name}", "recall"]
        assert seen["results"] == [f"{name} {one}" for one in all_results(STEPS)]


@EVERY_UPSTREAM
def test_branches(either: Gateway, upstream: Protocol) -> None:
    """Any old response can be gone on from, as often as one likes."""
    create, model = either.client.responses.create, MODELS[upstream]
    root = create(model=model, input="say root")
    left = create(model=model, input="say left", previous_response_id=root.id)
    right = create(model=model, input="say right", previous_response_id=root.id)
    for branch, users in ((root, ["say root"]), (left, ["say root", "say left"]), (right, ["say root", "say right"])):
        for _ in range(2):
            seen = recalled(create(model=model, input="recall", previous_response_id=branch.id))
            assert seen["users"] == [*users, "recall"]


@EVERY_UPSTREAM
def test_new_instructions_replace_the_old(one: Gateway, upstream: Protocol) -> None:
    """Also if there are none: they are not carried over."""
    create, model = one.client.responses.create, MODELS[upstream]
    first = create(model=model, input="say one", instructions="Speak like a pirate.")
    assert first.instructions == "Speak like a pirate."
    second = create(model=model, input="recall", instructions="Be brief.", previous_response_id=first.id)
    assert recalled(second)["system"] == "Be brief."
    third = create(model=model, input="recall", previous_response_id=second.id)
    assert recalled(third)["system"] == ""
    assert third.instructions is None


@EVERY_UPSTREAM
def test_system_messages_of_the_input_stay(one: Gateway, upstream: Protocol) -> None:
    """Unlike instructions, they are part of the history."""
    create, model = one.client.responses.create, MODELS[upstream]
    given: Any = [{"role": "developer", "content": "Speak Latin."}, {"role": "user", "content": "say one"}]
    first = create(model=model, input=given)
    second = create(model=model, input="recall", previous_response_id=first.id)
    assert "Speak Latin." in recalled(second)["system"]


def test_a_chain_crosses_upstreams(one: Gateway) -> None:
    """Each turn another protocol: the gateway has its own copy, also of what an upstream owns."""
    order = [Protocol.RESPONSES, Protocol.CHAT, Protocol.MESSAGES, Protocol.RESPONSES, Protocol.MESSAGES, Protocol.CHAT]
    agent = ResponsesAgent(one.client, MODELS[order[0]])

    def change(turn: int) -> None:
        agent.model = MODELS[order[turn % len(order)]]

    assert agent.work(f"loop {STEPS}", change).text == f"Done after {STEPS} steps."
    for upstream in Protocol:
        agent.model = MODELS[upstream]
        seen = agent.recall()
        assert seen["users"][0] == f"loop {STEPS}"
        assert seen["results"] == all_results(STEPS)


@EVERY_UPSTREAM
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_unknown_previous_response(either: Gateway, upstream: Protocol, stream: bool) -> None:
    """The API's own error, before any upstream is asked for a response."""
    responses: Any = either.client.responses
    with pytest.raises(openai.BadRequestError) as refused:
        responses.create(model=MODELS[upstream], input="say x", previous_response_id="resp_unknown", stream=stream)
    assert refused.value.code == "previous_response_not_found"
    assert refused.value.param == "previous_response_id"
    assert refused.value.type == "invalid_request_error"
    assert "resp_unknown" in refused.value.message
    if upstream is not Protocol.RESPONSES:
        assert either.up.bodies() == []


@EVERY_UPSTREAM
def test_previous_response_excludes_conversation(one: Gateway, upstream: Protocol) -> None:
    first = one.client.responses.create(model=MODELS[upstream], input="say one")
    conversation = one.client.conversations.create()
    with pytest.raises(openai.BadRequestError):
        one.client.responses.create(
            model=MODELS[upstream], input="say x", previous_response_id=first.id, conversation=conversation.id
        )


@EVERY_UPSTREAM
def test_a_failed_turn_leaves_the_chain_as_it_was(one: Gateway, upstream: Protocol) -> None:
    """Results that fit no call are refused, and the client can go on from the same response."""
    agent = ResponsesAgent(one.client, MODELS[upstream])
    said = agent.say("loop 2")
    with pytest.raises(openai.BadRequestError):
        agent.give({"call_unknown": "nothing"})
    agent.history = []
    agent.give(said.results())
    assert agent.give(agent.said[-1].results()).text == "Done after 2 steps."


def test_the_demo_keeps_state(one: Gateway) -> None:
    first = one.client.responses.create(model="demo/demo", input="Hello")
    assert one.client.responses.retrieve(first.id).output_text == first.output_text
    second = one.client.responses.create(model="demo/demo", input="Hello again", previous_response_id=first.id)
    assert second.previous_response_id == first.id
    listed = one.client.responses.input_items.list(second.id, order="asc").data
    assert [getattr(item, "role", "") for item in listed] == ["user", "assistant", "user"]
