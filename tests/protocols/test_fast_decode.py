"""A look at an answer that is passed on: the usage that official APIs write today is read at once."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any, NoReturn

import pytest

from trilogue.model import Protocol, Usage
from trilogue.protocols.registry import codec

USAGE: dict[Protocol, dict[str, Any]] = {
    Protocol.CHAT: {
        "prompt_tokens": 9,
        "completion_tokens": 3,
        "total_tokens": 12,
        "prompt_tokens_details": {
            "cached_tokens": 4,
            "cache_write_tokens": 0,
            "audio_tokens": 0,
            "image_tokens": 0,
            "text_tokens": 9,
        },
        "completion_tokens_details": {"reasoning_tokens": 1, "audio_tokens": 0, "text_tokens": 2},
    },
    Protocol.MESSAGES: {
        "input_tokens": 5,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 4,
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
        "output_tokens": 3,
        "service_tier": "standard",
    },
    Protocol.RESPONSES: {
        "input_tokens": 9,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
        "output_tokens": 3,
        "output_tokens_details": {"reasoning_tokens": 1},
        "total_tokens": 12,
    },
}
ANSWERS: dict[Protocol, dict[str, Any]] = {
    Protocol.CHAT: {"id": "a", "choices": [{"index": 0, "message": {"content": "Hi"}, "finish_reason": "stop"}]},
    Protocol.MESSAGES: {"id": "a", "type": "message", "content": [], "stop_reason": "end_turn"},
    Protocol.RESPONSES: {"id": "a", "status": "completed", "output": []},
}
WRITES = {
    Protocol.CHAT: ("prompt_tokens_details", "cache_write_tokens"),
    Protocol.RESPONSES: ("input_tokens_details", "cache_write_tokens"),
}


def seen(protocol: Protocol, usage: dict[str, Any]) -> Usage | None:
    """What the look says of this usage."""
    seen = codec(protocol).summarize(json.dumps({**ANSWERS[protocol], "usage": usage}).encode())
    assert seen is not None
    return seen.usage


@pytest.mark.parametrize("protocol", Protocol, ids=lambda protocol: protocol.short)
def test_the_usual_form_is_read_at_once(protocol: Protocol, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the longer way, which takes as long as all the rest of the look."""

    def longer(*_: object) -> NoReturn:
        raise AssertionError("the longer way")

    monkeypatch.setattr(import_module(f"trilogue.protocols.{protocol.short}.fast_decode"), "decode_usage", longer)
    usage = seen(protocol, USAGE[protocol])
    assert usage == Usage(fresh=5, cache_read=4, cache_write=0, output=3)


@pytest.mark.parametrize("protocol", WRITES, ids=lambda protocol: protocol.short)
def test_what_was_written_to_a_cache_is_counted_apart(protocol: Protocol) -> None:
    """It has a price of its own."""
    details, field = WRITES[protocol]
    usage = seen(protocol, {**USAGE[protocol], details: {**USAGE[protocol][details], field: 2}})
    assert usage is not None
    assert (usage.fresh, usage.cache_read, usage.cache_write, usage.output) == (3, 4, 2, 3)
