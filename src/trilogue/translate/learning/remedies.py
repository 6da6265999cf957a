"""Changes to a request body that avoid an upstream's refusal: leave a field out, clamp its value, or rename it.

In: the body that would be sent, and remedies that `refusals` has read from errors. Out: the body to send, and what was
changed. It does not know which upstream refused, nor why.

A path is dotted. Brackets after a name narrow it down:

tools[].function.strict                every element of an array
include[reasoning.encrypted_content]   the element of an array of strings
messages[].content[thinking].signature the elements with this `type` or `role`
thinking[adaptive]                     the object, if this is its `type`
reasoning_effort[none]                 the value, if it is this one
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

from msgspec import Struct

from trilogue.model import Effort, Json

_Wire = dict[str, Json]
_Action = Literal["drop", "clamp", "rename"]

LEVELS = tuple(effort.value for effort in Effort)
"""the levels of effort, from least to most; verbosity uses the same words"""

_MAX_SHOWN = 40
_MAX_WRITTEN = 10**18
_STEP = re.compile(r"([^.\[\]]+)(?:\[([^\]]*)\])?")

_FIXED = frozenset({"model", "messages", "input", "stream", "role", "content"})
"""fields that are never changed: they are what the client asks for"""
_REQUIRED = _FIXED | frozenset({
    "type", "function", "arguments", "parameters", "input_schema", "schema", "json_schema",
    "call_id", "tool_call_id", "tool_use_id", "output", "source", "image_url",
})  # fmt: skip
"""fields that are never left out: every upstream would refuse the request, or respond to another question"""
_ONLY_EMPTY = frozenset({"tools", "tool_calls"})
"""fields that are left out only if empty: an agent without its tools gets a response that looks good and is wrong"""
_TOOL_TYPES = frozenset({"tool_use", "server_tool_use", "function"})


class Remedy(Struct, frozen=True, kw_only=True):
    """What to do about one field that an upstream refused.

    `allowed`, `limit`: what to clamp the value to; `least`: the limit is a minimum. `name`: the new name of the last
    part of the path; a dotted one leads into an object next to it. `lasting`: it holds for every request to the model;
    if not, only together with another field of this request.
    """

    path: str
    action: _Action
    allowed: tuple[str, ...] = ()
    limit: float | None = None
    least: bool = False
    name: str = ""
    lasting: bool = True


class _Step(NamedTuple):
    """One part of a path. `kind`: the text in the brackets; None: there are none, "": they are empty."""

    name: str
    kind: str | None


class _Change(NamedTuple):
    """A remedy while it is applied. `details`: what it has changed so far."""

    remedy: Remedy
    details: list[str]


def remedied(body: _Wire, remedies: Sequence[Remedy]) -> tuple[_Wire, list[tuple[str, str]]]:
    """Return the body with the remedies applied, and (path, detail) of each that changed something.

    The given body is not changed; unchanged parts are shared with it.
    """
    changes: list[tuple[str, str]] = []
    for remedy in remedies:
        change = _Change(remedy, [])
        body = _object(body, _steps(remedy.path), change)
        if change.details:
            changes.append((remedy.path, change.details[0]))
    return body, changes


def _steps(path: str) -> list[_Step]:
    """Return the parts of a path."""
    return [_Step(match[1], match[2]) for match in _STEP.finditer(path)]


def word(value: Json) -> str:
    """Return a plain value as errors write it; "" for any other value."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return value if isinstance(value, str) else ""


def kind_of(value: Json) -> str:
    """Return the text for a value in the brackets of a path: the type or role of an object, or the value itself."""
    if isinstance(value, dict):
        named = (value.get("type"), value.get("role"))
        return next((name for name in named if isinstance(name, str)), "")
    return word(value)


def _is_kind(value: Json, kind: str) -> bool:
    if isinstance(value, dict):
        return kind in (value.get("type"), value.get("role"))
    return kind != "" and word(value) == kind


def _object(holder: _Wire, steps: Sequence[_Step], change: _Change) -> _Wire:
    """Return the object with the change made at the end of the path; the same object if nothing changes."""
    if not steps or steps[0].name not in holder:
        return holder
    (name, kind), rest = steps[0], steps[1:]
    value = holder[name]
    changed: Json
    if isinstance(value, list) and kind is not None:
        changed = _elements(value, kind, rest, change)
    elif kind is not None and not _is_kind(value, kind):
        return holder
    elif not rest:
        return _ACTIONS[change.remedy.action](holder, name, change)
    elif isinstance(value, dict):
        changed = _object(value, rest, change)
    else:
        return holder
    if changed is value:
        return holder
    # An object that is empty only because of a remedy has no meaning, and some upstreams refuse it.
    return {**holder, name: changed} if changed or name in _REQUIRED else _without(holder, name)


def _elements(values: list[Json], kind: str, rest: Sequence[_Step], change: _Change) -> list[Json]:
    """Return the array with the change made in every element of a kind, or without that string."""
    if not rest:
        return _without_text(values, kind, change)
    meant = [isinstance(value, dict) and (not kind or _is_kind(value, kind)) for value in values]
    changed = [
        _object(value, rest, change) if is_meant else value for value, is_meant in zip(values, meant, strict=True)
    ]
    return changed if any(new is not old for new, old in zip(changed, values, strict=True)) else values


def _without_text(values: list[Json], text: str, change: _Change) -> list[Json]:
    """Return the array without a string. No other element is removed: a message or a tool must stay."""
    if change.remedy.action != "drop" or not text or text not in values:
        return values
    change.details.append("left out")
    return [value for value in values if value != text]


def _without(holder: _Wire, name: str) -> _Wire:
    return {key: value for key, value in holder.items() if key != name}


def _is_required(holder: _Wire, name: str) -> bool:
    """Return whether an object must keep a field, whatever an error says."""
    if name in _REQUIRED or (name in _ONLY_EMPTY and holder[name]):
        return True
    kind = kind_of(holder)
    if name == "name":
        return "role" not in holder
    if name == "id":
        return "function" in holder or kind in _TOOL_TYPES
    return name == "text" and kind.endswith("text")


def _drop(holder: _Wire, name: str, change: _Change) -> _Wire:
    if _is_required(holder, name):
        return holder
    change.details.append("left out")
    return _without(holder, name)


def _rename(holder: _Wire, name: str, change: _Change) -> _Wire:
    """Move the value to its new name, unless that name has a value already."""
    first, _, rest = change.remedy.name.partition(".")
    inside = holder.get(first, {}) if rest else {}
    if not first or first == name or name in _REQUIRED or not isinstance(inside, dict):
        return holder
    change.details.append(f"as {change.remedy.name}")
    moved: Json = {rest: holder[name], **inside} if rest else holder[name]
    changed = _without(holder, name)
    return {**changed, first: moved} if rest or first not in changed else changed


def _clamp(holder: _Wire, name: str, change: _Change) -> _Wire:
    value, remedy = holder[name], change.remedy
    if name in _FIXED:
        return holder
    if remedy.limit is not None:
        near = _limited(value, remedy.limit, remedy.least)
    elif remedy.allowed and word(value) not in remedy.allowed:
        near = _nearest(name, value, remedy.allowed)
    else:
        return holder
    if near is None:
        return _drop(holder, name, change)
    if near is value:
        return holder
    change.details.append(f"{_short_text(value)} as {_short_text(near)}")
    return {**holder, name: near}


def _limited(value: Json, limit: float, least: bool) -> Json:
    """Return the number within the limit. Other values are returned unchanged."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(limit):
        return value
    if not (value < limit if least else value > limit):
        return value
    if isinstance(value, int):
        return math.ceil(limit) if least else math.floor(limit)
    return limit


def _nearest(name: str, value: Json, allowed: tuple[str, ...]) -> Json:
    """Return the allowed value that is nearest to one that is not allowed; None if there is none."""
    if isinstance(value, bool):
        return not value if word(not value) in allowed else None
    if isinstance(value, dict):
        # If a certain tool cannot be forced, force any tool.
        forced = name == "tool_choice" and kind_of(value) in _TOOL_TYPES
        return "required" if forced and "required" in allowed else None
    if not isinstance(value, str):
        return None
    level = _nearest_level(value, allowed) if value in LEVELS else None
    return level or (allowed[0] if len(allowed) == 1 else None)


def _nearest_level(value: str, allowed: tuple[str, ...]) -> str | None:
    """Return the nearest level, the lower of two. Some thinking becomes none only if no other level is allowed."""
    levels = [level for level in LEVELS if level in allowed]
    place = LEVELS.index(value)
    thinking = [level for level in levels if level != Effort.NONE]
    if thinking:
        return min(thinking, key=lambda level: abs(LEVELS.index(level) - place))
    return "default" if "default" in allowed else next(iter(levels), None)


def _short_text(value: Json) -> str:
    if isinstance(value, str):
        return value[:_MAX_SHOWN]
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, int) and abs(value) >= _MAX_WRITTEN:
        return "a huge number"  # Python raises for integers of more than 4,300 digits
    return word(value) or str(value)


_ACTIONS: dict[_Action, Callable[[_Wire, str, _Change], _Wire]] = {
    "drop": _drop,
    "clamp": _clamp,
    "rename": _rename,
}


EFFORTS = ("reasoning_effort", "reasoning.effort", "output_config.effort")
_FAMILIES = (
    EFFORTS,
    ("max_tokens", "max_completion_tokens", "max_output_tokens"),
    ("thinking", "reasoning", "reasoning_effort", "enable_thinking"),
    ("user", "safety_identifier"),
)
"""names of the same thing: an error may use the name of the vendor's own upstream"""
_CONTENT = frozenset({"model", "messages", "input", "system", "instructions", "prompt", "tools", "metadata"})
"""the content of a request, which has no options in it"""
_SCHEMAS = frozenset({"parameters", "input_schema", "schema", "properties", "arguments"})
"""objects whose keys the client chose: names in there are not parameters"""
_PREFIXES = frozenset({"body", "parameter", "request", "params"})
_PART = re.compile(r"[^.\[\]/]{1,120}")
_MAX_PARTS = 20
_MAX_SKIPPED = 2
_MAX_DEPTH = 4
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORD = re.compile(r"[\w-]{1,120}", re.ASCII)


class Spot(NamedTuple):
    """A field that is in a body, by its path and value."""

    path: str
    value: Json


def find_field(body: _Wire, name: str, place: str = "") -> Spot | None:
    """Return the field that an error means by a name, inside `place` if given; None unless there is exactly one."""
    parts = [*_parts(place), *_parts(name)]
    exact = _walk(body, parts, "", _MAX_SKIPPED) if parts else None
    if exact is not None or not parts:
        return exact
    others = {other for family in _FAMILIES if name in family for other in family}
    spots = [spot for other in others if (spot := _walk(body, _parts(other), "", 0))]
    if len(parts) == 1:
        spots += [spot for spot in _fields(body) if spot.path.endswith(f".{_snake(name)}")]
    return spots[0] if len({spot.path for spot in spots}) == 1 else None


def find_value(body: _Wire, value: str, param: str, *, anywhere: bool) -> Spot | None:
    """Return the option that has a value: the one called `param`, or else the only one.

    `anywhere`: it may be any option; otherwise only an element of an array.
    """
    named = find_field(body, param)
    if named is not None and named.value == value:
        return named
    spots = [spot for spot in _options(body) if spot.value == value and not spot.path.endswith(".type")]
    return spots[0] if len(spots) == 1 and (anywhere or spots[0].path.endswith("]")) else None


def alike(name: str, other: str) -> bool:
    """Return whether two names mean the same thing, so that the value of one is valid for the other."""
    return any(name in family and other in family for family in _FAMILIES)


def _parts(name: str) -> list[str | int]:
    """Return the parts of a path as errors write it: `body.messages.0.user.name`, `input[3].status`, `a/b`."""
    parts = [int(part) if part.isdecimal() else part for part in _PART.findall(name)[:_MAX_PARTS]]
    return parts[1:] if len(parts) > 1 and parts[0] in _PREFIXES else parts


def _walk(node: Json, parts: Sequence[str | int], path: str, skips: int) -> Spot | None:
    """Return the field at a path. `skips`: how many parts may be names of types that are not keys."""
    if not parts:
        return _spot(node, path)
    part, rest = parts[0], parts[1:]
    if isinstance(node, list):
        element = node[part : part + 1] if isinstance(part, int) else ()
        return _walk(element[0], rest, f"{path}[]", skips) if element else None
    if isinstance(node, dict) and isinstance(part, str):
        return _walk_object(node, part, rest, (path, skips))
    # Paths such as "thinking.type.enabled" end with the value.
    return Spot(path, node) if node == part and not rest else None


def _walk_object(node: _Wire, part: str, rest: Sequence[str | int], so_far: tuple[str, int]) -> Spot | None:
    path, skips = so_far
    key = next((key for key in (part, _snake(part), part.lower()) if key in node), None)
    # A property named `temperature` in a tool's schema is not the sampling parameter.
    if key in _SCHEMAS:
        return None
    spot = _walk(node[key], rest, f"{path}.{key}" if path else key, skips) if key else None
    if spot is not None or not rest:
        return spot
    # A text block has a field with the name of its type; only the next part of the path shows which one is meant.
    if path.endswith("[]") and part == kind_of(node):
        return _walk(node, rest, f"{path[:-1]}{part}]", skips)
    return _walk(node, rest, path, skips - 1) if skips and not key else None


def _spot(node: Json, path: str) -> Spot | None:
    if not path.endswith("[]"):
        return Spot(path, node)
    return Spot(f"{path[:-1]}{node}]", node) if isinstance(node, str) and "]" not in node else None


def _fields(body: _Wire) -> Iterator[Spot]:
    """Yield every field that errors name without its location."""
    yield from _options(body)
    for name in ("tools", "messages"):
        elements = body.get(name)
        for element in elements if isinstance(elements, list) else ():
            if isinstance(element, dict):
                yield from _inside(element, f"{name}[].", 0)
                function = element.get("function")
                if isinstance(function, dict):
                    yield from _inside(function, f"{name}[].function.", 0)


def _options(body: _Wire) -> Iterator[Spot]:
    return _inside({name: value for name, value in body.items() if name not in _CONTENT}, "", _MAX_DEPTH)


def _inside(holder: _Wire, path: str, depth: int) -> Iterator[Spot]:
    for name, value in holder.items():
        if name in _SCHEMAS or not _WORD.fullmatch(name):
            continue
        yield Spot(f"{path}{name}", value)
        if isinstance(value, dict) and depth:
            yield from _inside(value, f"{path}{name}.", depth - 1)
        elif isinstance(value, list) and depth:
            texts = (element for element in value if isinstance(element, str) and "]" not in element)
            yield from (Spot(f"{path}{name}[{text}]", text) for text in texts)


def _snake(name: str) -> str:
    return _CAMEL.sub("_", name).lower()
