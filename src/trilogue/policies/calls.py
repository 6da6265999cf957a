"""Tool calls as policies see them: one form for function calls, free-text calls and calls of built-in tools."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from trilogue.base.json_text import dump_text, parse, parse_object
from trilogue.errors import TrilogueError
from trilogue.model import Block, CallKind, HostedCall, Json, Native, ToolCall


class NotJson(TrilogueError):
    """Arguments that are not valid JSON."""


class Call(Struct, frozen=True):
    """A tool call. `arguments` is the parsed object, or the raw text if it is not a JSON object."""

    name: str
    arguments: dict[str, Json] | str
    text: str

    @property
    def parsed(self) -> dict[str, Json] | None:
        """The arguments as an object, or None if they are not one."""
        return self.arguments if isinstance(self.arguments, dict) else None


def is_client_call(block: Block) -> bool:
    """Return whether the client runs what this block asks for."""
    return type(block) is ToolCall or (type(block) is Native and block.awaits_client)


def may_be_call(block: Block) -> bool:
    """Return whether a client may run what this block asks for: it does, or its type is unknown."""
    return type(block) is ToolCall or (type(block) is Native and not block.harmless)


def names_of(block: Block) -> tuple[str, ...]:
    """Return the names by which a call may be denied: that of its tool, and the type of a block that has one."""
    call = call_of(block)
    names = [] if call is None else [call.name]
    return tuple(dict.fromkeys([*names, block.type] if type(block) is Native else names))


def call_of(block: Block) -> Call | None:
    """Return a block as a call, or None if it is not one."""
    if type(block) is ToolCall:
        parsed = parse_object(block.arguments) if block.kind is CallKind.FUNCTION else None
        return Call(block.name, block.arguments if parsed is None else parsed, block.arguments)
    if type(block) is HostedCall:
        parsed = parse_object(block.input)
        return Call(block.name or block.tool.value, block.input if parsed is None else parsed, block.input)
    if type(block) is Native and not block.harmless:
        return _native_call(block)
    return None


def _native_call(block: Native) -> Call:
    """Return a call that only one protocol has. Its arguments are the whole block, unless it names a tool."""
    data = block.data
    name, given = data.get("name"), next((data[key] for key in ("arguments", "input") if key in data), None)
    if not isinstance(name, str) or not name:
        return Call(block.type, data, dump_text(data))
    parsed = parse_object(given) if isinstance(given, str) else given
    if isinstance(parsed, dict):
        return Call(name, parsed, dump_text(parsed))
    return Call(name, data if given is None else str(given), dump_text(data))


def strings_in(value: Json) -> Iterator[tuple[str | None, str]]:
    """Yield each string inside a JSON value with the name of its field, and each name of a field with None."""
    # Iterative: the nesting of arguments is up to the model.
    waiting: list[tuple[str, Json]] = [("", value)]
    while waiting:
        name, item = waiting.pop()
        if isinstance(item, str):
            yield name, item
        elif isinstance(item, dict):
            for key, inner in item.items():
                yield None, key
                waiting.append((key, inner))
        elif isinstance(item, list):
            waiting.extend((name, inner) for inner in item)


def named_calls_in(value: Json) -> Iterator[dict[str, Json]]:
    """Yield each object inside a JSON value that has a name and arguments, as calls have them without a type."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            if ("arguments" in item or "input" in item) and item.get("name") and isinstance(item["name"], str):
                yield item
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)


DEEPEST = 100
"""levels of nesting in which strings are changed; what is deeper is changed as the JSON text that it is"""
_ESCAPE = re.compile(r'\\(?:u(?!d[89a-f])([0-9a-f]{4})|(["\\/bfnrt]))', re.IGNORECASE)
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def map_strings(value: Json, change: Callable[[str], str], depth: int = 0, *, names: bool = False) -> Json:
    """Return a JSON value with every string changed. Unchanged parts stay the same objects.

    `names`: the names of fields are changed too.
    """
    if isinstance(value, str):
        return change(value)
    if not isinstance(value, dict | list):
        return value
    if depth >= DEEPEST:
        text = dump_text(value)
        changed = change(text)
        return value if changed == text else changed
    if isinstance(value, dict):
        fields = {
            change(key) if names else key: map_strings(item, change, depth + 1, names=names)
            for key, item in value.items()
        }
        same = len(fields) == len(value) and all([key in fields and fields[key] is value[key] for key in value])
        return value if same else fields
    items = [map_strings(item, change, depth + 1, names=names) for item in value]
    return items if any(new is not old for new, old in zip(items, value, strict=True)) else value


def map_arguments(call: ToolCall, change: Callable[[str], str], *, names: bool = False) -> ToolCall:
    """Return a call with the strings in its arguments changed. Arguments that are not JSON are changed as text.

    `names`: the names of fields are changed too, and so is what a reader of JSON passes over.
    """
    if call.kind is not CallKind.FUNCTION:
        text = change(call.arguments)
        return call if text == call.arguments else replace(call, arguments=text)
    try:
        parsed = parse(call.arguments, NotJson)
    except NotJson:
        text = _changed_text(call.arguments, change)
        return call if text == call.arguments else replace(call, arguments=text)
    changed = map_strings(parsed, change, names=names)
    # Only a change is written anew: the model's own spelling of JSON is kept otherwise.
    if changed == parsed and not (names and _changed_text(call.arguments, change) != call.arguments):
        return call
    return replace(call, arguments=dump_text(changed))


def _changed_text(text: str, change: Callable[[str], str]) -> str:
    """Return a text that is no JSON, changed as it is, and as it is with the escapes of JSON resolved."""
    changed = change(text)
    plain = _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else _ESCAPED.get(found[2], found[2]), changed)
    again = change(plain)
    return changed if again == plain else again
