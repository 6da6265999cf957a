"""How much to think, and how much of it to show, both ways.

Newer models take an effort and decide for themselves; older ones take a budget of tokens. Which one, the target's
profile says.
"""

from __future__ import annotations

from trilogue.model import Effort, Request, Thinking, ThinkingMode
from trilogue.protocols.effort import BUDGETS, effort_of_budget, nearest_effort
from trilogue.protocols.fields import Fields
from trilogue.protocols.messages.controls import take_enum
from trilogue.protocols.messages.wire import DISPLAY, EFFORTS, THINKING, Wire, reverse
from trilogue.protocols.outgoing import Outgoing


def decode_thinking(fields: Fields, config: Fields | None) -> Thinking | None:
    """`thinking`, and the effort from `config`, which is `output_config`."""
    effort = take_enum(config, "effort", EFFORTS) if config else None
    thinking = fields.fields("thinking")
    if thinking is None:
        return Thinking(effort=effort) if effort else None
    result = Thinking(
        effort=effort,
        mode=take_enum(thinking, "type", THINKING),
        budget=thinking.integer("budget_tokens"),
        visibility=take_enum(thinking, "display", DISPLAY),
    )
    fields.keep("thinking", thinking)
    return result


_LEAST_BUDGET = 1024
_ANSWER = 4096
"""tokens that thinking leaves to the answer where the output limit is ours; of small limits a half"""

_MODE_NAMES = reverse(THINKING)
_SHOWN = {"auto": "summarized", "concise": "summarized", "detailed": "summarized", "omitted": "omitted"}


def encode_thinking(request: Request, limit: int, out: Outgoing) -> tuple[Wire | None, Wire]:
    """`thinking`, and the part of `output_config` that goes with it. `limit`: the output limit that will be sent."""
    wanted = request.thinking
    if wanted is None:
        return None, {}
    if out.native:
        return _native_thinking(wanted)
    if wanted.effort is Effort.NONE or wanted.mode is ThinkingMode.DISABLED:
        return _no_thinking(request, out)
    if out.profile.adaptive_thinking:
        return _adaptive(request, wanted, out)
    if out.profile.budget_thinking:
        return _with_budget(request, wanted, limit, out)
    out.ledger.add("thinking.mode", request.where("thinking"))
    return None, {}


def _native_thinking(wanted: Thinking) -> tuple[Wire | None, Wire]:
    config = {} if wanted.effort is None else {"effort": wanted.effort.value}
    thinking: Wire = {}
    if wanted.mode is not None:
        thinking["type"] = _MODE_NAMES[wanted.mode]
    if wanted.budget is not None:
        thinking["budget_tokens"] = wanted.budget
    if wanted.visibility is not None:
        thinking["display"] = _SHOWN[wanted.visibility]
    return thinking or None, config


def _no_thinking(request: Request, out: Outgoing) -> tuple[Wire | None, Wire]:
    if out.profile.disable_thinking:
        return {"type": "disabled"}, {}
    out.ledger.add("effort.none", request.where("effort"))
    return None, {"effort": out.profile.efforts[0].value} if out.profile.efforts else {}


def _effort_of(wanted: Thinking, request: Request, out: Outgoing) -> Effort | None:
    if wanted.effort is not None or wanted.budget is None:
        return wanted.effort
    return effort_of_budget(wanted.budget, request.where("thinking"), out.ledger)


def _level(effort: Effort | None, request: Request, out: Outgoing) -> Wire:
    if effort is None:
        return {}
    taken = tuple(level for level in out.profile.efforts if level.value in EFFORTS)
    nearest = nearest_effort(effort, taken, request.where("effort"), out.ledger)
    return {} if nearest is None else {"effort": nearest.value}


def _display(wanted: Thinking, request: Request, out: Outgoing) -> Wire:
    if wanted.visibility is None:
        return {}
    if wanted.visibility in ("concise", "detailed"):
        out.ledger.add("reasoning.visibility", request.where("visibility"))
    return {"display": _SHOWN.get(wanted.visibility, "summarized")}


def _adaptive(request: Request, wanted: Thinking, out: Outgoing) -> tuple[Wire | None, Wire]:
    effort = _effort_of(wanted, request, out)
    config = _level(effort, request, out)
    return {"type": "adaptive", **_display(wanted, request, out)}, config


def _with_budget(request: Request, wanted: Thinking, limit: int, out: Outgoing) -> tuple[Wire | None, Wire]:
    if wanted == Thinking(visibility=wanted.visibility):
        out.ledger.add("reasoning.visibility", request.where("visibility"))
        return None, {}
    config = _level(wanted.effort, request, out) if out.profile.efforts else {}
    if limit <= _LEAST_BUDGET:
        out.ledger.add("thinking.no_room", request.where("thinking"))
        return None, config
    budget = wanted.budget
    if budget is None:
        budget = limit if wanted.effort is Effort.MAX else BUDGETS[wanted.effort or Effort.MEDIUM]
    budget = min(max(budget, _LEAST_BUDGET), _most(limit, request))
    return {"type": "enabled", "budget_tokens": budget, **_display(wanted, request, out)}, config


def _most(limit: int, request: Request) -> int:
    """The largest budget. A limit that the client gave is its own to divide: its protocol counts thinking too."""
    if request.sampling.max_tokens is not None:
        return limit - 1
    return max(limit - min(_ANSWER, limit // 2), _LEAST_BUDGET)
