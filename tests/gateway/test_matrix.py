"""Every client through the gateway to every upstream with the official SDKs: text, tools, stops, costs."""

from __future__ import annotations

import pytest

from tests.gateway.conversations import TOOLS, Conversation, Wish
from tests.gateway.pairs import EVERY_PAIR, EVERY_TRANSLATION, Pair, check_wire
from tests.gateway.running import Gateway
from tests.judges import answers
from tests.judges.answers import Usage
from tests.scripted.scenario import ANSWER_TEXT
from tests.scripted.server import ScriptedUpstream
from trilogue.model import Protocol

TEXT = "".join(ANSWER_TEXT)
CITIES = [{"city": "Paris"}, {"city": "Rome"}]


@EVERY_PAIR
def test_text(gateway: Gateway, up: ScriptedUpstream, pair: Pair) -> None:
    """Words, reason to stop, costs and the model's name."""
    talked = pair.talk(gateway, "text")
    answer = talked.say()
    assert answer.text == TEXT
    assert answer.stop == answers.END
    assert answer.usage == Usage(input=25, cached=5, output=10)
    assert talked.native["model"] == ("text" if pair.same else f"{pair.upstream.short}/text")
    assert up.last().json["model"] == "text"
    check_wire(talked, up, pair.upstream)


@EVERY_PAIR
@pytest.mark.parametrize(("model", "count"), [("tools", 1), ("parallel-tools", 2)])
def test_calls_and_their_results(gateway: Gateway, up: ScriptedUpstream, pair: Pair, model: str, count: int) -> None:
    """Calls come with their own arguments, in order; their results reach the upstream, whose answer tells them."""
    talked = pair.talk(gateway, model, Wish(tools=True))
    _call(talked, up, pair, count)


@EVERY_TRANSLATION
def test_interleaved_calls(gateway: Gateway, up: ScriptedUpstream, pair: Pair) -> None:
    """Calls that an upstream tells in turns, as no official API does: each gets its own arguments all the same."""
    _call(pair.talk(gateway, "interleaved-tools", Wish(tools=True)), up, pair, 2)


def _call(talked: Conversation, up: ScriptedUpstream, pair: Pair, count: int) -> None:
    answer = talked.say()
    assert [(call.name, call.arguments) for call in answer.calls] == list(zip(TOOLS, CITIES, strict=True))[:count]
    assert len({call.id for call in answer.calls}) == count
    assert answer.stop == answers.TOOL_CALLS
    check_wire(talked, up, pair.upstream)
    answer = talked.give({call.id: f"sunny in {call.arguments['city']}" for call in answer.calls})
    assert answer.text == f"The tool said: sunny in {CITIES[count - 1]['city']}"
    assert answer.stop == answers.END
    check_wire(talked, up, pair.upstream)


@EVERY_PAIR
def test_length(gateway: Gateway, up: ScriptedUpstream, pair: Pair) -> None:
    """An answer that a limit cut is told as such."""
    talked = pair.talk(gateway, "length")
    answer = talked.say()
    assert answer.text == "This answer is cut"
    assert answer.stop == answers.LENGTH
    check_wire(talked, up, pair.upstream)


@EVERY_PAIR
def test_refusal(gateway: Gateway, up: ScriptedUpstream, pair: Pair) -> None:
    """A refusal is an answer, not an error, and never ordinary prose."""
    talked = pair.talk(gateway, "refusal")
    answer = talked.say()
    assert answer.calls == []
    assert answer.refusal or answer.stop == answers.FILTER
    if pair.upstream is not Protocol.MESSAGES:
        assert "I cannot help with that." in answer.refusal + answer.text
    check_wire(talked, up, pair.upstream)


@EVERY_PAIR
def test_empty(gateway: Gateway, up: ScriptedUpstream, pair: Pair) -> None:
    """A model may say nothing."""
    talked = pair.talk(gateway, "empty")
    answer = talked.say()
    assert answer.text == ""
    assert answer.stop == answers.END
    check_wire(talked, up, pair.upstream)
