"""Prices of models, dated and with sources, and the cost of a response: `cost` returns None for an unknown price.

A `PriceBook` has the prices of one provider of a configuration, which may state its own.
"""

from trilogue.vendors.price import FREE, Money, Peak, Price, PriceRow, Rates, TokenPrices, money
from trilogue.vendors.price_lookup import PriceBook, cost, price_row, prices_table
from trilogue.vendors.table import PRICE_ROWS as ROWS

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
