"""The rules of OpenAI and Azure about fields, schemas, names and ids, for every model."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tests.vendors import schemas
from tests.vendors.openai_models import BOTH, CHAT, RESPONSES
from tests.vendors.reading import (
    call_name,
    chat_calls,
    functions,
    given,
    input_items,
    is_chat,
    is_integer,
    is_number,
    items,
    mapping,
    messages,
    objects,
    response_tools,
    says_json,
    stops,
)
from tests.vendors.rule import Book, Request, Scope, documented, once, prior, several
from tests.vendors.sdk_types import chat_problems, reasons, response_problems

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
LONGEST_ID = 64
ANY = r".*"

RULES = Book()


@RULES.add(
    "openai-cache-key",
    BOTH,
    ANY,
    "prompt_cache_key has at most 64 characters",
    several("vybestack/llxprt-code#2135, earendil-works/pi#4719"),
)
def _cache_key(request: Request) -> Iterator[str]:
    key = request.body.get("prompt_cache_key")
    if isinstance(key, str) and len(key) > LONGEST_ID:
        yield f"prompt_cache_key: {len(key)} characters"


def _answer_format(body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the schema format that a body asks for, with its path; empty if there is none."""
    if is_chat(body):
        found = mapping(body.get("response_format"))
        return "response_format.json_schema", mapping(found.get("json_schema"))
    found = mapping(mapping(body.get("text")).get("format"))
    return "text.format", found if found.get("type") == "json_schema" else {}


def _strict_reasons(schema: object, path: str) -> Iterator[str]:
    yield from schemas.open_objects(schema, path)
    yield from schemas.optional_properties(schema, path)


@RULES.add(
    "openai-strict-schema",
    BOTH,
    ANY,
    "a strict schema closes every object and requires every property",
    documented("moeru-ai/xsai#202, page: Structured model outputs, OpenAI API"),
)
def _strict_schema(request: Request) -> Iterator[str]:
    path, found = _answer_format(request.body)
    if found.get("strict") is True:
        yield from _strict_reasons(found.get("schema"), f"{path}.schema")


@RULES.add(
    "openai-strict-tool",
    BOTH,
    ANY,
    "a strict tool closes every object and requires every property",
    documented("Soju06/codex-lb#495, page: Function calling, OpenAI API"),
)
def _strict_tool(request: Request) -> Iterator[str]:
    for function in functions(request.body):
        if function.strict:
            yield from _strict_reasons(function.schema, function.schema_path)


@RULES.add(
    "openai-strict-keywords",
    BOTH,
    ANY,
    "a strict schema is an object at its top and uses no allOf, oneOf, not, if or dependent keywords",
    documented("page: Structured model outputs, OpenAI API"),
)
def _strict_keywords(request: Request) -> Iterator[str]:
    path, found = _answer_format(request.body)
    if found.get("strict") is True and isinstance(found.get("schema"), dict):
        yield from schemas.top(found["schema"], f"{path}.schema", ("anyOf",))
        yield from schemas.unsupported(found["schema"], f"{path}.schema", schemas.STRICT_UNKNOWN)
    for function in functions(request.body):
        if function.strict:
            yield from schemas.unsupported(function.schema, function.schema_path, schemas.STRICT_UNKNOWN)


@RULES.add(
    "openai-function-schema",
    BOTH,
    ANY,
    "the schema of a function is an object, without anyOf, oneOf, allOf, enum or not at its top",
    several("cecli-dev/cecli#281, langchain-ai/langchainjs#9804"),
)
def _function_schema(request: Request) -> Iterator[str]:
    for function in functions(request.body):
        if function.schema is not None:
            yield from schemas.top(function.schema, function.schema_path, (*schemas.TOP_COMBINERS, "enum", "not"))


def _names(body: dict[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield the names of defined and of called functions."""
    for function in functions(body):
        yield f"{function.path}.name", function.name
    if is_chat(body):
        for path, tool in objects(body.get("tools"), "tools"):
            if tool.get("type") == "custom":
                yield f"{path}.custom.name", mapping(tool.get("custom")).get("name")
        for path, call in chat_calls(body):
            yield f"{path}.{call.get('type', 'function')}.name", call_name(call)
        return
    for path, tool in response_tools(body):
        if tool.get("type") == "custom":
            yield f"{path}.name", tool.get("name")
    for path, item in input_items(body):
        if item.get("type") in ("function_call", "custom_tool_call"):
            yield f"{path}.name", item.get("name")


@RULES.add(
    "openai-names",
    BOTH,
    ANY,
    "names of functions: 1 to 64 of letters, digits, _ and -",
    documented("page: OpenAI API reference, Create chat completion, sdk: openai types/shared/function_definition.py"),
)
def _function_names(request: Request) -> Iterator[str]:
    for path, name in _names(request.body):
        if isinstance(name, str) and not NAME.match(name):
            yield f"{path}: {name!r}"


@RULES.add(
    "openai-schema-name",
    BOTH,
    ANY,
    "names of answer schemas: 1 to 64 of letters, digits, _ and -",
    documented("sdk: openai types/shared/response_format_json_schema.py"),
)
def _schema_name(request: Request) -> Iterator[str]:
    path, found = _answer_format(request.body)
    name = found.get("name")
    if isinstance(name, str) and not NAME.match(name):
        yield f"{path}.name: {name!r}"


@RULES.add(
    "openai-call-ids",
    BOTH,
    ANY,
    "ids of tool calls have at most 64 characters",
    several("decolua/9router#393, openclaw/openclaw#875"),
)
def _call_ids(request: Request) -> Iterator[str]:
    found = [(f"{path}.id", call.get("id")) for path, call in chat_calls(request.body)]
    found += [(f"{path}.tool_call_id", message.get("tool_call_id")) for path, message in messages(request.body)]
    found += [(f"{path}.call_id", item.get("call_id")) for path, item in input_items(request.body)]
    for path, value in found:
        if isinstance(value, str) and len(value) > LONGEST_ID:
            yield f"{path}: {len(value)} characters"


@RULES.add(
    "openai-unknown-chat",
    CHAT,
    ANY,
    "fields that the API does not know are an error",
    documented("run-llama/llama_index#17731, sdk: openai CompletionCreateParams"),
)
def _unknown_chat(request: Request) -> list[str]:
    return reasons(chat_problems(request), "unknown")


@RULES.add(
    "openai-unknown-responses",
    RESPONSES,
    ANY,
    "fields that the API does not know are an error",
    documented("Wei-Shaw/sub2api#4388, sdk: openai ResponseCreateParams"),
)
def _unknown_responses(request: Request) -> list[str]:
    return reasons(response_problems(request), "unknown")


@RULES.add(
    "openai-shape-chat",
    CHAT,
    ANY,
    "fields have the types and values of the official types, and the required ones are there",
    documented("sdk: openai CompletionCreateParams"),
)
def _shape_chat(request: Request) -> list[str]:
    return reasons(chat_problems(request), "missing", "type", "value")


@RULES.add(
    "openai-shape-responses",
    RESPONSES,
    ANY,
    "fields have the types and values of the official types, and the required ones are there",
    documented("sdk: openai ResponseCreateParams"),
)
def _shape_responses(request: Request) -> list[str]:
    return reasons(response_problems(request), "missing", "type", "value")


RANGES: dict[str, tuple[float, float]] = {
    "temperature": (0, 2),
    "top_p": (0, 1),
    "frequency_penalty": (-2, 2),
    "presence_penalty": (-2, 2),
    "top_logprobs": (0, 20),
    "n": (1, 128),
    "max_tokens": (1, float("inf")),
    "max_completion_tokens": (1, float("inf")),
    "max_tool_calls": (1, float("inf")),
}


@RULES.add(
    "openai-ranges",
    BOTH,
    ANY,
    "numbers lie in their ranges",
    documented("page: OpenAI API reference, Create chat completion"),
)
def _ranges(request: Request) -> Iterator[str]:
    for name, (low, high) in RANGES.items():
        value = request.body.get(name)
        if is_number(value) and not low <= value <= high:
            yield f"{name}: {value} is not between {low} and {high}"


@RULES.add(
    "openai-metadata",
    BOTH,
    ANY,
    "metadata has at most 16 pairs, keys of 64 and values of 512 characters; safety_identifier has at most 128",
    documented("page: OpenAI API reference, Create chat completion"),
)
def _metadata(request: Request) -> Iterator[str]:
    pairs = mapping(request.body.get("metadata"))
    if len(pairs) > 16:
        yield f"metadata: {len(pairs)} pairs"
    for name, value in pairs.items():
        if len(name) > 64 or len(str(value)) > 512:
            yield f"metadata.{name}: too long"
    identifier = request.body.get("safety_identifier")
    if isinstance(identifier, str) and len(identifier) > 128:
        yield f"safety_identifier: {len(identifier)} characters"


@RULES.add(
    "openai-stop-count",
    CHAT,
    ANY,
    "at most four stop sequences",
    documented("page: OpenAI API reference, Create chat completion"),
)
def _stop_count(request: Request) -> Iterator[str]:
    if len(stops(request.body)) > 4:
        yield f"stop: {len(stops(request.body))} sequences"


@RULES.add(
    "openai-tool-options",
    CHAT,
    ANY,
    "tool_choice and parallel_tool_calls only with tools",
    several("Upsonic/Upsonic#323, camel-ai/camel#3706"),
)
def _tool_options(request: Request) -> Iterator[str]:
    if not items(request.body.get("tools")):
        for name in given(request.body, "tool_choice", "parallel_tool_calls"):
            yield f"{name}: there are no tools"


@RULES.add(
    "openai-dependent-fields",
    CHAT,
    ANY,
    "stream_options only with stream, top_logprobs only with logprobs",
    documented("page: OpenAI API reference, Create chat completion"),
)
def _dependent_fields(request: Request) -> Iterator[str]:
    for name, needed in (("stream_options", "stream"), ("top_logprobs", "logprobs")):
        if request.body.get(name) is not None and request.body.get(needed) is not True:
            yield f"{name}: only with {needed}"


@RULES.add(
    "openai-output-minimum",
    RESPONSES,
    ANY,
    "max_output_tokens is at least 16",
    documented("sdk: litellm openai/responses/transformation.py"),
)
def _output_minimum(request: Request) -> Iterator[str]:
    value = request.body.get("max_output_tokens")
    if is_integer(value) and value < 16:
        yield f"max_output_tokens: {value} is below 16"


@RULES.add(
    "openai-json-input",
    RESPONSES,
    ANY,
    "json_object needs the word json in the input, instructions do not count",
    once("miracodeai/mira#267"),
)
def _json_input(request: Request) -> Iterator[str]:
    chosen = mapping(mapping(request.body.get("text")).get("format"))
    if chosen.get("type") == "json_object" and not says_json(request.body):
        yield "text.format: json_object, but the input does not say json"


@RULES.add(
    "openai-json-messages",
    Scope(("openai", "azure", "deepseek"), ("chat",)),
    ANY,
    "json_object needs the word json in the messages",
    several("mem0ai/mem0#3559, browserbase/stagehand#1204"),
)
def _json_messages(request: Request) -> Iterator[str]:
    chosen = mapping(request.body.get("response_format"))
    if chosen.get("type") == "json_object" and not says_json(request.body):
        yield "response_format: json_object, but the messages do not say json"


@RULES.add(
    "openai-message-names",
    CHAT,
    ANY,
    "names of messages hold no white space and none of < | \\ / >",
    prior("error text of the API: string does not match pattern '^[^\\s<|\\\\/>]+$'"),
)
def _message_names(request: Request) -> Iterator[str]:
    for path, message in messages(request.body):
        name = message.get("name")
        if isinstance(name, str) and not re.match(r"[^\s<|\\/>]+\Z", name):
            yield f"{path}.name: {name!r}"
