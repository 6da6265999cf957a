"""The cost of one request, from its record."""

from __future__ import annotations

import time
from collections.abc import Mapping

from trilogue.gateway.features.usage.ledger.counts import HOUR_SECONDS
from trilogue.gateway.record import RequestRecord
from trilogue.vendors.price import Money
from trilogue.vendors.price_lookup import PriceBook


def cost_of(record: RequestRecord, books: Mapping[str, PriceBook]) -> Money | None:
    """Return what a request has cost, at the prices of this hour; None if that is unknown, never 0 for that reason.

    `books`: the prices of each provider (`Gateway.price_books`). A request without usage has an unknown cost.
    """
    book = books.get(record.provider)
    if book is None or record.usage is None:
        return None
    return book.cost(record.usage, record.upstream_model, int(time.time()) // HOUR_SECONDS)
