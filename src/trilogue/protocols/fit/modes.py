"""Thinking of Messages: modes, token budgets and levels of effort, as the model takes them.

Newer models take an effort and decide for themselves; older ones take a budget of tokens, below the output limit.
"""

from __future__ import annotations

from msgspec.structs import replace

from trilogue.model import Effort, Protocol, Request, Thinking, ThinkingMode
from trilogue.protocols.effort import BUDGETS, effort_of_budget, nearest_effort
from trilogue.protocols.outgoing import Outgoing

OFF = Thinking(mode=ThinkingMode.DISABLED)
_LEAST_BUDGET = 1024
_ANSWER = 4096
"""tokens that thinking leaves to the response where the output limit is ours; of small limits a half"""


def fit_own_mode(request: Request, out: Outgoing) -> Thinking | None:
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


def fit_mode(request: Request, out: Outgoing) -> Thinking | None:
    """Return settings of another protocol as modes, budgets and levels that the model takes.

    They show no more thinking than the client asked for: Responses shows a summary only where one is asked for, many
    models of Messages show it unless told otherwise.
    """
    fitted = _mode(request, out)
    thinks = fitted is not None and fitted.mode in (ThinkingMode.ADAPTIVE, ThinkingMode.BUDGET)
    if fitted is not None and thinks and out.source is Protocol.RESPONSES and fitted.visibility is None:
        return replace(fitted, visibility="omitted")
    return fitted


def _mode(request: Request, out: Outgoing) -> Thinking | None:
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


def _effort_of(wanted: Thinking, request: Request, out: Outgoing) -> Effort | None:
    if wanted.effort is not None or wanted.budget is None:
        return wanted.effort
    return effort_of_budget(wanted.budget, request.where("thinking"), out.ledger)


def _nearest(effort: Effort | None, taken: tuple[Effort, ...], request: Request, out: Outgoing) -> Effort | None:
    if effort is None:
        return None
    return nearest_effort(effort, taken, request.where("effort"), out.ledger)


def _budget(request: Request, wanted: Thinking, out: Outgoing) -> Thinking | None:
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


def _output_limit(asked: int | None, out: Outgoing) -> int:
    """Return the output limit that will be sent."""
    limit = out.profile.max_output if asked is None else asked
    return limit if out.profile.output_limit is None else min(limit, out.profile.output_limit)
