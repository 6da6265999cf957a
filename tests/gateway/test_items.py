"""References to earlier items are expanded from what this gateway answered, for the key that got it, for a while."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest

from tests.gateway.running import Gateway
from tests.scripted.server import ScriptedUpstream
from trilogue.gateway.setup.items import TTL_SECONDS, ItemStore

ITEM = {"id": "msg_1", "type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]}
REFERENCE = {"type": "item_reference", "id": "msg_1"}


def request(*items: dict[str, Any]) -> bytes:
    return json.dumps({"model": "m", "input": list(items)}).encode()


def test_known_reference_is_replaced() -> None:
    """The upstream gets the words, not the name of them."""
    store = ItemStore()
    store.put("a", [ITEM], now=0.0)
    assert json.loads(store.expand("a", request(REFERENCE), now=1.0))["input"] == [ITEM]


def test_other_bodies_are_not_touched() -> None:
    """Not one byte, where there is nothing to expand."""
    body = b'{"model": "m",  "input": "say item"}'
    assert ItemStore().expand("a", body, now=0.0) is body


def test_reference_of_another_key_stays() -> None:
    """What one client was told is not another's to ask for."""
    store = ItemStore()
    store.put("a", [ITEM], now=0.0)
    assert json.loads(store.expand("b", request(REFERENCE), now=1.0))["input"] == [REFERENCE]


def test_items_are_forgotten_in_time() -> None:
    """Nothing is kept for ever."""
    store = ItemStore()
    store.put("a", [ITEM], now=0.0)
    assert store.get("a", "msg_1", now=TTL_SECONDS + 1) is None
    store.put("a", [], now=TTL_SECONDS + 1)
    assert store.get("a", "msg_1", now=1.0) is None


def test_memory_is_bounded() -> None:
    """The oldest go first."""
    store = ItemStore(max_bytes=1000)
    for number in range(100):
        store.put("a", [{"id": f"msg_{number}", "text": "x" * 100}], now=0.0)
    assert store.get("a", "msg_0", now=0.0) is None
    assert store.get("a", "msg_99", now=0.0) is not None


def test_odd_items_are_no_trouble() -> None:
    """Whatever an upstream or a client sends."""
    store = ItemStore()
    store.put("a", [None, 5, {"id": 7}, {"type": "x"}], now=0.0)
    body = b'{"model":"m","input":"item_reference"}'
    assert store.expand("a", body, now=0.0) == body
    assert json.loads(store.expand("a", b'{"input":[{"type":"item_reference"},3]}', now=0.0))["input"][1] == 3


def _answered(gateway: Gateway, model: str, stream: bool) -> list[dict[str, Any]]:
    """The output items of an answer."""
    if not stream:
        items: list[Any] = gateway.openai.responses.create(model=model, input="Hello").output
    else:
        with gateway.openai.responses.stream(model=model, input="Hello") as events:
            items = list(events.get_final_response().output)
    return [item.model_dump() for item in items]


@pytest.mark.parametrize("upstream", ["chat", "messages"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_client_that_relies_on_memory_can_go_on(
    gateway: Gateway, up: ScriptedUpstream, upstream: str, stream: bool
) -> None:
    """SDKs send a reference for what they were answered; the upstream gets the words."""
    model = f"{upstream}/text"
    said = next(item for item in _answered(gateway, model, stream) if item["type"] == "message")
    history: Any = [{"role": "user", "content": "Hello"}, {"type": "item_reference", "id": said["id"]},
                    {"role": "user", "content": "And?"}]  # fmt: skip
    up.requests.clear()
    gateway.openai.responses.create(model=model, input=history)
    assert said["content"][0]["text"] in up.requests[-1].body.decode()


def test_unknown_reference_is_refused(gateway: Gateway) -> None:
    """Never a conversation with a hole in it."""
    history: Any = [{"type": "item_reference", "id": "msg_nobody"}, {"role": "user", "content": "And?"}]
    with pytest.raises(openai.BadRequestError, match="earlier response"):
        gateway.openai.responses.create(model="chat/text", input=history)
