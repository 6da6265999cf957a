"""`tool_choice` in both directions. In this protocol it also says whether tools may be called in parallel."""

from __future__ import annotations

from trilogue.errors import BadRequest
from trilogue.model import ChoiceMode, HostedTool, Json, Request, Tool, ToolChoice, ToolRef
from trilogue.protocols.codec import EncodingContext
from trilogue.protocols.fields.reader import Fields
from trilogue.protocols.fit.thinking import is_forced
from trilogue.protocols.messages.wire import TOOL_TYPES, TOOL_VERSION

_CHOICES = {"auto": ChoiceMode.AUTO, "any": ChoiceMode.REQUIRED, "none": ChoiceMode.NONE, "tool": ChoiceMode.NAMED}


_CHOICE_NAMES = {mode: name for name, mode in _CHOICES.items()}


def decode_choice(fields: Fields, tools: tuple[Tool, ...]) -> tuple[ToolChoice | None, bool | None]:
    """Return the tool choice, and whether tools may be called in parallel; None for what is not set."""
    native = fields.mapping("tool_choice")
    if native is None:
        return None, None
    choice = Fields(native, fields.at("tool_choice"))
    kind = choice.text("type") or ""
    if kind not in _CHOICES:
        raise BadRequest(f"{choice.at('type')} must be one of {', '.join(_CHOICES)}", path=choice.at("type"))
    mode = _CHOICES[kind]
    disabled = choice.flag("disable_parallel_tool_use")
    ref = None
    if mode is ChoiceMode.NAMED:
        name = choice.required("name")
        hosted = next((t.kind for t in tools if isinstance(t, HostedTool) and _is_hosted(t, name)), None)
        ref = ToolRef(name=name, hosted=hosted, native=native if hosted else None)
        mode = ChoiceMode.HOSTED if hosted else mode
    result = ToolChoice(mode=mode, tool=ref, path=choice.path, extras=choice.rest())
    return result, None if disabled is None else not disabled


def _is_hosted(tool: HostedTool, name: str) -> bool:
    """Return whether a name means a hosted tool. A tool that the client runs is chosen like a function."""
    return tool.name == name and not tool.runs_on_client


def encode_choice(request: Request, tools: list[Json], out: EncodingContext) -> dict[str, Json] | None:
    """Return `tool_choice`; None if there is none to send."""
    choice, native = request.tool_choice, out.native
    wire = _choice(choice, tools, out) if choice is not None else None
    # Anthropic refuses a tool choice without tools.
    if not tools and not native:
        if choice is not None and is_forced(choice):
            out.ledger.add("tool_choice.dropped", choice.path or "tool_choice")
        return None
    if request.parallel_tools is False or (native and request.parallel_tools is not None):
        # The flag has no place of its own: without a choice it needs one of type auto.
        wire = wire or {"type": "auto"}
        # The flag is not allowed on `none`.
        if wire["type"] != "none" or native:
            wire["disable_parallel_tool_use"] = not request.parallel_tools
    if native and wire is not None and choice is not None and choice.extras:
        wire = {**choice.extras, **wire}
    return wire


def _choice(choice: ToolChoice, tools: list[Json], out: EncodingContext) -> dict[str, Json] | None:
    mode = choice.allowed_mode if choice.mode is ChoiceMode.ALLOWED else choice.mode
    if mode is ChoiceMode.HOSTED:
        return _hosted_choice(choice, tools, out)
    wire: dict[str, Json] = {"type": _CHOICE_NAMES.get(mode, "auto")}
    if choice.tool is not None and mode is ChoiceMode.NAMED:
        wire["name"] = choice.tool.name
    return wire


def _hosted_choice(choice: ToolChoice, tools: list[Json], out: EncodingContext) -> dict[str, Json] | None:
    kind = choice.tool.hosted if choice.tool else None
    for tool in tools:
        name = tool.get("name")
        if name and kind is TOOL_TYPES.get(TOOL_VERSION.sub("", tool.get("type") or ""), (None, False))[0]:
            return {"type": "tool", "name": name}
    out.ledger.add("tool_choice.dropped", choice.path or "tool_choice")
    return None
