"""Settings for thinking, in both directions: `reasoning_effort`, and what compatible servers invented for it."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from trilogue.errors import BadRequest
from trilogue.model import Effort, Json, Request, Thinking, ThinkingMode
from trilogue.protocols.chat.controls import Paths
from trilogue.protocols.codec import EncodingContext
from trilogue.protocols.content.effort import with_effort
from trilogue.protocols.fields.reader import Fields, LooseFields

_Read = tuple[Thinking | None, Fields | None]
"""the settings of a spelling, or None if it has none, and its reader with the unread fields"""


def decode_thinking(fields: Fields, paths: Paths) -> Thinking | None:
    """Return the settings for thinking, from the first of their spellings that is present."""
    for name, reader in _THINKING_READERS.items():
        value = fields.any(name) if name in fields.left else None
        if value is None:
            continue
        thinking, rest = reader(value)
        if thinking is not None:
            paths |= {"thinking": name, "effort": name, "visibility": name}
            fields.keep(name, rest)
            return thinking
        # The upstream may know what it means.
        fields.put_back(name, value)
    return None


def _read_effort(value: Json) -> _Read:
    if not isinstance(value, str):
        raise BadRequest("reasoning_effort must be a string", path="reasoning_effort")
    return with_effort(value), None


def _read_reasoning(value: Json) -> _Read:
    """Read OpenRouter's {effort, max_tokens, enabled, exclude}."""
    if not isinstance(value, dict):
        return None, None
    fields = LooseFields(value)
    known = with_effort(fields.text("effort"))
    budget, enabled, exclude = fields.integer("max_tokens"), fields.flag("enabled"), fields.flag("exclude")
    # False is the default; it is kept so that the request goes out unchanged.
    if exclude is False:
        fields.put_back("exclude", False)
    mode = ThinkingMode.BUDGET if budget is not None else _MODES.get(enabled)
    if budget is not None and enabled is not None:
        fields.put_back("enabled", enabled)
    visibility = "omitted" if exclude else None
    read = replace(known, mode=mode, budget=budget, visibility=visibility)
    return (None, None) if read == Thinking() else (read, fields)


def _read_thinking(value: Json) -> _Read:
    """Read {type: enabled | disabled, budget_tokens} of Moonshot, Z.ai and Anthropic's own OpenAI layer."""
    if not isinstance(value, dict):
        return None, None
    fields = LooseFields(value)
    kind, budget = fields.text("type"), fields.integer("budget_tokens")
    mode = {"enabled": ThinkingMode.ADAPTIVE, "disabled": ThinkingMode.DISABLED}.get(kind or "")
    if mode is None:
        return None, None
    if budget is not None and mode is ThinkingMode.ADAPTIVE:
        mode = ThinkingMode.BUDGET
    return Thinking(mode=mode, budget=budget), fields


def _read_switch(value: Json) -> _Read:
    """Read Qwen's `enable_thinking`, which is true or false."""
    return (Thinking(mode=_MODES[value]), None) if isinstance(value, bool) else (None, None)


_MODES: dict[bool | None, ThinkingMode | None] = {
    True: ThinkingMode.ADAPTIVE,
    False: ThinkingMode.DISABLED,
    None: None,
}


_THINKING_READERS: dict[str, Callable[[Json], _Read]] = {
    "reasoning_effort": _read_effort,
    "reasoning": _read_reasoning,
    "thinking": _read_thinking,
    "enable_thinking": _read_switch,
}


THINKING_FIELDS = tuple(_THINKING_READERS)


def encode_thinking(thinking: Thinking, request: Request, out: EncodingContext) -> dict[str, Json]:
    """Return the settings in their own spelling, or as `reasoning_effort` and the on/off switch of some servers."""
    if out.native:
        # Settings that the gateway added have no name in the client's request, or one that they cannot be written to.
        name = (request.paths or {}).get("thinking")
        if name is None or (name == "reasoning_effort" and thinking.level is None):
            name = "reasoning_effort" if thinking.level else out.profile.thinking_switch or "reasoning_effort"
        return {name: _THINKING_WRITERS[name](thinking)}
    if thinking.visibility not in (None, "omitted"):
        out.ledger.add("reasoning.visibility", request.where("thinking"))
    body: dict[str, Json] = {}
    if thinking.effort is not None:
        body["reasoning_effort"] = thinking.effort.value
    if thinking.mode is not None and out.profile.thinking_switch:
        body[out.profile.thinking_switch] = _THINKING_WRITERS[out.profile.thinking_switch](thinking)
    return body


def _is_off(thinking: Thinking) -> bool:
    return thinking.mode is ThinkingMode.DISABLED or thinking.effort is Effort.NONE


def _write_reasoning(thinking: Thinking) -> dict[str, Json]:
    enabled = {ThinkingMode.ADAPTIVE: True, ThinkingMode.DISABLED: False}.get(thinking.mode or ThinkingMode.BUDGET)
    body = {"effort": thinking.level, "max_tokens": thinking.budget, "enabled": enabled}
    if thinking.visibility == "omitted":
        body["exclude"] = True
    return {name: value for name, value in body.items() if value is not None}


def _write_thinking(thinking: Thinking) -> dict[str, Json]:
    body: dict[str, Json] = {"type": "disabled" if _is_off(thinking) else "enabled"}
    if thinking.budget is not None:
        body["budget_tokens"] = thinking.budget
    return body


_THINKING_WRITERS: dict[str, Callable[[Thinking], Json]] = {
    "reasoning_effort": lambda thinking: thinking.level,
    "reasoning": _write_reasoning,
    "thinking": _write_thinking,
    "enable_thinking": lambda thinking: not _is_off(thinking),
}
