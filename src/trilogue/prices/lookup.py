"""The price of a model: by vendor and name, without dates and suffixes. What is not in the table is unknown."""

from __future__ import annotations

import re
from collections.abc import Mapping

from trilogue.model import Usage
from trilogue.prices import anthropic, openai
from trilogue.prices.price import Money, PriceRow
from trilogue.profiles import plain_name

ROWS: tuple[PriceRow, ...] = (*anthropic.ROWS, *openai.ROWS)
"""all known prices"""

_DATED = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|\d{8}|latest)$")
_BY_NAME: Mapping[tuple[str, str], PriceRow] = {
    (row.vendor, plain_name(name)): row for row in ROWS for name in row.models
}


def price_row(model: str, vendor: str) -> PriceRow | None:
    """Return the prices of a model at a vendor, or None if they are unknown.

    A cloud that resells a model has its own prices: its name must be given as the vendor, and is unknown here.
    """
    name = plain_name(model)
    return _BY_NAME.get((vendor, name)) or _BY_NAME.get((vendor, _DATED.sub("", name)))


def cost(usage: Usage, model: str, vendor: str) -> Money | None:
    """Return what a response has cost, or None if that is unknown. It is never 0 for lack of a price."""
    row = price_row(model, vendor)
    return None if row is None else row.cost(usage)


def prices_table() -> str:
    """Return all prices as a Markdown table, for docs/prices.md."""
    head = (
        "| vendor | models | input | cache read | cache write | cache write, long | output | long requests "
        "| source | basis | dated |"
    )
    return "\n".join([head, "|---" * 11 + "|", *map(_line, ROWS)])


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
        + " | ".join([*cells, _long(row), row.source, "vendor" if row.first_hand else "second hand", row.dated])
        + " |"
    )


def _long(row: PriceRow) -> str:
    if row.up_to is None:
        return ""
    price = "unknown"
    if row.above is not None:
        price = f"{row.above.input.normalize():f} input, {row.above.output.normalize():f} output"
    return f"over {row.up_to:,} tokens: {price}"
