"""How much to think, and how much of it to show, both ways.

Newer models take an effort and decide for themselves; older ones take a budget of tokens. Which one, the target's
profile says.
"""

from __future__ import annotations

from trilogue.model import Effort, Ledger, Protocol, Request, Thinking, ThinkingMode
from trilogue.protocols.fields import Fields
from trilogue.protocols.messages.controls import Wire, put_nested, take_enum
from trilogue.protocols.messages.wire import DISPLAY, EFFORTS, THINKING, reverse
from trilogue.protocols.profile import Profile


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
    put_nested(fields, thinking)
    return result


_LEVELS = tuple(Effort)
BUDGETS = {
    Effort.MINIMAL: 1024,
    Effort.LOW: 2048,
    Effort.MEDIUM: 8192,
    Effort.HIGH: 24_576,
    Effort.XHIGH: 32_768,
}
"""tokens to think with, by effort; the most effort takes all there is"""
_LIMITS = (
    (1536, Effort.MINIMAL),
    (4096, Effort.LOW),
    (16_384, Effort.MEDIUM),
    (28_672, Effort.HIGH),
    (49_152, Effort.XHIGH),
)
_LEAST_BUDGET = 1024

_MODE_NAMES = reverse(THINKING)
_SHOWN = {"auto": "summarized", "concise": "summarized", "detailed": "summarized", "omitted": "omitted"}


def encode_thinking(request: Request, profile: Profile, limit: int, ledger: Ledger) -> tuple[Wire | None, Wire]:
    """`thinking`, and the part of `output_config` that goes with it. `limit`: the output limit that will be sent."""
    wanted = request.thinking
    if wanted is None:
        return None, {}
    if request.protocol is Protocol.MESSAGES:
        return _native_thinking(wanted)
    if wanted.effort is Effort.NONE or wanted.mode is ThinkingMode.DISABLED:
        return _no_thinking(request, profile, ledger)
    if profile.adaptive_thinking:
        return _adaptive(request, wanted, profile, ledger)
    if profile.budget_thinking:
        return _with_budget(request, wanted, profile, limit, ledger)
    ledger.add("thinking.mode", request.where("thinking"))
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


def _no_thinking(request: Request, profile: Profile, ledger: Ledger) -> tuple[Wire | None, Wire]:
    if profile.disable_thinking:
        return {"type": "disabled"}, {}
    ledger.add("effort.none", request.where("effort"))
    return None, {"effort": profile.efforts[0].value} if profile.efforts else {}


def _effort_of(wanted: Thinking, request: Request, ledger: Ledger) -> Effort | None:
    if wanted.effort is not None or wanted.budget is None:
        return wanted.effort
    ledger.add("thinking.budget", request.where("thinking"))
    budget = wanted.budget
    return next((effort for most, effort in _LIMITS if budget <= most), Effort.MAX)


def _level(effort: Effort | None, profile: Profile, path: str, ledger: Ledger) -> Wire:
    """The nearest effort that the model takes: the next lower one, else its lowest."""
    if effort is None:
        return {}
    if effort in profile.efforts and effort is not Effort.MINIMAL:
        return {"effort": effort.value}
    ledger.add("effort.minimal" if effort is Effort.MINIMAL else "effort.clamped", path)
    known = [level for level in profile.efforts if level.value in EFFORTS]
    lower = [level for level in known if _LEVELS.index(level) < _LEVELS.index(effort)]
    nearest = lower[-1:] or known[:1]
    return {"effort": nearest[0].value} if nearest else {}


def _display(wanted: Thinking, request: Request, ledger: Ledger) -> Wire:
    if wanted.visibility is None:
        return {}
    if wanted.visibility in ("concise", "detailed"):
        ledger.add("reasoning.visibility", request.where("visibility"))
    return {"display": _SHOWN.get(wanted.visibility, "summarized")}


def _adaptive(request: Request, wanted: Thinking, profile: Profile, ledger: Ledger) -> tuple[Wire | None, Wire]:
    effort = _effort_of(wanted, request, ledger)
    config = _level(effort, profile, request.where("effort"), ledger)
    return {"type": "adaptive", **_display(wanted, request, ledger)}, config


def _with_budget(
    request: Request, wanted: Thinking, profile: Profile, limit: int, ledger: Ledger
) -> tuple[Wire | None, Wire]:
    if wanted == Thinking(visibility=wanted.visibility):
        ledger.add("reasoning.visibility", request.where("visibility"))
        return None, {}
    config = _level(wanted.effort, profile, request.where("effort"), ledger) if profile.efforts else {}
    if limit <= _LEAST_BUDGET:
        ledger.add("thinking.no_room", request.where("thinking"))
        return None, config
    budget = wanted.budget
    if budget is None:
        budget = limit if wanted.effort is Effort.MAX else BUDGETS[wanted.effort or Effort.MEDIUM]
    budget = min(max(budget, _LEAST_BUDGET), limit - 1)
    return {"type": "enabled", "budget_tokens": budget, **_display(wanted, request, ledger)}, config
