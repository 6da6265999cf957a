"""Counts what requests use and cost, in the usage ledger.

Requests that need an account are counted, each once, just before the client gets the end of its response: see
`Observer.request_settled`. Token counts, lists of models and requests about files and the like are not.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from mmap import mmap

from msgspec.structs import replace

from trilogue.gateway.features.usage.ledger.ledger import UsageLedger
from trilogue.gateway.features.usage.ledger.live_file import (
    HOUR_SECONDS,
    HOURS_PER_DAY,
    Counts,
    LiveRow,
    RowName,
    write_copy,
)
from trilogue.gateway.features.usage.ledger.tables import UsageLine, UsageQuery
from trilogue.gateway.observer import Observer
from trilogue.gateway.record import RequestRecord
from trilogue.model import MOST_TOKENS
from trilogue.routing.router import Router
from trilogue.vendors.price import Money, TokenPrices
from trilogue.vendors.price_lookup import PriceBook

MAX_NAMES = 200
"""Names with rows of their own that the configuration does not have, per worker and day."""
MAX_CHARACTERS = 150
OTHER = "other"


class ModelNames:
    """The models that have rows of their own, by the names of clients and of providers."""

    def __init__(self) -> None:
        self._names: frozenset[str] = frozenset()
        self._targets: frozenset[tuple[str, str]] = frozenset()
        self._seen: set[tuple[str, str, str]] = set()
        """names of clients, providers and models that are not configured, and for which an upstream has responded"""

    def configure(self, names: Iterable[str], targets: Collection[tuple[str, str]]) -> None:
        """Take the models that the configuration names. `targets`: their providers and upstream models."""
        self._targets = frozenset(targets)
        own = [name for provider, model in targets for name in (model, f"{provider}/{model}")]
        self._names = frozenset([*names, *own])

    def forget(self) -> None:
        """Let other names have rows of their own: a day has passed."""
        self._seen = set()

    def of(self, record: RequestRecord) -> tuple[str, str]:
        """Return the client's and the provider's name for the model of a request, or `other`."""
        model, target = record.model, (record.provider, record.upstream_model)
        is_named, is_target = model in self._names, target in self._targets
        if not (is_named and is_target):
            name = (model, *target)
            if name not in self._seen:
                if not self._is_new(record):
                    return model if is_named else OTHER, record.upstream_model if is_target else OTHER
                self._seen.add(name)
        return model, record.upstream_model

    def _is_new(self, record: RequestRecord) -> bool:
        """Return whether the model of a request may get rows of its own."""
        fits = max(len(record.model), len(record.upstream_model)) <= MAX_CHARACTERS
        return fits and record.error is None and bool(record.provider) and len(self._seen) < MAX_NAMES


LOCAL = "local"
"""the key of clients of a gateway without keys"""
NONE = "none"
"""the provider of requests for which no account was available"""
MOST_SERIES = 500

(
    REQUESTS,
    ERRORS,
    UNMETERED,
    UNPRICED,
    FRESH,
    CACHE_READ,
    CACHE_WRITE,
    CACHE_WRITE_LONG,
    OUTPUT,
    REASONING,
    SEARCHES,
    COST,
    RESERVED,
) = range(len(Counts._fields))

Facts = tuple[str, str, str, str, str, str]
"""key, owner, model, provider's model, provider and account, as the record has them"""


class PricedRow:
    """A row of the ledger with the prices of its model.

    `up_to`: the most input tokens that have these prices. `unpriced`: what a request adds to those of unknown cost.
    """

    __slots__ = ("copies", "counts", "input", "memory", "output", "prices", "row", "unpriced", "up_to")

    def __init__(self, row: LiveRow, prices: TokenPrices | None) -> None:
        self.row = row
        self.counts = row.counts
        self.memory: mmap = row.memory
        self.copies = row.copies
        self.prices = prices
        self.input = 0 if prices is None else prices.input
        self.output = 0 if prices is None else prices.output
        self.unpriced = int(prices is None)
        self.up_to = MOST_TOKENS if prices is None else min(prices.up_to, MOST_TOKENS)


class UsageObserver(Observer):
    """Counts requests in a ledger. It outlives reloads, which call `configure`."""

    def __init__(self, ledger: UsageLedger) -> None:
        self._ledger = ledger
        self._names = ModelNames()
        self._books: Mapping[str, PriceBook] = {}
        self._rows: dict[Facts, PricedRow] = {}
        self._day = ledger.hour // HOURS_PER_DAY
        self._earlier: dict[tuple[str, str], tuple[int, int]] = {}
        """costs and requests of unknown cost in rows that are not used any more, by provider and model"""
        ledger.on_new_file = self._forget_rows

    def configure(self, router: Router, books: Mapping[str, PriceBook]) -> None:
        """Take the names and prices of a configuration. `books`: by provider."""
        self._names.configure(router.names, router.named_targets())
        self._books = books
        self._forget_rows()
        self._ledger.start()

    def request_settled(self, record: RequestRecord) -> None:
        """Count a request. This is most of what usage costs."""
        # What names no model is about files and the like, unless a budget was charged for it.
        if record.decision is None or not (record.model or record.most_cost):
            return
        facts = (
            record.key,
            record.owner,
            record.model,
            record.upstream_model,
            record.provider,
            record.account,
        )
        try:
            row = self._rows[facts]
        except KeyError:
            row = self._find(record, facts)
        counts = row.counts
        counts[REQUESTS] = requests = counts[REQUESTS] + 1
        usage = record.usage
        if (
            usage is None
            or record.error is not None
            or usage.cache_read
            or usage.cache_write
            or usage.searches
            or usage.estimated
            or usage.besides
            or record.uncertain > 1
            or not 0 <= usage.fresh <= row.up_to
            or not 0 <= usage.output <= MOST_TOKENS
        ):
            _count_rest(record, row)
        else:
            fresh, output = usage.fresh, usage.output
            counts[FRESH] += fresh
            counts[OUTPUT] += output
            if row.unpriced:
                counts[UNPRICED] += 1
            else:
                counts[COST] += fresh * row.input + output * row.output
            if usage.reasoning:
                counts[REASONING] += usage.reasoning
        try:
            write_copy(row.memory, row.copies[requests & 1], *counts, requests)
        except struct.error:
            # A sum that does not fit into 64 bits: the prices are absurd. Count no more than the request.
            counts[:] = row.row.saved()
            counts[REQUESTS], counts[UNPRICED] = requests, counts[UNPRICED] + 1
            row.row.save()

    def costs(self) -> Iterator[tuple[tuple[str, str], tuple[int, int]]]:
        """Yield the cost and the number of requests of unknown cost since the start, by provider and model."""
        found = dict(self._earlier)
        _add_costs(found, self._rows)
        yield from found.items()

    def read(self, query: UsageQuery) -> list[UsageLine]:
        """Return sums of the ledger, of all workers. May block. Raises StoreError."""
        return self._ledger.read(query)

    def lost_at(self) -> float:
        """Return when a damaged ledger was set aside for the last time, in seconds since the epoch; 0 for never."""
        return self._ledger.lost_at()

    def close(self) -> None:
        """Store what is left."""
        self._ledger.close()

    @property
    def failures(self) -> int:
        """How often usage could not be stored."""
        return self._ledger.failures

    def _find(self, record: RequestRecord, facts: Facts) -> PricedRow:
        """Return the row of a request, and remember it unless its model may get rows of its own later."""
        model, upstream_model = self._names.of(record)
        provider, account = record.provider or NONE, record.account or NONE
        named = (record.key, record.owner, model, upstream_model, provider, account)
        found = self._rows.get(named)
        if found is None:
            hour = self._ledger.hour
            book = self._books.get(provider)
            prices = None if book is None else book.prices(record.upstream_model, hour)
            name = RowName(hour, record.key or LOCAL, record.owner, model, upstream_model, provider, account)
            found = self._rows[named] = PricedRow(self._new_row(name), prices)
        if OTHER not in (model, upstream_model):
            self._rows[facts] = found
        return found

    def _new_row(self, name: RowName) -> LiveRow:
        try:
            return self._ledger.row(name)
        except ValueError:  # its names are too long
            return self._ledger.row(replace(name, model=OTHER, upstream_model=OTHER))

    def _forget_rows(self) -> None:
        """Use new rows from now on. Called by the thread of the ledger as well."""
        rows, self._rows = self._rows, {}
        _add_costs(self._earlier, rows)
        if len(self._earlier) > MOST_SERIES:
            # Metrics must not grow with every new name.
            self._earlier = _without_models(self._earlier)
        day = self._ledger.hour // HOURS_PER_DAY
        if day != self._day:
            self._day = day
            self._names.forget()


def _count_rest(record: RequestRecord, row: PricedRow) -> None:
    """Count what is not in every request: errors, cached tokens, searches, unknown prices and unknown usage."""
    counts, usage = row.counts, record.usage
    if record.error is not None:
        counts[ERRORS] += 1
    # In millionths of a millionth of a dollar.
    most = record.most_cost * 1_000
    counts[RESERVED] += record.unmetered * most
    if usage is not None and not usage.is_plausible:
        usage = None
    # An upstream that refused the request has used nothing. If the client has disconnected, nobody knows.
    is_refusal = record.failure is not None and record.content_at is None and not record.uncertain
    if usage.estimated if usage is not None else not is_refusal:
        counts[UNMETERED] += 1
        counts[UNPRICED] += row.prices is None or not row.prices.is_free
    if usage is None:
        return
    whole = usage.whole
    counts[FRESH] += whole.fresh
    counts[CACHE_READ] += whole.cache_read or 0
    counts[CACHE_WRITE] += whole.cache_write or 0
    counts[CACHE_WRITE_LONG] += whole.cache_write_long or 0
    counts[OUTPUT] += whole.output
    counts[REASONING] += whole.reasoning or 0
    counts[SEARCHES] += whole.searches or 0
    if usage.estimated:
        return
    cost = None if row.prices is None else row.prices.cost(usage)
    if cost is None:
        counts[UNPRICED] += 1
        counts[RESERVED] += most
    else:
        counts[COST] += cost


def _without_models(costs: dict[tuple[str, str], tuple[int, int]]) -> dict[tuple[str, str], tuple[int, int]]:
    """Return the sums by provider, under the model `other`."""
    total: dict[tuple[str, str], tuple[int, int]] = {}
    for (provider, _), (cost, unpriced) in costs.items():
        before = total.get((provider, OTHER), (0, 0))
        total[provider, OTHER] = before[0] + cost, before[1] + unpriced
    return total


def _add_costs(total: dict[tuple[str, str], tuple[int, int]], rows: dict[Facts, PricedRow]) -> None:
    """Add the costs of rows to sums by provider and model. A row may be there under two names."""
    for row in {id(one): one for one in list(rows.values())}.values():
        name = (row.row.name.provider, row.row.name.upstream_model)
        cost, unpriced = total.get(name, (0, 0))
        total[name] = cost + row.counts[COST], unpriced + row.counts[UNPRICED]


def cost_of(record: RequestRecord, books: Mapping[str, PriceBook]) -> Money | None:
    """Return what a request has cost, at the prices of this hour; None if that is unknown, never 0 for that reason.

    `books`: the prices of each provider (`Gateway.price_books`). A request without usage has an unknown cost.
    """
    book = books.get(record.provider)
    if book is None or record.usage is None:
        return None
    return book.cost(record.usage, record.upstream_model, int(time.time()) // HOUR_SECONDS)
