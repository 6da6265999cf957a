"""The end of a conversation: what a cut stream leaves there, and answers that an upstream cannot get."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trilogue import Protocol, Target, Unsupported, translate_request
from trilogue.vendors.profile import Profile

C, M, R = Protocol.CHAT, Protocol.MESSAGES, Protocol.RESPONSES
USER = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Go"}]}
SAID = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Let me see."}]}
THOUGHT = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]}
MODELS = [(C, "m"), (C, "deepseek-reasoner"), (M, "claude-sonnet-4-5"), (M, "claude-sonnet-5"), (M, "claude-opus-5")]


def sent(items: list[dict[str, Any]], target: Protocol, model: str) -> tuple[dict[str, Any], list[str]]:
    where = Target.of(target, model)
    done = translate_request({"model": model, "input": items}, source=R, target=where)
    return done.body, [loss.code for loss in done.losses]


@pytest.mark.parametrize(("target", "model"), MODELS, ids=lambda one: getattr(one, "short", one))
def test_reasoning_at_the_end_is_left_out(target: Protocol, model: str) -> None:
    """It was cut off before its text or call: Codex sends it again, and every API refuses it there."""
    made, codes = sent([USER, THOUGHT], target, model)
    assert made["messages"][-1]["role"] == "user"
    assert "Hm." not in json.dumps(made)
    assert not {"turn.inserted"} & set(codes)
    assert {"reasoning.at_end", "reasoning.foreign_dropped"} & set(codes)


@pytest.mark.parametrize("tail", [[SAID], [THOUGHT, SAID], [SAID, THOUGHT]], ids=["text", "both", "thought last"])
@pytest.mark.parametrize(("target", "model"), MODELS, ids=lambda one: getattr(one, "short", one))
def test_the_model_goes_on_after_a_text(target: Protocol, model: str, tail: list[dict[str, Any]]) -> None:
    """Chat models begin a new message there anyway; Claude would continue the text, or refuse it."""
    made, codes = sent([USER, *tail], target, model)
    last = made["messages"][-1]
    assert "Let me see." in json.dumps(made)
    if model == "m":
        assert last["role"] == "assistant"
    else:
        assert last["role"] == "user"
        assert "Continue." in json.dumps(last)
        assert "turn.inserted" in codes


def test_messages_to_chat_without_its_last_thinking() -> None:
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    asked = {
        "model": "m",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "Go"}, {"role": "assistant", "content": [thinking]}],
    }
    for target in (C, R):
        done = translate_request(asked, source=M, target=target)
        assert "Hm." not in json.dumps(done.body)


def test_a_beginning_that_the_client_wrote_is_refused() -> None:
    """Of a Messages client, the text at the end is the beginning of the response that it wants."""
    asked = {
        "model": "m",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "Go"}, {"role": "assistant", "content": "{"}],
    }
    with pytest.raises(Unsupported):
        translate_request(asked, source=M, target=C)


def test_a_request_that_fits_stays() -> None:
    where = Target(protocol=C, model="m", profile=Profile())
    done = translate_request({"model": "m", "input": [USER, SAID, USER]}, source=R, target=where)
    assert [one["role"] for one in done.body["messages"]] == ["user", "assistant", "user"]


SHOT = {"type": "computer_screenshot", "image_url": "data:image/png;base64,AAAA"}
ANSWERS = [
    (
        {
            "type": "computer_call",
            "id": "cu_1",
            "call_id": "c1",
            "action": {"type": "screenshot"},
            "status": "completed",
        },
        {"type": "computer_call_output", "call_id": "c1", "output": SHOT},
    ),
    (
        {"type": "mcp_approval_request", "id": "mcpr_1", "name": "f", "arguments": "{}", "server_label": "s"},
        {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True},
    ),
]


@pytest.mark.parametrize("target", [C, M], ids=lambda one: one.short)
@pytest.mark.parametrize(("asked", "answer"), ANSWERS, ids=["screen", "approval"])
def test_an_answer_that_cannot_be_delivered_is_refused(
    target: Protocol, asked: dict[str, Any], answer: dict[str, Any]
) -> None:
    """The model would respond without what it has waited for. Once it has acted on it, the answer is history."""
    for tail in ([asked, answer], [asked, answer, USER]):
        with pytest.raises(Unsupported) as caught:
            sent([USER, *tail], target, "m")
        assert caught.value.path == "input[2]"
    _, codes = sent([USER, asked, answer, SAID, USER], target, "m")
    assert "native.dropped" in codes
