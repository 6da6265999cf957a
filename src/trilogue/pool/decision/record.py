"""Why a request went where it went: a record per request as plain data, and the recent ones.

Names, counts and times only: no keys, no prompts, no text of upstreams.

What an answer has cost: usage times the prices of the configuration.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from fnmatch import fnmatchcase
from itertools import islice
from typing import Any

import msgspec
from msgspec import Struct

from trilogue.model import Usage
from trilogue.pool.choice.ready import Skipped
from trilogue.pool.settings import Price

MILLION = 1_000_000


def price_of(prices: Mapping[str, Price], model: str) -> Price | None:
    """The price of a model: by its name, else the first pattern such as `gpt-*` that fits."""
    exact = prices.get(model)
    if exact is not None:
        return exact
    return next((price for pattern, price in prices.items() if "*" in pattern and fnmatchcase(model, pattern)), None)


def cost(usage: Usage, price: Price | None) -> float:
    """In the unit of the prices."""
    if price is None:
        return 0.0
    cached = price.input if price.cached is None else price.cached
    written = price.input if price.cache_write is None else price.cache_write
    return (
        usage.fresh * price.input
        + (usage.cache_read or 0) * cached
        + (usage.cache_write or 0) * written
        + usage.output * price.output
    ) / MILLION


STRIPPED = "stripped"
ADJUSTED = "adjusted"


class Attempt(Struct, kw_only=True, gc=False):
    """One attempt, to make or made. Times in seconds since the request began; `rests`: how long someone rests for it.

    `how`: sticky, strategy, last_resort, stripped (the same account again, without reasoning) or adjusted (the same
    account again, without the parameter that it refused). `action`: what the failure meant, or `answered`, `released`
    (the client left), or empty while it is under way.
    """

    provider: str
    account: str
    model: str
    how: str
    broken: str = ""
    proxy: int | None = None
    started: float = 0.0
    ended: float | None = None
    action: str = ""
    scope: str = ""
    why: str = ""
    status: int = 0
    rests: float | None = None

    @property
    def strip(self) -> bool:
        """To be made without the reasoning of earlier turns."""
        return self.how == STRIPPED


class Considered(Struct, frozen=True, kw_only=True, gc=False):
    """A look at one provider. `skipped`: some of those who were away, with the reason; `away` counts all of them."""

    provider: str
    candidates: int
    away: int
    skipped: tuple[Skipped, ...] = ()
    reasons: dict[str, int] = {}


class Decision(Struct, kw_only=True, gc=False):
    """Everything about one request. `outcome`: answered, client, exhausted, attempts, budget, released.

    `waited`: seconds until an account had rested, with nobody else to answer.
    """

    request_id: str
    at: float
    model: str
    sticky: bool = False
    considered: list[Considered] = []
    attempts: list[Attempt] = []
    outcome: str = ""
    waited: float = 0.0
    took: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """For JSON and the log."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain


class Recent:
    """The last decisions, by request."""

    def __init__(self, limit: int) -> None:
        self._decisions: deque[Decision] = deque(maxlen=limit)
        self.add = self._decisions.append
        """remember one; the oldest is forgotten"""

    def __len__(self) -> int:
        return len(self._decisions)

    def find(self, request_id: str) -> Decision | None:
        """The decision on one request. Looks through all of them: people ask for one, every request adds one."""
        return next((one for one in reversed(self._decisions) if one.request_id == request_id), None)

    def latest(self, most: int = 100) -> list[Decision]:
        """The newest first."""
        return list(islice(reversed(self._decisions), most))
