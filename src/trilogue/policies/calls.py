"""Tool calls as policies see them: one form for function calls, free-text calls and calls of built-in tools."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from trilogue.jsontext.text import dump_text, parse_object
from trilogue.model import Block, CallKind, HostedCall, Json, Native, ToolCall


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


DEEPEST = 100
"""levels of nesting in which strings are changed; deeper values are left alone"""


def map_strings(value: Json, change: Callable[[str], str], depth: int = 0) -> Json:
    """Return a JSON value with every string changed, except names of fields. Unchanged parts stay the same objects."""
    if isinstance(value, str):
        return change(value)
    if depth >= DEEPEST:
        return value
    if isinstance(value, dict):
        fields = {key: map_strings(item, change, depth + 1) for key, item in value.items()}
        return fields if any(fields[key] is not item for key, item in value.items()) else value
    if isinstance(value, list):
        items = [map_strings(item, change, depth + 1) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    return value


def map_arguments(call: ToolCall, change: Callable[[str], str]) -> ToolCall:
    """Return a call with the strings in its arguments changed. Arguments that are not JSON are changed as text."""
    parsed = parse_object(call.arguments) if call.kind is CallKind.FUNCTION else None
    if parsed is None:
        text = change(call.arguments)
        return call if text == call.arguments else replace(call, arguments=text)
    changed = map_strings(parsed, change)
    # Only a change is written anew: the model's own spelling of JSON is kept otherwise.
    return call if changed == parsed else replace(call, arguments=dump_text(changed))
