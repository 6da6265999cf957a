"""Levels of effort: the nearest one that a model accepts, and how they relate to budgets of thinking tokens."""

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

_NAMED = {effort.value: effort for effort in Effort}
_OTHER_NAMES: dict[str, Effort | None] = {
    **dict.fromkeys(("off", "disabled", "no"), Effort.NONE),
    **dict.fromkeys(("min", "minimum", "lowest"), Effort.MINIMAL),
    **dict.fromkeys(("normal", "standard", "moderate"), Effort.MEDIUM),
    **dict.fromkeys(("", "auto", "default", "adaptive"), None),
}
"""names that are not higher than all known ones; None: the model's default"""


def with_effort(name: str | None) -> Thinking:
    """Return settings with the effort of this name, or the nearest one for a name that is not known.

    Vendors have added levels only at the top so far (xhigh, max, ultra), so an unknown name is taken as the highest.
    """
    if name is None or name in _NAMED:
        return Thinking(effort=None if name is None else _NAMED[name])
    plain = name.strip().lower()
    return Thinking(effort=_NAMED.get(plain) or _OTHER_NAMES.get(plain, Effort.MAX), effort_name=name)


def effort_of_budget(budget: int, path: str, ledger: Ledger) -> Effort:
    """Return the effort that is nearest to a token budget, and declare the loss."""
    ledger.add("thinking.budget", path, str(budget))
    return next((effort for most, effort in _LIMITS if budget <= most), Effort.MAX)


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
    ledger.add(_LOSSES.get(wanted, "effort.clamped"), path, wanted.value)
    place = _ORDER.index(wanted)
    return min(thinking, key=lambda level: abs(_ORDER.index(level) - place))
