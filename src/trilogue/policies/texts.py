"""Text inside blocks and requests: where it is, and how all of it is changed at once.

Opaque values are never touched, nor are ids.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from trilogue.model import (
    Audio,
    Block,
    Document,
    HostedCall,
    HostedResult,
    Native,
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
