"""A gateway behind a gateway: whatever is spoken between them, reasoning comes back to its maker as it was."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from tests.gateway.conversations import CONVERSATIONS, Wish
from tests.gateway.pairs import PATHS
from tests.gateway.running import CLIENT_KEY, CONFIG, Gateway, running
from tests.scripted.scenario import THOUGHT
from tests.scripted.server import ScriptedUpstream
from trilogue.model import Protocol

MAKERS = (Protocol.MESSAGES, Protocol.RESPONSES)
"""protocols whose reasoning has a value that proves it"""


@pytest.fixture(scope="module")
def _outer(_gateway: Gateway, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with running(tmp_path_factory.mktemp("outer"), CONFIG, _gateway.url, {"UP_KEY": CLIENT_KEY}) as outer:
        yield outer


@pytest.fixture
def outer(_outer: Gateway, gateway: Gateway) -> Gateway:
    """A gateway whose upstream, in each of the protocols, is the gateway of the other tests."""
    _outer.recorder.exchanges.clear()
    return _outer


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(
    ("client", "between", "maker"),
    [pytest.param(*hops, id="-".join(hop.short for hop in hops)) for hops in product(Protocol, Protocol, MAKERS)],
)
def test_reasoning_comes_back(
    outer: Gateway, up: ScriptedUpstream, client: Protocol, between: Protocol, maker: Protocol, stream: bool
) -> None:
    """The upstream refuses what it did not make, so that what it takes is its own."""
    model = f"{between.short}/{maker.short}/reasoning-tools"
    talked = CONVERSATIONS[client](outer, model, stream=stream, wish=Wish(tools=True, reasoning=True))
    answer = talked.say("Weather?")
    assert [call.arguments for call in answer.calls] == [{"city": "Paris"}]
    answer = talked.give({call.id: "Sunny." for call in answer.calls})
    assert answer.text == "The tool said: Sunny."
    assert len(up.requests) == 2
    assert _words(up.last(PATHS[maker]).json, maker) == ["".join(THOUGHT)]


def _words(body: dict[str, Any], maker: Protocol) -> list[str]:
    """The words of the reasoning in a history."""
    if maker is Protocol.RESPONSES:
        items = [item for item in body["input"] if item.get("type") == "reasoning"]
        return ["".join(part["text"] for part in item["summary"]) for item in items]
    turns = [message["content"] for message in body["messages"] if message["role"] == "assistant"]
    return [block["thinking"] for blocks in turns for block in blocks if block["type"] == "thinking"]
