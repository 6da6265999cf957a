"""What a connection remembers of its responses, and how much."""

from __future__ import annotations

import json
from typing import Any

from trilogue.gateway.conversations.history import (
    MOST,
    ConnectionResponses,
    History,
    HistoryItem,
    unstored_items,
    without_foreign_reasoning,
)
from trilogue.gateway.conversations.store.types import OriginAccount

HERE, THERE = OriginAccount("here", "a"), OriginAccount("there", "b")
CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": "{}"}


def history(*texts: bytes) -> History:
    return tuple(HistoryItem(text) for text in texts)


def test_what_is_kept() -> None:
    responses = ConnectionResponses(1000)
    responses.put("a", history(b"1", b"2"))
    assert responses.take("a") == history(b"1", b"2")
    assert responses.take("b") is None
    responses.put("a", history(b"3"))
    assert responses.take("a") == history(b"3")


def test_the_oldest_make_room() -> None:
    """By their number and by their size; the latest is kept as long as it fits at all."""
    responses = ConnectionResponses(1000)
    for number in range(MOST + 1):
        responses.put(str(number), history(b"x"))
    assert responses.take("0") is None
    assert responses.take("1") is not None
    responses.put("large", history(b"x" * 500, b"x" * 500))
    assert responses.take(str(MOST)) is None
    assert responses.take("large") is not None
    responses.put("too large", history(b"x" * 1001))
    assert responses.take("too large") is None
    assert responses.take("large") is None


def test_a_failed_continuation_forgets_what_it_continued() -> None:
    """Unless a response has come of it, whatever else is there."""
    responses = ConnectionResponses(1000)
    responses.put("a", history(b"1"))
    responses.put("b", history(b"2"))
    responses.settle()
    assert responses.take("a") is not None
    responses.settle()
    assert responses.take("a") is None
    responses.settle()
    assert responses.take("b") is not None
    responses.put("c", history(b"3"))
    responses.settle()
    assert responses.take("b") is not None
    assert responses.take("c") is not None


def sent(reasoning: dict[str, Any], made_by: OriginAccount | None, to: OriginAccount) -> list[dict[str, Any]]:
    """Return what an account gets of an unstored response: its reasoning and a call."""
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], **reasoning}
    items = unstored_items(json.dumps({"id": "resp_1", "output": [reasoning, CALL]}).encode(), made_by)
    return [json.loads(data) for data in without_foreign_reasoning(items, to)[0]]


def test_reasoning_that_nobody_stores() -> None:
    """OpenAI refuses reasoning that it did not store and that is not encrypted, and calls that belong to it."""
    without_id = {name: value for name, value in CALL.items() if name != "id"}
    assert sent({}, HERE, HERE) == [without_id]
    assert sent({"encrypted_content": "x"}, HERE, HERE)[1] == CALL
    assert sent({"encrypted_content": "x"}, HERE, THERE) == [without_id]
    assert sent({"content": [{"type": "reasoning_text", "text": "x"}]}, HERE, HERE)[1] == CALL
    # What the gateway has translated is decided by the translation.
    assert sent({}, None, HERE)[1] == CALL
