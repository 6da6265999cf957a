"""The checks that every API makes on a Chat body, and xAI on a Responses body, for every vendor and model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tests.vendors.reading import (
    chat_calls,
    is_integer,
    is_number,
    items,
    mapping,
    messages,
    objects,
    parts,
)
from tests.vendors.rule import Book, Request, Scope, documented, prior

ANY = r".*"
VENDORS = (
    "openai", "azure", "deepseek", "mistral", "moonshot", "groq", "xai", "gemini", "ollama", "openrouter",
)  # fmt: skip
CHAT = Scope(VENDORS, ("chat",))
PAGE = documented("page: OpenAI API reference, Create chat completion")
ROLES = ("system", "developer", "user", "assistant", "tool", "function")

RULES = Book()


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _is_array(value: object) -> bool:
    return isinstance(value, list)


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _is_choice(value: object) -> bool:
    return isinstance(value, str | dict)


def _is_stop(value: object) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and all(isinstance(each, str) for each in value))


TYPES: dict[str, Callable[[object], bool]] = {
    "model": _is_text,
    "messages": _is_array,
    "tools": _is_array,
    "tool_choice": _is_choice,
    "parallel_tool_calls": _is_flag,
    "stream": _is_flag,
    "stream_options": _is_object,
    "stop": _is_stop,
    "temperature": is_number,
    "top_p": is_number,
    "frequency_penalty": is_number,
    "presence_penalty": is_number,
    "max_tokens": is_integer,
    "max_completion_tokens": is_integer,
    "n": is_integer,
    "seed": is_integer,
    "response_format": _is_object,
    "reasoning_effort": _is_text,
    "user": _is_text,
    "metadata": _is_object,
}


@RULES.add("chat-types", CHAT, ANY, "top-level fields have their types", PAGE)
def _types(request: Request) -> Iterator[str]:
    for name in ("model", "messages"):
        if request.body.get(name) is None:
            yield f"{name}: missing"
    for name, is_right in TYPES.items():
        value = request.body.get(name)
        if value is not None and not is_right(value):
            yield f"{name}: has the wrong type"


@RULES.add("chat-ranges", CHAT, ANY, "temperature from 0 to 2, top_p from 0 to 1, at least one token", PAGE)
def _ranges(request: Request) -> Iterator[str]:
    top = {"temperature": 2, "top_p": 1}
    for name, high in top.items():
        value = request.body.get(name)
        if is_number(value) and not 0 <= value <= high:
            yield f"{name}: {value} is not between 0 and {high}"
    for name in ("max_tokens", "max_completion_tokens", "n"):
        value = request.body.get(name)
        if is_number(value) and value < 1:
            yield f"{name}: {value} is below 1"


@RULES.add("chat-messages", CHAT, ANY, "messages have a known role and content of a known form", PAGE)
def _messages(request: Request) -> Iterator[str]:
    if request.body.get("messages") == []:
        yield "messages: empty"
    for index, message in enumerate(items(request.body.get("messages"))):
        path = f"messages[{index}]"
        if not isinstance(message, dict):
            yield f"{path}: is not an object"
            continue
        if message.get("role") not in ROLES:
            yield f"{path}.role: {message.get('role')!r}"
        yield from _content(path, message)


def _content(path: str, message: dict[str, Any]) -> Iterator[str]:
    content = message.get("content")
    if content is None:
        filled = message.get("role") in ("assistant", "function")
        if not filled:
            yield f"{path}.content: missing"
    elif not isinstance(content, str | list):
        yield f"{path}.content: has the wrong type"


PART_FIELDS = {"text": "text", "image_url": "image_url", "input_audio": "input_audio", "file": "file"}
USER_PARTS = ("image_url", "input_audio", "file")


@RULES.add("chat-parts", CHAT, ANY, "content parts have a type and its field, and media stand with the user", PAGE)
def _parts(request: Request) -> Iterator[str]:
    for path, message, part in parts(request.body):
        kind = part.get("type")
        if not isinstance(kind, str):
            yield f"{path}.type: missing"
        elif part.get(PART_FIELDS.get(kind, "type")) is None:
            yield f"{path}.{kind}: missing"
        elif kind == "text" and not isinstance(part.get("text"), str):
            yield f"{path}.text: has the wrong type"
        elif kind in USER_PARTS and message.get("role") in ("system", "developer", "assistant"):
            yield f"{path}.type: {kind!r} in a message of the {message.get('role')}"


@RULES.add("chat-calls", CHAT, ANY, "calls stand with the assistant and have an id, a name and arguments", PAGE)
def _calls(request: Request) -> Iterator[str]:
    for path, message in messages(request.body):
        if message.get("tool_calls") is not None and message.get("role") != "assistant":
            yield f"{path}.tool_calls: in a message of the {message.get('role')}"
        if message.get("role") == "tool" and not isinstance(message.get("tool_call_id"), str):
            yield f"{path}.tool_call_id: missing"
    for path, call in chat_calls(request.body):
        kind = "custom" if call.get("type") == "custom" else "function"
        detail = mapping(call.get(kind))
        for name, value in (
            ("id", call.get("id")),
            (f"{kind}.name", detail.get("name")),
            (f"{kind}.arguments", detail.get("input" if kind == "custom" else "arguments")),
        ):
            if not isinstance(value, str):
                yield f"{path}.{name}: missing or no string"


@RULES.add("chat-tools", CHAT, ANY, "tools have a type and a name", PAGE)
def _tools(request: Request) -> Iterator[str]:
    for path, tool in objects(request.body.get("tools"), "tools"):
        kind = tool.get("type")
        if not isinstance(kind, str):
            yield f"{path}.type: missing"
        elif kind in ("function", "custom") and not isinstance(mapping(tool.get(kind)).get("name"), str):
            yield f"{path}.{kind}.name: missing"


def _named(choice: dict[str, Any], path: str) -> Iterator[tuple[str, object]]:
    kind = choice.get("type")
    if kind in ("function", "custom"):
        yield f"{path}.{kind}.name", mapping(choice.get(kind)).get("name")


@RULES.add(
    "chat-tool-choice",
    CHAT,
    ANY,
    "tool_choice names a tool that exists",
    prior("error text: Tool choice not found in tools"),
)
def _tool_choice(request: Request) -> Iterator[str]:
    choice = mapping(request.body.get("tool_choice"))
    found = list(_named(choice, "tool_choice"))
    allowed = mapping(choice.get("allowed_tools"))
    for path, tool in objects(allowed.get("tools"), "tool_choice.allowed_tools.tools"):
        found += _named(tool, path)
    known = [name for _, tool in objects(request.body.get("tools"), "tools") for _, name in _named(tool, "")]
    for path, name in found:
        if name not in known:
            yield f"{path}: {name!r} is not among the tools"


XAI = Scope(("xai",), ("responses",))


@RULES.add(
    "xai-responses-types",
    XAI,
    ANY,
    "top-level fields have their types, and there is input",
    documented("page: OpenAI API reference, Create a model response"),
)
def _xai_types(request: Request) -> Iterator[str]:
    if not isinstance(request.body.get("input"), str | list):
        yield "input: missing or of the wrong type"
    for name in ("model", "tools", "tool_choice", "parallel_tool_calls", "stream", "temperature", "top_p", "user"):
        value = request.body.get(name)
        if value is not None and not TYPES[name](value):
            yield f"{name}: has the wrong type"
    if "messages" in request.body:
        yield "messages: belongs to Chat"
