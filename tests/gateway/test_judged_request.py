"""A request that policies change is sent changed, and the client's own is kept for what the client sees."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from trilogue import Protocol, Sealer
from trilogue.errors import BadRequest
from trilogue.gateway.policies.run import HookThreads, RequestPolicies
from trilogue.gateway.record import RequestRecord
from trilogue.gateway.request.call import ModelCall
from trilogue.gateway.request.judged_request import judged_call
from trilogue.policies import Context, Pending, Policy, load_policies

M = Protocol.MESSAGES
SIGNED: list[dict[str, Any]] = [
    {"role": "user", "content": "Who is jane@example.org?"},
    {
        "role": "assistant",
        "content": [{"type": "thinking", "thinking": "Hm.", "signature": "SIG"}, {"type": "text", "text": "No idea."}],
    },
    {"role": "user", "content": "And bob@example.org?"},
]


SEALER = Sealer.ephemeral()


async def unasked(pending: Pending) -> object:
    """Answer nothing."""
    raise LookupError


def judged(body: dict[str, Any], policies: tuple[Policy, ...]) -> ModelCall | None:
    """Return the call after these policies."""
    record = RequestRecord(request_id="r", began_at=0)

    async def judge() -> ModelCall | None:
        call = ModelCall(
            client=M, body=json.dumps(body).encode(), model="m", stream=False, headers={}, forwarded=(), sealer=SEALER
        )
        running = RequestPolicies(policies, Context(), record, unasked, HookThreads())
        return await judged_call(call, running, policies)

    return asyncio.run(judge())


def request(*messages: dict[str, Any]) -> dict[str, Any]:
    """Return a request."""
    return {"model": "m", "max_tokens": 9, "messages": list(messages), "metadata": {"user_id": "u"}}


def test_what_is_not_changed_keeps_its_bytes() -> None:
    body = request({"role": "user", "content": "Hi"})
    call = judged(body, load_policies(["redact"]))
    assert call is not None
    assert (call.body, call.asked, call.losses) == (json.dumps(body).encode(), None, ())


def test_what_is_changed_is_sent_and_the_original_is_kept() -> None:
    body = request(*SIGNED)
    call = judged(body, load_policies(["redact", {"use": "force_model", "model": "other"}]))
    assert call is not None
    sent = json.loads(call.body)
    assert (sent["model"], call.model, call.shown_model) == ("other", "other", "m")
    assert sent["messages"][0]["content"] == "Who is <<EMAIL_1>>?"
    assert sent["messages"][2]["content"] == "And <<EMAIL_2>>?"
    assert sent["messages"][1] == SIGNED[1]
    assert sent["metadata"] == {"user_id": "u"}
    assert call.sent == json.dumps(body).encode()


def test_a_change_before_signed_reasoning_is_declared() -> None:
    """Its provider may have bound it to what came before it."""
    call = judged(request(*SIGNED), load_policies(["redact"]))
    assert call is not None
    assert [loss.code for loss in call.losses] == ["policy.prefix"]
    later = [*SIGNED[1:2], SIGNED[2]]
    call = judged(request({"role": "user", "content": "Hi"}, *later), load_policies(["redact"]))
    assert call is not None
    assert b"<<EMAIL_1>>" in call.body
    assert call.losses == ()


def test_a_stopped_request() -> None:
    policies = load_policies([{"use": "limits", "input_tokens": 1}])
    assert judged(request(*SIGNED), policies) is None


@pytest.mark.parametrize("more", [
    {"Messages": [{"role": "user", "content": "I am bob@example.org"}]},
    {"me\u017f\u017fages": []},
    {"messages": [{"role": "user", "content": "Hi", "Content": "I am bob@example.org"}]},
    {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi", "TEXT": "I am bob@example.org"}]}]},
    {"System": "I am bob@example.org"},
])  # fmt: skip
def test_a_field_in_another_spelling_is_refused(more: dict[str, Any]) -> None:
    """Servers in Go read it in place of the one that policies have judged."""
    with pytest.raises(BadRequest, match="must be written as"):
        judged({**request({"role": "user", "content": "Hi"}), **more}, load_policies(["redact"]))


def test_names_of_the_client_may_be_spelled_as_it_likes() -> None:
    schema = {"type": "object", "properties": {"Text": {"type": "string"}, "text": {"type": "string"}}}
    body = {**request({"role": "user", "content": "Hi"}), "tools": [{"name": "f", "input_schema": schema}]}
    assert judged(body, load_policies(["redact"])) is not None
