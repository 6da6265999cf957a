"""`tool_choice`, and the deprecated `function_call`, in both directions."""

from __future__ import annotations

from trilogue.errors import BadRequest
from trilogue.model import ChoiceMode, HostedKind, Json, ToolChoice, ToolRef
from trilogue.protocols.chat.wire import CALL_KINDS
from trilogue.protocols.codec import EncodingContext
from trilogue.protocols.fields.extras import restore_extras
from trilogue.protocols.fields.reader import Fields

# Mistral has "any" where OpenAI has "required".
_MODES = {
    "auto": ChoiceMode.AUTO,
    "none": ChoiceMode.NONE,
    "required": ChoiceMode.REQUIRED,
    "any": ChoiceMode.REQUIRED,
}


_MODE_NAMES = {ChoiceMode.AUTO: "auto", ChoiceMode.NONE: "none", ChoiceMode.REQUIRED: "required"}


CHOICE_FIELDS = ("tool_choice", "function_call")


def decode_choice(fields: Fields, _: object) -> ToolChoice | None:
    """Return the tool choice from `tool_choice` or the deprecated `function_call`; None if there is none."""
    for name, kind in (("tool_choice", "function"), ("function_call", "")):
        value = fields.any(name)
        if isinstance(value, str):
            if value not in _MODES:
                raise BadRequest(f"{name} must be none, auto, required or an object", path=name)
            return ToolChoice(mode=_MODES[value], path=name)
        if isinstance(value, dict):
            return _choice_object(value, name) if kind else _named(value, name)
        if value is not None:
            raise BadRequest(f"{name} must be a string or an object", path=name)
    return None


def _choice_object(value: dict[str, Json], path: str) -> ToolChoice:
    kind = value.get("type", "function")
    if kind == "allowed_tools":
        return _allowed(Fields(value, path))
    if isinstance(kind, str) and kind in CALL_KINDS:
        return _named(value, path)
    return ToolChoice(mode=ChoiceMode.HOSTED, tool=ToolRef(hosted=HostedKind.OTHER, native=value), path=path)


def _named(value: dict[str, Json], path: str) -> ToolChoice:
    return ToolChoice(mode=ChoiceMode.NAMED, tool=_reference(value, path), path=path)


def _allowed(fields: Fields) -> ToolChoice:
    fields.any("type")
    inner = Fields(fields.any("allowed_tools"), fields.at("allowed_tools"))
    mode = _MODES.get(inner.text("mode") or "auto", ChoiceMode.AUTO)
    tools = enumerate(inner.items("tools") or ())
    allowed = tuple([_reference(tool, f"{inner.at('tools')}[{index}]") for index, tool in tools])
    fields.keep("allowed_tools", inner)
    return ToolChoice(
        mode=ChoiceMode.ALLOWED, allowed=allowed, allowed_mode=mode, path=fields.path, extras=fields.rest()
    )


def _reference(value: Json, path: str) -> ToolRef:
    fields = Fields(value, path)
    kind = fields.any("type") or "function"
    if not isinstance(kind, str) or kind not in CALL_KINDS:
        return ToolRef(hosted=HostedKind.OTHER, native=value)
    inner = fields.fields(kind)
    # Some clients write the name flat, as Responses does.
    name = (inner if inner is not None else fields).filled("name")
    fields.keep(kind, inner)
    return ToolRef(name=name, kind=CALL_KINDS[kind], path=path, extras=fields.rest())


def encode_choice(choice: ToolChoice, offered: bool, out: EncodingContext) -> dict[str, Json]:
    """Return `tool_choice` as a field of the body; empty if it has no form here.

    `offered`: whether the request has tools. OpenAI and compatible servers refuse a choice without any.
    """
    # OpenAI and compatible servers refuse tool_choice without tools.
    if not offered and not out.native:
        if choice.mode not in (ChoiceMode.AUTO, ChoiceMode.NONE):
            out.ledger.add("tool_choice.dropped", choice.path)
        return {}
    if choice.mode in _MODE_NAMES:
        return {"tool_choice": _MODE_NAMES[choice.mode]}
    if choice.mode is ChoiceMode.ALLOWED:
        return {"tool_choice": _encode_allowed(choice, out)}
    wire = _encode_reference(choice.tool, out) if choice.tool is not None else None
    if wire is None:
        out.ledger.add("tool_choice.dropped", choice.path)
        return {}
    return {"tool_choice": wire}


def _encode_allowed(choice: ToolChoice, out: EncodingContext) -> Json:
    mode = _MODE_NAMES.get(choice.allowed_mode, "auto")
    # Only OpenAI's servers have allowed_tools; elsewhere the other tools are not offered at all.
    if not (out.native or out.profile.openai_fields):
        return mode
    tools = [wire for ref in choice.allowed if (wire := _encode_reference(ref, out)) is not None]
    allowed: dict[str, Json] = {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}
    if out.native and choice.extras:
        restore_extras(allowed, choice.extras)
    return allowed


def _encode_reference(ref: ToolRef, out: EncodingContext) -> dict[str, Json] | None:
    if ref.hosted is not None:
        return ref.native if out.native else None
    wire: dict[str, Json] = {"type": ref.kind.value, ref.kind.value: {"name": ref.name}}
    if out.native and ref.extras:
        restore_extras(wire, ref.extras)
    return wire
