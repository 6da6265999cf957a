"""The first difference between two requests of a conversation that keeps the second one from using the prompt cache.

In: two bodies as they went out. Out: words such as `tools[3] added`. Providers cache tools, system and messages in this
order, so the first difference is all that matters. Marks for the cache may move: they are not compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from trilogue.base.json_text import DECODE_ERRORS, has_too_many_fields
from trilogue.model import Json

_MARKS = frozenset({"cache_control", "prompt_cache_breakpoint"})
_TEXTS = ("text", "input_text")


class _Body(Struct):
    """The fields of all three protocols that are part of what is cached, or say where."""

    model: Any = None
    prompt_cache_key: Any = None
    speed: Any = None
    tools: Any = None
    system: Any = None
    instructions: Any = None
    thinking: Any = None
    tool_choice: Any = None
    messages: Any = None
    input: Any = None


_decode = msgspec.json.Decoder(_Body).decode


def first_difference(before: bytes, now: bytes) -> str:
    """Return what has changed in what was sent before; "" if it is the beginning of what is sent now, or unknown."""
    if has_too_many_fields(before) or has_too_many_fields(now):
        return ""
    try:
        return _difference(_decode(before), _decode(now))
    except DECODE_ERRORS:
        return ""


def _difference(old: _Body, new: _Body) -> str:
    # In the order in which providers cache: the first difference ends everything behind it.
    return (
        _changed(old, new, "model", "prompt_cache_key", "speed")
        or _in_tools(_listed(old.tools), _listed(new.tools))
        or _in_list("system", _blocks(old.system), _blocks(new.system))
        or _in_list("instructions", _blocks(old.instructions), _blocks(new.instructions))
        or _changed(old, new, "thinking", "tool_choice")
        or _in_turns("messages", old.messages, new.messages)
        or _in_turns("input", old.input, new.input)
    )


def _changed(old: _Body, new: _Body, *names: str) -> str:
    return next((f"{name} changed" for name in names if getattr(old, name) != getattr(new, name)), "")


def _in_tools(old: list[Json], new: list[Json]) -> str:
    before, now = [_unmarked(one) for one in old], [_unmarked(one) for one in new]
    if before == now:
        return ""
    if len(before) == len(now) and all(one in now for one in before):
        return "tools reordered"
    at = next((number for number, pair in enumerate(zip(before, now, strict=False)) if pair[0] != pair[1]), None)
    if at is None:
        at = min(len(before), len(now))
    if len(now) > len(before) and now[at + len(now) - len(before) :] == before[at:]:
        return f"tools[{at}] added"
    if len(now) < len(before) and before[at + len(before) - len(now) :] == now[at:]:
        return f"tools[{at}] removed"
    return f"tools[{at}] changed"


def _in_list(name: str, old: list[Json], new: list[Json]) -> str:
    """Return the first block that has changed, where a further one at the end is a change as well."""
    found = _first(old, new)
    if found is not None:
        return f"{name}[{found}] {'changed' if found < len(new) else 'removed'}"
    return f"{name}[{len(old)}] added" if len(new) > len(old) else ""


def _in_turns(name: str, old: Json, new: Json) -> str:
    """Return the first turn that has changed. Turns may follow, and blocks may follow in the last one."""
    before, now = _listed(old), _listed(new)
    last = len(before) - 1
    for number, turn in enumerate(before):
        if number >= len(now):
            return f"{name}[{number}] removed"
        if not _continues(turn, now[number], is_last=number == last):
            return f"{name}[{number}] changed"
    return ""


def _continues(before: Json, now: Json, *, is_last: bool) -> bool:
    """Return whether a turn is the same, or, if it was the last one, begins with what was there."""
    if not isinstance(before, dict) or not isinstance(now, dict):
        return bool(before == now)
    old, new = _blocks(before.get("content")), _blocks(now.get("content"))
    if _first(old, new) is not None or (len(new) > len(old) and not is_last):
        return False
    return bool(_without_content(before) == _without_content(now))


def _without_content(turn: dict[str, Json]) -> Json:
    return _unmarked({name: value for name, value in turn.items() if name != "content"})


def _first(old: Sequence[Json], new: Sequence[Json]) -> int | None:
    """Return the place of the first block that is not the same any more."""
    for number, block in enumerate(old):
        if number >= len(new) or _unmarked(block) != _unmarked(new[number]):
            return number
    return None


def _listed(value: Json) -> list[Json]:
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    return value if isinstance(value, list) else []


def _blocks(content: Json) -> list[Json]:
    """Return content as a list of blocks, in which text alone is a string."""
    blocks = content if isinstance(content, list) else [] if content is None else [content]
    return [_plain(block) for block in blocks]


def _plain(block: Json) -> Json:
    if isinstance(block, dict) and block.get("type") in _TEXTS and isinstance(block.get("text"), str):
        return block["text"] if not block.keys() - {"type", "text"} - _MARKS else block
    return block


def _unmarked(value: Json) -> Json:
    """Return a value without marks for the cache."""
    if isinstance(value, list):
        return [_unmarked(item) for item in value]
    if isinstance(value, dict):
        return {name: _unmarked(item) for name, item in value.items() if name not in _MARKS}
    return value
