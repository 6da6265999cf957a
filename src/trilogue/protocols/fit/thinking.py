"""How much to think, as the model can be told it, and whether it may think beside its tools.

Chat Completions and Responses know levels of effort, some Chat servers a switch beside them. What Messages knows is
`modes.py`. What comes out says no more than the target's protocol can write.

Thinking of Messages: modes, token budgets and levels of effort, as the model takes them.

Newer models take an effort and decide for themselves; older ones take a budget of tokens, below the output limit.
"""

from __future__ import annotations

from msgspec.structs import replace

from trilogue.errors import Unsupported
from trilogue.model import ChoiceMode, Effort, Protocol, Request, Thinking, ThinkingMode, ToolChoice
from trilogue.profiles import Profile
from trilogue.protocols.codec import EncodingContext
from trilogue.protocols.content.effort import BUDGETS, effort_of_budget, lose_beside_effort, nearest_effort

OFF = Thinking(mode=ThinkingMode.DISABLED)
_LEAST_BUDGET = 1024
_ANSWER = 4096
"""tokens that thinking leaves to the response where the output limit is ours; of small limits a half"""


def fit_own_mode(request: Request, out: EncodingContext) -> Thinking | None:
    """Return settings of Messages itself, changed only where the model does not take them."""
    wanted, profile = request.thinking, out.profile
    if wanted is None:
        return None
    effort = wanted.effort
    levels = profile.efforts
    if wanted.mode is ThinkingMode.DISABLED:
        levels = tuple(level for level in levels if level in profile.efforts_without_thinking)
    if effort is not None and effort not in levels:
        effort = _nearest(effort, levels, request, out)
    if wanted.mode is ThinkingMode.DISABLED and not profile.disable_thinking:
        out.ledger.add("effort.none", request.where("thinking"))
        return Thinking(effort=effort)
    if wanted.mode is ThinkingMode.ADAPTIVE and not profile.adaptive_thinking:
        return replace(_budget(request, wanted, out) or Thinking(), effort=effort)
    if wanted.mode is ThinkingMode.BUDGET and not profile.budget_thinking:
        if effort is None and wanted.budget is not None:
            effort = _nearest(_effort_of(wanted, request, out), profile.efforts, request, out)
        return Thinking(effort=effort, mode=ThinkingMode.ADAPTIVE, visibility=wanted.visibility)
    most = profile.output_limit
    if wanted.budget is not None and most is not None and not _LEAST_BUDGET <= wanted.budget < most:
        return replace(_budget(request, wanted, out) or Thinking(), effort=effort)
    return replace(wanted, effort=effort)


def fit_mode(request: Request, out: EncodingContext) -> Thinking | None:
    """Return settings of another protocol as modes, budgets and levels that the model takes.

    They show no more thinking than the client asked for: Responses shows a summary only where one is asked for, many
    models of Messages show it unless told otherwise.
    """
    fitted = _mode(request, out)
    thinks = fitted is not None and fitted.mode in (ThinkingMode.ADAPTIVE, ThinkingMode.BUDGET)
    if fitted is not None and thinks and out.source is Protocol.RESPONSES and fitted.visibility is None:
        return replace(fitted, visibility="omitted")
    return fitted


def _mode(request: Request, out: EncodingContext) -> Thinking | None:
    wanted, profile = request.thinking, out.profile
    if wanted is None:
        return None
    if wanted.effort is Effort.NONE or wanted.mode is ThinkingMode.DISABLED:
        if profile.disable_thinking:
            return OFF
        out.ledger.add("effort.none", request.where("effort"))
        return Thinking(effort=profile.efforts[0]) if profile.efforts else None
    if profile.adaptive_thinking:
        effort = _nearest(_effort_of(wanted, request, out), profile.efforts, request, out)
        return Thinking(effort=effort, mode=ThinkingMode.ADAPTIVE, visibility=wanted.visibility)
    if profile.budget_thinking:
        effort = _nearest(wanted.effort, profile.efforts, request, out) if profile.efforts else None
        fitted = _budget(request, wanted, out)
        return replace(fitted or Thinking(), effort=effort) if fitted or effort else None
    out.ledger.add("thinking.mode", request.where("thinking"))
    return None


def _effort_of(wanted: Thinking, request: Request, out: EncodingContext) -> Effort | None:
    if wanted.effort is not None or wanted.budget is None:
        return wanted.effort
    return effort_of_budget(wanted.budget, request.where("thinking"), out.ledger)


def _nearest(effort: Effort | None, taken: tuple[Effort, ...], request: Request, out: EncodingContext) -> Effort | None:
    if effort is None:
        return None
    return nearest_effort(effort, taken, request.where("effort"), out.ledger)


def _budget(request: Request, wanted: Thinking, out: EncodingContext) -> Thinking | None:
    """Return a token budget for thinking; None where there is no room, or only a wish to see what is thought."""
    if wanted == Thinking(visibility=wanted.visibility):
        out.ledger.add("reasoning.visibility", request.where("visibility"))
        return None
    asked = request.sampling.max_tokens
    limit = _output_limit(asked, out)
    if limit <= _LEAST_BUDGET:
        out.ledger.add("thinking.no_room", request.where("thinking"))
        return None
    budget = wanted.budget
    if budget is None:
        budget = limit if wanted.effort is Effort.MAX else BUDGETS[wanted.effort or Effort.MEDIUM]
    # A limit that the client gave is its own to divide: its protocol counts thinking too.
    most = limit - 1 if asked is not None else max(limit - min(_ANSWER, limit // 2), _LEAST_BUDGET)
    return Thinking(
        mode=ThinkingMode.BUDGET, budget=min(max(budget, _LEAST_BUDGET), most), visibility=wanted.visibility
    )


def _output_limit(asked: int | None, out: EncodingContext) -> int:
    """Return the output limit that will be sent."""
    limit = out.profile.max_output if asked is None else asked
    return limit if out.profile.output_limit is None else min(limit, out.profile.output_limit)


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


def fit_thinking(request: Request, out: EncodingContext, target: Protocol) -> Request:
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


def _rules_out(request: Request, out: EncodingContext) -> bool:
    return is_forced(request.tool_choice) and not out.profile.forced_tool_thinking


def _never(request: Request, out: EncodingContext) -> Request:
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


def _effort(wanted: Thinking, request: Request, out: EncodingContext) -> Thinking | None:
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


def _least(path: str, out: EncodingContext) -> Effort | None:
    """Return the least effort of a model that cannot be told not to reason.

    Only for models that are known to reason anyway: any other would begin to, or refuse a field that nobody asked for.
    """
    if out.profile.reasons == "asked":
        return None
    out.ledger.add("effort.none", path, Effort.NONE.value)
    return out.profile.efforts[0] if out.profile.reasons == "always" and out.profile.efforts else None


def _shown(wanted: Thinking, request: Request, out: EncodingContext) -> Thinking:
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


def _level(thinking: Thinking, path: str, out: EncodingContext) -> Effort | None:
    """Return the effort that these settings mean; None for the model's default."""
    if thinking.effort is not None:
        lose_beside_effort(thinking, path, out.ledger)
        return thinking.effort
    if thinking.mode is ThinkingMode.BUDGET and thinking.budget is not None:
        return effort_of_budget(thinking.budget, path, out.ledger)
    if thinking.mode is ThinkingMode.BETWEEN_TOOLS:
        out.ledger.add("thinking.mode", path, thinking.mode.value)
    return Effort.NONE if thinking.mode in (ThinkingMode.BETWEEN_TOOLS, ThinkingMode.DISABLED) else None


def _beside_tools(request: Request, out: EncodingContext, target: Protocol) -> Request:
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
