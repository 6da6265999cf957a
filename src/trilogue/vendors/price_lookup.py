"""What a model costs, looked up by vendor and name, without dates and suffixes. What is not in the table is unknown.

A `PriceBook` has the prices of one provider: those that its configuration states, else those of its vendor.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from trilogue.model import Usage
from trilogue.vendors.price import Money, Price, PriceRow, Rates, TokenPrices, money, price_of
from trilogue.vendors.table import PRICE_ROWS, plain_name

HOUR_SECONDS = 3_600
MAX_KNOWN = 1_000
"""Models whose prices are kept at hand: clients may ask for any name."""

_DATED = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|\d{8}|latest)$")
_BY_NAME: Mapping[tuple[str, str], PriceRow] = {
    (row.vendor, plain_name(name)): row for row in PRICE_ROWS for name in row.models
}


def price_row(model: str, vendor: str) -> PriceRow | None:
    """Return the prices of a model at a vendor, or None if they are unknown.

    A cloud that resells a model has its own prices: its name must be given as the vendor, and is unknown here.
    """
    name = plain_name(model)
    return _BY_NAME.get((vendor, name)) or _BY_NAME.get((vendor, _DATED.sub("", name)))


def has_prices(vendor: str) -> bool:
    """Return whether the price of any model of a vendor is known."""
    return any(row.vendor == vendor for row in PRICE_ROWS)


def cost(usage: Usage, model: str, vendor: str, hour: int = 0) -> Money | None:
    """Return what a response has cost, or None if that is unknown. It is never 0 for lack of a price.

    `hour`: when, in hours since the epoch; for vendors whose prices depend on the time of day.
    """
    row = price_row(model, vendor)
    prices = None if row is None else row.prices(hour)
    found = None if prices is None else prices.cost(usage)
    return None if found is None else money(found, usage)


class PriceBook:
    """All prices of a provider. `stated`: by model or pattern. `vendor`: whose prices hold for other models, if known.

    Times are hours since the epoch: some prices depend on the time of day.
    """

    def __init__(self, stated: Mapping[str, Price], vendor: str = "") -> None:
        self._stated = stated
        self._vendor = vendor
        self._known: dict[tuple[str, int], TokenPrices | None] = {}

    @property
    def is_empty(self) -> bool:
        """Whether no price of any model is known."""
        return not self._stated and not has_prices(self._vendor)

    def prices(self, model: str, hour: int) -> TokenPrices | None:
        """Return the prices of a model, or None if they are unknown."""
        try:
            return self._known[model, hour]
        except KeyError:
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            found = self._known[model, hour] = self._find(model, hour)
            return found

    def spending(self, clock: Callable[[], float]) -> Callable[[Usage, str], float | None]:
        """Return a function for the cost of a response in dollars, by a clock with seconds since the epoch."""

        def spent(usage: Usage, model: str) -> float | None:
            prices = self.prices(model, int(clock()) // HOUR_SECONDS)
            found = None if prices is None else prices.cost(usage)
            return None if found is None else found / 1e12

        return spent

    def _find(self, model: str, hour: int) -> TokenPrices | None:
        stated = price_of(self._stated, model)
        if stated is not None:
            return stated.per_token()
        row = price_row(model, self._vendor) if self._vendor else None
        return None if row is None else row.prices(hour)

    def cost(self, usage: Usage, model: str, hour: int) -> Money | None:
        """Return what a response has cost, or None if that is unknown. It is never 0 for lack of a price."""
        prices = self.prices(model, hour)
        found = None if prices is None else prices.cost(usage)
        return None if found is None else money(found, usage)


def prices_table() -> str:
    """Return all prices as a Markdown table, for docs/prices.md."""
    head = (
        "| vendor | models | input | cache read | cache write | cache write, long | output | otherwise "
        "| source | basis | dated |"
    )
    return "\n".join([head, "|---" * 11 + "|", *map(_line, PRICE_ROWS)])


def _line(row: PriceRow) -> str:
    models = ", ".join(f"`{name}`" for name in row.models)
    listed = (
        row.rates.input,
        row.rates.cache_read,
        row.rates.cache_write,
        row.rates.cache_write_long,
        row.rates.output,
    )
    cells = [row.vendor, models, *("" if price is None else f"{price.normalize():f}" for price in listed)]
    return (
        "| "
        + " | ".join([*cells, _otherwise(row), row.source, "vendor" if row.first_hand else "second hand", row.dated])
        + " |"
    )


def _otherwise(row: PriceRow) -> str:
    """Return the prices of long requests, of peak hours and of later days, as text."""
    found = []
    if row.up_to is not None:
        found.append(f"over {row.up_to:,} tokens: {_short(row.above)}")
    if row.peak is not None:
        found.append(f"at peak hours: {_short(row.peak.rates)}")
    if row.until:
        found.append(f"after {row.until}: {_short(row.after)}")
    return "; ".join(found)


def _short(rates: Rates | None) -> str:
    return "unknown" if rates is None else f"{rates.input.normalize():f} input, {rates.output.normalize():f} output"
