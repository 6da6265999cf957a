"""Fit the settings for thinking to the model, and switch it off where it rules out tools.

Chat Completions and Responses have levels of effort, and some Chat servers an on/off switch as well. Messages has
modes, token budgets and levels: newer models take an effort and decide for themselves, older ones take a budget below
the output limit. The result has only settings that the target's protocol can write.

The levels themselves are here as well: their names, the nearest one that a model accepts, and how they relate to
budgets.
"""

from __future__ import annotations

from msgspec.structs import replace

from trilogue.errors import Unsupported
from trilogue.model import ChoiceMode, Effort, Ledger, Protocol, Request, Thinking, ThinkingMode, ToolChoice
from trilogue.protocols.codec import EncodingContext
from trilogue.vendors.profile import ALL_EFFORTS, Profile

OFF = Thinking(mode=ThinkingMode.DISABLED)
_THINKS = (ThinkingMode.ADAPTIVE, ThinkingMode.BUDGET)
_SETTINGS = frozenset({"thinking", "reasoning", "reasoning_effort", "enable_thinking"})
"""the fields that hold the settings for thinking, in all protocols"""
# Anthropic's minimum; a smaller budget is a 400.
_LEAST_BUDGET = 1024
_RESPONSE_TOKENS = 4096
"""tokens that thinking leaves for the response if the output limit is our default; half of a small limit"""
_EFFORT_ORDER = tuple(Effort)
_EFFORT_LOSSES = {Effort.NONE: "effort.none", Effort.MINIMAL: "effort.minimal"}
_BUDGET_LIMITS = (
    (1_536, Effort.MINIMAL),
    (4_096, Effort.LOW),
    (16_384, Effort.MEDIUM),
    (28_672, Effort.HIGH),
    (49_152, Effort.XHIGH),
)
"""the largest budget of each effort: halfway between its budget in `BUDGETS` and the next one, so that an effort
survives the way to a budget and back"""
# Fixed numbers, independent of max_tokens: other gateways use shares of the limit, which cannot be converted back.
BUDGETS = {
    Effort.MINIMAL: 1_024,
    Effort.LOW: 2_048,
    Effort.MEDIUM: 8_192,
    Effort.HIGH: 24_576,
    Effort.XHIGH: 32_768,
}
"""the thinking tokens of each effort; `max` uses the whole output limit"""
_EFFORTS = {effort.value: effort for effort in Effort}
_OTHER_EFFORT_NAMES: dict[str, Effort | None] = {
    **dict.fromkeys(("off", "disabled", "no"), Effort.NONE),
    **dict.fromkeys(("min", "minimum", "lowest"), Effort.MINIMAL),
    **dict.fromkeys(("normal", "standard", "moderate"), Effort.MEDIUM),
    **dict.fromkeys(("", "auto", "default", "adaptive"), None),
}
"""names that are not higher than all known ones; None: the model's default"""


def fit_messages_mode(request: Request, out: EncodingContext) -> Thinking | None:
    """Return the settings of a Messages request, changed only where the model does not accept them."""
    wanted, profile = request.thinking, out.profile
    if wanted is None:
        return None
    effort = wanted.effort
    levels = profile.efforts
    if wanted.mode is ThinkingMode.DISABLED:
        # Opus 4.8 and Opus 5 accept no effort above high with disabled thinking.
        levels = tuple(level for level in levels if level in profile.efforts_without_thinking)
    if effort is not None and effort not in levels:
        effort = _nearest(effort, levels, request, out)
    if wanted.mode is ThinkingMode.DISABLED and not profile.disable_thinking:
        out.ledger.add("effort.none", request.where("thinking"))
        return Thinking(effort=effort)
    if wanted.mode in _THINKS and not (profile.adaptive_thinking or profile.budget_thinking):
        out.ledger.add("thinking.mode", request.where("thinking"))
        return None if effort is None else Thinking(effort=effort)
    # Adaptive thinking exists from Claude 4.6 on; older models need a budget.
    if wanted.mode is ThinkingMode.ADAPTIVE and not profile.adaptive_thinking:
        return replace(_budget(request, wanted, out) or Thinking(), effort=effort)
    # Claude from 4.7 on refuses budgets.
    if wanted.mode is ThinkingMode.BUDGET and not profile.budget_thinking:
        if effort is None and wanted.budget is not None:
            effort = _nearest(_effort_of(wanted, request, out), profile.efforts, request, out)
        return Thinking(effort=effort, mode=ThinkingMode.ADAPTIVE, visibility=wanted.visibility)
    most = profile.output_limit
    if wanted.budget is not None and most is not None and not _LEAST_BUDGET <= wanted.budget < most:
        return replace(_budget(request, wanted, out) or Thinking(), effort=effort)
    return replace(wanted, effort=effort)


def fit_mode(request: Request, out: EncodingContext) -> Thinking | None:
    """Return the settings of another protocol as modes, budgets and levels that a Messages model accepts.

    The response shows no more thinking than the client asked for: Responses shows a summary only if one is requested,
    many Messages models show it unless told not to.
    """
    fitted = _mode(request, out)
    thinks = fitted is not None and fitted.mode in (ThinkingMode.ADAPTIVE, ThinkingMode.BUDGET)
    if fitted is not None and thinks and out.source.traits.shows_thinking_if_asked and fitted.visibility is None:
        return replace(fitted, visibility="omitted")
    return fitted


def _mode(request: Request, out: EncodingContext) -> Thinking | None:
    """Return the settings for `fit_mode`, before visibility is considered."""
    wanted, profile = request.thinking, out.profile
    if wanted is None:
        return None
    if wanted.effort is Effort.NONE or wanted.mode is ThinkingMode.DISABLED:
        if profile.disable_thinking:
            return OFF
        out.ledger.add("effort.none", request.where("effort"))
        # Fable and Mythos always think and refuse `disabled`.
        return Thinking(effort=profile.efforts[0]) if profile.efforts else None
    if profile.adaptive_thinking:
        effort = _nearest(_effort_of(wanted, request, out), profile.efforts, request, out)
        return Thinking(effort=effort, mode=ThinkingMode.ADAPTIVE, visibility=wanted.visibility)
    if profile.budget_thinking:
        # Opus 4.5 accepts an effort and a budget, so both are sent.
        effort = _nearest(wanted.effort, profile.efforts, request, out) if profile.efforts else None
        fitted = _budget(request, wanted, out)
        return replace(fitted or Thinking(), effort=effort) if fitted or effort else None
    out.ledger.add("thinking.mode", request.where("thinking"))
    effort = _nearest(wanted.effort, profile.efforts, request, out) if profile.efforts else None
    return Thinking(effort=effort) if effort else None


def _effort_of(wanted: Thinking, request: Request, out: EncodingContext) -> Effort | None:
    """Return the effort of the settings, or the one that is nearest to their budget."""
    if wanted.effort is not None or wanted.budget is None:
        return wanted.effort
    return effort_of_budget(wanted.budget, request.where("thinking"), out.ledger)


def _nearest(
    effort: Effort | None, accepted: tuple[Effort, ...], request: Request, out: EncodingContext
) -> Effort | None:
    if effort is None:
        return None
    return nearest_effort(effort, accepted, request.where("effort"), out.ledger)


def _budget(request: Request, wanted: Thinking, out: EncodingContext) -> Thinking | None:
    """Return a token budget for thinking.

    None if the output limit leaves no room, or if the client only set the visibility of thinking.
    """
    if wanted == Thinking(visibility=wanted.visibility):
        out.ledger.add("reasoning.visibility", request.where("visibility"))
        return None
    client_limit = request.sampling.max_tokens
    limit = _output_limit(client_limit, out)
    if limit <= _LEAST_BUDGET:
        out.ledger.add("thinking.no_room", request.where("thinking"))
        return None
    budget = wanted.budget
    if budget is None:
        budget = limit if wanted.effort is Effort.MAX else BUDGETS[wanted.effort or Effort.MEDIUM]
    # The client's own limit already includes thinking in its protocol, so nothing is reserved for the response.
    most = limit - 1 if client_limit is not None else max(limit - min(_RESPONSE_TOKENS, limit // 2), _LEAST_BUDGET)
    return Thinking(
        mode=ThinkingMode.BUDGET, budget=min(max(budget, _LEAST_BUDGET), most), visibility=wanted.visibility
    )


def _output_limit(client_limit: int | None, out: EncodingContext) -> int:
    """Return the output limit that will be sent."""
    limit = out.profile.max_output if client_limit is None else client_limit
    return limit if out.profile.output_limit is None else min(limit, out.profile.output_limit)


def is_forced(choice: ToolChoice | None) -> bool:
    """Return whether the model must call a tool."""
    if choice is None:
        return False
    mode = choice.allowed_mode if choice.mode is ChoiceMode.ALLOWED else choice.mode
    return mode in (ChoiceMode.REQUIRED, ChoiceMode.NAMED, ChoiceMode.HOSTED)


def will_reason(thinking: Thinking | None, profile: Profile, target: Protocol) -> bool:
    """Return whether the model will reason with these settings, which must fit it already."""
    if profile.reasons in ("never", "always"):
        return profile.reasons == "always"
    if thinking is not None:
        if thinking.effort is Effort.NONE or thinking.mode is ThinkingMode.DISABLED:
            return False
        # In Messages, an effort without a mode does not make a model think.
        by_effort = thinking.effort is not None and target.traits.thinking != "mode"
        if thinking.mode in _THINKS or by_effort:
            return True
    return profile.reasons == "default"


def fit_thinking(request: Request, out: EncodingContext, target: Protocol) -> Request:
    """Return the request with settings for thinking that the model accepts together with its tools."""
    if out.profile.reasons == "never":
        return _without_thinking(request, out)
    request = _with_known_effort(request, out)
    if target.traits.thinking == "mode":
        thinking = fit_messages_mode(request, out) if out.native else fit_mode(request, out)
        if thinking is not None and thinking.mode is ThinkingMode.BUDGET and _is_forced_without_thinking(request, out):
            out.ledger.add("thinking.dropped_forced_tool", _path(request))
            thinking = None
        if thinking == request.thinking:
            return request
        had_mode = request.thinking is not None and request.thinking.mode is not None
        if had_mode and (thinking is None or thinking.mode is None):
            request = _without_other_settings(request)
        return replace(request, thinking=thinking)
    thinking = request.thinking
    if thinking is not None:
        if target.traits.thinking == "summary":
            thinking = _with_summary(thinking, request, out)
        thinking = _effort(thinking, request, out)
    if thinking != request.thinking:
        request = replace(request, thinking=thinking)
    return _without_conflict(request, out, target)


def _with_known_effort(request: Request, out: EncodingContext) -> Request:
    """Return the request with the nearest effort in place of one whose name is not known, which is declared.

    In its own protocol an unknown name stays, unless the profile says which levels the model accepts.
    """
    thinking = request.thinking
    if thinking is None or thinking.effort_name is None or (out.native and out.profile.efforts == ALL_EFFORTS):
        return request
    out.ledger.add("effort.clamped", request.where("effort"), thinking.effort_name)
    return replace(request, thinking=replace(thinking, effort_name=None))


def _is_forced_without_thinking(request: Request, out: EncodingContext) -> bool:
    return is_forced(request.tool_choice) and not out.profile.forced_tool_thinking


def _without_thinking(request: Request, out: EncodingContext) -> Request:
    """Return the request without settings for thinking, for a model that never thinks. Declares what is lost."""
    wanted = request.thinking
    if wanted is None:
        return request
    # Chat has several fields for thinking, of which the first one counts.
    cleaned = _without_other_settings(request) if out.native else request
    asks_for_thinking = wanted.effort not in (None, Effort.NONE) or wanted.mode not in (None, ThinkingMode.DISABLED)
    if asks_for_thinking or wanted.effort_name is not None or cleaned is not request:
        out.ledger.add("thinking.unavailable", _path(request))
    elif wanted.visibility not in (None, "omitted"):
        out.ledger.add("reasoning.visibility", request.where("visibility"))
    return replace(cleaned, thinking=None)


def _without_other_settings(request: Request) -> Request:
    """Return the request without settings for thinking that only its own protocol has."""
    given = request.extras or {}
    extras = {name: value for name, value in given.items() if name.partition(".")[0] not in _SETTINGS}
    return request if len(extras) == len(given) else replace(request, extras=extras or None)


def _path(request: Request) -> str:
    """Return the path of the settings for thinking; without any, the path of the tool choice or the tools."""
    thinking = request.thinking
    if thinking is None:
        choice = request.tool_choice
        return choice.path or "tool_choice" if is_forced(choice) and choice is not None else "tools"
    if thinking.mode is None and thinking.budget is None:
        return request.where("visibility" if thinking.effort is None else "effort")
    return request.where("thinking")


def _effort(wanted: Thinking, request: Request, out: EncodingContext) -> Thinking | None:
    """Return the settings with an effort that the model accepts, or switched off; None if nothing is left to send."""
    path = _path(request)
    if out.native and wanted.effort is None:
        return wanted
    level = wanted.effort if out.native else _level(wanted, path, out)
    accepted, switch = out.profile.efforts, out.profile.thinking_switch
    # Kimi refuses effort none but has a field that switches thinking off.
    if level is Effort.NONE and level not in accepted and switch:
        return replace(OFF, visibility=wanted.visibility)
    effort = level
    if level is Effort.NONE and level not in accepted:
        effort = _lowest_effort(path, out)
    elif level is not None:
        effort = nearest_effort(level, accepted, path, out.ledger)
    asks_for_thinking = level is not Effort.NONE and (level is not None or wanted.mode in _THINKS)
    # Models that reason only on request need the switch in addition to an effort.
    mode = ThinkingMode.ADAPTIVE if asks_for_thinking and switch and out.profile.reasons == "asked" else None
    fitted = Thinking(
        effort=effort,
        effort_name=wanted.effort_name,
        mode=wanted.mode if out.native else mode,
        visibility=wanted.visibility,
    )
    return None if fitted == Thinking() else fitted


def _lowest_effort(path: str, out: EncodingContext) -> Effort | None:
    """Return the lowest effort, for a model whose reasoning cannot be switched off.

    None for models that do not always reason: an effort would make them begin to, or they would refuse the field.
    """
    if out.profile.reasons == "asked":
        return None
    out.ledger.add("effort.none", path, Effort.NONE.value)
    return out.profile.efforts[0] if out.profile.reasons == "always" and out.profile.efforts else None


def _with_summary(wanted: Thinking, request: Request, out: EncodingContext) -> Thinking:
    """Return settings of Responses with a summary that the model offers.

    A Messages client that lets a model think expects to see the thinking, so `auto` is set for it.
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
        declare_settings_overridden_by_effort(thinking, path, out.ledger)
        return thinking.effort
    if thinking.mode is ThinkingMode.BUDGET and thinking.budget is not None:
        return effort_of_budget(thinking.budget, path, out.ledger)
    if thinking.mode is ThinkingMode.BETWEEN_TOOLS:
        out.ledger.add("thinking.mode", path, thinking.mode.value)
    return Effort.NONE if thinking.mode in (ThinkingMode.BETWEEN_TOOLS, ThinkingMode.DISABLED) else None


def _without_conflict(request: Request, out: EncodingContext, target: Protocol) -> Request:
    """Switch reasoning off if the model does not accept it together with tools, or with a forced choice.

    Raises `Unsupported` if the model always reasons and needs the tools.
    """
    profile = out.profile
    if not will_reason(request.thinking, profile, target):
        return request
    forced = request.tools and _is_forced_without_thinking(request, out)
    if not forced and (profile.tools_with_reasoning or not request.tools):
        return request
    # Kimi, DeepSeek and older Claude models refuse a forced tool choice while they think.
    off = _switched_off(profile)
    if off is not None:
        out.ledger.add("thinking.dropped_forced_tool" if forced else "thinking.dropped_tools", _path(request))
        return replace(request, thinking=off)
    if not forced or request.tool_choice is None:
        raise Unsupported("tools", "on this protocol the model takes tools only without reasoning, and always reasons")
    out.ledger.add("tool_choice.dropped", request.tool_choice.path or "tool_choice")
    return replace(request, tool_choice=None)


def _switched_off(profile: Profile) -> Thinking | None:
    """Return the settings that switch reasoning off; None if the model always reasons or has no such setting."""
    if profile.reasons == "always":
        return None
    if Effort.NONE in profile.efforts:
        return Thinking(effort=Effort.NONE)
    return OFF if profile.thinking_switch else None


def with_effort(name: str | None) -> Thinking:
    """Return settings with the effort of this name, or the nearest one for a name that is not known.

    Vendors have added levels only at the top so far (xhigh, max, ultra), so an unknown name is taken as the highest.
    """
    if name is None or name in _EFFORTS:
        return Thinking(effort=None if name is None else _EFFORTS[name])
    plain = name.strip().lower()
    return Thinking(effort=_EFFORTS.get(plain) or _OTHER_EFFORT_NAMES.get(plain, Effort.MAX), effort_name=name)


def effort_of_budget(budget: int, path: str, ledger: Ledger) -> Effort:
    """Return the effort that is nearest to a token budget, and declare the loss."""
    ledger.add("thinking.budget", path, str(budget))
    return next((effort for most, effort in _BUDGET_LIMITS if budget <= most), Effort.MAX)


def declare_settings_overridden_by_effort(thinking: Thinking, path: str, ledger: Ledger) -> None:
    """Declare the settings for thinking that have no place next to an effort, which takes precedence."""
    if thinking.mode in (ThinkingMode.DISABLED, ThinkingMode.BETWEEN_TOOLS):
        ledger.add("thinking.mode", path, thinking.mode.value)
    elif thinking.budget is not None:
        ledger.add("thinking.budget", path, str(thinking.budget))


def nearest_effort(wanted: Effort, accepted: tuple[Effort, ...], path: str, ledger: Ledger) -> Effort | None:
    """Return the nearest level that the model accepts, the lower of two; None if it accepts none.

    A request for some thinking never becomes `none`. A request for none becomes the lowest level if `none` is not
    accepted.
    """
    if wanted in accepted:
        return wanted
    # `none` is not a neighbour of `low`: it would switch off the thinking that the client asked for.
    thinking = tuple(level for level in accepted if level is not Effort.NONE)
    if not thinking:
        if wanted is not Effort.NONE:
            ledger.add("param.dropped", path)
        return None
    ledger.add(_EFFORT_LOSSES.get(wanted, "effort.clamped"), path, wanted.value)
    place = _EFFORT_ORDER.index(wanted)
    return min(thinking, key=lambda level: abs(_EFFORT_ORDER.index(level) - place))
