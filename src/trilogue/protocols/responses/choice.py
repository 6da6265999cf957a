"""The tool choice of a request, `tool_choice`, in both directions."""

from __future__ import annotations

from trilogue.errors import BadRequest
from trilogue.model import CallKind, ChoiceMode, HostedKind, Json, ToolChoice, ToolRef
from trilogue.protocols.codec import EncodingContext
from trilogue.protocols.fields.reader import Fields
from trilogue.protocols.responses.wire import HOSTED_TOOLS

_MODES = {"auto": ChoiceMode.AUTO, "none": ChoiceMode.NONE, "required": ChoiceMode.REQUIRED}
_CHOICE_KINDS = {"function": CallKind.FUNCTION, "custom": CallKind.CUSTOM}
_CHOICE_OF_KIND = {HostedKind.CODE: "code_interpreter"}


def decode_choice(value: Json) -> ToolChoice | None:
    """Return the tool choice, in any of its forms; None if it is not set. Raises `BadRequest` for an unknown mode."""
    if value is None:
        return None
    if isinstance(value, str):
        if value not in _MODES:
            raise BadRequest(f"tool_choice cannot be {value!r}", path="tool_choice")
        return ToolChoice(mode=_MODES[value], path="tool_choice")
    fields = Fields(value, "tool_choice")
    kind = fields.text("type") or ""
    if kind in _CHOICE_KINDS:
        tool = ToolRef(
            name=fields.text("name") or "", kind=_CHOICE_KINDS[kind], namespace=fields.text("namespace"), native=value
        )
        return ToolChoice(mode=ChoiceMode.NAMED, tool=tool, path="tool_choice", extras=fields.rest())
    if kind == "allowed_tools":
        mode = _MODES.get(fields.text("mode") or "auto", ChoiceMode.AUTO)
        allowed = tuple(_ref(entry, f"tool_choice.tools[{n}]") for n, entry in enumerate(fields.items("tools") or ()))
        return ToolChoice(
            mode=ChoiceMode.ALLOWED, allowed=allowed, allowed_mode=mode, path="tool_choice", extras=fields.rest()
        )
    return ToolChoice(mode=ChoiceMode.HOSTED, tool=_ref(value, "tool_choice"), path="tool_choice")


def _ref(value: Json, path: str) -> ToolRef:
    fields = Fields(value, path)
    kind = fields.text("type") or "function"
    name = fields.text("name") or ""
    namespace = fields.text("namespace")
    if kind in _CHOICE_KINDS:
        rest = fields.rest()
        return ToolRef(name=name, kind=_CHOICE_KINDS[kind], namespace=namespace, native=value, path=path, extras=rest)
    label = fields.text("server_label")
    return ToolRef(
        name=name or label or "",
        hosted=HOSTED_TOOLS.get(kind, HostedKind.OTHER),
        native=value,
        path=path,
        extras=fields.rest(),
    )


def encode_choice(choice: ToolChoice, out: EncodingContext) -> Json:
    """Return `tool_choice`; None, and a declared loss, if the choice has no form here."""
    if choice.mode in _MODES.values():
        return choice.mode.value
    extras = (choice.extras or {}) if out.native else {}
    if choice.mode is ChoiceMode.ALLOWED:
        tools = [entry for ref in choice.allowed if (entry := _write_ref(ref, out)) is not None]
        return {"type": "allowed_tools", "mode": choice.allowed_mode.value, "tools": tools, **extras}
    entry = None if choice.tool is None else _write_ref(choice.tool, out)
    if entry is None:
        out.ledger.add("tool_choice.dropped", choice.path)
        return None
    return {**entry, **extras}


def _write_ref(ref: ToolRef, out: EncodingContext) -> dict[str, Json] | None:
    # MCP and hosted choices have further fields.
    if out.native and ref.native is not None:
        return dict(ref.native)
    if ref.hosted is not None:
        kind = _CHOICE_OF_KIND.get(ref.hosted)
        return None if kind is None else {"type": kind}
    # Flat, unlike Chat, which nests the name.
    entry = {"type": ref.kind.value, "name": ref.name}
    return entry if ref.namespace is None else {**entry, "namespace": ref.namespace}
