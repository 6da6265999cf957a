"""The conversation as the model takes it: pictures and sound, ids of tool calls, names of speakers, who speaks last."""

from __future__ import annotations

import re
from collections.abc import Callable
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
    Protocol,
    Reasoning,
    Request,
    Role,
    SourceKind,
    Text,
    ToolCall,
    ToolResult,
    Turn,
)
from trilogue.profiles import Profile
from trilogue.protocols.codec import EncodingContext
from trilogue.protocols.content.ids import digest

_NINE = re.compile(r"[a-zA-Z0-9]{9}")

_Change = Callable[[Turn, bool, EncodingContext], Turn]
"""a turn, and whether it is what the user says now"""


def fit_content(request: Request, out: EncodingContext) -> Request:
    """Return the request with turns that the model takes."""
    turns = request.turns
    if not out.profile.prefill and turns and turns[-1].role is Role.ASSISTANT:
        raise Unsupported(turns[-1].path, "the model does not continue an assistant turn at the end", code="prefill")
    if out.profile.user_speaks_last:
        request = _ended_by_user(request, out)
    changes = _changes(out.profile, out.native)
    if not changes or (changes[-1] in _OF_OTHER_BLOCKS and _is_text(request.turns)):
        return request
    return _changed(request, changes, out)


def _changed(request: Request, changes: tuple[_Change, ...], out: EncodingContext) -> Request:
    turns = request.turns
    last = max((place for place, turn in enumerate(turns) if turn.role is Role.ASSISTANT), default=-1)
    fitted = list(turns)
    for change in changes:
        for place, turn in enumerate(fitted):
            fitted[place] = change(turn, place > last, out)
    if _unmarked in changes:
        tools = tuple(_unmarked_tool(tool, out) for tool in request.tools)
        request = request if all(map(is_, tools, request.tools)) else replace(request, tools=tools)
    return request if all(map(is_, fitted, turns)) else replace(request, turns=tuple(fitted))


def _is_text(turns: tuple[Turn, ...]) -> bool:
    """Tell whether a conversation is text and nothing else, as most are."""
    return all(type(block) is Text for turn in turns for block in turn.blocks)


def _ended_by_user(request: Request, out: EncodingContext) -> Request:
    """Return a request in which the user, or a tool, has the last word. Prompts at the end are said by the user."""
    turns = request.turns
    end = len(turns)
    while end and turns[end - 1].role in (Role.SYSTEM, Role.DEVELOPER) and not turns[end - 1].leading:
        end -= 1
    if end in (0, len(turns)):
        return request
    out.ledger.add("system.as_user", turns[end].path)
    said = tuple(replace(turn, role=Role.USER) for turn in turns[end:])
    return replace(request, turns=turns[:end] + said)


@lru_cache(256)
def _changes(profile: Profile, native: bool) -> tuple[_Change, ...]:
    """Return what has to be done to every turn, first what leaves text alone."""
    changes: list[_Change] = []
    if not (profile.images and profile.audio) or profile.image_types:
        changes.append(_media)
    if profile.call_ids != "standard":
        changes.append(_call_ids)
    if not profile.message_names:
        changes.append(_unnamed)
    if native:
        changes += _own_changes(profile)
    return tuple(changes)


def _own_changes(profile: Profile) -> list[_Change]:
    """Return what encoders do themselves to requests of another protocol."""
    changes: list[_Change] = []
    if not profile.cache_marks:
        changes.append(_unmarked)
    if not profile.developer_role:
        changes.append(_by_system)
    if not profile.mid_system:
        changes.append(_by_user)
    if profile.reasoning_field is None:
        changes.append(_without_words)
    return changes


def _with_blocks(turn: Turn, blocks: list[Block]) -> Turn:
    return turn if all(map(is_, blocks, turn.blocks)) else replace(turn, blocks=tuple(blocks))


def _media(turn: Turn, now: bool, out: EncodingContext) -> Turn:
    """What the user shows now must be seen; what was shown earlier, or came from a tool, becomes a note."""
    # Agents put what their tools have read beside the results.
    asks = now and turn.role is Role.USER and not any(type(block) is ToolResult for block in turn.blocks)
    return _with_blocks(turn, [_seen(block, asks, out) for block in turn.blocks])


def _seen(block: Block, now: bool, out: EncodingContext) -> Block:
    if type(block) is ToolResult:
        content = tuple(_seen(part, False, out) for part in block.content)
        return block if all(map(is_, content, block.content)) else replace(block, content=content)
    fault = _fault(block, out.profile)
    if fault is None:
        return block
    if now:
        raise Unsupported(block.path, fault)
    out.ledger.add("media.dropped", block.path)
    return Text(text=f"[{type(block).__name__.lower()} left out: {fault}]", path=block.path, cache=block.cache)


def _fault(block: Block, profile: Profile) -> str | None:
    """Return why the model does not take a block; None if it does."""
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
    """Return a block whose call id is nine letters and digits: the same for a call and its result."""
    if type(block) is ToolCall and not _NINE.fullmatch(block.id):
        return replace(block, id=digest(block.id, 5)[:9])
    if type(block) is ToolResult and not _NINE.fullmatch(block.call_id):
        return replace(block, call_id=digest(block.call_id, 5)[:9])
    return block


def _unnamed(turn: Turn, _: bool, out: EncodingContext) -> Turn:
    if turn.name is not None:
        out.ledger.add("message.name", turn.path)
        turn = replace(turn, name=None)
    blocks = [
        replace(block, name=None) if type(block) is ToolResult and block.name is not None else block
        for block in turn.blocks
    ]
    return _with_blocks(turn, blocks)


def _unmarked(turn: Turn, _: bool, out: EncodingContext) -> Turn:
    return _with_blocks(turn, [_unmarked_block(block, out) for block in turn.blocks])


def _unmarked_block(block: Block, out: EncodingContext) -> Block:
    if type(block) is ToolResult:
        content = tuple(_unmarked_block(part, out) for part in block.content)
        block = block if all(map(is_, content, block.content)) else replace(block, content=content)
    unmarked: Block = _without_mark(block, block.path, out)
    return unmarked


def _unmarked_tool(tool: Any, out: EncodingContext) -> Any:
    return _without_mark(tool, tool.path, out) if isinstance(tool, FunctionTool) else tool


def _without_mark(marked: Any, path: str, out: EncodingContext) -> Any:
    if getattr(marked, "cache", None) is None:
        return marked
    out.ledger.add("cache.mark", path)
    extras = {name: value for name, value in (marked.extras or {}).items() if not name.startswith("cache_control")}
    return replace(marked, cache=None, extras=extras or None)


def _by_user(turn: Turn, _: bool, out: EncodingContext) -> Turn:
    """Messages: a prompt in mid-conversation is said by the user, as Claude Code does for older models."""
    if turn.role is not Role.SYSTEM or turn.leading or out.source is not Protocol.MESSAGES:
        return turn
    out.ledger.add("system.as_user", turn.path)
    return replace(turn, role=Role.USER)


def _without_words(turn: Turn, _: bool, out: EncodingContext) -> Turn:
    """Chat: reasoning in its own field is what most vendors refuse."""
    if out.source is not Protocol.CHAT:
        return turn
    kept = [block for block in turn.blocks if type(block) is not Reasoning]
    for block in turn.blocks:
        if type(block) is Reasoning:
            out.ledger.add("reasoning.foreign_dropped", block.path)
    return turn if len(kept) == len(turn.blocks) else replace(turn, blocks=tuple(kept))


def _by_system(turn: Turn, _: bool, out: EncodingContext) -> Turn:
    if turn.role is not Role.DEVELOPER:
        return turn
    out.ledger.add("role.developer_merged", turn.path)
    return replace(turn, role=Role.SYSTEM)


_OF_OTHER_BLOCKS = (_media, _call_ids)
"""changes that leave text alone; they are made first"""
