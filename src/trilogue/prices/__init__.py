"""Prices of models, dated and with sources, and the cost of a response.

`cost` returns None for an unknown price. A `PriceBook` has the prices of one provider of a configuration, which may
state its own.
"""

from trilogue.prices.book import PriceBook
from trilogue.prices.lookup import ROWS, cost, price_row, prices_table
from trilogue.prices.price import Money, Peak, PriceRow, Rates, TokenPrices, money
from trilogue.prices.stated import FREE, Price

__all__ = [
    "FREE",
    "ROWS",
    "Money",
    "Peak",
    "Price",
    "PriceBook",
    "PriceRow",
    "Rates",
    "TokenPrices",
    "cost",
    "money",
    "price_row",
    "prices_table",
]
