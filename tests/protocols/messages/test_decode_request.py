from typing import Any

import pytest

from tests.protocols.messages.wire_samples import native, without_nulls
from trilogue.errors import BadRequest
from trilogue.model import (
    CacheMark,
    Caching,
    ChoiceMode,
    Effort,
    FormatKind,
    FunctionTool,
    Role,
    Text,
    ThinkingMode,
    Tier,
)
from trilogue.protocols.messages import CODEC

decode_request = CODEC.decode_request


def body(**fields: Any) -> dict[str, Any]:
    return {"model": "claude-opus-5", "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}], **fields}


def test_system_is_a_leading_turn() -> None:
    """A prompt outside the conversation is still the first turn, and says that it stood outside."""
    plain = decode_request(body(system="be brief")).turns[0]
    assert (plain.role, plain.leading, plain.plain, plain.path) == (Role.SYSTEM, True, True, "system")
    blocks = decode_request(body(system=[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])).turns[0]
    assert [block.path for block in blocks.blocks] == ["system[0]", "system[1]"]


def test_system_role_inside_the_conversation() -> None:
    """Newer models take prompts anywhere; its place must be known."""
    request = decode_request(
        body(messages=[{"role": "user", "content": "a"}, {"role": "system", "content": "b", "clear_at": "never"}])
    )
    assert [turn.role for turn in request.turns] == [Role.USER, Role.SYSTEM]
    assert not request.turns[1].leading
    assert request.turns[1].extras == {"clear_at": "never"}


def test_cache_marks_and_their_lifetimes() -> None:
    """An absent lifetime is the provider's default, not five minutes."""

    def mark(**ttl: str) -> CacheMark | None:
        block = {"type": "text", "text": "x", "cache_control": {"type": "ephemeral", **ttl}}
        return decode_request(body(messages=[{"role": "user", "content": [block]}])).turns[0].blocks[0].cache

    assert mark() == CacheMark(None)
    assert mark(ttl="5m") == CacheMark(300)
    assert mark(ttl="1h") == CacheMark(3600)


def test_automatic_caching() -> None:
    """A mark at the top level belongs to the request as a whole."""
    request = decode_request(body(cache_control={"type": "ephemeral", "ttl": "1h"}))
    assert request.caching == Caching(automatic=CacheMark(3600))
    assert request.where("caching") == "cache_control"


def test_thinking_and_effort() -> None:
    """Two places on the wire, one neutral field."""
    request = decode_request(
        body(thinking={"type": "enabled", "budget_tokens": 2048, "display": "omitted"}, output_config={"effort": "max"})
    )
    assert request.thinking is not None
    assert request.thinking.mode is ThinkingMode.BUDGET
    assert (request.thinking.budget, request.thinking.visibility) == (2048, "omitted")
    assert request.thinking.effort is Effort.MAX


def test_output_schema_under_its_new_and_old_name() -> None:
    """`output_format` has moved, and recorded clients still send it."""
    schema = {"type": "object", "properties": {}}
    for fields in (
        {"output_config": {"format": {"type": "json_schema", "schema": schema}}},
        {"output_format": {"type": "json_schema", "schema": schema}},
    ):
        output = decode_request(body(**fields)).format
        assert output is not None
        assert (output.kind, output.schema) == (FormatKind.SCHEMA, schema)


def test_what_is_not_understood_stays_by_its_dotted_path() -> None:
    """A nested field without a neutral name must be found again by whoever declares it."""
    request = decode_request(
        body(
            output_config={"effort": "low", "task_budget": {"type": "tokens", "total": 5}},
            thinking={"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}},
            metadata={"user_id": "u", "team": "x"},
            context_management={"edits": []},
            betas=["a"],
        )
    )
    assert request.extras is not None
    assert set(request.extras) == {
        "output_config.task_budget",
        "thinking.block_binding",
        "metadata.team",
        "context_management",
        "betas",
    }


@pytest.mark.parametrize(
    ("fields", "tier", "path"),
    [
        ({"service_tier": "auto"}, Tier.AUTO, "service_tier"),
        ({"service_tier": "standard_only"}, Tier.DEFAULT, "service_tier"),
        ({"speed": "fast"}, Tier.FAST, "speed"),
        ({"speed": "standard"}, None, "service_tier"),
        ({"service_tier": "new"}, None, "service_tier"),
    ],
)
def test_tiers(fields: dict[str, str], tier: Tier | None, path: str) -> None:
    """Two fields say how fast the answer should come."""
    request = decode_request(body(**fields))
    assert request.tier is tier
    assert request.where("tier") == path


def test_identity_stops_and_stream() -> None:
    """The small fields, each under its neutral name."""
    request = decode_request(body(metadata={"user_id": "u1"}, stop_sequences=["a"], stream=True, top_k=5))
    assert request.user == "u1"
    assert request.sampling.stop == ("a",)
    assert request.sampling.top_k == 5
    assert request.stream


def test_tool_choice_says_parallel_too() -> None:
    """One object on the wire, two neutral fields."""
    request = decode_request(body(tool_choice={"type": "any", "disable_parallel_tool_use": True}))
    assert request.tool_choice is not None
    assert request.tool_choice.mode is ChoiceMode.REQUIRED
    assert request.parallel_tools is False


def test_a_tool_defined_inside_the_conversation() -> None:
    """It is a tool like others, with the turn from which on it was there."""
    definition = {"name": "late", "input_schema": {"type": "object"}}
    addition = {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": definition}}
    request = decode_request(
        body(messages=[{"role": "user", "content": "a"}, {"role": "system", "content": [addition]}])
    )
    (tool,) = request.tools
    assert isinstance(tool, FunctionTool)
    assert (tool.name, tool.added_at) == ("late", 1)


@pytest.mark.parametrize(
    ("wrong", "path"),
    [
        ({"messages": None}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"text": "x"}]}]}, "messages[0].content[0].type"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text"),
        ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "messages[0].content[0].source"),
        ({"max_tokens": "many"}, "max_tokens"),
        ({"stop_sequences": [1]}, "stop_sequences"),
        ({"tools": [{"input_schema": {}}]}, "tools[0].name"),
        ({"tool_choice": {"type": "some"}}, "tool_choice.type"),
        ({"tool_choice": {"type": "tool"}}, "tool_choice.name"),
        ({"output_config": {"format": {"type": "xml"}}}, "output_config.format"),
    ],
)
def test_a_wrong_request_names_the_place(wrong: dict[str, Any], path: str) -> None:
    """The caller must be able to find the mistake."""
    with pytest.raises(BadRequest) as caught:
        decode_request(body(**wrong))
    assert caught.value.path == path


def test_a_body_without_model_or_limit_is_one_of_another_transport() -> None:
    """Bedrock names the model in the URL; a token count has no output limit."""
    request = decode_request(
        {"messages": [{"role": "user", "content": "x"}], "anthropic_version": "bedrock-2023-05-31"}
    )
    assert (request.model, request.sampling.max_tokens) == ("", None)
    assert request.turns[0].blocks == (Text(text="x", path="messages[0].content"),)


def test_everything_comes_back() -> None:
    """The same protocol on both sides loses nothing."""
    given = body(
        system=[{"type": "text", "text": "s", "cache_control": {"type": "ephemeral", "scope": "global"}}],
        messages=[
            {"role": "user", "content": "a"},
            {"role": "system", "content": "b", "clear_at": "never"},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "", "signature": ""}]},
        ],
        thinking={"type": "adaptive", "display": "updates", "block_binding": {"x": 1}},
        output_config={"effort": "ultra", "task_budget": {"type": "tokens", "total": 5}},
        metadata={"user_id": "u", "team": "x"},
        cache_control={"type": "ephemeral", "scope": "global"},
        speed="standard",
        service_tier="auto",
        tool_choice={"type": "auto", "disable_parallel_tool_use": False},
        tools=[{"name": "f", "defer_loading": False, "strict": False, "input_examples": [{}]}],
        mcp_servers=[{"type": "url", "name": "s", "url": "https://x"}],
        temperature=0.5,
        top_p=0.9,
        container={"id": "c", "skills": []},
        unheard_of=[1, {"a": None}],
    )
    written, losses = native(given)
    assert without_nulls(written) == without_nulls(given)
    assert not losses
