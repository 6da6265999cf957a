"""Prices that a configuration states. `config` uses this type, its docs and limits unchanged."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import Annotated

from msgspec import Meta, Struct

from trilogue.vendors.prices.price import Rates, TokenPrices

Amount = Annotated[float, Meta(ge=0, le=1_000_000_000)]
_NOTHING = Decimal(0)


class Price(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Price of a model per million tokens, in US dollars. With 0 for both `input` and `output`, it is free."""

    input: Amount = 0.0
    """input tokens"""
    cached: Amount | None = None
    """input tokens read from the cache; default: the price of `input`"""
    cache_write: Amount | None = None
    """input tokens written to the cache; default: the price of `input`"""
    cache_write_long: Amount | None = None
    """input tokens written to the cache for an hour; default: the price of `cache_write`"""
    output: Amount = 0.0
    """output tokens, including reasoning"""
    searches: Amount | None = None
    """a thousand web searches; default: unknown"""

    def per_token(self) -> TokenPrices:
        """Return the prices of one token."""
        input_price, write = _exact(self.input), _exact(self.cache_write, _exact(self.input))
        is_free = not self.input and not self.output
        searches = _exact(self.searches) if self.searches is not None else _NOTHING if is_free else None
        return Rates(
            input=input_price,
            output=_exact(self.output),
            cache_read=_exact(self.cached, input_price),
            cache_write=write,
            cache_write_long=_exact(self.cache_write_long, write),
        ).per_token(searches)


FREE = Price()


def price_of(prices: Mapping[str, Price], model: str) -> Price | None:
    """Return the price of a model: by its name, else by the first pattern such as `gpt-*` that matches."""
    exact = prices.get(model)
    if exact is not None:
        return exact
    return next((price for pattern, price in prices.items() if "*" in pattern and fnmatchcase(model, pattern)), None)


def _exact(price: float | None, default: Decimal = _NOTHING) -> Decimal:
    # The shortest decimal number that is this float: what the user has written.
    return default if price is None else Decimal(repr(price))
