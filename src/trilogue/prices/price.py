"""What one model costs at one vendor, as data, and the cost of a response. Amounts are exact decimal numbers."""

from __future__ import annotations

from decimal import Decimal

from msgspec import Struct

from trilogue.model import Usage

MILLION = Decimal(1_000_000)
THOUSAND = Decimal(1_000)
_NOTHING = Decimal(0)


class Money(Struct, frozen=True):
    """An amount of money. `estimated`: it comes from estimated usage."""

    amount: Decimal
    currency: str = "USD"
    estimated: bool = False

    def __str__(self) -> str:
        return f"{self.amount:.6f} {self.currency}"


class Rates(Struct, frozen=True, kw_only=True):
    """Prices of a million tokens of each kind; None if there is no price for the kind.

    `cache_write`: with the shorter lifetime of the vendor (Anthropic: 5 minutes), `cache_write_long`: with the longer
    one (1 hour).
    """

    input: Decimal
    output: Decimal
    cache_read: Decimal | None = None
    cache_write: Decimal | None = None
    cache_write_long: Decimal | None = None

    def cost(self, usage: Usage) -> Decimal | None:
        """Return the cost of the tokens, or None if there are tokens of a kind without a price."""
        written, long = usage.cache_write or 0, min(usage.cache_write_long or 0, usage.cache_write or 0)
        total = _NOTHING
        for tokens, price in (
            (usage.fresh, self.input),
            (usage.cache_read or 0, self.cache_read),
            (written - long, self.cache_write),
            (long, self.cache_write_long),
            (usage.output, self.output),
        ):
            if tokens and price is None:
                return None
            total += tokens * (price or _NOTHING)
        return total / MILLION

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


class PriceRow(Struct, frozen=True, kw_only=True):
    """The prices of some models of a vendor. `models`: names without a date.

    `source`: where the prices were taken from. `first_hand`: it is the vendor's own page. `dated`: the month that
    the source names or, for pages without a date, the month in which a stored copy was read.

    `up_to`: the most input tokens for which `rates` hold; longer requests cost `above`, or an unknown price.
    `searches`: the price of a thousand web searches.
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

    def cost(self, usage: Usage) -> Money | None:
        """Return the cost of a response, or None if a part of it has no known price."""
        is_long = self.up_to is not None and usage.input > self.up_to
        rates = self.above if is_long else self.rates
        tokens = rates.cost(usage) if rates is not None else None
        if tokens is None or (usage.searches and self.searches is None):
            return None
        searches = (usage.searches or 0) * (self.searches or _NOTHING) / THOUSAND
        return Money(tokens + searches, estimated=usage.estimated)


def rates(listed: str) -> Rates:
    """Return rates from a short form: `input=5 cache_read=0.5 output=25`."""
    named = (part.partition("=") for part in listed.split())
    return Rates(**{name: Decimal(price) for name, _, price in named})
