"""Whose responses they are: of the client key that made them, and of the upstream account that keeps them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from tests.gateway.pooling import name_of
from tests.gateway.running import CLIENT_KEY
from tests.multiturn.agents import ResponsesAgent, all_results
from tests.multiturn.gateways import EVERY_UPSTREAM, MODELS, OTHER_KEY, Gateway, gateway, settings
from tests.multiturn.script import Json
from tests.multiturn.strict import StrictUpstream
from trilogue.model import Protocol

ABOUT_RESPONSES: tuple[tuple[str, str], ...] = (
    ("GET", "/v1/responses/ID"),
    ("GET", "/v1/responses/ID?stream=true"),
    ("DELETE", "/v1/responses/ID"),
    ("POST", "/v1/responses/ID/cancel"),
    ("GET", "/v1/responses/ID/input_items"),
)
ABOUT_CONVERSATIONS: tuple[tuple[str, str], ...] = (
    ("GET", "/v1/conversations/ID"),
    ("POST", "/v1/conversations/ID"),
    ("DELETE", "/v1/conversations/ID"),
    ("GET", "/v1/conversations/ID/items"),
    ("POST", "/v1/conversations/ID/items"),
)
VOLATILE = ("date", "x-request-id", "request-id", "content-length", "openai-processing-ms")


def seen(reply: httpx2.Response, identity: str) -> tuple[int, bytes, Json]:
    """Return everything that a client can see of a reply, without the id that it asked for."""
    headers = {name: value for name, value in reply.headers.items() if name not in VOLATILE}
    return reply.status_code, reply.content.replace(identity.encode(), b"ID"), headers


def ask(client: httpx2.Client, method: str, path: str, identity: str) -> tuple[int, bytes, Json]:
    """Ask about an id."""
    items = {"metadata": {}, "items": [{"role": "user", "content": "hello"}]}
    body = items if method == "POST" and "conversations" in path else None
    return seen(client.request(method, path.replace("ID", identity), json=body), identity)


def unknown(identity: str) -> str:
    """Return an id of the same form that was never issued."""
    prefix, _, rest = identity.partition("_")
    return f"{prefix}_{'0' * len(rest)}"


@EVERY_UPSTREAM
def test_responses_of_another_key_do_not_exist(either: Gateway, upstream: Protocol) -> None:
    """Byte for byte the same as an id that was never issued, and nothing is changed."""
    made = either.client.responses.create(model=MODELS[upstream], input="say mine")
    stranger = either.http(OTHER_KEY)
    for method, path in ABOUT_RESPONSES:
        foreign = ask(stranger, method, path, made.id)
        assert foreign[0] == 404
        assert foreign == ask(stranger, method, path, unknown(made.id)), path
    for field, status in (("previous_response_id", 400), ("item_reference", 0)):
        replies = [
            seen(stranger.post("/v1/responses", json=_request(upstream, field, identity)), identity)
            for identity in (made.id, unknown(made.id))
        ]
        assert replies[0] == replies[1]
        assert replies[0][0] == status or replies[0][0] in (400, 404)
    assert either.client.responses.retrieve(made.id).output_text == "mine"


def _request(upstream: Protocol, field: str, identity: str) -> Json:
    body: Json = {"model": MODELS[upstream], "input": [{"role": "user", "content": "say x"}]}
    if field == "item_reference":
        return {**body, "input": [{"type": "item_reference", "id": identity}, *body["input"]]}
    return {**body, field: identity}


@EVERY_UPSTREAM
def test_items_of_another_key_do_not_exist(one: Gateway, upstream: Protocol) -> None:
    made = one.client.responses.create(model=MODELS[upstream], input="say mine")
    item = str(made.output[-1].id)
    stranger = one.http(OTHER_KEY)
    replies = [
        seen(stranger.post("/v1/responses", json=_request(upstream, "item_reference", identity)), identity)
        for identity in (item, unknown(item))
    ]
    assert replies[0] == replies[1]
    assert replies[0][0] in (400, 404)
    assert b"mine" not in replies[0][1]


@EVERY_UPSTREAM
def test_conversations_of_another_key_do_not_exist(either: Gateway, upstream: Protocol) -> None:
    made = either.client.conversations.create(items=[{"role": "user", "content": "mine"}])
    stranger = either.http(OTHER_KEY)
    for method, path in ABOUT_CONVERSATIONS:
        foreign = ask(stranger, method, path, made.id)
        assert foreign[0] == 404
        assert foreign == ask(stranger, method, path, unknown(made.id)), path
    replies = [
        seen(stranger.post("/v1/responses", json=_request(upstream, "conversation", identity)), identity)
        for identity in (made.id, unknown(made.id))
    ]
    assert replies[0] == replies[1]
    assert replies[0][0] in (400, 404)
    listed = either.client.conversations.items.list(made.id).data
    assert len(listed) == 1


def test_the_owner_may(either: Gateway) -> None:
    """The same questions with the key that made it, so that the tests above cannot pass by refusing everyone."""
    owner = either.http(CLIENT_KEY)
    made = either.client.responses.create(model=MODELS[Protocol.CHAT], input="say mine")
    assert [ask(owner, *ABOUT_RESPONSES[index], made.id)[0] for index in (0, 1, 4, 2)] == [200] * 4
    conversation = either.client.conversations.create()
    assert [ask(owner, *about, conversation.id)[0] for about in (*ABOUT_CONVERSATIONS[3:], ABOUT_CONVERSATIONS[0])] == [
        200
    ] * 3


def follow_ups(running: Gateway, response_id: str) -> None:
    """Ask everything that can be asked about a response."""
    responses: Any = running.client.responses
    assert responses.retrieve(response_id).id == response_id
    assert list(responses.retrieve(response_id, stream=True))
    assert responses.input_items.list(response_id).data
    assert responses.create(
        model=MODELS[Protocol.RESPONSES], input="say next", previous_response_id=response_id
    ).output_text.endswith("next")


def test_follow_ups_go_to_the_account_that_owns_it(tmp_path: Path, up: StrictUpstream) -> None:
    """Also after a restart, and whichever account is used for new conversations by then."""
    order = settings(accounts=("b", "a"))
    with gateway(tmp_path, up) as first:
        made = first.client.responses.create(model=MODELS[Protocol.RESPONSES], input="say x").id
        job = first.client.responses.create(model=MODELS[Protocol.RESPONSES], input="hang", background=True).id
    assert {name_of(request) for request in up.requests} == {"a"}
    up.reset()
    with gateway(tmp_path, up, order) as second:
        follow_ups(second, made)
        assert second.client.responses.cancel(job).status == "cancelled"
        assert up.refusals == []
        assert "b" not in {name_of(request) for request in up.requests}
        second.client.responses.delete(made)
        with pytest.raises(openai.NotFoundError):
            second.client.responses.retrieve(made)


def test_a_chain_goes_on_without_its_account(tmp_path: Path, up: StrictUpstream) -> None:
    """At another account, from the gateway's own copy."""
    with gateway(tmp_path, up) as running:
        agent = ResponsesAgent(running.client, MODELS[Protocol.RESPONSES])

        def limit(turn: int) -> None:
            if turn == 4:
                up.limited.add("a")

        assert agent.work("loop 6", limit).text == "Done after 6 steps."
        assert agent.recall()["results"] == all_results(6)
        assert {name_of(request) for request in up.requests} == {"a", "b"}
