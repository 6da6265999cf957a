"""Prices of models, dated and with sources, and the cost of a response.

`cost` returns None for an unknown price. A `PriceBook` has the prices of one provider of a configuration, which may
state its own.
"""
