"""Which conversation a request belongs to, and which account the conversation belongs to."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trilogue.model import Protocol
from trilogue.routing.pool.conversation import Stickiness, cache_session, response_key, sticky_key

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
    """The opening is what never changes during a conversation."""
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
    """Tools are the first thing in every prompt cache."""
    first, _ = OPENINGS[MESSAGES]
    assert key(first) != key({**first, "tools": [{"name": "x"}]})


def test_a_plain_text_input_is_an_opening() -> None:
    """The input of a Responses request may be a string."""
    assert key({"input": "Hello"}, RESPONSES) == key({"input": "Hello"}, RESPONSES) != key({"input": "Bye"}, RESPONSES)


PARTS = [{"type": "input_text", "text": "Hello"}]
FORMS: dict[Protocol, list[dict[str, Any]]] = {
    RESPONSES: [
        {"input": "Hello"},
        {"input": [FIRST]},
        {"input": [FIRST, ANSWER, MORE]},
        {"input": [{"type": "message", **FIRST}]},
        {
            "input": [
                {"type": "message", "role": "user", "content": PARTS, "id": "msg_1", "status": "completed"},
                ANSWER,
            ]
        },
        {"input": [FIRST], "tools": [], "instructions": None},
        {"input": "Hello", "instructions": ""},
    ],
    CHAT: [
        {"messages": [FIRST]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}, ANSWER, MORE]},
        {"messages": [{"role": "user", "content": "Hello", "name": None}], "tools": None},
    ],
    MESSAGES: [
        {"messages": [FIRST]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hello", "citations": None}]}, ANSWER]},
        {"messages": [FIRST], "system": [], "tools": []},
    ],
}


@pytest.mark.parametrize("protocol", Protocol)
def test_one_key_whatever_the_form(protocol: Protocol) -> None:
    """Clients send a string first and then a list with the response: another account could not read the reasoning."""
    assert len({key(form, protocol) for form in FORMS[protocol]}) == 1


SYSTEMS: dict[Protocol, list[dict[str, Any]]] = {
    RESPONSES: [
        {"instructions": "Be kind", "input": "Hello"},
        {"input": [{"role": "developer", "content": "Be kind"}, FIRST]},
        {
            "input": [
                {"type": "message", "role": "system", "content": [{"type": "input_text", "text": "Be kind"}]},
                FIRST,
            ]
        },
    ],
    CHAT: [
        {"messages": [{"role": "system", "content": "Be kind"}, FIRST]},
        {"messages": [{"role": "developer", "content": [{"type": "text", "text": "Be kind"}]}, FIRST]},
    ],
    MESSAGES: [
        {"system": "Be kind", "messages": [FIRST]},
        {"system": [{"type": "text", "text": "Be kind", "cache_control": {"type": "ephemeral"}}], "messages": [FIRST]},
    ],
}


@pytest.mark.parametrize("protocol", Protocol)
def test_one_key_wherever_the_system_prompt_is(protocol: Protocol) -> None:
    """The system prompt may be a string, blocks, or a turn of its own."""
    keys = {key(form, protocol) for form in SYSTEMS[protocol]}
    assert len(keys) == 1
    assert keys.isdisjoint({key(form, protocol) for form in FORMS[protocol]})


OTHERS: list[dict[str, Any]] = [
    {"input": "Hello "},
    {"input": [{"role": "assistant", "content": "Hello"}, MORE]},
    {"input": [{"role": "user", "content": ["Hel", "lo"]}]},
    {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "Hello"}]}]},
    {"input": [{"role": "user", "content": [{"type": "input_text", "text": "Hello", "extra": 1}]}]},
    {"input": [{"type": "function_call_output", "call_id": "c", "output": "Hello"}, FIRST]},
    {"input": [FIRST], "tools": [{"type": "function", "name": "x"}]},
]


def test_what_is_said_is_not_ignored_with_its_form() -> None:
    """Different openings have different keys."""
    found = [key(form, RESPONSES) for form in [*OTHERS, {"input": "Hello"}, {"input": [MORE]}]]
    assert len(set(found)) == len(found)


def test_cache_marks_on_tools_do_not_count() -> None:
    """Clients move cache marks on tools as well."""
    first, _ = OPENINGS[MESSAGES]
    marked = [{"name": "x"}, {"name": "y", "cache_control": {"type": "ephemeral"}}]
    moved = [{"name": "x", "cache_control": {"type": "ephemeral"}}, {"name": "y"}]
    assert key({**first, "tools": marked}) == key({**first, "tools": moved})
    assert key({**first, "tools": marked}) != key({**first, "tools": marked[:1]})


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
    """Codex sends its session in headers with underscores."""
    one = sticky_key(b'{"input": "a"}', RESPONSES, {"session_id": "s"})
    assert one == sticky_key(b'{"input": "b"}', RESPONSES, {"session_id": "s"})


def test_the_previous_response_comes_first() -> None:
    """Nothing binds a request to an account more than the response that it continues."""
    body = {"previous_response_id": "resp_1", "prompt_cache_key": "k", "input": "x"}
    assert key(body, RESPONSES) == response_key("resp_1")


def test_a_parsed_body_works_too() -> None:
    """Callers that have parsed the body need not encode it again."""
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
        b'{"messages": [{"type": "x", "role": "system"}, {"role": "system", "content": 5}, {"role": []}]}',
        b'{"input": [{"role": "system"}, {"role": "user", "content": [null, 1, {"type": [], "text": 3}]}], "tools": 7}',
        b'{"input": ' + b"[" * 100_000,
        b'{"system": "\xff"}',
    ],
)
@pytest.mark.parametrize("protocol", Protocol)
def test_nothing_to_go_by_is_no_error(protocol: Protocol, body: bytes) -> None:
    """A request without a key is not an error here: the codec reports what is wrong with it."""
    assert isinstance(sticky_key(body, protocol, {}), str)


def test_keys_do_not_reveal_names() -> None:
    """Keys are written to disk, so they must not reveal names."""
    assert "alice" not in key({"metadata": {"user_id": "alice@example.org"}, "messages": [FIRST]})
    assert len(key({"user": "x" * 10_000}, CHAT)) == 32


def test_the_least_recently_used_conversation_is_forgotten() -> None:
    """The number of conversations in memory is limited."""
    known = Stickiness(limit=3)
    for name in "abc":
        known.bind(name, "account")
    assert known.find("a") == "account"
    known.bind("d", "account")
    assert known.find("b") is None
    assert known.find("a") == "account"
    assert len(known) == 3


def session_of(body: dict[str, Any], **headers: str) -> str:
    return cache_session(json.dumps(body).encode(), {name.replace("_", "-"): value for name, value in headers.items()})


@pytest.mark.parametrize("protocol", Protocol)
def test_a_cache_session_is_the_same_in_all_turns(protocol: Protocol) -> None:
    """Also in a chain of stored responses, whose sticky key changes with every turn."""
    first, later = OPENINGS[protocol]
    assert session_of(first)
    assert session_of(first) == session_of({**later, "previous_response_id": "resp_1"})


@pytest.mark.parametrize(
    "user", ["user_0f_account_1_session_s-1", '{"device_id":"d","session_id":"s-1"}', '{"session_id": "s-1", "a": 1}']
)
def test_the_session_of_claude_code_is_found_in_its_user(user: str) -> None:
    found = session_of({"metadata": {"user_id": user}, "messages": [FIRST]})
    assert found == session_of({"messages": [MORE]}, x_claude_code_session_id="s-1")


def test_agents_of_a_session_have_caches_of_their_own() -> None:
    names = [
        session_of({}, session_id="s"),
        session_of({}, session_id="s", x_claude_code_agent_id="a"),
        session_of({}, session_id="t"),
    ]
    assert len(set(names)) == 3


def test_a_plain_user_is_no_session() -> None:
    """The beginning of the conversation says more."""
    body = {"metadata": {"user_id": "u1"}, "user": "u1"}
    assert session_of({**body, "messages": [FIRST]}) != session_of({**body, "messages": [MORE]})


def test_no_session_for_a_client_with_a_key() -> None:
    assert session_of({"prompt_cache_key": "k", "messages": [FIRST]}) == ""
    assert session_of({"prompt_cache_key": "k", "messages": [FIRST]}, session_id="s") == ""
    assert session_of({"prompt_cache_key": None, "messages": [FIRST]}, session_id="s") == session_of({}, session_id="s")
    assert session_of({"messages": []}) == ""
    assert cache_session(b"{", {}) == ""
