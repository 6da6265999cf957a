"""Prices of models, dated and with sources, and the cost of a response: `cost` returns None for an unknown price."""

from trilogue.prices.lookup import ROWS, cost, price_row, prices_table
from trilogue.prices.price import Money, PriceRow, Rates

__all__ = ["ROWS", "Money", "PriceRow", "Rates", "cost", "price_row", "prices_table"]
