"""The price of a model: as vendors list it, as a configuration states it, and per token, to compute a cost.

Listed prices are decimal numbers, as vendors list them. Costs are integers in millionths of a millionth of a dollar, in
which every listed price of a token is a whole number: sums are exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from trilogue.model import Usage

PICO = Decimal(10) ** 12
"""the unit of costs, per dollar"""
_PER_MILLION = PICO / 1_000_000
_PER_THOUSAND = PICO / 1_000
NO_LIMIT = 2**62
REGISTRIES = "litellm 1.109.1; genai-prices 0.2.2"
"""the source of prices that these two packages, which are maintained independently of each other, have alike"""
REGISTRIES_DATED = "2026-11"
Amount = Annotated[float, Meta(ge=0, le=1_000_000_000)]
_HOURS_PER_DAY = 24
_EPOCH = date(1970, 1, 1).toordinal()
_NOTHING = Decimal(0)
_FIRST_WEEKDAY = 3
"""the first day since the epoch was a Thursday"""


class Money(Struct, frozen=True):
    """An amount of money. `estimated`: it comes from estimated usage."""

    amount: Decimal
    currency: str = "USD"
    estimated: bool = False

    def __str__(self) -> str:
        return f"{self.amount:.6f} {self.currency}"


class TokenPrices(Struct, frozen=True, kw_only=True):
    """The prices of one token of each kind, and of one search, in the unit of costs; None if there is no price.

    `cache_write`: with the shorter lifetime of the vendor (Anthropic: 5 minutes), `cache_write_long`: with the longer
    one (1 hour). `up_to`: the most input tokens for which these prices hold; longer requests have the prices `above`,
    or unknown ones.
    """

    input: int
    output: int
    cache_read: int | None = None
    cache_write: int | None = None
    cache_write_long: int | None = None
    search: int | None = None
    up_to: int = NO_LIMIT
    above: TokenPrices | None = None

    @property
    def is_free(self) -> bool:
        """Whether tokens cost nothing."""
        return not self.input and not self.output

    def cost(self, usage: Usage) -> int | None:
        """Return what a response has cost, or None if a part of it has no known price."""
        if usage.besides:
            return self._cost_of_all(usage)
        if usage.input > self.up_to:
            return None if self.above is None else self.above.cost(usage)
        written, long = usage.cache_write or 0, min(usage.cache_write_long or 0, usage.cache_write or 0)
        total = usage.fresh * self.input + usage.output * self.output
        for number, price in (
            (usage.cache_read, self.cache_read),
            (written - long, self.cache_write),
            (long, self.cache_write_long),
            (usage.searches, self.search),
        ):
            if number:
                if price is None:
                    return None
                total += number * price
        return total

    def _cost_of_all(self, usage: Usage) -> int | None:
        """Return the cost together with that of what was used besides; None if that was another model."""
        if any([one.model for one in usage.besides]):
            return None
        costs = [self.cost(replace(usage, besides=())), *(self.cost(one.usage) for one in usage.besides)]
        known = [cost for cost in costs if cost is not None]
        return sum(known) if len(known) == len(costs) else None

    def most(self, given: int, made: int, searches: int) -> int | None:
        """Return the most that a response can cost with so many tokens of input and output, and searches.

        All input may be of the dearest kind. None if a part of it has no known price.
        """
        if searches and self.search is None:
            return None
        kinds = (self.input, self.cache_read or 0, self.cache_write or 0, self.cache_write_long or 0)
        cost = min(given, self.up_to) * max(kinds) + made * self.output + searches * (self.search or 0)
        if given <= self.up_to:
            return cost
        above = None if self.above is None else self.above.most(given, made, searches)
        return None if above is None else max(cost, above)


class Rates(Struct, frozen=True, kw_only=True):
    """Listed prices of a million tokens of each kind; None if there is no price for the kind."""

    input: Decimal
    output: Decimal
    cache_read: Decimal | None = None
    cache_write: Decimal | None = None
    cache_write_long: Decimal | None = None

    def times(self, input_factor: str, output_factor: str) -> Rates:
        """Return the rates with all kinds of input multiplied by one factor and the output by another."""
        factor = Decimal(input_factor)
        cached = (self.cache_read, self.cache_write, self.cache_write_long)
        read, write, long = (None if price is None else price * factor for price in cached)
        return Rates(
            input=self.input * factor,
            output=self.output * Decimal(output_factor),
            cache_read=read,
            cache_write=write,
            cache_write_long=long,
        )

    def per_token(
        self, searches: Decimal | None = None, up_to: int = NO_LIMIT, above: TokenPrices | None = None
    ) -> TokenPrices:
        """Return the prices of one token. `searches`: the price of a thousand web searches."""
        cached = (self.cache_read, self.cache_write, self.cache_write_long)
        read, write, long = (None if price is None else int(price * _PER_MILLION) for price in cached)
        return TokenPrices(
            input=int(self.input * _PER_MILLION),
            output=int(self.output * _PER_MILLION),
            cache_read=read,
            cache_write=write,
            cache_write_long=long,
            search=None if searches is None else int(searches * _PER_THOUSAND),
            up_to=up_to,
            above=above,
        )


class Peak(Struct, frozen=True, kw_only=True):
    """Prices at certain hours of working days, in UTC."""

    rates: Rates
    hours: tuple[int, ...]

    def includes(self, hour: int) -> bool:
        """Return whether an hour since the epoch is one of them. Public holidays are not known here."""
        day, of_day = divmod(hour, _HOURS_PER_DAY)
        return of_day in self.hours and (day + _FIRST_WEEKDAY) % 7 < 5


class PriceRow(Struct, frozen=True, kw_only=True):
    """The prices of some models of a vendor. `models`: names without a date.

    `source`: where the prices were taken from. `first_hand`: it is the vendor's own page. `dated`: the month that
    the source names or, for pages without a date, the month in which a stored copy was read.

    `up_to`: the most input tokens for which `rates` hold; longer requests cost `above`, or an unknown price.
    `searches`: the price of a thousand web searches. `peak`: other prices at some hours. `until`: the last day of
    `rates`, as a date; then `after` holds, or unknown prices.
    """

    vendor: str
    models: tuple[str, ...]
    rates: Rates
    source: str
    dated: str
    first_hand: bool = False
    up_to: int | None = None
    above: Rates | None = None
    searches: Decimal | None = None
    peak: Peak | None = None
    until: str = ""
    after: Rates | None = None

    def prices(self, hour: int) -> TokenPrices | None:
        """Return the prices of a token in an hour since the epoch; None if they are not known for that time."""
        rates: Rates | None = self.rates
        if self.peak is not None and self.peak.includes(hour):
            rates = self.peak.rates
        if self.until and hour // _HOURS_PER_DAY > date.fromisoformat(self.until).toordinal() - _EPOCH:
            rates = self.after
        if rates is None:
            return None
        above = None if self.above is None else self.above.per_token(self.searches)
        return rates.per_token(self.searches, NO_LIMIT if self.up_to is None else self.up_to, above)


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


def money(cost: int, usage: Usage | None = None) -> Money:
    """Return a cost as money. `usage`: what it is the cost of."""
    return Money(Decimal(cost) / PICO, estimated=usage is not None and usage.estimated)


def rates(listed: str) -> Rates:
    """Return rates from a short form: `input=5 cache_read=0.5 output=25`."""
    named = (part.partition("=") for part in listed.split())
    return Rates(**{name: Decimal(price) for name, _, price in named})


def quoted(
    vendor: str,
    models: str,
    listed: str,
    source: str = REGISTRIES,
    *,
    up_to: int | None = None,
    above: Rates | None = None,
) -> PriceRow:
    """Return a row whose prices were only found elsewhere than at the vendor. `models`: names, separated by spaces."""
    return PriceRow(
        vendor=vendor,
        models=tuple(models.split()),
        rates=rates(listed),
        source=source,
        dated=REGISTRIES_DATED,
        up_to=up_to,
        above=above,
    )
