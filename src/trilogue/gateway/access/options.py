"""What a client key may do. Keys of the configuration and keys that are made at run time have the same options."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from trilogue.gateway.limits.settings import NO_BUDGET, NO_LIMITS, BudgetSettings, RateLimits

KeyMode = Literal["declare", "strict"]
Tag = Annotated[str, Meta(min_length=1, max_length=100)]
_ENDS = re.compile(r"(\d{1,5})([dh])")
_UNITS = {"d": 86_400, "h": 3_600}


class KeyOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of a client key."""

    mode: KeyMode | None = None
    """overrides the top-level `mode` for requests with this key"""
    owner: Annotated[str, Meta(max_length=200)] = ""
    """the person or team that it belongs to; limits and budgets of `owners` count all keys of an owner together"""
    tags: tuple[Tag, ...] = ()
    """words to find it by, such as `ci` or `project-x`"""
    models: tuple[str, ...] = ()
    """models that it may ask for, as clients name them: names or patterns such as `claude-*`; default: all"""
    providers: tuple[str, ...] = ()
    """providers that its requests may go to; default: all"""
    routes: tuple[str, ...] = ()
    """routes that its requests may use, by their `match`; default: all, and models that no route matches"""
    policies: tuple[str, ...] = ()
    """policies for requests with this key, by name"""
    limits: RateLimits = RateLimits()
    """limits for requests, tokens and concurrent requests with this key"""
    budget: BudgetSettings = BudgetSettings()
    """what requests with this key may cost"""

    @property
    def restricts(self) -> bool:
        """Whether requests with the key may not do everything, or count for somebody."""
        narrowed = self.models or self.providers or self.routes
        return bool(self.owner or narrowed or self.limits != NO_LIMITS or self.budget != NO_BUDGET)


def is_time(text: str) -> bool:
    """Return whether a text is a date or a time that does not depend on now."""
    try:
        datetime.fromisoformat(text.strip())
    except ValueError:
        return False
    return True


def parse_time(text: str, now: float) -> float:
    """Return a time in seconds since the epoch: an ISO date or time (UTC unless it says otherwise), or `30d`, `12h`.

    Raises ValueError.
    """
    found = _ENDS.fullmatch(text.strip())
    if found is not None:
        return now + int(found[1]) * _UNITS[found[2]]
    moment = datetime.fromisoformat(text.strip())
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
