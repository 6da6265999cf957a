"""Requests of the protocol in every form that clients send."""

from typing import Any

import pytest

from trilogue.errors import BadRequest
from trilogue.model import (
    Document,
    HostedCall,
    HostedKind,
    HostedResult,
    Image,
    Native,
    OpaqueKind,
    Reasoning,
    Refusal,
    Role,
    SourceKind,
    Text,
    ToolCall,
    ToolResult,
    Turn,
)
from trilogue.protocols.responses.request import decode_request


def turns(*items: Any) -> tuple[Turn, ...]:
    return decode_request({"model": "m", "input": list(items)}).turns


def block(*items: Any) -> Any:
    (turn,) = turns(*items)
    (only,) = turn.blocks
    return only


def test_string_input_is_one_user_turn() -> None:
    """The simplest request there is."""
    request = decode_request({"model": "m", "input": "hi"})
    (turn,) = request.turns
    assert (turn.role, turn.plain, turn.path) == (Role.USER, True, "input")
    assert turn.blocks == (Text(text="hi", path="input"),)


def test_instructions_lead() -> None:
    """They stand outside the conversation, and other protocols must be able to tell."""
    request = decode_request({"model": "m", "instructions": "be kind", "input": []})
    (turn,) = request.turns
    assert (turn.role, turn.leading, turn.path) == (Role.SYSTEM, True, "instructions")


@pytest.mark.parametrize("role", ["user", "assistant", "system", "developer"])
def test_message_may_lack_its_type(role: str) -> None:
    """Most recorded requests leave `type` out."""
    (turn,) = turns({"role": role, "content": "x"})
    assert turn.role.value == role
    assert turn.blocks == (Text(text="x", path="input[0].content"),)


def test_output_message_keeps_id_status_and_phase() -> None:
    """Newer models get worse when their own marks do not come back."""
    item = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "phase": "commentary",
        "content": [{"type": "output_text", "text": "a", "annotations": []}, {"type": "refusal", "refusal": "no"}],
    }
    (turn,) = turns(item)
    assert (turn.id, turn.status, turn.phase) == ("msg_1", "completed", "commentary")
    assert turn.blocks == (
        Text(text="a", path="input[0].content[0]"),
        Refusal(text="no", path="input[0].content[1]"),
    )


def test_images_and_files() -> None:
    """Every way to give media has its own source kind."""
    parts = [
        {"type": "input_image", "image_url": "https://x/y.png", "detail": "low"},
        {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
        {"type": "input_image", "file_id": "file-1"},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,BBBB"},
        {"type": "input_file", "file_url": "https://x/a.pdf"},
    ]
    (turn,) = turns({"role": "user", "content": parts})
    kinds = [part.source.kind for part in turn.blocks if isinstance(part, (Image, Document)) and part.source]
    expected = [SourceKind.URL, SourceKind.DATA, SourceKind.FILE_ID, SourceKind.DATA, SourceKind.URL]
    assert kinds == expected
    data = turn.blocks[3]
    assert isinstance(data, Document)
    assert data.source is not None
    assert (data.title, data.source.media_type, data.source.value) == ("a.pdf", "application/pdf", "BBBB")


def test_cache_breakpoint_becomes_a_mark() -> None:
    """Marks must survive into protocols that have them under another name."""
    part = {"type": "input_text", "text": "x", "prompt_cache_breakpoint": {"mode": "explicit", "ttl": "12h"}}
    text = block({"role": "user", "content": [part]})
    assert text.cache.ttl == 43_200
    assert text.extras is None


def test_function_call_and_output() -> None:
    """Arguments stay the string the model wrote."""
    call, result = (
        turn.blocks[0]
        for turn in turns(
            {"type": "function_call", "call_id": "c1", "id": "fc_1", "name": "f", "arguments": "{ }", "namespace": "n"},
            {"type": "function_call_output", "call_id": "c1", "output": "42"},
        )
    )
    assert isinstance(call, ToolCall)
    assert (call.id, call.item_id, call.arguments, call.namespace) == ("c1", "fc_1", "{ }", "n")
    assert isinstance(result, ToolResult)
    assert result.plain
    assert result.content == (Text(text="42", path="input[1].output"),)


def test_output_parts_and_error_status() -> None:
    """An incomplete output is how a failed tool looks here."""
    parts = [{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": "https://x/y.png"}]
    item = {"type": "function_call_output", "call_id": "c", "output": parts, "status": "incomplete"}
    result = block(item)
    assert result.is_error is True
    assert [type(part) for part in result.content] == [Text, Image]


def test_custom_tool_items() -> None:
    """Free text is not arguments."""
    call, result = (
        turn.blocks[0]
        for turn in turns(
            {"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": "*** Begin"},
            {"type": "custom_tool_call_output", "call_id": "c", "output": "ok"},
        )
    )
    assert isinstance(call, ToolCall)
    assert (call.kind.value, call.arguments) == ("custom", "*** Begin")
    assert isinstance(result, ToolResult)
    assert result.kind.value == "custom"


def test_reasoning_keeps_summary_raw_and_encrypted_apart() -> None:
    """A summary is for people, raw text is not, and the blob belongs to its item."""
    item = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "s"}],
        "content": [{"type": "reasoning_text", "text": "r"}],
        "encrypted_content": "blob",
    }
    reasoning = block(item)
    assert isinstance(reasoning, Reasoning)
    assert (reasoning.summary, reasoning.raw) == (("s",), ("r",))
    assert reasoning.opaque is not None
    assert (reasoning.opaque.kind, reasoning.opaque.value, reasoning.opaque.item_id) == (
        OpaqueKind.ENCRYPTED,
        "blob",
        "rs_1",
    )


def test_web_search_is_call_and_result() -> None:
    """Other protocols have two blocks for it."""
    sources = [{"type": "url", "url": "https://a"}]
    item = {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"type": "search", "query": "q", "sources": sources},
    }
    (turn,) = turns(item)
    call, result = turn.blocks
    assert isinstance(call, HostedCall)
    assert (call.tool, call.input, call.native) == (HostedKind.WEB_SEARCH, '{"query":"q"}', item)
    assert isinstance(result, HostedResult)
    assert [hit.url for hit in result.hits] == ["https://a"]


@pytest.mark.parametrize(
    ("item", "kind", "given", "said"),
    [
        (
            {"type": "code_interpreter_call", "id": "ci", "code": "1", "outputs": [{"type": "logs", "logs": "x"}]},
            HostedKind.CODE,
            '{"code":"1"}',
            "x",
        ),
        (
            {"type": "mcp_call", "id": "m", "name": "t", "server_label": "s", "arguments": "{}", "output": "o"},
            HostedKind.MCP,
            "{}",
            "o",
        ),
    ],
)
def test_other_hosted_items(item: dict[str, Any], kind: HostedKind, given: str, said: str) -> None:
    """Code and MCP have counterparts elsewhere, so that their input and output must be readable."""
    (turn,) = turns(item)
    call, result = turn.blocks
    assert isinstance(call, HostedCall)
    assert (call.tool, call.input) == (kind, given)
    assert isinstance(result, HostedResult)
    assert result.text == said


@pytest.mark.parametrize(
    "item",
    [
        {"type": "computer_call", "id": "c", "call_id": "x", "pending_safety_checks": []},
        {"type": "shell_call", "call_id": "x", "action": {"commands": ["ls"]}},
        {"type": "apply_patch_call", "call_id": "x", "operation": {}},
        {"type": "compaction", "encrypted_content": "blob"},
        {"type": "item_reference", "id": "msg_1"},
        {"type": "configuration_update", "reasoning": {"effort": "low"}},
        {"type": "some_future_type", "a": 1},
    ],
)
def test_natives_stay_whole(item: dict[str, Any]) -> None:
    """What has no counterpart must at least go back unchanged."""
    native = block(item)
    assert isinstance(native, Native)
    assert (native.type, native.data) == (item["type"], item)


def test_item_reference_without_type() -> None:
    """The protocol allows a bare id."""
    assert block({"id": "rs_1"}).type == "item_reference"


def test_additional_tools_join_the_tools() -> None:
    """They are offers, not turns; the position is kept for protocols that can say it."""
    tool = {"type": "function", "name": "late"}
    request = decode_request(
        {
            "model": "m",
            "instructions": "i",
            "input": [
                {"role": "user", "content": "x"},
                {"type": "additional_tools", "role": "developer", "tools": [tool]},
            ],
        }
    )
    assert len(request.turns) == 2
    (late,) = request.tools
    assert (late.added_at, late.path) == (2, "input[1].tools[0]")


def test_controls() -> None:
    """Each control has a neutral field, whatever it is called here."""
    request = decode_request(
        {
            "model": "m",
            "max_output_tokens": 99,
            "temperature": 0.5,
            "top_logprobs": 2,
            "include": ["message.output_text.logprobs", "reasoning.encrypted_content"],
            "reasoning": {"effort": "xhigh", "summary": "auto"},
            "text": {"verbosity": "low", "format": {"type": "json_schema", "name": "n", "schema": {}, "strict": True}},
            "prompt_cache_key": "k",
            "service_tier": "flex",
            "safety_identifier": "u",
            "metadata": {"a": "b"},
            "store": False,
            "previous_response_id": "resp_0",
            "stream_options": {"include_obfuscation": False},
            "truncation": "auto",
        }
    )
    assert request.sampling.max_tokens == 99
    assert request.sampling.logprobs is True
    assert request.thinking is not None
    assert (request.thinking.effort, request.thinking.visibility) == ("xhigh", "auto")
    assert request.format is not None
    assert (request.format.kind, request.format.strict) == ("schema", True)
    assert request.caching is not None
    assert request.caching.key == "k"
    assert (request.tier, request.user, request.store) == ("flex", "u", False)
    assert request.previous_response == "resp_0"
    assert request.obfuscation is False
    assert request.extras == {"truncation": "auto"}
    assert request.where("max_tokens") == "max_output_tokens"
    assert request.where("previous_response") == "previous_response_id"


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"input": 3}, "input"),
        ({"input": [3]}, "input[0]"),
        ({"input": [{"role": "robot", "content": "x"}]}, "input[0].role"),
        ({"input": [{"content": "x"}]}, "input[0].type"),
        ({"input": [{"role": "user", "content": 3}]}, "input[0].content"),
        ({"temperature": "hot"}, "temperature"),
        ({"reasoning": {"effort": 3}}, "reasoning.effort"),
        ({"tool_choice": "maybe"}, "tool_choice"),
        ({"tools": [{"type": "function"}]}, "tools[0].name"),
    ],
)
def test_mistakes_are_named_by_path(body: dict[str, Any], path: str) -> None:
    """A client must be told what to change."""
    with pytest.raises(BadRequest) as caught:
        decode_request({"model": "m", **body})
    assert caught.value.path == path
