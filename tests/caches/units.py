"""A request as the units that a vendor's cache goes by, in the order in which vendors read them, without its marks.

What is outside the prompt (limits, metadata, streaming) is no part of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from trilogue.model import Protocol

Json = dict[str, Any]
CHARACTERS = 4
"""how many characters count as a token"""
MARKS = ("cache_control", "prompt_cache_breakpoint")


@dataclass(frozen=True)
class Unit:
    """A tool, a system block, or a block of a turn. `form`: its JSON as sent, in which the order of fields counts."""

    place: str
    """tools, system, or the role of a turn"""
    form: str
    kind: str = ""
    mark: Json | None = None
    """the mark on it: `cache_control` or `prompt_cache_breakpoint`"""
    ends: bool = False
    """whether it is the last block of a turn or item"""

    @property
    def text(self) -> str:
        return f"{self.place} {self.form}\n"


def tokens(text: str) -> int:
    """Return how many tokens a text has."""
    return len(text) // CHARACTERS


def units_of(body: Json, protocol: Protocol, *, exact: bool = False, tools_first: bool = True) -> list[Unit]:
    """Return the units of a request. Without `exact`, a text is the same as a list with this text only.

    `tools_first`: before the instructions, as Anthropic and OpenAI have them; the templates of most other models have
    them behind.
    """
    if protocol is Protocol.MESSAGES:
        turns = [list(_parts(one["role"], one.get("content"), exact)) for one in body.get("messages") or []]
        turns.insert(0, list(_parts("system", body.get("system"), exact)))
    else:
        turns = _chat(body, exact) if protocol is Protocol.CHAT else _responses(body, exact)
    tools = [_unit("tools", tool) for tool in body.get("tools") or []]
    led = turns[:1] if turns and turns[0] and turns[0][0].place in ("system", "developer") else []
    front = [tools, *led] if tools_first else [*led, tools]
    return [unit for turn in [*front, *turns[len(led) :]] for unit in turn]


def _chat(body: Json, exact: bool) -> list[list[Unit]]:
    return [_message(message, exact) for message in body.get("messages") or []]


def _message(message: Json, exact: bool) -> list[Unit]:
    rest = {name: value for name, value in message.items() if name not in ("role", "content", *MARKS)}
    found = list(_parts(message["role"], message.get("content"), exact))
    found += [_unit(message["role"], {name: value}) for name, value in rest.items()]
    return [*found[:-1], *(replace(unit, ends=True) for unit in found[-1:])]


def _responses(body: Json, exact: bool) -> list[list[Unit]]:
    given = body.get("input") or []
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    turns = [_item(item, exact) for item in items]
    if body.get("instructions"):
        turns.insert(0, [_unit("system", {"type": "text", "text": body["instructions"]})])
    return turns


def _item(item: Json, exact: bool) -> list[Unit]:
    if str(item.get("type")).endswith("_output") and isinstance(item.get("output"), (str, list)):
        head = {name: value for name, value in item.items() if name != "output"}
        return [_unit("result", head), *_parts("result", item["output"], exact)]
    if "role" not in item or "content" not in item:
        return [_unit(item.get("type", ""), item, ends=True)]
    return list(_parts(item["role"], item["content"], exact))


def _parts(place: str, content: Any, exact: bool) -> Iterator[Unit]:
    if content is None:
        return
    if isinstance(content, str):
        form = {"text": content} if exact else {"type": "text", "text": content}
        yield _unit(place, form, ends=True)
        return
    for position, part in enumerate(content):
        plain = part if exact or part.get("type") not in _TEXTS else {"type": "text", **part, **_TEXT}
        if not exact and isinstance(plain.get("content"), str):
            plain = {**plain, "content": [{"type": "text", "text": plain["content"]}]}
        yield _unit(place, _without_empty(plain), ends=position == len(content) - 1)


def _without_empty(part: Json) -> Json:
    """Leave out what a response adds to its texts, which is no part of the prompt."""
    return {name: value for name, value in part.items() if name not in ("annotations", "logprobs")}


_TEXT = {"type": "text"}
_TEXTS = ("text", "input_text", "output_text")


def _unit(place: str, value: Json, ends: bool = False) -> Unit:
    mark = next((value[name] for name in MARKS if value.get(name) is not None), None)
    form = json.dumps(_unmarked(value), ensure_ascii=False, separators=(",", ":"))
    return Unit(place, form, value.get("type") or "", mark, ends)


def _unmarked(value: Json) -> Json:
    """Return a block without its marks, also those of the blocks inside a result."""
    bare = {name: inner for name, inner in value.items() if name not in MARKS}
    if isinstance(bare.get("content"), list):
        bare["content"] = [_unmarked(inner) for inner in bare["content"]]
    return bare
