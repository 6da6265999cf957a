"""Which conversation a request belongs to, and which account that goes to."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trilogue.model import Protocol
from trilogue.pool import response_key, sticky_key
from trilogue.pool.stickiness import Stickiness

CHAT, MESSAGES, RESPONSES = Protocol.CHAT, Protocol.MESSAGES, Protocol.RESPONSES


def key(body: dict[str, Any], protocol: Protocol = MESSAGES, **headers: str) -> str:
    return sticky_key(
        json.dumps(body).encode(), protocol, {name.replace("_", "-"): value for name, value in headers.items()}
    )


FIRST = {"role": "user", "content": "Hello"}
ANSWER = {"role": "assistant", "content": "Hi"}
MORE = {"role": "user", "content": "And now?"}

OPENINGS: dict[Protocol, tuple[dict[str, Any], dict[str, Any]]] = {
    CHAT: (
        {"messages": [{"role": "system", "content": "Be kind"}, FIRST]},
        {"messages": [{"role": "system", "content": "Be kind"}, FIRST, ANSWER, MORE]},
    ),
    MESSAGES: (
        {"system": "Be kind", "messages": [FIRST]},
        {"system": "Be kind", "messages": [FIRST, ANSWER, MORE]},
    ),
    RESPONSES: (
        {"instructions": "Be kind", "input": [FIRST]},
        {"instructions": "Be kind", "input": [FIRST, ANSWER, MORE]},
    ),
}


@pytest.mark.parametrize("protocol", Protocol)
def test_later_turns_belong_to_the_same_conversation(protocol: Protocol) -> None:
    """What never changes in its course is the opening."""
    first, later = OPENINGS[protocol]
    assert key(first, protocol)
    assert key(first, protocol) == key(later, protocol)


@pytest.mark.parametrize("protocol", Protocol)
@pytest.mark.parametrize("change", ["Be kind", "Hello"])
def test_another_opening_is_another_conversation(protocol: Protocol, change: str) -> None:
    """The system prompt and the first turn both count."""
    first, _ = OPENINGS[protocol]
    other = json.loads(json.dumps(first).replace(change, "Something else"))
    assert key(first, protocol) != key(other, protocol)


def test_tools_count() -> None:
    """They are the first thing in every prompt cache."""
    first, _ = OPENINGS[MESSAGES]
    assert key(first) != key({**first, "tools": [{"name": "x"}]})


def test_a_plain_text_input_is_an_opening() -> None:
    """Responses takes one."""
    assert key({"input": "Hello"}, RESPONSES) == key({"input": "Hello"}, RESPONSES) != key({"input": "Bye"}, RESPONSES)


def test_cache_marks_move_and_do_not_count() -> None:
    """Clients put them on the newest turn, which is the first one only once."""
    marked = {"role": "user", "content": [{"type": "text", "text": "Hello", "cache_control": {"type": "ephemeral"}}]}
    plain = {"role": "user", "content": [{"type": "text", "text": "Hello"}]}
    assert key({"messages": [marked]}) == key({"messages": [plain, ANSWER, MORE]})


def test_the_billing_block_does_not_count() -> None:
    """Claude Code's first system block differs in every request."""

    def body(stamp: str) -> dict[str, Any]:
        block = {"type": "text", "text": f"x-anthropic-billing-header: cc_version=2; cch={stamp};"}
        return {"system": [block, {"type": "text", "text": "You are"}], "messages": [FIRST]}

    assert key(body("1")) == key(body("2"))


NAMED: list[tuple[Protocol, dict[str, Any], dict[str, str]]] = [
    (RESPONSES, {"previous_response_id": "resp_1"}, {}),
    (RESPONSES, {"conversation": "conv_1"}, {}),
    (RESPONSES, {"conversation": {"id": "conv_1"}}, {}),
    (RESPONSES, {"prompt_cache_key": "k"}, {}),
    (CHAT, {"prompt_cache_key": "k"}, {}),
    (MESSAGES, {"metadata": {"user_id": "user_1_session_2"}}, {}),
    (CHAT, {"safety_identifier": "s"}, {}),
    (CHAT, {"user": "u"}, {}),
    (RESPONSES, {"client_metadata": {"session_id": "s"}}, {}),
    (MESSAGES, {}, {"x_claude_code_session_id": "s"}),
    (RESPONSES, {}, {"session_id": "s"}),
    (RESPONSES, {}, {"conversation_id": "s"}),
]


@pytest.mark.parametrize(("protocol", "fields", "headers"), NAMED)
def test_names_come_before_the_opening(protocol: Protocol, fields: dict[str, Any], headers: dict[str, str]) -> None:
    """A client that names its conversation knows best."""
    turns = "input" if protocol is RESPONSES else "messages"
    one, other = {turns: [FIRST], **fields}, {turns: [MORE], **fields}
    assert key(one, protocol, **headers) == key(other, protocol, **headers)
    assert key(one, protocol, **headers) != key({turns: [FIRST]}, protocol)


def test_codex_headers_with_underscores() -> None:
    """Codex names its session so."""
    one = sticky_key(b'{"input": "a"}', RESPONSES, {"session_id": "s"})
    assert one == sticky_key(b'{"input": "b"}', RESPONSES, {"session_id": "s"})


def test_the_previous_response_comes_first() -> None:
    """It is bound to the account more than anything else."""
    body = {"previous_response_id": "resp_1", "prompt_cache_key": "k", "input": "x"}
    assert key(body, RESPONSES) == response_key("resp_1")


def test_a_parsed_body_works_too() -> None:
    """For who has one anyway."""
    assert sticky_key({"prompt_cache_key": "k"}, CHAT, {}) == key({"prompt_cache_key": "k"}, CHAT)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b'{"messages": 5}',
        b'{"messages": []}',
        b'{"messages": "", "input": 7}',
        b'{"metadata": [], "user": 3, "previous_response_id": {}}',
        b'{"messages": [1, null, "x"]' + b"}",
        b'{"input": ' + b"[" * 100_000,
        b'{"system": "\xff"}',
    ],
)
@pytest.mark.parametrize("protocol", Protocol)
def test_nothing_to_go_by_is_no_error(protocol: Protocol, body: bytes) -> None:
    """Whoever reads the request for real will say what is wrong with it."""
    assert isinstance(sticky_key(body, protocol, {}), str)


def test_keys_do_not_tell_who() -> None:
    """They are written to disk."""
    assert "alice" not in key({"metadata": {"user_id": "alice@example.org"}, "messages": [FIRST]})
    assert len(key({"user": "x" * 10_000}, CHAT)) == 32


def test_the_least_recently_used_conversation_is_forgotten() -> None:
    """Memory is bounded."""
    known = Stickiness(limit=3)
    for name in "abc":
        known.bind(name, "account")
    assert known.find("a") == "account"
    known.bind("d", "account")
    assert known.find("b") is None
    assert known.find("a") == "account"
    assert len(known) == 3
