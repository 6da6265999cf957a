"""Nothing is dropped in silence: every field that the official SDKs know, at any depth, one at a time.

Its value is in the translated request, or a loss names it or something above it, or the request is refused for it.
"""

import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
from anthropic.types.beta.message_create_params import MessageCreateParamsNonStreaming as MessagesParams
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming as ChatParams
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming as ResponsesParams

import trilogue
from tests.mapping.cases import USER, Body, C, M, R, covers, request
from tests.mapping.params import Path, Variant, fields, get, without, written
from tests.mapping.test_turns import TOOLS, call, item, use
from trilogue import ClientError, Protocol, RequestTranslation, Target

SAID: Body = {"role": "assistant", "content": "Yes"}
PARAMS: dict[Protocol, Any] = {C: ChatParams, M: MessagesParams, R: ResponsesParams}

HARMLESS: dict[str, str] = {
    r"input\[\d+\]\.phase": "a mark for OpenAI's own models on most turns of a history; nobody can act on its loss",
    r"stream": "the gateway asks the upstream for what it needs",
    r"stream_options\..*": "the gateway makes the client's stream itself",
    r"model": "replaced by the upstream's name",
    r"include\[0\]": "asks for parts of the response (docs/mapping.md: State)",
    r"truncation": "the types' last word is `disabled`, which is what happens anyway",
    r"(response_format\.json_schema|text\.format)\.(name|strict)": "harmless (docs/mapping.md: Structured output)",
    r"input\[\d\](\.output\[\d\])?\.id": "ids of items are minted anew (docs/mapping.md: Tool calls and results)",
    r"input\[\d\]\.(type|status)": "an item's type may be left out; its status is about the stream that it came in",
    r"input\[2\]\.(name|namespace|call_id)": "a result is found by its call, which has all three",
    r"messages\[1\]\.clear_at": "the types' last word is `never`, the default",
    r"tools\[0\]\.type": "`custom` is the default",
    r"(mcp_servers\[0\]\.tool_configuration|tools\[0\]\.default_config)\.enabled": "true is the default",
    r"messages\[\d\]\.content\[0\]\.id": "checked in test_tool_calls.py; ids of hosted calls are minted anew",
    r"tools\[0\]\.user_location\.type": "the only word there is",
    r"betas\[0\]|user_profile_id|workspace_id": "headers (docs/mapping.md: Versions and betas)",
}
"""What says nothing that the target could need, each with its reason."""


def embedded(protocol: Protocol, variant: Variant) -> tuple[Body, Path]:
    """A variant of the parameters as a request that is otherwise plain, and where its field is now."""
    name = str(variant.path[0])
    value = _mended(variant.value[name])
    if name in ("messages", "input") and isinstance(value, list):
        turns, shift = _PLACED[protocol](value[0])
        tools = TOOLS[{C: "C", M: "M", R: "R"}[protocol]]
        return request(protocol, tools=tools, **{name: turns}), (name, shift, *variant.path[2:])
    extra: Body = {}
    if name in ("tool_choice", "function_call", "parallel_tool_calls"):
        extra = _offered(protocol, json.dumps(value))
    if name == "parallel_tool_calls":
        value = False
    return request(protocol, **extra, **{name: value}), variant.path


def _mended(value: Any) -> Any:
    """What the types do not say: a file needs a source, and the names of allowed tools are objects."""
    if isinstance(value, list):
        return [_mended(element) for element in value]
    if not isinstance(value, dict):
        return value
    mended = {key: _mended(inner) for key, inner in value.items()}
    kind = mended.get("type")
    if kind == "file" and isinstance(mended.get("file"), dict) and not {"file_data", "file_id"} & set(mended["file"]):
        mended["file"]["file_data"] = "data:application/pdf;base64,AAAA"
    if kind == "input_file" and not {"file_data", "file_id", "file_url"} & set(mended):
        mended["file_data"] = "data:application/pdf;base64,AAAA"
    if kind == "input_image" and not {"image_url", "file_id"} & set(mended):
        mended["image_url"] = "https://example.com/a.png"
    if isinstance(mended.get("tools"), list) and mended.get("mode"):
        mended["tools"] = [{"type": "function", "name": "look", "function": {"name": "look"}}]
    return mended


def _offered(protocol: Protocol, choice: str) -> Body:
    """The tools that a choice speaks of."""
    names = sorted({word for word in choice.replace('"', " ").split() if word.startswith("marker-")}) or ["look"]
    schema = {"type": "object", "properties": {}}
    if protocol is C:
        return {"tools": [{"type": "function", "function": {"name": name, "parameters": schema}} for name in names]}
    if protocol is M:
        return {"tools": [{"name": name, "input_schema": schema} for name in names]}
    return {"tools": [{"type": "function", "name": name, "parameters": schema, "strict": False} for name in names]}


def _in_chat(message: Body) -> tuple[list[Body], int]:
    role = message.get("role")
    if role == "assistant":
        answers = [{"role": "tool", "tool_call_id": c["id"], "content": "r"} for c in message.get("tool_calls") or []]
        if "function_call" in message:
            answers = [{"role": "function", "name": message["function_call"]["name"], "content": "r"}]
        return [USER, message, *answers, USER], 1
    if role == "tool":
        return [USER, {"role": "assistant", "content": None, "tool_calls": [call(1)]}, message, USER], 2
    if role == "function":
        called = {"name": message["name"], "arguments": "{}"}
        return [USER, {"role": "assistant", "content": None, "function_call": called}, message, USER], 2
    return ([message, USER], 0) if role in ("system", "developer") else ([message], 0)


def _in_messages(message: Body) -> tuple[list[Body], int]:
    content = message.get("content")
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    kinds = {str(block.get("type")) for block in blocks}
    if message["role"] == "user":
        if "tool_result" in kinds:
            return [USER, {"role": "assistant", "content": [use(1)]}, message], 2
        return [message], 0
    if message["role"] == "system":
        return [USER, message, SAID, USER], 1
    answers = [
        {"type": "tool_result", "tool_use_id": block["id"], "content": "r"}
        for block in blocks
        if block["type"] == "tool_use"
    ]
    after: Body = {"role": "user", "content": [*answers, {"type": "text", "text": "go"}]}
    return [USER, message, after], 1


_ANSWERED = {
    "function_call": lambda call_id: {"type": "function_call_output", "call_id": call_id, "output": "r"},
    "custom_tool_call": lambda call_id: {"type": "custom_tool_call_output", "call_id": call_id, "output": "r"},
}
_ASKED = {
    "function_call_output": item(1),
    "custom_tool_call_output": {"type": "custom_tool_call", "call_id": "call_1", "name": "p", "input": "x"},
}


def _in_responses(piece: Body) -> tuple[list[Body], int]:
    kind = str(piece.get("type"))
    if kind in _ANSWERED:
        return [USER, piece, _ANSWERED[kind](piece["call_id"]), USER], 1
    if kind in _ASKED:
        return [USER, _ASKED[kind], piece, USER], 2
    return [USER, piece, USER], 1


_PLACED: dict[Protocol, Callable[[Body], tuple[list[Body], int]]] = {
    C: _in_chat,
    M: _in_messages,
    R: _in_responses,
}


@cache
def cases(protocol: Protocol) -> list[tuple[Body, Path, bool]]:
    """Every field once: the request that has it, its path, and whether it may be left out. The same shape of path under
    the same types counts once, as the SDKs repeat their unions in many places.
    """
    seen: set[tuple[Any, ...]] = set()
    found = []
    for variant in fields(PARAMS[protocol]):
        body, path = embedded(protocol, variant)
        kinds = tuple(_kinds(variant.value, variant.path))
        if (kinds, variant.path[-1]) not in seen:
            seen.add((kinds, variant.path[-1]))
            found.append((body, path, variant.required))
    return found


def _kinds(value: Any, path: Path) -> Iterator[Any]:
    """What is on the way to a field: the types of the two innermost objects and the name of the top-level field."""
    objects = []
    for step in path:
        if isinstance(value, dict):
            objects.append((str(value.get("role")) if "content" in value else None, str(value.get("type"))))
        value = value[step]
    yield path[0]
    yield from objects[-2:]
    yield type(value).__name__


def translated(body: Body, source: Protocol, target: Target) -> RequestTranslation | ClientError:
    """A translation, or why there is none."""
    try:
        return trilogue.translate_request(body, source=source, target=target)
    except ClientError as error:
        return error


def silent(body: Body, path: Path, required: bool, source: Protocol, target: Target) -> str | None:
    """What was dropped in silence; None if nothing was."""
    where = written(path)
    result = translated(body, source, target)
    if isinstance(result, ClientError):
        return None if _covered([result.path], where) else f"{where}: refused at {result.path!r}: {result}"
    if _covered([loss.path for loss in result.losses], where):
        return None
    value = get(body, path)
    if _carried(value, result.body):
        return None
    if not required and isinstance(path[-1], str):
        bare = translated(without(body, path), source, target)
        if not isinstance(bare, ClientError) and bare.body != result.body:
            return None
    elif not _marked(value):
        return None  # a required word of the protocol, such as its type: no sense without the object around it
    around = get(body, path[:-1])
    kind = around.get("type", "") if isinstance(around, dict) else ""
    return f"{where} = {value!r} {kind}"


def _covered(paths: list[str], where: str) -> bool:
    return any(path and (covers(path, where) or covers(where, path)) for path in paths)


_MARKS = ("marker", "bWFya2Vy")
"""A word that is nowhere else, plain and in base64."""


def _marked(value: Any) -> bool:
    return not isinstance(value, bool) and (
        any(mark in str(value) for mark in _MARKS) or isinstance(value, int | float)
    )


def _carried(value: Any, body: Body) -> bool:
    """Whether a value that is found nowhere else is in a request."""
    if not _marked(value):
        return False
    text = json.dumps(body)
    words = re.findall(r"marker-\d+|bWFya2Vy\d+", str(value)) or [json.dumps(value)]
    return all(word in text for word in words)


TARGETS = {
    C: ("gpt-5.6", "gpt-4o", "llama-3.3-70b"),
    M: ("claude-opus-5", "claude-sonnet-4-5", "claude-3-5-haiku-20241022"),
    R: ("gpt-5.6", "gpt-4.1"),
}
"""models that take much, and such as do not reason"""
DIRECTIONS = [
    pytest.param(source, target, model, id=f"{source.short}-{target.short}-{model}")
    for source in (C, M, R)
    for target in (C, M, R)
    for model in TARGETS[target]
    if source is not target
]


@pytest.mark.parametrize(("source", "target", "model"), DIRECTIONS)
def test_every_field_is_carried_declared_or_refused(source: Protocol, target: Protocol, model: str) -> None:
    """The property of the whole product."""
    there = Target.of(target, model)
    dropped = []
    for body, path, required in cases(source):
        if any(re.fullmatch(pattern, written(path)) for pattern in HARMLESS):
            continue
        problem = silent(body, path, required, source, there)
        if problem is not None:
            dropped.append(problem)
    assert not dropped, f"{len(dropped)} fields:\n" + "\n".join(dropped)


@pytest.mark.parametrize("source", [C, M, R], ids=lambda p: p.short)
def test_the_types_are_read_to_the_bottom(source: Protocol) -> None:
    """Guards the generator: an SDK that changes how it writes types must not make the test above empty."""
    least = {C: 100, M: 400, R: 400}
    assert len(cases(source)) > least[source]


UNKNOWN = "frobnicate"
FREE = frozenset({"parameters", "input_schema", "schema", "output_schema", "arguments", "properties"})
"""Objects whose fields are the client's own."""
EXCUSED: dict[str, str] = {
    r"stream_options .*": "the gateway makes the client's stream itself",
    r"functions\[0\] .*": "declared, but as if functions were written as tools",
    r".*tools\[0\] namespace": "declared, but as a field of its first tool",
    r"output_format .*": "declared, but under its new name",
    r"input\[1\] additional_tools": "no turn; its tools are carried",
}
"""Objects by path and type that are not checked, each with the reason."""


def objects(value: Any, path: Path = ()) -> Iterator[Path]:
    """The paths of all objects of the protocol in a document."""
    if isinstance(value, dict):
        yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, inner in inside:
        if step not in FREE:
            yield from objects(inner, (*path, step))


def extended(value: Any, path: Path) -> Any:
    """A document with a field that nobody knows in the object at a path."""
    if not path:
        return {**value, UNKNOWN: "marker-0"}
    step, *rest = path
    if isinstance(value, dict):
        return {**value, step: extended(value[step], tuple(rest))}
    return [extended(inner, tuple(rest)) if index == step else inner for index, inner in enumerate(value)]


@cache
def extensions(protocol: Protocol) -> list[tuple[Body, Path]]:
    """Every kind of object that the types know, once, with the request that has it."""
    found: dict[Any, tuple[Body, Path]] = {}
    for body, _, _ in cases(protocol):
        for path in objects(body):
            kinds = tuple(_kinds(body, path)) if path else ()
            own = str(get(body, path).get("type"))
            if not any(re.fullmatch(pattern, f"{written(path)} {own}") for pattern in EXCUSED):
                found.setdefault((kinds, path[-1:], own), (body, path))
    return list(found.values())


@pytest.mark.parametrize(("source", "target", "model"), DIRECTIONS)
def test_an_unknown_field_is_declared_at_every_place(source: Protocol, target: Protocol, model: str) -> None:
    """What a provider invents tomorrow is not dropped in silence either."""
    there = Target.of(target, model)
    dropped = []
    for body, path in extensions(source):
        result = translated(extended(body, path), source, there)
        where = written((*path, UNKNOWN))
        if isinstance(result, ClientError) or "marker-0" in json.dumps(result.body):
            continue
        if not any(covers(loss.path, where) for loss in result.losses if loss.path):
            dropped.append(f"{where} {get(body, path).get('type', '')}")
    assert not dropped, f"{len(dropped)} fields:\n" + "\n".join(dropped)
