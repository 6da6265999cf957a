"""Fit the conversation to the model: images and audio, tool call ids, participant names, and the last turn."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import is_
from typing import Any

from msgspec.structs import replace

from trilogue.errors import Unsupported
from trilogue.model import (
    Audio,
    Block,
    Document,
    FunctionTool,
    Image,
    Reasoning,
    Request,
    Role,
    SourceKind,
    Text,
    ToolCall,
    ToolResult,
    Turn,
)
from trilogue.model.names import name_of
from trilogue.protocols.codec import EncodingContext
from trilogue.protocols.parts import digest
from trilogue.vendors.profile import Profile

# Mistral refuses tool call ids that are not nine letters and digits.
_NINE = re.compile(r"[a-zA-Z0-9]{9}")

_PROMPTS = (Role.SYSTEM, Role.DEVELOPER)
_MARKS = ("cache_control", "prompt_cache_breakpoint")
"""the names of cache marks"""

_Change = Callable[[Turn, bool, EncodingContext], Turn]
"""a change of one turn; the flag is whether the turn is after the last assistant turn"""


def fit_content(request: Request, out: EncodingContext) -> Request:
    """Return the request with turns that the model accepts.

    Raises `Unsupported` for an assistant turn at the end that the model would have to continue, and for media in the
    current user turn that the model does not accept.
    """
    turns = request.turns
    if not out.profile.prefill and turns and turns[-1].role is Role.ASSISTANT:
        raise Unsupported(turns[-1].path, "the model does not continue an assistant turn at the end", code="prefill")
    if out.profile.user_speaks_last:
        request = _with_user_at_end(request, out)
    changes = _changes(out.profile, out.native)
    # Changes that leave text alone come first, so the last one decides whether a text-only conversation can be skipped.
    if not changes or (changes[-1] in _LEAVE_TEXT_ALONE and _is_text(request.turns)):
        return request
    return _changed(request, changes, out)


def _changed(request: Request, changes: tuple[_Change, ...], out: EncodingContext) -> Request:
    """Return the request with the changes made to all turns, and to the tools where they have cache marks."""
    turns = request.turns
    last = max((place for place, turn in enumerate(turns) if turn.role is Role.ASSISTANT), default=-1)
    fitted = list(turns)
    for change in changes:
        for place, turn in enumerate(fitted):
            fitted[place] = change(turn, place > last, out)
    if _without_marks in changes:
        tools = tuple(_without_tool_mark(tool, out) for tool in request.tools)
        request = request if all(map(is_, tools, request.tools)) else replace(request, tools=tools)
    return request if all(map(is_, fitted, turns)) else replace(request, turns=tuple(fitted))


def _is_text(turns: tuple[Turn, ...]) -> bool:
    """Return whether a conversation has only text, as most have."""
    return all(type(block) is Text for turn in turns for block in turn.blocks)


def _with_user_at_end(request: Request, out: EncodingContext) -> Request:
    """Return a request that ends with a user turn or a tool result: system messages at the end become user turns.

    So do those in front of an assistant turn: they were the end of an earlier request, which stays its prefix.
    """
    turns = request.turns
    fitted = list(turns)
    started = next((place for place, turn in enumerate(turns) if turn.role not in _PROMPTS), len(turns))
    # Mistral and DeepSeek's reasoner refuse a request whose last message is not from the user or a tool.
    is_last = True
    for place in range(len(turns) - 1, started, -1):
        turn = turns[place]
        if turn.role not in _PROMPTS:
            is_last = turn.role is Role.ASSISTANT
        elif is_last:
            out.ledger.add("system.as_user", turn.path)
            fitted[place] = replace(turn, role=Role.USER)
    return request if all(map(is_, fitted, turns)) else replace(request, turns=tuple(fitted))


@lru_cache(256)
def _changes(profile: Profile, native: bool) -> tuple[_Change, ...]:
    """Return the changes for every turn, those that leave text alone first."""
    changes: list[_Change] = []
    if not (profile.images and profile.audio) or profile.image_types:
        changes.append(_fit_media)
    if profile.call_ids != "standard":
        changes.append(_call_ids)
    if not profile.message_names:
        changes.append(_without_names)
    if native:
        changes += _same_protocol_changes(profile)
    return tuple(changes)


def _same_protocol_changes(profile: Profile) -> list[_Change]:
    """Return the changes that encoders make themselves for requests of another protocol."""
    changes: list[_Change] = []
    if not profile.cache_marks:
        changes.append(_without_marks)
    if not profile.developer_role:
        changes.append(_developer_as_system)
    if not profile.mid_system:
        changes.append(_system_as_user)
    if profile.reasoning_field is None:
        changes.append(_without_reasoning)
    if not profile.openai_fields:
        changes.append(_with_plain_text)
    return changes


def _with_plain_text(turn: Turn, _: bool, out: EncodingContext) -> Turn:
    """Turn an array of text parts into one string, for Chat servers that accept no arrays."""
    if out.source.traits.thinking != "effort":
        return turn
    results = [_with_plain_result(block, out) if type(block) is ToolResult else block for block in turn.blocks]
    turn = _with_blocks(turn, results)
    content = [block for block in turn.blocks if type(block) not in (ToolCall, ToolResult, Reasoning)]
    if turn.plain or not _are_texts(content):
        return turn
    _declare_joined(content, out)
    return replace(turn, plain=True)


def _with_plain_result(result: ToolResult, out: EncodingContext) -> ToolResult:
    if result.plain or not _are_texts(result.content):
        return result
    _declare_joined(result.content, out)
    return replace(result, plain=True)


def _are_texts(content: Sequence[Block]) -> bool:
    return bool(content) and all(type(block) is Text and not block.extras for block in content)


def _declare_joined(content: Sequence[Block], out: EncodingContext) -> None:
    if len(content) > 1:
        out.ledger.add("text.blocks_joined", content[0].path)


def _with_blocks(turn: Turn, blocks: list[Block]) -> Turn:
    return turn if all(map(is_, blocks, turn.blocks)) else replace(turn, blocks=tuple(blocks))


def _fit_media(turn: Turn, now: bool, out: EncodingContext) -> Turn:
    """Replace media that the model refuses by a note. Raises `Unsupported` for media of the current question."""
    # Agents put images that their tools have read next to the tool results; those are not the question.
    is_question = now and turn.role is Role.USER and not any(type(block) is ToolResult for block in turn.blocks)
    return _with_blocks(turn, [_with_note(block, is_question, out) for block in turn.blocks])


def _with_note(block: Block, now: bool, out: EncodingContext) -> Block:
    """Return the block, or a note if the model does not accept it. Raises `Unsupported` if `now` is set."""
    if type(block) is ToolResult:
        content = tuple(_with_note(part, False, out) for part in block.content)
        return block if all(map(is_, content, block.content)) else replace(block, content=content)
    fault = _fault(block, out.profile)
    if fault is None:
        return block
    if now:
        raise Unsupported(block.path, fault)
    out.ledger.add("media.dropped", block.path)
    return Text(text=f"[{name_of(block).lower()} left out: {fault}]", path=block.path, cache=block.cache)


def _fault(block: Block, profile: Profile) -> str | None:
    """Return why the model does not accept a block, or None if it does."""
    if type(block) is Audio:
        return None if profile.audio else "the model takes no sound"
    if type(block) is Image:
        if not profile.images:
            return "the model sees no images"
        kind = block.source.media_type if block.source.kind is SourceKind.DATA else None
        if kind and profile.image_types and kind.lower() not in profile.image_types:
            return f"the model takes no images of the type {kind}"
    if type(block) is Document and not profile.images:
        has_data = block.source is not None and block.source.kind is not SourceKind.TEXT
        return "the model takes text only" if has_data else None
    return None


def _call_ids(turn: Turn, _: bool, __: EncodingContext) -> Turn:
    return _with_blocks(turn, [_with_short_id(block) for block in turn.blocks])


def _with_short_id(block: Block) -> Block:
    """Return a block whose call id has nine letters and digits: the same for a call and its result."""
    if type(block) is ToolCall and not _NINE.fullmatch(block.id):
        # A digest, so that the result gets the same id without any state.
        return replace(block, id=digest(block.id, 5)[:9])
    if type(block) is ToolResult and not _NINE.fullmatch(block.call_id):
        return replace(block, call_id=digest(block.call_id, 5)[:9])
    return block


def _without_names(turn: Turn, _: bool, out: EncodingContext) -> Turn:
    if turn.name is not None:
        out.ledger.add("message.name", turn.path)
        turn = replace(turn, name=None)
    blocks = [
        replace(block, name=None) if type(block) is ToolResult and block.name is not None else block
        for block in turn.blocks
    ]
    return _with_blocks(turn, blocks)


def _without_marks(turn: Turn, _: bool, out: EncodingContext) -> Turn:
    return _with_blocks(turn, [_without_block_marks(block, out) for block in turn.blocks])


def _without_block_marks(block: Block, out: EncodingContext) -> Block:
    if type(block) is ToolResult:
        content = tuple(_without_block_marks(part, out) for part in block.content)
        block = block if all(map(is_, content, block.content)) else replace(block, content=content)
    unmarked: Block = _without_mark(block, block.path, out)
    return unmarked


def _without_tool_mark(tool: Any, out: EncodingContext) -> Any:
    return _without_mark(tool, tool.path, out) if isinstance(tool, FunctionTool) else tool


def _without_mark(marked: Any, path: str, out: EncodingContext) -> Any:
    if getattr(marked, "cache", None) is None:
        return marked
    out.ledger.add("cache.mark", path)
    # A mark in a form of another server is an extra of the part as well.
    extras = {name: value for name, value in (marked.extras or {}).items() if not name.startswith(_MARKS)}
    return replace(marked, cache=None, extras=extras or None)


def _system_as_user(turn: Turn, _: bool, out: EncodingContext) -> Turn:
    """Turn a system message in the middle of a Messages conversation into a user turn.

    Claude Code does the same for older models.
    """
    if turn.role is not Role.SYSTEM or turn.leading or not out.source.traits.mid_system:
        return turn
    out.ledger.add("system.as_user", turn.path)
    return replace(turn, role=Role.USER)


def _without_reasoning(turn: Turn, _: bool, out: EncodingContext) -> Turn:
    """Remove reasoning from a Chat turn: most vendors refuse it in messages."""
    if not out.source.traits.reasoning_in_turns:
        return turn
    others = [block for block in turn.blocks if type(block) is not Reasoning]
    for block in turn.blocks:
        if type(block) is Reasoning:
            out.ledger.add("reasoning.foreign_dropped", block.path)
    return turn if len(others) == len(turn.blocks) else replace(turn, blocks=tuple(others))


def _developer_as_system(turn: Turn, _: bool, out: EncodingContext) -> Turn:
    if turn.role is not Role.DEVELOPER:
        return turn
    # Most compatible servers return 400 for the developer role.
    out.ledger.add("role.developer_merged", turn.path)
    return replace(turn, role=Role.SYSTEM)


_LEAVE_TEXT_ALONE = (_fit_media, _call_ids)
"""changes that do nothing to text blocks; they are made first"""
