"""Texts of requests and responses: where they are, and how all of them are changed at once.

`text_of`, `map_block` and `map_request` know the blocks of the neutral model. Opaque values are never touched, nor are
ids.

`map_everything` goes through all strings of a request, wherever they are: in its turns, its tools and settings, and in
fields that nobody knows. What is left out is what a policy can neither read nor change: signatures and encrypted
values, the bytes of images and files, and the credentials of MCP servers. Reasoning with a signature goes back to the
provider that wrote it as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from trilogue.base.json_text import dump_text, parse_object
from trilogue.model import (
    Audio,
    Block,
    CallKind,
    Document,
    HostedCall,
    HostedResult,
    Json,
    Native,
    Opaque,
    Reasoning,
    Refusal,
    Request,
    SearchResult,
    Source,
    SourceKind,
    Text,
    ToolCall,
    ToolResult,
    Turn,
)
from trilogue.policies.calls import map_arguments, map_strings

Change = Callable[[str], str]
Look = Callable[[str], object]
_PLACES = frozenset({"path", "paths"})
"""fields of the model that are not sent"""
_FIXED = frozenset(
    {
        *("call_id", "file_id", "id", "include", "item_id", "media_type", "model", "name", "namespace", "phase"),
        *("previous_response", "role", "server_label", "status", "tool_use_id", "type"),
    }
)
"""fields that only work as they are: ids, names and types"""
_FREE = frozenset(
    {
        *("action", "arguments", "input", "input_schema", "metadata", "output", "output_schema", "parameters"),
        *("properties", "schema", "variables"),
    }
)
"""fields of objects whose own fields have any name, so that an `id` in them is no id"""
_UNREADABLE = frozenset({"authorization", "data", "encrypted_content", "file_data", "headers", "signature"})
_BASE64 = re.compile(r"(?:data:[^,]*,)?[A-Za-z0-9+/_=-]*")
_DEEPEST = 200


def text_of(block: Block) -> str:
    """Return the visible text of a block: prose, refusal, reasoning, or the arguments of a call."""
    if isinstance(block, Text | Refusal):
        return block.text
    if isinstance(block, Reasoning):
        return "\n\n".join([*block.summary, *block.raw])
    if isinstance(block, ToolCall):
        return block.arguments
    return block.transcript or "" if isinstance(block, Audio) else ""


def map_block(block: Block, change: Change) -> Block:
    """Return a block with all of its text changed; the same object if nothing changed."""
    handler = _MAP.get(type(block))
    return block if handler is None else handler(block, change)


def map_request(request: Request, change: Change) -> Request:
    """Return a request with the text of all turns changed; the same object if nothing changed."""
    turns = tuple([_map_turn(turn, change) for turn in request.turns])
    return request if _same(turns, request.turns) else replace(request, turns=turns)


def _same(new: tuple[Any, ...], old: tuple[Any, ...]) -> bool:
    return all([ours is theirs for ours, theirs in zip(new, old, strict=True)])


def _map_turn(turn: Turn, change: Change) -> Turn:
    # A provider refuses reasoning that comes back changed.
    blocks = tuple([block if _is_signed(block) else map_block(block, change) for block in turn.blocks])
    return turn if _same(blocks, turn.blocks) else replace(turn, blocks=blocks)


def _is_signed(block: Block) -> bool:
    return isinstance(block, Reasoning) and block.opaque is not None


def _map_blocks(blocks: tuple[Block, ...], change: Change) -> tuple[Block, ...]:
    mapped = tuple([map_block(block, change) for block in blocks])
    return blocks if _same(mapped, blocks) else mapped


def _map_text(block: Text | Refusal, change: Change) -> Block:
    text = change(block.text)
    if text == block.text:
        return block
    if isinstance(block, Refusal):
        return replace(block, text=text)
    # Positions and tokens of the old text would be wrong, and would show it.
    return replace(block, text=text, citations=(), logprobs=None)


def _map_reasoning(block: Reasoning, change: Change) -> Block:
    summary, raw = tuple(map(change, block.summary)), tuple(map(change, block.raw))
    return block if (summary, raw) == (block.summary, block.raw) else replace(block, summary=summary, raw=raw)


def _map_result(block: ToolResult, change: Change) -> Block:
    content = _map_blocks(block.content, change)
    return block if content is block.content else replace(block, content=content)


def _map_source(source: Source | None, change: Change) -> Source | None:
    if source is None or source.kind is not SourceKind.TEXT:
        return source
    value = change(source.value)
    return source if value == source.value else replace(source, value=value)


def _map_document(block: Document, change: Change) -> Block:
    source, parts = _map_source(block.source, change), _map_blocks(block.parts, change)
    title, context = (text and change(text) for text in (block.title, block.context))
    mapped = replace(block, source=source, parts=parts, title=title, context=context)
    return block if mapped == block else mapped


def _map_search_result(block: SearchResult, change: Change) -> Block:
    parts = tuple([part for part in _map_blocks(block.parts, change) if isinstance(part, Text)])
    mapped = replace(block, parts=parts, title=change(block.title))
    return block if mapped == block else mapped


def _map_audio(block: Audio, change: Change) -> Block:
    transcript = block.transcript and change(block.transcript)
    return block if transcript == block.transcript else replace(block, transcript=transcript)


OPAQUE_FIELDS = frozenset({"id", "call_id", "item_id", "tool_use_id", "type", "status", "signature", "data"})
"""fields of native objects that are not text, together with all whose name begins with `encrypted`"""


def _map_native(data: dict[str, Any], change: Change) -> dict[str, Any]:
    mapped = {
        name: value
        if name in OPAQUE_FIELDS or name.startswith("encrypted")
        else [_map_item(item, change) for item in value]
        if isinstance(value, list)
        else _map_item(value, change)
        for name, value in data.items()
    }
    return data if mapped == data else mapped


def _map_item(value: Any, change: Change) -> Any:
    return _map_native(value, change) if isinstance(value, dict) else map_strings(value, change)


def _map_whole(block: Native, change: Change) -> Block:
    data = _map_native(block.data, change)
    return block if data is block.data else replace(block, data=data)


def _map_hosted(block: HostedCall, change: Change) -> Block:
    native = block.native and _map_native(block.native, change)
    mapped = replace(block, input=change(block.input), native=native)
    return block if mapped == block else mapped


def _map_hosted_result(block: HostedResult, change: Change) -> Block:
    native = block.native and _map_native(block.native, change)
    hits = tuple([replace(hit, title=change(hit.title), url=change(hit.url)) for hit in block.hits])
    mapped = replace(block, hits=hits, text=block.text and change(block.text), native=native)
    return block if mapped == block else mapped


_MAP: dict[type[Block], Callable[..., Block]] = {
    Text: _map_text,
    Refusal: _map_text,
    Reasoning: _map_reasoning,
    ToolCall: map_arguments,
    ToolResult: _map_result,
    Document: _map_document,
    SearchResult: _map_search_result,
    Audio: _map_audio,
    HostedCall: _map_hosted,
    HostedResult: _map_hosted_result,
    Native: _map_whole,
}


class _Walk:
    """One walk through a request. `change` gets every string that may be changed, `look` every other."""

    def __init__(self, change: Change, look: Look) -> None:
        self._change = change
        self._look = look
        self._free = False
        """whether the fields of the object may have any name"""

    def mapped(self, value: Any, name: str = "", depth: int = 0) -> Any:
        """Return a value with its strings changed; the same object if nothing changed."""
        if value is None or isinstance(value, Enum | int | float):
            return value
        if depth > _DEEPEST:
            # Nothing that deep can be judged, so it counts as a string that is looked at.
            self._look(dump_text(value) if isinstance(value, dict | list) else str(value))
            return value
        if isinstance(value, str):
            return self._string(value, name)
        if isinstance(value, dict):
            return self._object(value, name, depth)
        if isinstance(value, list | tuple):
            items = [self.mapped(item, name, depth + 1) for item in value]
            same = all([new is old for new, old in zip(items, value, strict=True)])
            return value if same else type(value)(items)
        return self._struct(value, depth) if isinstance(value, Struct) else value

    def _string(self, value: str, name: str) -> str:
        if self._free:
            changed = self._change(value)
            return value if changed == value else changed
        if name in _UNREADABLE and (name in ("authorization", "signature") or _BASE64.fullmatch(value)):
            return value
        if name in _FIXED or name.startswith("encrypted"):
            self._look(value)
            return value
        changed = self._change(value)
        return value if changed == value else changed

    def _object(self, value: dict[str, Json], name: str, depth: int) -> dict[str, Json]:
        if name in ("headers", "authorization") and not self._free:
            return value
        free = self._free
        self._free = free or name in _FREE
        made = {self._change(key): self.mapped(item, key, depth + 1) for key, item in value.items()}
        self._free = free
        same = len(made) == len(value) and all([made.get(key) is item for key, item in value.items()])
        return value if same else made

    def _struct(self, value: Struct, depth: int) -> Struct:
        if isinstance(value, Opaque) or (isinstance(value, Reasoning) and value.opaque is not None):
            return value
        if isinstance(value, Source):
            return self._source(value)
        if isinstance(value, ToolCall):
            value = self._call(value)
        fields = {
            name: self.mapped(old, _name_in(value, name), depth + 1)
            for name in value.__struct_fields__
            if name not in _PLACES and not (name == "arguments" and isinstance(value, ToolCall))
            for old in [getattr(value, name)]
        }
        changed = {name: new for name, new in fields.items() if new is not getattr(value, name)}
        return replace(value, **changed) if changed else value

    def _source(self, source: Source) -> Source:
        if source.kind is SourceKind.DATA:
            return source
        if source.kind is not SourceKind.TEXT:
            # With another value, it would be the address of something else.
            self._look(source.value)
            return source
        changed = self._change(source.value)
        return source if changed == source.value else replace(source, value=changed)

    def _call(self, call: ToolCall) -> ToolCall:
        """Change arguments where they are JSON as JSON. A name that comes twice in it keeps its last value only."""
        parsed = parse_object(call.arguments) if call.kind is CallKind.FUNCTION else None
        if parsed is None:
            text = self._change(call.arguments)
            return call if text == call.arguments else replace(call, arguments=text)
        changed = self.mapped(parsed, "arguments")
        if changed is parsed and self._change(call.arguments) == call.arguments:
            return call
        return replace(call, arguments=dump_text(changed))


def _name_in(value: Struct, name: str) -> str:
    # The type of a native block stands in its data once more.
    return "" if isinstance(value, Native) and name == "data" else name


def map_everything(request: Request, change: Change, look: Look) -> Request:
    """Return a request with every string changed that may be; the same object if nothing changed.

    `look`: gets the strings that only work as they are, such as ids and the names of tools.
    """
    mapped: Request = _Walk(change, look).mapped(request)
    return mapped


_KEYS = re.compile(rb'"(?:[^"\\]|\\.)*"(\s*:)?', re.DOTALL)


def has_repeated_names(body: bytes, parsed: Json) -> bool:
    """Return whether an object in a JSON text has two fields of the same name, of which only the last was read."""
    written = sum([1 for found in _KEYS.finditer(body) if found[1]])
    read, waiting = 0, [parsed]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            read += len(value)
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
    return written > read
