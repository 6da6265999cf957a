"""Rate limits and budgets of client keys, owners, models and routes: settings, counts and decisions. No I/O, no clock.

`admit` decides on a request and counts it, by what `most` says that it can take, and `settle` corrects the counts when
it has ended. Both work on rows of a `LimitTable`, which may be shared by processes.
"""

from trilogue.limits.decide import (
    Estimate,
    Refused,
    Remaining,
    Subject,
    Warned,
    admit,
    mark_told,
    settle,
    shortage,
)
from trilogue.limits.leases import BILLION, Ask, Counter, Grant, Leasing
from trilogue.limits.settings import NO_BUDGET, NO_LIMITS, BudgetSettings, RateLimits
from trilogue.limits.standing import BudgetStanding, LimitStanding, budgets_standing, limits_standing
from trilogue.limits.table import LazyTable, LimitsFull, LimitTable, MemoryTable

__all__ = [
    "BILLION",
    "NO_BUDGET",
    "NO_LIMITS",
    "Ask",
    "BudgetSettings",
    "BudgetStanding",
    "Counter",
    "Estimate",
    "Grant",
    "LazyTable",
    "Leasing",
    "LimitStanding",
    "LimitTable",
    "LimitsFull",
    "MemoryTable",
    "RateLimits",
    "Refused",
    "Remaining",
    "Subject",
    "Warned",
    "admit",
    "budgets_standing",
    "limits_standing",
    "mark_told",
    "settle",
    "shortage",
]
