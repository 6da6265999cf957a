"""Reasoning that an account refuses is remembered alone: what it made itself stays."""

from __future__ import annotations

import json

from trilogue.gateway.setup.refused_reasoning import RefusedReasoning
from trilogue.model import Failure, FailureKind, Protocol
from trilogue.translate.reasoning.removal import strip_reasoning

OWN, FIRST, SECOND = "own-" * 20, "first-foreign-" * 8, "second-foreign-" * 8


def thinking(signature: str) -> dict[str, object]:
    blocks = [{"type": "thinking", "thinking": "hm", "signature": signature}, {"type": "text", "text": "Yes"}]
    return {"role": "assistant", "content": blocks}


def body(*signatures: str) -> bytes:
    said = [turn for signature in signatures for turn in ({"role": "user", "content": "Hi"}, thinking(signature))]
    return json.dumps({"model": "m", "max_tokens": 9, "messages": [*said, {"role": "user", "content": "Go"}]}).encode()


def refused(place: str) -> Failure:
    text = f"{place}: Invalid `signature` in `thinking` block"
    return Failure(kind=FailureKind.INVALID_REQUEST, message=text, status=400)


def test_two_foreign_blocks_are_found_one_after_the_other() -> None:
    """The second error counts the blocks of a request that went without the first."""
    rejected, sent = RefusedReasoning(), body(FIRST, OWN, SECOND)
    rejected.learn("p", "a", sent, Protocol.MESSAGES, refused("messages.1.content.0"))
    assert len(rejected.within("p", "a", sent)) == 1
    # messages.5 is still the third turn of the assistant: its text stays where the thinking went.
    rejected.learn("p", "a", sent, Protocol.MESSAGES, refused("messages.5.content.0"))
    kept, _ = strip_reasoning(sent, protocol=Protocol.MESSAGES, only=rejected.within("p", "a", sent))
    assert [block["signature"] for turn in kept["messages"] for block in turn["content"] if "signature" in block] == [
        OWN
    ]


def test_what_openai_shows_of_a_value() -> None:
    """Its errors show the last characters of what cannot be verified."""
    items = [
        {"type": "reasoning", "id": f"rs_{n}", "summary": [], "encrypted_content": v}
        for n, v in ((1, OWN), (2, "x" * 90 + "QzT9w="))
    ]
    sent = json.dumps({"model": "m", "input": [*items, {"role": "user", "content": "Hi"}]}).encode()
    rejected = RefusedReasoning()
    text = "The encrypted content ...QzT9w= could not be verified."
    failure = Failure(kind=FailureKind.INVALID_REQUEST, message=text, status=400)
    rejected.learn("p", "a", sent, Protocol.RESPONSES, failure)
    assert rejected.within("p", "a", sent) == ["x" * 48]


def test_many_foreign_blocks_are_all_remembered() -> None:
    """A long conversation that has moved here is not refused for ever."""
    rejected, sent = RefusedReasoning(), body(*(f"{number:04}-" * 20 for number in range(80)))
    failure = Failure(kind=FailureKind.INVALID_REQUEST, message="Invalid signature", status=400)
    rejected.learn("p", "a", sent, Protocol.MESSAGES, failure)
    assert len(rejected.within("p", "a", sent)) == 80


def test_an_item_whose_reasoning_the_client_has_lost() -> None:
    """Its id goes, by which OpenAI would miss the reasoning; there is nothing else to leave out."""
    call = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": "{}"}
    items = [{"role": "user", "content": "Hi"}, call, {"type": "function_call_output", "call_id": "c", "output": "1"}]
    kept, _ = strip_reasoning(json.dumps({"model": "m", "input": items}).encode(), protocol=Protocol.RESPONSES)
    assert "id" not in kept["input"][1]
