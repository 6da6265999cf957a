"""Conversations: made, changed, listed and deleted, and requests that meet on one of them."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.multiturn.gateways import EVERY_UPSTREAM, MODELS, SHARED, Gateway, gateway, settings
from trilogue.model import Protocol

HELLO: Any = [{"role": "user", "content": "say hello"}, {"role": "assistant", "content": "hello"}]


def test_made_changed_and_deleted(either: Gateway) -> None:
    conversations = either.client.conversations
    made = conversations.create(metadata={"topic": "demo"})
    assert made.id.startswith("conv_")
    assert made.object == "conversation"
    assert made.metadata == {"topic": "demo"}
    assert conversations.retrieve(made.id) == made
    assert conversations.update(made.id, metadata={"topic": "other"}).metadata == {"topic": "other"}
    assert conversations.retrieve(made.id).metadata == {"topic": "other"}
    deleted = conversations.delete(made.id)
    assert (deleted.id, deleted.deleted, deleted.object) == (made.id, True, "conversation.deleted")
    with pytest.raises(openai.NotFoundError):
        conversations.retrieve(made.id)


def test_items(either: Gateway) -> None:
    """Each has an id; lists come newest first unless asked otherwise."""
    conversations: Any = either.client.conversations
    made = conversations.create(items=HELLO)
    added = conversations.items.create(made.id, items=[{"role": "user", "content": "say more"}])
    assert (added.object, len(added.data), added.first_id) == ("list", 1, added.data[0].id)
    ascending = conversations.items.list(made.id, order="asc").data
    assert [item.role for item in ascending] == ["user", "assistant", "user"]
    ids = [item.id for item in ascending]
    assert ids[-1] == added.data[0].id
    assert [item.id for item in conversations.items.list(made.id).data] == ids[::-1]
    assert [item.id for item in conversations.items.list(made.id, order="asc", limit=1, after=ids[0]).data] == [ids[1]]
    assert [item.id for item in conversations.items.list(made.id, order="asc", limit=2)] == ids
    fetched = conversations.items.retrieve(ids[2], conversation_id=made.id)
    assert fetched.content[0].text == "say more"
    assert conversations.items.delete(ids[1], conversation_id=made.id).id == made.id
    assert [item.id for item in conversations.items.list(made.id, order="asc").data] == [ids[0], ids[2]]
    with pytest.raises(openai.NotFoundError):
        conversations.items.retrieve(ids[1], conversation_id=made.id)


def test_at_most_twenty_items_at_a_time(one: Gateway) -> None:
    many: Any = [{"role": "user", "content": f"say {number}"} for number in range(21)]
    with pytest.raises(openai.BadRequestError):
        one.client.conversations.create(items=many)
    made = one.client.conversations.create(items=many[:20])
    with pytest.raises(openai.BadRequestError):
        one.client.conversations.items.create(made.id, items=many)
    assert len(list(one.client.conversations.items.list(made.id, limit=100))) == 20


@EVERY_UPSTREAM
def test_requests_append(either: Gateway, upstream: Protocol) -> None:
    """Input and output of each request, in order; the id may come alone or in an object."""
    client: Any = either.client
    made = client.conversations.create(items=HELLO)
    first = client.responses.create(model=MODELS[upstream], input="say one", conversation=made.id)
    assert first.conversation.id == made.id
    client.responses.create(model=MODELS[upstream], input="say two", conversation={"id": made.id})
    seen = client.responses.create(model=MODELS[upstream], input="recall", conversation=made.id)
    assert json.loads(seen.output_text)["users"] == ["say hello", "say one", "say two", "recall"]
    items = [
        item for item in client.conversations.items.list(made.id, order="asc", limit=100) if item.type == "message"
    ]
    assert [item.role for item in items] == ["user", "assistant"] * 4
    assert [item.content[0].text for item in items][2:6] == ["say one", "one", "say two", "two"]
    output = [item.id for item in first.output if item.type == "message"]
    assert set(output) <= {item.id for item in items}


@EVERY_UPSTREAM
def test_deleted_items_are_not_sent(one: Gateway, upstream: Protocol) -> None:
    client: Any = one.client
    made = client.conversations.create(items=HELLO)
    for item in client.conversations.items.list(made.id).data:
        client.conversations.items.delete(item.id, conversation_id=made.id)
    seen = client.responses.create(model=MODELS[upstream], input="recall", conversation=made.id)
    assert json.loads(seen.output_text)["users"] == ["recall"]


@EVERY_UPSTREAM
def test_a_response_outlives_its_conversation(one: Gateway, upstream: Protocol) -> None:
    client = one.client
    made = client.conversations.create()
    first = client.responses.create(model=MODELS[upstream], input="say one", conversation=made.id)
    client.conversations.delete(made.id)
    assert client.responses.retrieve(first.id).output_text == "one"
    with pytest.raises(openai.APIStatusError) as refused:
        client.responses.create(model=MODELS[upstream], input="say x", conversation=made.id)
    assert refused.value.status_code in (400, 404)
    assert made.id in refused.value.message


@EVERY_UPSTREAM
def test_a_failed_request_appends_nothing(one: Gateway, upstream: Protocol) -> None:
    client: Any = one.client
    made = client.conversations.create(items=HELLO)
    stray = [{"type": "function_call_output", "call_id": "call_unknown", "output": "x"}]
    with pytest.raises(openai.BadRequestError):
        client.responses.create(model=MODELS[upstream], input=stray, conversation=made.id)
    assert len(client.conversations.items.list(made.id).data) == 2


@EVERY_UPSTREAM
def test_no_lost_update(either: Gateway, upstream: Protocol) -> None:
    """Requests that meet on one conversation wait for each other: each sees all that came before it."""
    made, meet = either.client.conversations.create(), threading.Barrier(4)

    def ask(number: int) -> str:
        meet.wait(10)
        responses: Any = either.client.responses
        made_response = responses.create(model=MODELS[upstream], input=f"slow 3 {number + 20}", conversation=made.id)
        return str(made_response.id)

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(ask, range(4)))) == 4
    items: Any = list(either.client.conversations.items.list(made.id, order="asc", limit=100))
    messages = [item for item in items if item.type == "message"]
    assert [item.role for item in messages] == ["user", "assistant"] * 4
    assert {item.content[0].text for item in messages if item.role == "user"} == {f"slow 3 {n + 20}" for n in range(4)}
    seen = either.client.responses.create(model=MODELS[upstream], input="recall", conversation=made.id)
    assert json.loads(seen.output_text)["users"][:-1] == [i.content[0].text for i in messages if i.role == "user"]


def test_a_conversation_that_is_busy_for_long(one: Gateway) -> None:
    """The second request waits some seconds, and then gets a 409 that says why."""
    made, model = one.client.conversations.create(), MODELS[Protocol.CHAT]
    responses: Any = one.client.responses
    stream = responses.create(model=model, input="hang", conversation=made.id, stream=True)
    next(iter(stream))
    try:
        with pytest.raises(openai.ConflictError) as refused:
            responses.create(model=model, input="say x", conversation=made.id)
        assert refused.value.code == "conversation_locked"
        assert refused.value.param == "conversation"
    finally:
        stream.close()
    assert responses.create(model=model, input="say y", conversation=made.id).output_text == "y"


def test_a_conversation_that_only_the_upstream_knows(one: Gateway, tmp_path: Path) -> None:
    """Its id is passed on if client keys share such things; otherwise it may be another key's."""
    state = one.up.responses.account("a")
    made = state.create_conversation({"items": HELLO})
    with pytest.raises(openai.NotFoundError):
        one.client.responses.create(model=MODELS[Protocol.RESPONSES], input="recall", conversation=made["id"])
    with gateway(tmp_path, one.up, settings(server=SHARED)) as sharing:
        seen = sharing.client.responses.create(
            model=MODELS[Protocol.RESPONSES], input="recall", conversation=made["id"]
        )
    assert json.loads(seen.output_text)["users"] == ["say hello", "recall"]
