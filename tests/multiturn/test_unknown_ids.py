"""Ids that the gateway does not know: refused where they may be another key's, else the upstream's own answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from tests.gateway.running import CLIENT_KEY
from tests.multiturn.gateways import EVERY_UPSTREAM, MODELS, OTHER_KEY, Gateway, gateway, settings
from tests.multiturn.script import Json
from tests.multiturn.strict import StrictUpstream
from trilogue.model import Protocol

HELLO: Any = [{"role": "user", "content": "say hello"}]
SEVERAL = "keys: [{name: one, key: env:TRILOGUE_KEY}, {name: other, key: env:OTHER_KEY}]"
ALONE = settings(accounts=("a",)).replace(SEVERAL, "keys: [{name: one, key: env:TRILOGUE_KEY}]")


@pytest.fixture(scope="module")
def alone(_upstream: StrictUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway with a single client key."""
    with gateway(tmp_path_factory.mktemp("alone"), _upstream, ALONE) as running:
        yield running


def referring(model: str, field: str, identifier: str) -> Json:
    if field == "item_reference":
        return {"model": model, "input": [{"type": "item_reference", "id": identifier}, *HELLO]}
    return {"model": model, "input": HELLO, field: identifier}


def made_by(running: Gateway, key: str, upstream: Protocol) -> dict[str, str]:
    """Return an id of each kind that a key has, by field."""
    client: Any = running.client_of(key)
    response = client.responses.create(model=MODELS[upstream], input="say mine")
    conversation = client.conversations.create(items=HELLO)
    return {
        "previous_response_id": response.id,
        "conversation": conversation.id,
        "item_reference": response.output[-1].id,
    }


def outcome(reply: httpx2.Response, identifier: str) -> tuple[int, str]:
    return reply.status_code, reply.text.replace(identifier, "ID")


@EVERY_UPSTREAM
@pytest.mark.parametrize("path", ["/v1/responses", "/v1/responses/input_tokens", "/v1/responses/compact"])
def test_another_keys_id_is_like_an_unknown_one_everywhere(
    one: Gateway, up: StrictUpstream, upstream: Protocol, path: str
) -> None:
    ids = made_by(one, CLIENT_KEY, upstream)
    up.reset()
    for field, identifier in ids.items():
        replies = [
            outcome(one.http(OTHER_KEY).post(path, json=referring(MODELS[upstream], field, named)), named)
            for named in (identifier, f"{identifier.partition('_')[0]}_unknown")
        ]
        assert replies[0] == replies[1]
        assert replies[0][0] in (400, 404), replies
        assert up.requests == [], field


@EVERY_UPSTREAM
def test_a_count_has_the_history(one: Gateway, up: StrictUpstream, upstream: Protocol) -> None:
    """With two accounts, it is not known which one will be asked, so it gets everything."""
    ids = made_by(one, CLIENT_KEY, upstream)
    for field, identifier in ids.items():
        up.reset()
        body = referring(MODELS[upstream], field, identifier)
        reply = one.http().post("/v1/responses/input_tokens", json=body)
        assert reply.status_code == 200, reply.text
        if upstream is Protocol.RESPONSES:
            sent = up.requests[-1].json
            assert len(sent["input"]) > 1
            assert "previous_response_id" not in sent
            assert "conversation" not in sent
        elif upstream is Protocol.CHAT:
            short = one.http().post("/v1/responses/input_tokens", json={"model": MODELS[upstream], "input": HELLO})
            assert reply.json()["input_tokens"] > short.json()["input_tokens"]
    # The conversation is not taken by a count.
    made = one.client.responses.create(model=MODELS[upstream], input="say on", conversation=ids["conversation"])
    assert made.output_text == "on"


@pytest.mark.parametrize(
    "item",
    [
        rb'{"type":"item\u005freference","id":"ID"}',
        b'{"type":"item_reference","id":"ID","id":"msg_own"}',
        b'{"type":"item_reference","type":"message","id":"ID"}',
        b'{"id":"ID"}',
        b'{"id":"ID","type":null}',
        b'{"type":"message","role":"user","id":"ID","role":null,"type":null}',
        rb'{"\u0069d":"ID"}',
    ],
)
def test_references_are_found_however_they_are_written(one: Gateway, up: StrictUpstream, item: bytes) -> None:
    identifier = made_by(one, CLIENT_KEY, Protocol.RESPONSES)["item_reference"]
    up.reset()
    body = b'{"model":"%b","input":[%b]}' % (MODELS[Protocol.RESPONSES].encode(), item)
    client = one.http(OTHER_KEY)
    reply = client.post("/v1/responses", content=body.replace(b"ID", identifier.encode()))
    assert (reply.status_code in (400, 404), up.requests) == (True, []), reply.text


@EVERY_UPSTREAM
def test_a_reference_needs_no_type(one: Gateway, upstream: Protocol) -> None:
    """The key's own item is found by its id alone, on upstreams that keep nothing as well."""
    identifier = made_by(one, CLIENT_KEY, upstream)["item_reference"]
    for item in ({"id": identifier}, {"id": identifier, "type": None}):
        reply = one.http().post("/v1/responses", json={"model": MODELS[upstream], "input": [item, *HELLO]})
        assert reply.status_code == 200, reply.text


def test_an_id_that_a_key_has_copied_is_not_its_own(one: Gateway, up: StrictUpstream) -> None:
    """What is stored of a request has the ids that its client chose. The upstream must not look them up."""
    identifier, model = made_by(one, CLIENT_KEY, Protocol.RESPONSES)["item_reference"], MODELS[Protocol.RESPONSES]
    other: Any = one.client_of(OTHER_KEY)
    copied = {"type": "message", "id": identifier, "role": "user", "content": "say copied"}
    other.responses.create(model=MODELS[Protocol.CHAT], input=[copied])
    for _ in range(2):  # the account that knows the earlier response may be any
        mine = other.responses.create(model=model, input="say mine").id
        up.reset()
        other.responses.create(
            model=model, previous_response_id=mine, input=[{"type": "item_reference", "id": identifier}, *HELLO]
        )
        assert all("item_reference" not in json.dumps(request.json) for request in up.requests)
        assert "say copied" in json.dumps(up.requests[-1].json)


@pytest.mark.parametrize("more", [{"type": "item_reference"}, {}])
def test_a_conversation_does_not_pass_ids_on(one: Gateway, up: StrictUpstream, more: Json) -> None:
    """An item that is named in one is found when it is added, or never."""
    identifier, model = made_by(one, CLIENT_KEY, Protocol.RESPONSES)["item_reference"], MODELS[Protocol.RESPONSES]
    for path, items in (("", [{"id": identifier, **more}]), ("/items", [*HELLO, {"id": identifier, **more}])):
        own, other = (
            client.post("/v1/conversations", json={"items": HELLO}).json()["id"] if path else ""
            for client in (one.http(), one.http(OTHER_KEY))
        )
        refused = one.http(OTHER_KEY).post(f"/v1/conversations{path and '/' + other}{path}", json={"items": items})
        assert (refused.status_code, identifier in refused.text) == (404, True)
        made = one.http().post(f"/v1/conversations{path and '/' + own}{path}", json={"items": items})
        assert made.status_code == 200, made.text
        up.reset()
        asked = {"model": model, "input": HELLO, "conversation": own or made.json()["id"]}
        assert one.http().post("/v1/responses", json=asked).status_code == 200
        assert "say mine" not in json.dumps(up.requests[-1].json)
        assert '"mine"' in json.dumps(up.requests[-1].json)


@pytest.mark.parametrize("field", ["previous_response_id", "conversation"])
def test_fields_that_come_twice_are_refused(one: Gateway, up: StrictUpstream, field: str) -> None:
    identifier = made_by(one, CLIENT_KEY, Protocol.RESPONSES)[field]
    up.reset()
    body = f'{{"model":"{MODELS[Protocol.RESPONSES]}","input":"Hi","{field}":"{identifier}","{field}":null}}'
    for path in ("/v1/responses", "/v1/responses/input_tokens"):
        assert one.http(OTHER_KEY).post(path, content=body.encode()).status_code == 400
    assert up.requests == []


def test_a_single_key_gets_the_upstreams_own_answer(alone: Gateway, up: StrictUpstream) -> None:
    """Also for what comes after: the upstream has the history, and the gateway only the last turns."""
    state = up.responses.account("a")
    kept = state.create_conversation({"items": HELLO})
    client: Any = alone.client
    model = MODELS[Protocol.RESPONSES]
    seen = client.responses.create(model=model, input="recall", conversation=kept["id"])
    assert json.loads(seen.output_text)["users"] == ["say hello", "recall"]
    # A response of this account that the gateway has never seen.
    outside = client.responses.create(model=model, input="say outside", store=True).id
    with pytest.raises(openai.BadRequestError):
        client.responses.create(model=MODELS[Protocol.CHAT], input="say x", previous_response_id="resp_nobody")
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model=model, input="say x", previous_response_id="resp_nobody")
    assert refused.value.code == "previous_response_not_found"
    assert up.refusals == ["Previous response with id 'resp_nobody' not found."]
    assert client.responses.retrieve(outside).output_text == "outside"


def test_what_a_gateway_has_lost_goes_on_at_the_upstream(tmp_path: Path, up: StrictUpstream) -> None:
    """A new store does not know the response, but its account does; and it knows the chain after that, too."""
    model = MODELS[Protocol.RESPONSES]
    (tmp_path / "second").mkdir()
    with gateway(tmp_path, up, ALONE) as first:
        made = first.client.responses.create(model=model, input="say before").id
    with gateway(tmp_path / "second", up, ALONE) as second:
        client: Any = second.client
        next_one = client.responses.create(model=model, input="say next", previous_response_id=made)
        last = client.responses.create(model=model, input="recall", previous_response_id=next_one.id)
        assert json.loads(last.output_text)["users"] == ["say before", "say next", "recall"]
        with pytest.raises(openai.NotFoundError, match="Items are not persisted"):
            client.responses.create(model=model, input=[{"type": "item_reference", "id": "msg_nobody"}, *HELLO])
    assert "msg_nobody" in json.dumps(up.requests[-1].json)


@pytest.mark.parametrize("field", ["previous_response_id", "conversation", "item_reference"])
def test_without_a_store_several_keys_cannot_be_told_apart(tmp_path: Path, up: StrictUpstream, field: str) -> None:
    with gateway(tmp_path, up, settings(state="none")) as running:
        body = referring(MODELS[Protocol.RESPONSES], field, "resp_1")
        for path in ("/v1/responses", "/v1/responses/input_tokens", "/v1/responses/compact"):
            assert running.http().post(path, json=body).status_code in (400, 404)
    assert up.requests == []
