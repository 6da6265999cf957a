"""Stored responses: fetched whole and as a stream, listed, referred to and deleted; and what is not stored."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

import openai
import pytest

from tests.multiturn.agents import ResponsesAgent
from tests.multiturn.gateways import EVERY_UPSTREAM, MODELS, Gateway
from trilogue.model import Protocol


@EVERY_UPSTREAM
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_fetched_as_it_was(either: Gateway, upstream: Protocol, stream: bool) -> None:
    """A response that the client has got can be fetched at once, with everything in it but encrypted content."""
    agent = ResponsesAgent(either.client, MODELS[upstream], stream=stream, metadata={"about": "weather"})
    made = agent.say("loop 1").native
    fetched = either.client.responses.retrieve(made["id"]).to_dict(mode="json", warnings=False)
    for name in ("id", "status", "model", "usage", "metadata", "tools", "created_at", "previous_response_id"):
        assert fetched[name] == made[name], name
    assert [_bare(item) for item in _items(fetched)] == [_bare(item) for item in made["output"]]
    assert fetched["store"] is True


def _items(response: Any) -> list[Any]:
    return list(response["output"])


def _bare(item: Any) -> Any:
    return {name: value for name, value in item.items() if name != "encrypted_content" and value is not None}


@EVERY_UPSTREAM
def test_encrypted_content_is_included_on_request(one: Gateway, upstream: Protocol) -> None:
    """Whole, as a stream, and in lists; a client can send it back. Reasoning that is only text gets some too."""
    client: Any = one.client
    include: Any = ["reasoning.encrypted_content"]
    made = ResponsesAgent(client, MODELS[upstream], reasoning={"effort": "high"}).say("say x").native
    fetched = client.responses.retrieve(made["id"], include=include)
    streamed = list(client.responses.retrieve(made["id"], include=include, stream=True))[-1].response
    after = client.responses.create(model=MODELS[upstream], input="say y", previous_response_id=made["id"])
    listed = client.responses.input_items.list(after.id, include=include).data
    for items in (fetched.output, streamed.output, listed):
        reasoning = [item for item in items if item.type == "reasoning"]
        assert [bool(item.encrypted_content) for item in reasoning] == [True]
    history = [item.to_dict(mode="json", exclude_unset=True) for item in fetched.output]
    more = [*history, {"role": "user", "content": "say z"}]
    again = client.responses.create(model=MODELS[upstream], input=more, reasoning={"effort": "high"}, store=False)
    assert again.output_text == "z"


@EVERY_UPSTREAM
def test_stream_of_a_stored_response(either: Gateway, upstream: Protocol) -> None:
    """All events again, or those after a number."""
    responses: Any = either.client.responses
    live = list(responses.create(model=MODELS[upstream], input="slow 5 1", stream=True))
    numbers = [event.sequence_number for event in live]
    assert numbers == list(range(len(live)))
    identity = live[0].response.id
    replayed = list(responses.retrieve(identity, stream=True))
    assert [event.type for event in replayed][-1] == "response.completed"
    assert [event.sequence_number for event in replayed] == list(range(len(replayed)))
    text = "".join(event.delta for event in replayed if event.type == "response.output_text.delta")
    assert text == replayed[-1].response.output_text == live[-1].response.output_text
    for after in (0, 3, len(replayed) - 2):
        rest = list(responses.retrieve(identity, stream=True, starting_after=after))
        assert [(event.type, event.sequence_number) for event in rest] == [
            (event.type, event.sequence_number) for event in replayed[after + 1 :]
        ]


@EVERY_UPSTREAM
def test_delete(either: Gateway, upstream: Protocol) -> None:
    """A deleted response is unknown; those that came from it stay."""
    client, model = either.client, MODELS[upstream]
    first = client.responses.create(model=model, input="say one")
    second = client.responses.create(model=model, input="say two", previous_response_id=first.id)
    raw: Any = client.responses.with_raw_response.delete(first.id).http_response.json()
    assert raw == {"id": first.id, "object": raw["object"], "deleted": True}
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(first.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.delete(first.id)
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model=model, input="say x", previous_response_id=first.id)
    assert refused.value.code == "previous_response_not_found"
    assert client.responses.retrieve(second.id).output_text == "two"


@EVERY_UPSTREAM
def test_input_items(either: Gateway, upstream: Protocol) -> None:
    """Newest first unless asked otherwise, in pages, with stable ids."""
    client: Any = either.client
    agent = ResponsesAgent(client, MODELS[upstream])
    agent.work("loop 2")
    last = agent.say("say end").native["id"]
    ascending = client.responses.input_items.list(last, order="asc", limit=100).data
    kinds = [getattr(item, "role", None) or item.type for item in ascending if item.type != "reasoning"]
    calls = ["function_call", "function_call_output"]
    assert kinds == ["user", "assistant", *calls, *calls, "assistant", "user"]
    ids = [item.id for item in ascending]
    assert len(set(ids)) == len(ids)
    assert [item.id for item in client.responses.input_items.list(last, limit=100).data] == ids[::-1]
    page = client.responses.input_items.list(last, order="asc", limit=2)
    assert ([item.id for item in page.data], page.has_more) == (ids[:2], True)
    raw = client.responses.input_items.with_raw_response.list(last, order="asc", limit=2, after=ids[1])
    listed = raw.http_response.json()
    assert [item["id"] for item in listed["data"]] == ids[2:4]
    assert (listed["object"], listed["first_id"], listed["last_id"]) == ("list", ids[2], ids[3])
    assert [item.id for item in client.responses.input_items.list(last, order="asc", limit=3)] == ids


@EVERY_UPSTREAM
def test_items_are_referred_to(either: Gateway, upstream: Protocol) -> None:
    """An `item_reference` is replaced by the stored item, of input and of output."""
    client: Any = either.client
    agent = ResponsesAgent(client, MODELS[upstream])
    first = agent.say("loop 1")
    asked = client.responses.input_items.list(first.native["id"]).data[0].id
    given = [{"type": "item_reference", "id": item} for item in (asked, *(i["id"] for i in first.native["output"]))]
    results = [{"type": "function_call_output", "call_id": c, "output": t} for c, t in first.results().items()]
    made = client.responses.create(model=MODELS[upstream], input=[*given, *results])
    assert made.output_text == "Done after 1 steps."
    with pytest.raises(openai.APIStatusError) as refused:
        client.responses.create(model=MODELS[upstream], input=[{"type": "item_reference", "id": "msg_unknown"}])
    assert refused.value.status_code in (400, 404)
    assert "msg_unknown" in refused.value.message


@EVERY_UPSTREAM
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_store_false_leaves_nothing(one: Gateway, upstream: Protocol, stream: bool) -> None:
    """Neither its text nor anything of its size, not even encrypted."""
    word = secrets.token_hex(150_000)
    one.client.responses.create(model=MODELS[upstream], input="say warm")
    before = len(one.state_bytes())
    agent = ResponsesAgent(one.client, MODELS[upstream], stream=stream, store=False)
    made = agent.say(f"say {word}").native
    assert made["store"] is False
    kept = one.state_bytes()
    assert len(kept) - before < len(word) // 2
    assert word[:60].encode() not in kept
    with pytest.raises(openai.NotFoundError):
        one.client.responses.retrieve(made["id"])
    with pytest.raises(openai.NotFoundError):
        one.client.responses.input_items.list(made["id"])
    with pytest.raises(openai.BadRequestError) as refused:
        one.client.responses.create(model=MODELS[upstream], input="say x", previous_response_id=made["id"])
    assert refused.value.code == "previous_response_not_found"


@EVERY_UPSTREAM
def test_stored_text_is_encrypted_at_rest(one: Gateway, upstream: Protocol) -> None:
    word = f"canary{secrets.token_hex(20)}"
    made = one.client.responses.create(model=MODELS[upstream], input=f"say {word}", metadata={"m": f"meta{word}"})
    assert one.client.responses.retrieve(made.id).output_text == word
    assert word.encode() not in one.state_bytes()


def test_unknown_ids(either: Gateway) -> None:
    """The API's own 404, whatever is asked of them."""
    responses, conversations = either.client.responses, either.client.conversations
    asked: tuple[Callable[[], object], ...] = (
        lambda: responses.retrieve("resp_unknown"),
        lambda: responses.retrieve("resp_unknown", stream=True),
        lambda: responses.delete("resp_unknown"),
        lambda: responses.cancel("resp_unknown"),
        lambda: responses.input_items.list("resp_unknown"),
        lambda: conversations.retrieve("conv_unknown"),
        lambda: conversations.update("conv_unknown", metadata={}),
        lambda: conversations.delete("conv_unknown"),
        lambda: conversations.items.list("conv_unknown"),
    )
    for ask in asked:
        with pytest.raises(openai.NotFoundError) as refused:
            ask()
        assert refused.value.type == "invalid_request_error"
        assert "unknown" in refused.value.message


@EVERY_UPSTREAM
def test_only_background_responses_are_cancelled(one: Gateway, upstream: Protocol) -> None:
    made = one.client.responses.create(model=MODELS[upstream], input="say x")
    with pytest.raises(openai.BadRequestError):
        one.client.responses.cancel(made.id)
    assert one.client.responses.retrieve(made.id).status == "completed"
