"""`state: none`: nothing is kept, what refers to stored things is refused, and ids go to upstreams that keep them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.gateway.running import CONFIG, Gateway, running
from tests.scripted.server import ScriptedUpstream
from trilogue.lint import lint_error
from trilogue.model import Protocol

SAID: Any = {"role": "user", "content": "Hello"}
DEMO = """  demo: {protocol: openai_responses, base_url: "demo:"}
  bare:
    protocol: openai_responses
    base_url: UPSTREAM/v1
    accounts: [{key: env:UP_KEY}]
    profile: {keeps_state: false}
pool:"""


@pytest.fixture(scope="module")
def stateless(_upstream: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    config = "state: none\n" + CONFIG.replace("pool:", DEMO)
    with running(tmp_path_factory.mktemp("stateless"), config, _upstream.url) as gateway:
        yield gateway


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/responses/resp_1"),
        ("DELETE", "/v1/responses/resp_1"),
        ("GET", "/v1/responses/resp_1/input_items"),
        ("POST", "/v1/conversations"),
        ("GET", "/v1/conversations/conv_1"),
        ("POST", "/v1/conversations/conv_1"),
        ("DELETE", "/v1/conversations/conv_1"),
        ("GET", "/v1/conversations/conv_1/items"),
        ("POST", "/v1/conversations/conv_1/items"),
        ("GET", "/v1/conversations/conv_1/items/msg_1"),
        ("DELETE", "/v1/conversations/conv_1/items/msg_1"),
    ],
)
def test_endpoints_say_that_nothing_is_kept(stateless: Gateway, method: str, path: str) -> None:
    refused = stateless.http.request(method, path, json={} if method == "POST" else None)
    assert refused.status_code == 400
    assert refused.json()["error"]["code"] == "state_disabled"
    assert "state: none" in refused.json()["error"]["message"]
    assert lint_error(Protocol.RESPONSES, refused.json()) == []


@pytest.mark.parametrize("model", ["chat/text", "messages/text", "demo/demo"])
@pytest.mark.parametrize(
    "state",
    [
        {"previous_response_id": "resp_1"},
        {"conversation": "conv_1"},
        {"input": [{"type": "item_reference", "id": "msg_1"}, SAID]},
    ],
    ids=["response", "conversation", "item"],
)
def test_requests_that_refer_to_something(
    stateless: Gateway, up: ScriptedUpstream, model: str, state: dict[str, Any]
) -> None:
    """Refused before anything is sent: the model would respond without the history."""
    with pytest.raises(openai.BadRequestError) as refused:
        stateless.openai.responses.create(**{"model": model, "input": [SAID], **state})
    assert refused.value.param in ("previous_response_id", "conversation", "input[0]")
    assert up.requests == []


@pytest.mark.parametrize(
    "state",
    [
        {"previous_response_id": "resp_1"},
        {"conversation": "conv_1"},
        {"input": [{"type": "item_reference", "id": "msg_1"}, SAID]},
    ],
    ids=["response", "conversation", "item"],
)
def test_ids_go_to_an_upstream_that_keeps_state(
    stateless: Gateway, up: ScriptedUpstream, state: dict[str, Any]
) -> None:
    body = {"model": "responses/text", "input": [SAID], **state}
    assert stateless.http.post("/v1/responses", json=body).status_code == 200
    assert json.loads(up.requests[-1].body) == {**body, "model": "text"}


@pytest.mark.parametrize("store", [None, True, False])
@pytest.mark.parametrize("model", ["chat/text", "messages/text", "responses/text", "bare/text"])
def test_responses_say_that_they_are_not_stored(stateless: Gateway, model: str, store: bool | None) -> None:
    """Whatever an upstream stores: they cannot be fetched here."""
    asked: Any = {"model": model, "input": [SAID]} | ({} if store is None else {"store": store})
    assert stateless.http.post("/v1/responses", json=asked).json()["store"] is False
    found = [
        event.response
        for event in stateless.openai.responses.create(**asked, stream=True)
        if hasattr(event, "response")
    ]
    assert [response.store for response in found] == [False] * len(found)
    assert found


def test_no_file_is_written(tmp_path: Path, up: ScriptedUpstream) -> None:
    with running(tmp_path, "state: none\n" + CONFIG, up.url) as gateway:
        gateway.openai.responses.create(model="chat/text", input=[SAID])
        assert list(tmp_path.rglob("responses*.db*")) == []
