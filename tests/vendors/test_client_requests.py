"""The generated client requests are the same for the same seed, valid, and contain every setting."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, get_type_hints

import pytest
from anthropic.types.beta.message_create_params import MessageCreateParamsBase
from openai.types.chat.completion_create_params import CompletionCreateParamsBase
from openai.types.responses.response_create_params import ResponseCreateParamsBase
from pydantic import TypeAdapter

from tests.vendors.client_draw import JSON, Protocol
from tests.vendors.client_requests import PROTOCOLS, client_requests, single_settings

TYPES: dict[Protocol, type] = {
    "chat": CompletionCreateParamsBase,
    "messages": MessageCreateParamsBase,
    "responses": ResponseCreateParamsBase,
}
# What clients send although today's official types do not have it.
BEYOND: dict[Protocol, set[str]] = {
    "chat": {"stream", "reasoning", "top_k"},
    "messages": {"stream", "temperature", "top_p", "top_k"},
    "responses": {"stream"},
}
# What has to be somewhere in 2000 bodies: a path, or a path with its value.
PRESENT: dict[Protocol, str] = {
    "chat": """
        reasoning_effort=none reasoning_effort=minimal reasoning_effort=low reasoning_effort=medium
        reasoning_effort=high reasoning_effort=xhigh reasoning_effort=max reasoning.effort=max reasoning.max_tokens
        reasoning.enabled temperature top_p top_k frequency_penalty presence_penalty seed logit_bias stop stop[]
        max_tokens=1 max_tokens=200000 max_completion_tokens=1 max_completion_tokens=200000
        response_format.type=json_object response_format.type=json_schema response_format.type=text
        response_format.json_schema.strict=true response_format.json_schema.strict=false
        response_format.json_schema.schema.additionalProperties=false
        response_format.json_schema.schema.properties.score.minimum
        response_format.json_schema.schema.properties.name.maxLength
        verbosity=low verbosity=high prompt_cache_key prompt_cache_retention=24h prompt_cache_retention=in_memory
        prompt_cache_options.mode=explicit service_tier=auto service_tier=default service_tier=flex
        service_tier=priority service_tier=fast n=5 logprobs=true top_logprobs store=true store=false
        metadata.user_id metadata.key_15 safety_identifier user stream=true stream=false
        stream_options.include_usage=true web_search_options prediction modalities[]=audio
        tools[].type=custom tools[].custom.format.type=grammar tools[].function.strict=true
        tools[].function.parameters.anyOf tools[].function.parameters.oneOf tools[].function.parameters.allOf
        tools[].function.parameters.properties.count.minimum tools[].function.parameters.additionalProperties=true
        tools[].function.parameters.properties.rows.items.properties.cells.items.properties.x.type
        tools[].function.parameters.$defs tool_choice=auto tool_choice=none tool_choice=required
        tool_choice.type=function tool_choice.type=custom tool_choice.type=allowed_tools
        parallel_tool_calls=true parallel_tool_calls=false
        messages[].role=system messages[].role=developer messages[].role=tool messages[].content=null
        messages[].content[].type=image_url messages[].content[].type=input_audio messages[].content[].type=file
        messages[].content[].input_audio.format=mp3 messages[].content[].image_url.detail=high
        messages[].content[].prompt_cache_breakpoint.mode=explicit messages[].content[].cache_control.ttl=1h
        messages[].tool_calls[].type=custom messages[].reasoning_content messages[].reasoning_details
    """,
    "messages": """
        thinking.type=adaptive thinking.type=enabled thinking.type=disabled thinking.type=between_tools
        thinking.budget_tokens=1024 thinking.budget_tokens=60000 thinking.display=omitted output_config.effort=low
        output_config.effort=medium output_config.effort=high output_config.effort=xhigh output_config.effort=max
        output_config.format.type=json_schema output_config.format.schema.additionalProperties=false
        output_config.format.schema.properties.score.minimum output_config.format.schema.properties.name.maxLength
        temperature top_p top_k stop_sequences[] max_tokens=1 max_tokens=200000 metadata.user_id
        service_tier=auto service_tier=standard_only speed=fast cache_control.ttl=1h cache_control.type=ephemeral
        system system[].type=text system[].cache_control.type=ephemeral system[].cache_control.ttl=1h
        stream=true stream=false context_management.edits[].type=clear_thinking_20251015
        tools[].strict=true tools[].input_schema.anyOf tools[].input_schema.oneOf tools[].cache_control.ttl=1h
        tools[].input_schema.properties.count.minimum tools[].input_schema.additionalProperties=true
        tools[].eager_input_streaming=true tools[].type=custom tools[].type=web_search_20250305 tools[].max_uses
        tool_choice.type=auto tool_choice.type=any tool_choice.type=none tool_choice.type=tool
        tool_choice.disable_parallel_tool_use=true messages[].role=system
        messages[].content[].type=image messages[].content[].type=document messages[].content[].type=search_result
        messages[].content[].source.type=url messages[].content[].source.media_type=image/webp
        messages[].content[].source.media_type=application/pdf messages[].content[].cache_control.ttl=1h
        messages[].content[].content[].type=image messages[].content[].content[].type=document
        messages[].content[].is_error=true messages[].content[].type=redacted_thinking
        messages[].content[].signature= messages[].content[].type=thinking
    """,
    "responses": """
        reasoning.effort=none reasoning.effort=minimal reasoning.effort=low reasoning.effort=medium
        reasoning.effort=high reasoning.effort=xhigh reasoning.effort=max reasoning.summary=auto
        reasoning.summary=concise reasoning.summary=detailed reasoning.context=all_turns temperature top_p
        top_logprobs include[]=reasoning.encrypted_content include[]=message.output_text.logprobs
        max_output_tokens=16 max_output_tokens=200000 text.verbosity=low text.verbosity=high
        text.format.type=json_object text.format.type=json_schema text.format.strict=true text.format.strict=false
        text.format.schema.additionalProperties=false text.format.schema.properties.name.maxLength
        prompt_cache_key prompt_cache_retention=24h prompt_cache_options.mode=explicit service_tier=auto
        service_tier=default service_tier=flex service_tier=priority service_tier=fast store=false store=true
        metadata.user_id safety_identifier user instructions stream=true stream=false truncation=auto
        tools[].type=custom tools[].format.type=grammar tools[].type=web_search tools[].type=namespace
        tools[].strict=true tools[].parameters.anyOf tools[].parameters.oneOf tools[].parameters=null
        tools[].parameters.properties.count.minimum tools[].parameters.additionalProperties=true
        tool_choice=auto tool_choice=none tool_choice=required tool_choice.type=function tool_choice.type=custom
        tool_choice.type=allowed_tools parallel_tool_calls=true parallel_tool_calls=false
        input[].role=developer input[].role=system input[].type=function_call input[].type=custom_tool_call
        input[].type=function_call_output input[].type=custom_tool_call_output input[].type=reasoning
        input[].encrypted_content input[].content[].type=reasoning_text input[].phase=commentary
        input[].content[].type=input_image input[].content[].type=input_file input[].content[].file_url
        input[].output[].type=input_image input[].output[].type=input_file
        input[].content[].prompt_cache_breakpoint.mode=explicit
    """,
}


def traits(value: Any, path: str = "") -> Iterator[str]:
    """Return every path of a body, with its value if it is a plain one."""
    yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from traits(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for inner in value:
            yield from traits(inner, f"{path}[]")
    else:
        yield f"{path}={value if isinstance(value, str) else json.dumps(value)}"


def found(body: JSON, key: str) -> Iterator[Any]:
    """Return the values of a key anywhere in a body."""
    stack: list[Any] = [body]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            if key in value:
                yield value[key]
            stack.extend(value.values())
        elif isinstance(value, list):
            stack.extend(value)


@cache
def bodies(protocol: Protocol, count: int) -> tuple[JSON, ...]:
    """Return bodies that several tests read, generated only once."""
    return tuple(client_requests(protocol, 5, count))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_same_seed_gives_same_bodies(protocol: Protocol) -> None:
    first = list(client_requests(protocol, 1, 50))
    assert list(client_requests(protocol, 1, 50)) == first
    assert list(client_requests(protocol, 1, 20)) == first[:20]
    assert list(client_requests(protocol, 2, 50)) != first


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_bodies_share_no_parts(protocol: Protocol) -> None:
    before = json.dumps(list(single_settings(protocol)))
    for _, body in single_settings(protocol):
        for value in body.values():
            if isinstance(value, dict | list):
                value.clear()
    assert json.dumps(list(single_settings(protocol))) == before


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_fields_are_known_to_the_official_types(protocol: Protocol) -> None:
    known = set(get_type_hints(TYPES[protocol])) | BEYOND[protocol]
    alone = [body for _, body in single_settings(protocol)]
    for body in [*bodies(protocol, 300), *alone]:
        assert set(body) <= known
        assert body["model"] == "the-model"


@pytest.mark.parametrize("protocol", ["chat", "messages"])
def test_bodies_fit_the_official_types_to_the_bottom(protocol: Protocol) -> None:
    # Not for Responses: its types require fields that servers do not require and no client sends.
    adapter = TypeAdapter[Any](TYPES[protocol])
    for body in bodies(protocol, 300):
        checked = adapter.validate_python(body)
        # Iterables are only checked while they are read.
        for value in checked.values():
            if not isinstance(value, str | dict) and hasattr(value, "__iter__"):
                assert list(value) is not None


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_setting_appears(protocol: Protocol) -> None:
    seen = {trait for body in bodies(protocol, 2000) for trait in traits(body)}
    assert [wanted for wanted in PRESENT[protocol].split() if wanted not in seen] == []


RARE: dict[str, tuple[tuple[Protocol, ...], Callable[[JSON], bool]]] = {
    "25 tools": (PROTOCOLS, lambda body: len(body.get("tools", ())) >= 20),
    "no settings": (PROTOCOLS, lambda body: len(body) <= 3),
    "many settings": (PROTOCOLS, lambda body: len(body) >= 14),
    "long name of a tool": (PROTOCOLS, lambda body: any(len(str(name)) >= 64 for name in found(body, "name"))),
    "name with a dot": (("chat", "responses"), lambda body: any("." in str(name) for name in found(body, "name"))),
    "long id of a call": (PROTOCOLS, lambda body: any(len(id) == 100 for id in call_ids(body))),
    "odd id of a call": (("chat", "responses"), lambda body: any(":" in id for id in call_ids(body))),
    "parallel calls": (PROTOCOLS, lambda body: len(call_ids(body)) >= 8),
    "long key": (("chat", "responses"), lambda body: len(body.get("prompt_cache_key", "")) > 64),
    "six stops": (("chat", "messages"), lambda body: any(isinstance(s, list) and len(s) == 6 for s in stops(body))),
    "blank stop": (("chat", "messages"), lambda body: any(" " in (s or ()) for s in stops(body))),
    "long user": (("messages",), lambda body: len(body.get("metadata", {}).get("user_id", "")) > 128),
    "prefill": (("chat", "messages"), lambda body: body["messages"][-1]["role"] == "assistant"),
    "instructions last": (("messages",), lambda body: body["messages"][-1]["role"] == "system"),
    "four marks": (("messages",), lambda body: len(list(found(body, "cache_control"))) == 4),
    "plain input": (("responses",), lambda body: isinstance(body["input"], str)),
    "call, message, output": (("responses",), lambda body: "function_call message function_call_output" in order(body)),
}


def call_ids(body: JSON) -> set[str]:
    """Return the ids of the calls that have a result."""
    return {id for key in ("tool_call_id", "tool_use_id", "call_id") for id in found(body, key)}


def stops(body: JSON) -> Iterator[Any]:
    """Return the stop settings of a body."""
    return (body[key] for key in ("stop", "stop_sequences") if key in body)


def order(body: JSON) -> str:
    """Return the kinds of the items in their order."""
    items = body["input"] if isinstance(body["input"], list) else []
    return " ".join(item.get("type", "message") for item in items)


@pytest.mark.parametrize("name", RARE)
def test_rare_cases_appear(name: str) -> None:
    protocols, is_case = RARE[name]
    for protocol in protocols:
        assert any(is_case(body) for body in bodies(protocol, 2000)), protocol


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_names_of_single_settings_differ(protocol: Protocol) -> None:
    names = [name for name, _ in single_settings(protocol)]
    assert len(set(names)) == len(names) > 100


def test_every_chat_result_belongs_to_a_call() -> None:
    for body in bodies("chat", 2000):
        open_calls: set[str] = set()
        for message in body["messages"]:
            if message["role"] == "tool":
                open_calls.remove(message["tool_call_id"])
            else:
                assert not open_calls
                open_calls = {call["id"] for call in message.get("tool_calls", ())}
                assert len(open_calls) == len(message.get("tool_calls", ()))
        assert not open_calls


def test_every_responses_output_belongs_to_a_call() -> None:
    for body in bodies("responses", 2000):
        calls: list[str] = []
        outputs: list[str] = []
        for item in body["input"] if isinstance(body["input"], list) else []:
            kind = item.get("type", "message")
            if kind.endswith("_output"):
                outputs.append(item["call_id"])
                assert outputs[-1] in calls
            elif kind.endswith("_call"):
                calls.append(item["call_id"])
        assert sorted(calls) == sorted(outputs)
        assert len(set(calls)) == len(calls)


def _ids(turn: JSON, kind: str, key: str) -> list[str]:
    content = turn["content"] if isinstance(turn["content"], list) else []
    return sorted(block[key] for block in content if block["type"] == kind)


def test_every_messages_result_belongs_to_the_turn_before() -> None:
    for body in bodies("messages", 2000):
        asked: list[str] = []
        for turn in body["messages"]:
            assert _ids(turn, "tool_result", "tool_use_id") == asked
            asked = _ids(turn, "tool_use", "id")
        assert not asked


def test_messages_settings_agree() -> None:
    for body in bodies("messages", 2000):
        thinking = body.get("thinking", {})
        if thinking.get("type") == "enabled":
            assert 1024 <= thinking["budget_tokens"] < body["max_tokens"]
            assert body.get("tool_choice", {}).get("type") not in ("any", "tool")
            assert body["messages"][-1]["role"] != "assistant"
        marks = [mark for part in ("tools", "system", "messages") for mark in _marks(body.get(part, []))]
        marks += [body["cache_control"]] if "cache_control" in body else []
        assert len(marks) <= 4
        lives = [mark.get("ttl", "5m") for mark in marks]
        assert lives == sorted(lives, key=lambda life: life != "1h")


def _marks(value: Any) -> Iterator[JSON]:
    """Return the cache marks in their order."""
    if isinstance(value, dict):
        if "cache_control" in value:
            yield value["cache_control"]
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from _marks(inner)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_choices_name_tools_that_are_there(protocol: Protocol) -> None:
    for body in bodies(protocol, 2000):
        if "tool_choice" in body:
            chosen = list(found({"choice": body["tool_choice"]}, "name"))
            there = list(found({"tools": body["tools"]}, "name"))
            assert [name for name in chosen if name not in there] == []
