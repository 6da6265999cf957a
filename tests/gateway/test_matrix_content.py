"""Every client through the gateway to every upstream: images, structured output, search, and reasoning across turns."""

from __future__ import annotations

import json
from typing import Any

from tests.gateway.conversations import PERSON, PIXEL, Wish
from tests.gateway.pairs import EVERY_PAIR, PATHS, Pair, check_wire
from tests.gateway.running import Gateway
from tests.judges import answers
from tests.scripted.scenario import ANSWER_TEXT, CITES, THOUGHT
from tests.scripted.server import ScriptedUpstream
from tests.scripted.tokens import is_encrypted, is_signed
from trilogue.model import Protocol

TEXT = "".join(ANSWER_TEXT)
THINKING = "".join(THOUGHT)


@EVERY_PAIR
def test_image(gateway: Gateway, up: ScriptedUpstream, pair: Pair) -> None:
    """The picture arrives in the upstream's own form."""
    talked = pair.talk(gateway, "text", Wish(image=True))
    assert talked.say("What is this?").text == TEXT
    sent = up.last(PATHS[pair.upstream]).json
    parts = (sent["input"] if pair.upstream is Protocol.RESPONSES else sent["messages"])[-1]["content"]
    picture = next(part for part in parts if "image" in part["type"])
    url = f"data:image/png;base64,{PIXEL}"
    expected: dict[Protocol, Any] = {
        Protocol.CHAT: lambda: picture["image_url"]["url"] == url,
        Protocol.MESSAGES: lambda: picture["source"] == {"type": "base64", "media_type": "image/png", "data": PIXEL},
        Protocol.RESPONSES: lambda: picture["image_url"] == url,
    }
    assert expected[pair.upstream]()
    check_wire(talked, up, pair.upstream)


@EVERY_PAIR
def test_structured_output(gateway: Gateway, up: ScriptedUpstream, pair: Pair) -> None:
    """The schema arrives where the upstream looks for it, and the answer fits it."""
    talked = pair.talk(gateway, "structured", Wish(schema=True))
    assert json.loads(talked.say().text) == {"name": "Ada", "age": 36}
    sent = up.last(PATHS[pair.upstream]).json
    where: dict[Protocol, Any] = {
        Protocol.CHAT: lambda: sent["response_format"]["json_schema"]["schema"],
        Protocol.MESSAGES: lambda: sent["output_config"]["format"]["schema"],
        Protocol.RESPONSES: lambda: sent["text"]["format"]["schema"],
    }
    assert where[pair.upstream]() == PERSON
    check_wire(talked, up, pair.upstream)


@EVERY_PAIR
def test_web_search(gateway: Gateway, up: ScriptedUpstream, pair: Pair) -> None:
    """A search that the provider runs: its tool is asked for, its citations arrive, and the talk can go on."""
    talked = pair.talk(gateway, "search", Wish(search=True))
    answer = talked.say()
    assert answer.text == "It is 21 degrees and mild."
    assert [url for url, _ in answer.citations] == [cite.url for cite in CITES]
    assert answer.stop == answers.END
    sent = up.last(PATHS[pair.upstream]).json
    assert "web_search_options" in sent or any("web_search" in tool["type"] for tool in sent["tools"])
    check_wire(talked, up, pair.upstream)
    assert talked.say("And tomorrow?").text == "It is 21 degrees and mild."
    check_wire(talked, up, pair.upstream)


@EVERY_PAIR
def test_reasoning_across_turns(gateway: Gateway, up: ScriptedUpstream, pair: Pair) -> None:
    """What the client echoes goes back into the upstream's native field, with the proof that it is the upstream's."""
    wish = Wish(tools=True, reasoning=True)
    talked = pair.talk(gateway, "reasoning-tools", wish)
    answer = talked.say()
    assert answer.reasoning == THINKING
    assert answer.stop == answers.TOOL_CALLS
    assert answer.usage is not None
    assert answer.usage.reasoning == 4
    check_wire(talked, up, pair.upstream)
    assert talked.give({answer.calls[0].id: "sunny"}).text == "The tool said: sunny"
    check_wire(talked, up, pair.upstream)
    sent = up.last(PATHS[pair.upstream]).json
    assert _returned(pair.upstream, sent)


def _returned(upstream: Protocol, sent: dict[str, Any]) -> bool:
    """The reasoning is in the history, unharmed."""
    if upstream is Protocol.RESPONSES:
        items = [item for item in sent["input"] if item.get("type") == "reasoning"]
        return len(items) == 1 and is_encrypted(items[0]["encrypted_content"]) and _summary(items[0]) == THINKING
    turn = next(message for message in sent["messages"] if message["role"] == "assistant")
    if upstream is Protocol.CHAT:
        return bool(turn.get("reasoning_content") == THINKING)
    block = turn["content"][0]
    return block["type"] == "thinking" and is_signed(block["thinking"], block["signature"])


def _summary(item: dict[str, Any]) -> str:
    return "".join(part["text"] for part in item["summary"])
