"""Reasoning that an account refuses is remembered alone: what it made itself stays."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.running import PROVIDERS, Gateway, running
from tests.scripted.ask import body as ask_body
from tests.scripted.server import ScriptedUpstream
from trilogue.model import Failure, FailureKind, Protocol
from trilogue.translate.reasoning.removal import strip_reasoning
from trilogue.upstreams.refused_reasoning import RefusedReasoning

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


def test_all_that_another_account_has_made_is_refused_once() -> None:
    """The error names the first value that cannot be verified: those before it stay, those after it go as well."""
    rejected, sent = RefusedReasoning(), body(OWN, FIRST, SECOND)
    rejected.learn("p", "a", sent, Protocol.MESSAGES, refused("messages.3.content.0"))
    assert signatures(sent, rejected) == [OWN]
    # What the account makes from now on is its own, and stays as well.
    assert signatures(body(OWN, FIRST, SECOND, "new-" * 20), rejected) == [OWN, "new-" * 20]


def test_an_error_counts_the_blocks_of_the_request_that_was_sent() -> None:
    """That one went without what is known already."""
    rejected, sent = RefusedReasoning(), body(OWN, FIRST)
    rejected.learn("p", "a", sent, Protocol.MESSAGES, refused("messages.3.content.0"))
    longer = body(OWN, FIRST, OWN, SECOND)
    # messages.7 is still the fourth turn of the assistant: its text stays where the thinking went.
    rejected.learn("p", "a", longer, Protocol.MESSAGES, refused("messages.7.content.0"))
    assert signatures(longer, rejected) == [OWN, OWN]


def signatures(sent: bytes, rejected: RefusedReasoning) -> list[str]:
    """The values that are still sent to the account."""
    kept, _ = strip_reasoning(sent, protocol=Protocol.MESSAGES, only=rejected.within("p", "a", sent))
    return [
        block["signature"]
        for turn in kept["messages"]
        for block in turn["content"]
        if isinstance(block, dict) and "signature" in block
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


PROVIDERS_OF_BOTH = PROVIDERS + "pool: {retry_budget: {floor: 1000}}\n"


@pytest.fixture(scope="module")
def gateway(_upstream: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with running(tmp_path_factory.mktemp("refused"), PROVIDERS_OF_BOTH, _upstream.url) as started:
        yield started


class Session:
    """A session of a client such as Claude Code, which sends all thinking back, on a model that thinks and calls."""

    def __init__(self, provider: str, *earlier: dict[str, Any]) -> None:
        self.provider = provider
        self.messages: list[dict[str, Any]] = [{"role": "user", "content": "Hi"}, *earlier]

    def go_on(self, gateway: Gateway, up: ScriptedUpstream) -> None:
        """Have one turn: a call with its result, and the answer."""
        self.messages.append({"role": "user", "content": "How is the weather?"})
        for _ in range(2):
            asked = ask_body(Protocol.MESSAGES, f"{self.provider}/reasoning-tools", stream=False)
            response = gateway.http.post("/v1/messages", json=asked | {"messages": self.messages})
            assert response.status_code == 200, response.text
            content = response.json()["content"]
            self.messages.append({"role": "assistant", "content": content})
            calls = [block["id"] for block in content if block["type"] == "tool_use"]
            if calls:
                results = [{"type": "tool_result", "tool_use_id": call, "content": "Rain"} for call in calls]
                self.messages.append({"role": "user", "content": results})


def replayed(up: ScriptedUpstream) -> list[list[str]]:
    """Return the signatures or encrypted values of each request that came."""
    found = []
    for request in up.requests:
        blocks = [block for turn in request.json.get("messages", []) for block in blocks_of(turn)]
        values = [block["signature"] for block in blocks if block["type"] == "thinking"]
        items = request.json.get("input", [])
        found.append(values + [item["encrypted_content"] for item in items if item.get("type") == "reasoning"])
    up.requests.clear()
    return found


def blocks_of(turn: dict[str, Any]) -> list[dict[str, Any]]:
    return turn["content"] if isinstance(turn["content"], list) else []


@pytest.mark.parametrize("signature", [FIRST, ""], ids=["foreign", "unsigned"])
def test_the_thinking_of_the_new_model_stays(gateway: Gateway, up: ScriptedUpstream, signature: str) -> None:
    """One refusal, whatever the thinking of the model before looked like; a sound one is passed through as it came."""
    session = Session("messages", thinking(signature))
    session.go_on(gateway, up)
    first, without, with_result = replayed(up)
    assert (first, without) == ([signature], [])
    assert len(with_result) == 1
    session.go_on(gateway, up)
    session.go_on(gateway, up)
    requests = replayed(up)
    assert [len(values) for values in requests] == [1, 2, 2, 3]
    assert all(signature not in values for values in requests)
    asked = ask_body(Protocol.MESSAGES, "messages/text", stream=False) | {
        "messages": [{"role": "user", "content": "x"}]
    }
    data = json.dumps(asked, indent=1)
    gateway.http.post("/v1/messages", content=data, headers={"content-type": "application/json"})
    assert up.last().body.decode() == data.replace("messages/text", "text")


def test_of_translated_thinking_what_the_error_means_and_what_follows_is_left_out(
    gateway: Gateway, up: ScriptedUpstream
) -> None:
    """The client has sealed values, and the error names one of those that were inside."""
    session = Session("responses")
    session.go_on(gateway, up)
    session.go_on(gateway, up)
    old, new = replayed(up)[-1]
    words = f"The encrypted content ...{old[-8:]} could not be verified."
    error = {"message": words, "type": "invalid_request_error", "code": "invalid_encrypted_content"}
    data = json.dumps({"error": error})
    head = f"HTTP/1.1 400 No\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
    up.say(f"{head}{data}".encode())
    session.go_on(gateway, up)
    refused, without, later = replayed(up)
    assert (refused, without) == ([old, new], [])
    # From then on, what the model itself has thought is kept.
    [newest] = later
    assert newest not in (old, new)


def test_a_session_goes_on_after_a_restart(up: ScriptedUpstream, tmp_path: Path) -> None:
    """What was refused is not stored: it is found out once more, and the model's own thinking is kept from then on."""
    with running(tmp_path, PROVIDERS_OF_BOTH, up.url) as before:
        Session("messages", thinking(FIRST)).go_on(before, up)
    up.requests.clear()
    session = Session("messages", thinking(FIRST))
    with running(tmp_path, PROVIDERS_OF_BOTH, up.url) as after:
        session.go_on(after, up)
        session.go_on(after, up)
    assert [len(values) for values in replayed(up)] == [1, 0, 1, 1, 2]
