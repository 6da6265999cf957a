"""The prices of one provider: those that its configuration states, else those of its vendor's table."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from trilogue.model import Usage
from trilogue.vendors.prices.lookup import has_prices, price_row
from trilogue.vendors.prices.price import Money, TokenPrices, money
from trilogue.vendors.prices.stated import Price, price_of

HOUR_SECONDS = 3_600
MAX_KNOWN = 1_000
"""Models whose prices are kept at hand: clients may ask for any name."""


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
