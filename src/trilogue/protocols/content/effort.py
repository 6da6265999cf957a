"""Levels of effort: the nearest that a model takes, and what budgets of thinking tokens mean."""

from __future__ import annotations

from trilogue.model import Effort, Ledger, Thinking, ThinkingMode

_ORDER = tuple(Effort)
_LOSSES = {Effort.NONE: "effort.none", Effort.MINIMAL: "effort.minimal"}
_LIMITS = (
    (1_536, Effort.MINIMAL),
    (4_096, Effort.LOW),
    (16_384, Effort.MEDIUM),
    (28_672, Effort.HIGH),
    (49_152, Effort.XHIGH),
)
"""largest budget of each effort: the middle between the budgets that `BUDGETS` gives for it and the next"""
BUDGETS = {
    Effort.MINIMAL: 1_024,
    Effort.LOW: 2_048,
    Effort.MEDIUM: 8_192,
    Effort.HIGH: 24_576,
    Effort.XHIGH: 32_768,
}
"""tokens to think with, by effort; the most effort takes all there is"""


def effort_of_budget(budget: int, path: str, ledger: Ledger) -> Effort:
    """The effort that comes nearest to a token budget."""
    ledger.add("thinking.budget", path, str(budget))
    return next((effort for most, effort in _LIMITS if budget <= most), Effort.MAX)


def lose_beside_effort(thinking: Thinking, path: str, ledger: Ledger) -> None:
    """An effort counts; what a request says beside it about thinking has no place of its own."""
    if thinking.mode in (ThinkingMode.DISABLED, ThinkingMode.BETWEEN_TOOLS):
        ledger.add("thinking.mode", path, thinking.mode.value)
    elif thinking.budget is not None:
        ledger.add("thinking.budget", path, str(thinking.budget))


def nearest_effort(wanted: Effort, taken: tuple[Effort, ...], path: str, ledger: Ledger) -> Effort | None:
    """Return the nearest level that the model takes, the lower of two equally near ones; None if it takes none.

    Whoever wants some thinking never gets `none` that way, and the other way round.
    """
    if wanted in taken:
        return wanted
    thinking = tuple(level for level in taken if level is not Effort.NONE)
    if not thinking:
        if wanted is not Effort.NONE:
            ledger.add("param.dropped", path)
        return None
    ledger.add(_LOSSES.get(wanted, "effort.clamped"), path, wanted.value)
    place = _ORDER.index(wanted)
    return min(thinking, key=lambda level: abs(_ORDER.index(level) - place))
