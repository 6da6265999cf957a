import pytest

from tests.protocols.messages.wire_samples import BUDGET, MODERN, encode, foreign, turn, user
from trilogue.errors import Unsupported
from trilogue.model import (
    HostedCall,
    HostedKind,
    HostedResult,
    HostedTool,
    Image,
    Opaque,
    OpaqueKind,
    Protocol,
    Reasoning,
    Role,
    SearchHit,
    Source,
    SourceKind,
    Text,
    ToolCall,
    ToolResult,
)
from trilogue.protocols.messages.request import extra_headers


def text(value: str) -> Text:
    return Text(text=value, path="p")


def call(name: str) -> ToolCall:
    return ToolCall(id=name, name="f", arguments="{}")


def result(name: str) -> ToolResult:
    return ToolResult(call_id=name, content=(Text(text="r"),), plain=True)


def roles(body: dict[str, list[dict[str, str]]]) -> list[str]:
    return [message["role"] for message in body["messages"]]


def types(message: dict[str, list[dict[str, str]]]) -> list[str]:
    return [block["type"] for block in message["content"]]


def test_leading_prompts_become_system_blocks() -> None:
    """One block per message, in order; the second prompt role is merged."""
    body, losses = encode(
        foreign(turn(Role.SYSTEM, text("a")), turn(Role.DEVELOPER, text("b"), path="messages[1]"), user())
    )
    assert body["system"] == [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert roles(body) == ["user"]
    assert losses == ["role.developer_merged"]


def test_a_prompt_in_mid_conversation_keeps_its_place_where_it_can() -> None:
    """Models without that role get it as text of the user."""
    request = foreign(user(), turn(Role.SYSTEM, text("s"), path="messages[1]"))
    body, losses = encode(request, MODERN)
    assert roles(body) == ["user", "system"]
    assert not losses
    body, losses = encode(request, BUDGET)
    assert roles(body) == ["user"]
    assert body["messages"][0]["content"][-1] == {"type": "text", "text": "s"}
    assert "system" not in body
    assert losses == ["system.as_user"]


def test_a_prompt_after_an_assistant_turn_is_said_by_the_user() -> None:
    """The API takes it only after a user turn."""
    request = foreign(
        user(), turn(Role.ASSISTANT, text("a")), turn(Role.SYSTEM, text("s"), path="messages[2]"), user("u")
    )
    body, losses = encode(request)
    assert roles(body) == ["user", "assistant", "user"]
    assert [block["text"] for block in body["messages"][2]["content"]] == ["s", "u"]
    assert losses == ["system.as_user"]


def test_a_prompt_among_tool_results_follows_them() -> None:
    """Nothing may stand between calls and their results."""
    body, losses = encode(
        foreign(
            user(),
            turn(Role.ASSISTANT, call("a"), call("b")),
            turn(Role.TOOL, result("a")),
            turn(Role.SYSTEM, text("s")),
            turn(Role.TOOL, result("b")),
        )
    )
    assert roles(body) == ["user", "assistant", "user", "system"]
    assert types(body["messages"][2]) == ["tool_result", "tool_result"]
    assert not losses


def test_prompts_are_text() -> None:
    """A picture in a prompt has no form here."""
    picture = Image(source=Source(SourceKind.URL, "u"), path="p")
    with pytest.raises(Unsupported):
        encode(foreign(turn(Role.DEVELOPER, picture), user()))


def test_results_come_first_and_together() -> None:
    """All results of one assistant turn, then what the user says."""
    body, _ = encode(
        foreign(
            user(),
            turn(Role.ASSISTANT, text("t")),
            turn(Role.ASSISTANT, call("a")),
            turn(Role.ASSISTANT, call("b")),
            turn(Role.TOOL, result("a")),
            turn(Role.USER, text("and")),
            turn(Role.TOOL, result("b")),
            user("more"),
            protocol=Protocol.RESPONSES,
        )
    )
    assert roles(body) == ["user", "assistant", "user"]
    assert types(body["messages"][1]) == ["text", "tool_use", "tool_use"]
    assert types(body["messages"][2]) == ["tool_result", "tool_result", "text", "text"]


def test_the_conversation_begins_and_ends_with_the_user() -> None:
    """The API refuses the first, so that a user turn is put in front, and would continue the last."""
    for turns in ((), (turn(Role.SYSTEM, text("a")),)):
        body, losses = encode(foreign(*turns, turn(Role.ASSISTANT, text("a")), user()))
        assert roles(body) == ["user", "assistant", "user"]
        assert losses == ["turn.inserted"]
    with pytest.raises(Unsupported, match="begin with a user turn"):
        encode(foreign(turn(Role.SYSTEM, text("a"))))
    with pytest.raises(Unsupported) as caught:
        encode(foreign(user(), turn(Role.ASSISTANT, text("a"), path="messages[1]")))
    assert (caught.value.path, caught.value.code) == ("messages[1]", "prefill")


def test_a_turn_never_ends_with_thinking() -> None:
    """Reasoning whose answer is gone goes with it."""
    alone = Reasoning(summary=("hm",), opaque=Opaque(kind=OpaqueKind.SIGNATURE, value="S"))
    body, losses = encode(foreign(user(), turn(Role.ASSISTANT, alone), user("u")))
    assert roles(body) == ["user", "user"]
    assert losses == ["reasoning.foreign_dropped"]


def test_names_are_declared_and_phases_are_not() -> None:
    """Marks on messages that this protocol has no place for; a phase is on most turns, and nobody can act on it."""
    _, losses = encode(
        foreign(
            turn(Role.USER, text("u"), name="ann"),
            turn(Role.ASSISTANT, text("a"), phase="commentary"),
            user("u"),
        )
    )
    assert losses == ["message.name"]


SEARCH = HostedCall(id="srvtoolu_1", tool=HostedKind.WEB_SEARCH, input='{"query":"q"}', path="c")


def test_a_search_comes_back_with_its_results() -> None:
    """The results carry the provider's own tokens by now."""
    hit = SearchHit(url="u", title="t", content=Opaque(kind=OpaqueKind.SEARCH, value="E"))
    found = HostedResult(call_id="srvtoolu_1", tool=HostedKind.WEB_SEARCH, hits=(hit,), path="r")
    body, losses = encode(foreign(user(), turn(Role.ASSISTANT, SEARCH, found, text("a")), user("u")))
    assert types(body["messages"][1]) == ["server_tool_use", "web_search_tool_result", "text"]
    assert not losses


def test_a_result_without_call_is_dropped() -> None:
    """The API would refuse it."""
    found = HostedResult(call_id="srvtoolu_1", tool=HostedKind.WEB_SEARCH, path="r")
    body, losses = encode(foreign(user(), turn(Role.ASSISTANT, found, text("a")), user("u")))
    assert types(body["messages"][1]) == ["text"]
    assert losses == ["hosted.result_dropped"]


def test_mcp_history_needs_its_server() -> None:
    """With the server it is replayed, without it is told."""
    ran = HostedCall(id="mcp_1", tool=HostedKind.MCP, name="f", server="s", input='{"a":1}', path="c")
    got = HostedResult(call_id="mcp_1", tool=HostedKind.MCP, text="ok", path="r")
    turns = (user(), turn(Role.ASSISTANT, ran, got), user("u"))
    server = HostedTool(
        kind=HostedKind.MCP, native={}, type="mcp", server_label="s", server_url="https://s", approval="never"
    )
    body, losses = encode(foreign(*turns, tools=(server,)))
    assert types(body["messages"][1]) == ["mcp_tool_use", "mcp_tool_result"]
    assert not losses
    body, losses = encode(foreign(*turns))
    assert body["messages"][1]["content"] == [{"type": "text", "text": '[s.f {"a":1}] ok'}]
    assert losses == ["hosted.history_as_text"]


def test_stream_is_asked_for() -> None:
    """The client's wish to stream is the upstream's, too."""
    assert encode(foreign(stream=True))[0]["stream"] is True


@pytest.mark.parametrize(
    ("body", "betas"),
    [
        ({"messages": []}, None),
        ({"mcp_servers": [{}], "tools": [{"type": "mcp_toolset"}]}, "mcp-client-2025-11-20"),
        ({"speed": "fast"}, "fast-mode-2026-02-01"),
        ({"speed": "standard"}, None),
        ({"output_config": {"task_budget": {"total": 1}}}, "task-budgets-2026-03-13"),
        (
            {"context_management": {"edits": []}, "tools": [{"type": "computer_20250124"}, {"name": "f"}]},
            "context-management-2025-06-27,computer-use-2025-01-24",
        ),
    ],
)
def test_headers_that_a_body_needs(body: dict[str, object], betas: str | None) -> None:
    """A beta field without its header is refused by the API."""
    assert extra_headers(body).get("anthropic-beta") == betas
