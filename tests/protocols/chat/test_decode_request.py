"""Requests, read."""

from typing import Any

import pytest

from trilogue.errors import BadRequest, TrilogueError
from trilogue.model import (
    Audio,
    CacheMark,
    CallKind,
    Document,
    Effort,
    FormatKind,
    HostedKind,
    HostedTool,
    Image,
    Native,
    Reasoning,
    Refusal,
    Request,
    Role,
    SourceKind,
    Text,
    Thinking,
    ThinkingMode,
    Tier,
    ToolCall,
    ToolResult,
)
from trilogue.protocols.chat import CODEC

USER = {"role": "user", "content": "hi"}


def read(*messages: Any, **fields: Any) -> Request:
    return CODEC.decode_request({"model": "m", "messages": list(messages or (USER,)), **fields})


def test_plain_messages_know_their_path() -> None:
    """Losses and errors point into the client's own document."""
    turns = read({"role": "system", "content": "be brief"}, {"role": "developer", "content": "x"}, USER).turns
    assert [turn.role for turn in turns] == [Role.SYSTEM, Role.DEVELOPER, Role.USER]
    assert turns[2].blocks == (Text(text="hi", path="messages[2].content"),)
    assert turns[2].plain
    assert turns[2].path == "messages[2]"


def test_parts() -> None:
    """Every kind of part has its block; what the model does not know stays whole."""
    parts = [
        {"type": "text", "text": "a", "prompt_cache_breakpoint": {"mode": "explicit", "ttl": "12h"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD", "detail": "low"}},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        {"type": "input_audio", "input_audio": {"data": "QUJD", "format": "wav"}},
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,QUJD", "filename": "a.pdf"}},
        {"type": "file", "file": {"file_id": "file-1"}},
        {"type": "video_url", "video_url": {"url": "https://example.org/a.mp4"}},
    ]
    text, data, link, audio, pdf, file, video = read({"role": "user", "content": parts}).turns[0].blocks
    assert isinstance(text, Text)
    assert text.cache == CacheMark(43_200)
    assert isinstance(data, Image)
    assert (data.source.kind, data.source.value, data.source.media_type) == (SourceKind.DATA, "QUJD", "image/png")
    assert data.detail == "low"
    assert isinstance(link, Image)
    assert link.source.kind is SourceKind.URL
    assert isinstance(audio, Audio)
    assert audio.format == "wav"
    assert isinstance(pdf, Document)
    assert pdf.source is not None
    assert (pdf.title, pdf.source.media_type) == ("a.pdf", "application/pdf")
    assert isinstance(file, Document)
    assert file.source is not None
    assert file.source.kind is SourceKind.FILE_ID
    assert isinstance(video, Native)
    assert video.data == parts[6]
    assert video.path == "messages[0].content[6]"


@pytest.mark.parametrize(("mark", "ttl"), [({"ttl": "30m"}, 1800), ({}, None)])
def test_cache_marks(mark: dict[str, str], ttl: int | None) -> None:
    """Lifetimes are seconds."""
    part = {"type": "text", "text": "a", "prompt_cache_breakpoint": {"mode": "explicit", **mark}}
    assert read({"role": "user", "content": [part]}).turns[0].blocks[0].cache == CacheMark(ttl)


def test_cache_control_is_a_mark_too() -> None:
    """Compatible servers take the mark of Messages; it is worth as much to another upstream."""
    part = {"type": "text", "text": "a", "cache_control": {"type": "ephemeral", "ttl": "1h"}}
    block = read({"role": "user", "content": [part]}).turns[0].blocks[0]
    assert block.cache == CacheMark(3600)
    assert block.extras == {"cache_control": {"type": "ephemeral", "ttl": "1h"}}


def test_assistant_message() -> None:
    """Reasoning first, then words, then calls: the order in which they were made."""
    message = {
        "role": "assistant",
        "content": "let me see",
        "reasoning_content": "hm",
        "refusal": "no",
        "audio": {"id": "a1"},
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}, "index": 0},
            {"id": "c2", "type": "custom", "custom": {"name": "g", "input": "free"}},
            {"type": "function", "function": {"name": "h", "arguments": {"b": 2}}},
        ],
    }
    reasoning, text, refusal, audio, first, second, third = read(message).turns[0].blocks
    assert isinstance(reasoning, Reasoning)
    assert reasoning.raw == ("hm",)
    assert isinstance(text, Text)
    assert isinstance(refusal, Refusal)
    assert isinstance(audio, Audio)
    assert audio.id == "a1"
    assert isinstance(first, ToolCall)
    assert (first.arguments, first.extras) == ('{"a": 1}', {"index": 0})
    assert isinstance(second, ToolCall)
    assert (second.kind, second.arguments) == (CallKind.CUSTOM, "free")
    assert isinstance(third, ToolCall)
    assert third.id
    assert third.arguments == '{"b":2}'


def test_tool_result() -> None:
    """One turn per message, with the words of the tool as blocks."""
    turn = read({"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "ok"}]}).turns[0]
    result = turn.blocks[0]
    assert isinstance(result, ToolResult)
    assert (result.call_id, result.plain) == ("c1", False)
    assert result.content[0].path == "messages[0].content[0]"


def test_deprecated_functions_are_tools() -> None:
    """A call and its result, which have no ids, get the same one."""
    request = read(
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "ok"},
        functions=[{"name": "f", "parameters": {"type": "object"}}],
        function_call={"name": "f"},
    )
    call, result = request.turns[0].blocks[0], request.turns[1].blocks[0]
    assert isinstance(call, ToolCall)
    assert isinstance(result, ToolResult)
    assert call.id == result.call_id != ""
    assert request.tools[0].path == "functions[0]"
    assert request.tool_choice is not None
    assert request.tool_choice.tool is not None
    assert request.tool_choice.tool.name == "f"


def test_controls() -> None:
    """Settings under their neutral names, with the wire name where it is another."""
    request = read(
        max_completion_tokens=5,
        n=2,
        stop="END",
        reasoning_effort="xhigh",
        verbosity="low",
        service_tier="flex",
        prompt_cache_key="k",
        prompt_cache_options={"mode": "explicit"},
        safety_identifier="u",
        response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": {}, "strict": True}},
        stream=True,
        stream_options={"include_usage": True, "include_obfuscation": False},
        parallel_tool_calls=False,
        logit_bias={"5": 1},
    )
    assert request.sampling.max_tokens == 5
    assert request.where("max_tokens") == "max_completion_tokens"
    assert request.sampling.choices == 2
    assert request.sampling.stop == ("END",)
    assert request.thinking == Thinking(effort=Effort.XHIGH)
    assert request.tier is Tier.FLEX
    assert request.caching is not None
    assert request.caching.key == "k"
    assert request.user == "u"
    assert request.format is not None
    assert (request.format.kind, request.format.strict) == (FormatKind.SCHEMA, True)
    assert (request.stream, request.include_usage, request.obfuscation) == (True, True, False)
    assert request.parallel_tools is False
    assert request.extras is None


@pytest.mark.parametrize(
    ("fields", "thinking"),
    [
        ({"reasoning": {"effort": "low"}}, Thinking(effort=Effort.LOW)),
        ({"reasoning": {"max_tokens": 9}}, Thinking(mode=ThinkingMode.BUDGET, budget=9)),
        (
            {"reasoning": {"enabled": True, "exclude": True}},
            Thinking(mode=ThinkingMode.ADAPTIVE, visibility="omitted"),
        ),
        ({"thinking": {"type": "disabled"}}, Thinking(mode=ThinkingMode.DISABLED)),
        ({"thinking": {"type": "enabled", "budget_tokens": 7}}, Thinking(mode=ThinkingMode.BUDGET, budget=7)),
        ({"enable_thinking": False}, Thinking(mode=ThinkingMode.DISABLED)),
    ],
)
def test_reasoning_controls_of_compatible_servers(fields: dict[str, Any], thinking: Thinking) -> None:
    """Each spelling means something to other protocols."""
    request = read(**fields)
    assert request.thinking == thinking
    assert request.where("thinking") == next(iter(fields))


def test_web_search_is_a_hosted_tool() -> None:
    """The one hosted tool of this protocol is offered by a field of its own."""
    where = {"type": "approximate", "approximate": {"city": "Bern", "country": "CH"}}
    tool = read(web_search_options={"search_context_size": "low", "user_location": where}).tools[0]
    assert isinstance(tool, HostedTool)
    assert tool.kind is HostedKind.WEB_SEARCH
    assert tool.context_size == "low"
    assert tool.location is not None
    assert tool.location.city == "Bern"


def test_unknown_fields_stay() -> None:
    """What has no neutral field is an extra; null is nothing."""
    assert read(provider={"order": ["x"]}, user=None, prediction={"type": "content"}).extras == {
        "provider": {"order": ["x"]},
        "prediction": {"type": "content"},
    }


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, "messages"),
        ({"messages": "x"}, "messages"),
        ({"messages": [1]}, "messages[0]"),
        ({"messages": [{"role": "robot", "content": ""}]}, "messages[0].role"),
        ({"messages": [{"role": ["user"], "content": ""}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].tool_call_id"),
        ({"messages": [{"role": "assistant", "tool_calls": [{"id": "a"}]}]}, "messages[0].tool_calls[0].function"),
        ({"messages": [USER], "temperature": "hot"}, "temperature"),
        ({"messages": [USER], "stop": [1]}, "stop"),
        ({"messages": [USER], "tool_choice": "sometimes"}, "tool_choice"),
        ({"messages": [USER], "tools": [{"type": "function"}]}, "tools[0]"),
        ({"messages": [USER], "tools": [{"type": "function", "function": {}}]}, "tools[0].function.name"),
        ({"messages": [USER], "response_format": {"type": "json_schema"}}, "response_format.json_schema"),
    ],
)
def test_bad_requests_name_the_place(body: dict[str, Any], path: str) -> None:
    """A client must learn which field to change."""
    with pytest.raises(BadRequest) as raised:
        CODEC.decode_request({"model": "m", **body})
    assert raised.value.path == path


VALUES: list[Any] = [None, True, 0, -1.5, "", "x", [], [None], {}, {"type": "x"}, [{"type": "text"}], 10**30]


@pytest.mark.parametrize("field", sorted(CODEC.fields.known))
def test_only_our_errors_escape(field: str) -> None:
    """Whatever a field holds, the client gets an answer rather than a crash."""
    for value in VALUES:
        for body in ({field: value}, {"messages": [{"role": "assistant", "content": "x", field: value}]}):
            assert outcome({"messages": [USER], **body})


def outcome(body: dict[str, Any]) -> Request | str:
    try:
        return CODEC.decode_request(body)
    except TrilogueError as error:
        return str(error)
