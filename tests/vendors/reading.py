"""Read request bodies without relying on their structure: values of the wrong type are skipped.

Paths are written as in the vendors' error messages, for example `messages[1].content[0].text`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeGuard

from tests.vendors.rule import Body

Found = tuple[str, dict[str, Any]]


def mapping(value: object) -> dict[str, Any]:
    """Return the value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: object) -> list[Any]:
    """Return the value if it is an array, else an empty one."""
    return value if isinstance(value, list) else []


def objects(value: object, path: str) -> Iterator[Found]:
    """Yield the objects of an array, each with its path."""
    for index, item in enumerate(items(value)):
        if isinstance(item, dict):
            yield f"{path}[{index}]", item


def is_number(value: object) -> TypeGuard[float]:
    """Return whether the value is a JSON number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_integer(value: object) -> TypeGuard[int]:
    """Return whether the value is a whole JSON number."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_chat(body: Body) -> bool:
    """Return whether this is a Chat body and not a Responses body."""
    return "messages" in body


def given(body: Body, *names: str) -> Iterator[str]:
    """Yield the names for which the body has a value other than null."""
    return (name for name in names if body.get(name) is not None)


def messages(body: Body) -> Iterator[Found]:
    """Yield the messages of a Chat or Messages body."""
    return objects(body.get("messages"), "messages")


def parts(body: Body) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Yield the content parts of a Chat or Messages body as (path, message, part)."""
    for path, message in messages(body):
        for place, part in objects(message.get("content"), f"{path}.content"):
            yield place, message, part


def chat_calls(body: Body) -> Iterator[Found]:
    """Yield the tool calls in the history of a Chat body."""
    for path, message in messages(body):
        yield from objects(message.get("tool_calls"), f"{path}.tool_calls")


def call_name(call: dict[str, Any]) -> object:
    """Return the name of the function or custom tool of a Chat call."""
    return mapping(call.get("function") or call.get("custom")).get("name")


def input_items(body: Body) -> Iterator[Found]:
    """Yield the input items of a Responses body."""
    return objects(body.get("input"), "input")


def input_parts(body: Body) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Yield the content parts of input items and of tool outputs as (path, item, part)."""
    for path, item in input_items(body):
        for field in ("content", "output"):
            for place, part in objects(item.get(field), f"{path}.{field}"):
                yield place, item, part


def openai_parts(body: Body) -> Iterator[Found]:
    """Yield the content parts of a Chat or a Responses body."""
    found = parts(body) if is_chat(body) else input_parts(body)
    return ((path, part) for path, _, part in found)


class Function(NamedTuple):
    """A function that a body offers to the model."""

    path: str
    name: object
    schema: object
    schema_path: str
    strict: bool


def functions(body: Body) -> Iterator[Function]:
    """Yield the functions that a Chat or a Responses body offers."""
    if is_chat(body):
        for path, tool in objects(body.get("tools"), "tools"):
            if tool.get("type") == "function":
                yield _function(f"{path}.function", mapping(tool.get("function")))
        for path, function in objects(body.get("functions"), "functions"):
            yield _function(path, function)
        return
    for path, tool in response_tools(body):
        if tool.get("type") == "function":
            yield _function(path, tool)


def _function(path: str, found: dict[str, Any]) -> Function:
    return Function(path, found.get("name"), found.get("parameters"), f"{path}.parameters", found.get("strict") is True)


def response_tools(body: Body) -> Iterator[Found]:
    """Yield the tools of a Responses body, including those inside namespaces and added tools."""
    yield from _with_members(body, "")
    for path, item in input_items(body):
        if item.get("type") == "additional_tools":
            yield from _with_members(item, f"{path}.")


def _with_members(holder: dict[str, Any], prefix: str) -> Iterator[Found]:
    for path, tool in objects(holder.get("tools"), f"{prefix}tools"):
        yield path, tool
        if tool.get("type") == "namespace":
            yield from objects(tool.get("tools"), f"{path}.tools")


def efforts(body: Body) -> Iterator[tuple[str, str]]:
    """Yield the effort levels that a Chat or a Responses body asks for, each with its path."""
    if is_chat(body):
        found = [("reasoning_effort", body.get("reasoning_effort"))]
    else:
        found = [("reasoning.effort", mapping(body.get("reasoning")).get("effort"))]
        for path, item in input_items(body):
            if item.get("type") == "configuration_update":
                found.append((f"{path}.reasoning.effort", mapping(item.get("reasoning")).get("effort")))
    return ((path, value) for path, value in found if isinstance(value, str))


def effort(body: Body) -> str | None:
    """Return the effort level that a Chat or a Responses body asks for as a whole."""
    first = next(efforts(body), None)
    return first[1] if first else None


def forces_tool(body: Body) -> bool:
    """Return whether the tool choice of a Chat body forces the model to call a tool."""
    choice = body.get("tool_choice")
    if isinstance(choice, dict):
        allowed = mapping(choice.get("allowed_tools"))
        return choice.get("type") != "allowed_tools" or allowed.get("mode") == "required"
    return choice in ("required", "any")


def stops(body: Body) -> list[Any]:
    """Return the stop sequences of a Chat body."""
    stop = body.get("stop")
    return [stop] if isinstance(stop, str) else items(stop)


def texts(value: object) -> Iterator[str]:
    """Yield the texts of a content: a string or a list of parts."""
    if isinstance(value, str):
        yield value
    for part in items(value):
        text = mapping(part).get("text")
        if isinstance(text, str):
            yield text


def says_json(body: Body) -> bool:
    """Return whether the word json is in the messages of a Chat body or in the input of a Responses body."""
    if is_chat(body):
        contents = [message.get("content") for _, message in messages(body)]
    else:
        contents = [body.get("input")]
        for _, item in input_items(body):
            contents += [item.get("content"), item.get("output")]
    return any("json" in text.lower() for content in contents for text in texts(content))
