"""What a response has cost: its usage times the prices of the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

from trilogue.model import Usage
from trilogue.pool.settings import Price

MILLION = 1_000_000


def price_of(prices: Mapping[str, Price], model: str) -> Price | None:
    """Return the price of a model: by its name, else by the first pattern such as `gpt-*` that matches."""
    exact = prices.get(model)
    if exact is not None:
        return exact
    return next((price for pattern, price in prices.items() if "*" in pattern and fnmatchcase(model, pattern)), None)


def cost(usage: Usage, price: Price | None) -> float:
    """Return the cost in the unit of the prices; 0 without a price."""
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
