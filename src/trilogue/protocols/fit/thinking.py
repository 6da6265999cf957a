"""How much to think, as the model can be told it, and whether it may think beside its tools.

Chat Completions and Responses know levels of effort, some Chat servers a switch beside them. What Messages knows is
`modes.py`. What comes out says no more than the target's protocol can write.
"""

from __future__ import annotations

from msgspec.structs import replace

from trilogue.errors import Unsupported
from trilogue.model import ChoiceMode, Effort, Protocol, Request, Thinking, ThinkingMode, ToolChoice
from trilogue.profiles import Profile
from trilogue.protocols.effort import effort_of_budget, lose_beside_effort, nearest_effort
from trilogue.protocols.fit.modes import OFF, fit_mode, fit_own_mode
from trilogue.protocols.outgoing import Outgoing

_THINKS = (ThinkingMode.ADAPTIVE, ThinkingMode.BUDGET)


def is_forced(choice: ToolChoice | None) -> bool:
    """Tell whether the model must call a tool."""
    if choice is None:
        return False
    mode = choice.allowed_mode if choice.mode is ChoiceMode.ALLOWED else choice.mode
    return mode in (ChoiceMode.REQUIRED, ChoiceMode.NAMED, ChoiceMode.HOSTED)


def will_reason(thinking: Thinking | None, profile: Profile, target: Protocol) -> bool:
    """Tell whether a model will reason that gets a request which fits."""
    if profile.reasons in ("never", "always"):
        return profile.reasons == "always"
    if thinking is not None:
        if thinking.effort is Effort.NONE or thinking.mode is ThinkingMode.DISABLED:
            return False
        # On Messages an effort alone does not make a model think.
        asked = thinking.mode in _THINKS or (thinking.effort is not None and target is not Protocol.MESSAGES)
        if asked:
            return True
    return profile.reasons == "default"


def fit_thinking(request: Request, out: Outgoing, target: Protocol) -> Request:
    """Return the request with thinking settings that the model takes, beside its tools."""
    if out.profile.reasons == "never":
        return _never(request, out)
    if target is Protocol.MESSAGES:
        thinking = fit_own_mode(request, out) if out.native else fit_mode(request, out)
        if thinking is not None and thinking.mode is ThinkingMode.BUDGET and _rules_out(request, out):
            out.ledger.add("thinking.dropped_forced_tool", _path(request))
            thinking = None
        return request if thinking == request.thinking else replace(request, thinking=thinking)
    thinking = request.thinking
    if thinking is not None:
        if target is Protocol.RESPONSES:
            thinking = _shown(thinking, request, out)
        thinking = _effort(thinking, request, out)
    if thinking != request.thinking:
        request = replace(request, thinking=thinking)
    return _beside_tools(request, out, target)


def _rules_out(request: Request, out: Outgoing) -> bool:
    return is_forced(request.tool_choice) and not out.profile.forced_tool_thinking


def _never(request: Request, out: Outgoing) -> Request:
    wanted = request.thinking
    if wanted is None:
        return request
    wishes = wanted.effort not in (None, Effort.NONE) or wanted.mode not in (None, ThinkingMode.DISABLED)
    if wishes:
        out.ledger.add("thinking.unavailable", _path(request))
    elif wanted.visibility not in (None, "omitted"):
        out.ledger.add("reasoning.visibility", request.where("visibility"))
    return replace(request, thinking=None)


def _path(request: Request) -> str:
    """Return where a request says how much to think; where it says nothing, what it is about instead."""
    thinking = request.thinking
    if thinking is None:
        choice = request.tool_choice
        return choice.path or "tool_choice" if is_forced(choice) and choice is not None else "tools"
    if thinking.mode is None and thinking.budget is None:
        return request.where("visibility" if thinking.effort is None else "effort")
    return request.where("thinking")


def _effort(wanted: Thinking, request: Request, out: Outgoing) -> Thinking | None:
    path = _path(request)
    if out.native and wanted.effort is None:
        return wanted
    level = wanted.effort if out.native else _level(wanted, path, out)
    taken, switch = out.profile.efforts, out.profile.thinking_switch
    if level is Effort.NONE and level not in taken and switch:
        return replace(OFF, visibility=wanted.visibility)
    effort = level
    if level is Effort.NONE and level not in taken:
        effort = _least(path, out)
    elif level is not None:
        effort = nearest_effort(level, taken, path, out.ledger)
    asks = level is not Effort.NONE and (level is not None or wanted.mode in _THINKS)
    mode = ThinkingMode.ADAPTIVE if asks and switch and out.profile.reasons == "asked" else None
    fitted = Thinking(effort=effort, mode=wanted.mode if out.native else mode, visibility=wanted.visibility)
    return None if fitted == Thinking() else fitted


def _least(path: str, out: Outgoing) -> Effort | None:
    """Return the least effort of a model that cannot be told not to reason.

    Only for models that are known to reason anyway: any other would begin to, or refuse a field that nobody asked for.
    """
    if out.profile.reasons == "asked":
        return None
    out.ledger.add("effort.none", path, Effort.NONE.value)
    return out.profile.efforts[0] if out.profile.reasons == "always" and out.profile.efforts else None


def _shown(wanted: Thinking, request: Request, out: Outgoing) -> Thinking:
    """Return settings of Responses with a summary that the model gives.

    A Messages client that lets a model think wants to see what it thinks.
    """
    visibility, offered = wanted.visibility, out.profile.summaries
    if visibility is None:
        shows = wanted.mode in _THINKS and not out.native and "auto" in offered
        return replace(wanted, visibility="auto") if shows else wanted
    if visibility == "omitted" or visibility in offered:
        return wanted
    out.ledger.add("reasoning.visibility", request.where("thinking"), visibility)
    return replace(wanted, visibility="auto" if "auto" in offered else None)


def _level(thinking: Thinking, path: str, out: Outgoing) -> Effort | None:
    """Return the effort that these settings mean; None for the model's default."""
    if thinking.effort is not None:
        lose_beside_effort(thinking, path, out.ledger)
        return thinking.effort
    if thinking.mode is ThinkingMode.BUDGET and thinking.budget is not None:
        return effort_of_budget(thinking.budget, path, out.ledger)
    if thinking.mode is ThinkingMode.BETWEEN_TOOLS:
        out.ledger.add("thinking.mode", path, thinking.mode.value)
    return Effort.NONE if thinking.mode in (ThinkingMode.BETWEEN_TOOLS, ThinkingMode.DISABLED) else None


def _beside_tools(request: Request, out: Outgoing, target: Protocol) -> Request:
    """Switch reasoning off where it rules out tools, or a forced choice of one."""
    profile = out.profile
    if not will_reason(request.thinking, profile, target):
        return request
    forced = request.tools and _rules_out(request, out)
    if not forced and (profile.tools_with_reasoning or not request.tools):
        return request
    off = _switched_off(profile)
    if off is not None:
        out.ledger.add("thinking.dropped_forced_tool" if forced else "thinking.dropped_tools", _path(request))
        return replace(request, thinking=off)
    if not forced or request.tool_choice is None:
        raise Unsupported("tools", "on this protocol the model takes tools only without reasoning, and always reasons")
    out.ledger.add("tool_choice.dropped", request.tool_choice.path or "tool_choice")
    return replace(request, tool_choice=None)


def _switched_off(profile: Profile) -> Thinking | None:
    if profile.reasons == "always":
        return None
    if Effort.NONE in profile.efforts:
        return Thinking(effort=Effort.NONE)
    return OFF if profile.thinking_switch else None
