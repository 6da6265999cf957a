"""The upstreams of one configuration: its providers with their accounts, connections, lists of models and prices."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from msgspec import Struct

from trilogue.errors import ClientError
from trilogue.model import Protocol, Usage
from trilogue.net.client.interface import Transport
from trilogue.net.client.transport import HttpTransport
from trilogue.routing.pool.pools import Pools
from trilogue.routing.router import ProviderModel, Router
from trilogue.upstreams.catalog import Catalog
from trilogue.upstreams.provider import TransportFor, UpstreamProvider
from trilogue.upstreams.refused_reasoning import RefusedReasoning
from trilogue.upstreams.settings import ProviderSettings, ProviderTimeouts
from trilogue.vendors.price import TokenPrices
from trilogue.vendors.price_lookup import HOUR_SECONDS

PICO_PER_NANO = 1_000


class UpstreamState(Struct, frozen=True):
    """What is known of upstreams beyond one configuration. `sync`: shares it with other processes, at a steady time."""

    pools: Pools
    catalog: Catalog
    refused_reasoning: RefusedReasoning
    sync: Callable[..., None]


class Upstreams:
    """All upstreams of one configuration. `settings`: by provider, with those that lack a key and are not used."""

    def __init__(
        self,
        settings: Mapping[str, ProviderSettings],
        timeouts: ProviderTimeouts,
        transport_for: TransportFor,
        state: UpstreamState,
    ) -> None:
        self.settings = settings
        self.pools, self.catalog = state.pools, state.catalog
        self.refused_reasoning, self.sync = state.refused_reasoning, state.sync
        self.price_books = {name: one.price_book() for name, one in settings.items()}
        """what the models of each provider cost"""
        self._transports: list[Transport] = []

        def transport(provider: ProviderSettings, proxy: str | None) -> Transport:
            self._transports.append(transport_for(provider, proxy))
            return self._transports[-1]

        self.providers = {
            name: UpstreamProvider(name, one, one.timeouts.over(timeouts), transport, self.pools.pools[name])
            for name, one in settings.items()
            if not one.absence
        }
        self.passes_client_keys = any(provider.passes_client_key for provider in self.providers.values())
        """whether keys of clients are passed on to any provider"""

    def most_cost(self, provider: str, model: str, usage: tuple[int, int, int]) -> int | None:
        """Return the most that a request can cost, in billionths of a dollar; None if the price is unknown.

        `usage`: the most tokens of input and of output, and the most searches.
        """
        prices = self._prices(provider, model, time.time())
        found = None if prices is None else prices.most(*usage)
        return None if found is None else -(-found // PICO_PER_NANO)

    def cost(self, provider: str, model: str, usage: Usage, now: float | None = None) -> int | None:
        """Return what usage of a model costs, in billionths of a dollar; None if the price is unknown."""
        prices = self._prices(provider, model, time.time() if now is None else now)
        found = None if prices is None else prices.cost(usage)
        return None if found is None else round(found / PICO_PER_NANO)

    def _prices(self, provider: str, model: str, now: float) -> TokenPrices | None:
        book = self.price_books.get(provider)
        return None if book is None else book.prices(model, int(now) // HOUR_SECONDS)

    def unpriced(self, router: Router, model: str) -> ProviderModel | None:
        """Return the first target of a model, as clients name it, whose price is unknown; None if there is none."""
        try:
            targets = router.resolve(model).targets
        except ClientError:
            return None
        now = time.time()
        return next((one for one in targets if self._prices(one.provider, one.model, now) is None), None)

    async def offered(self, model: str, client: Protocol) -> ProviderModel | None:
        """Return the target of a model that no route knows: a provider that lists it, or None.

        Of several providers, one that speaks the client's protocol is preferred.
        """
        offering = await self.catalog.offering(model, self.providers.values())
        if not offering:
            return None
        return ProviderModel(min(offering, key=lambda one: client not in one.protocols).name, model)

    def look_at_keys(self) -> None:
        """Look for new keys of accounts that were refused. Call it now and then; without such keys it does nothing."""
        for provider in self.providers.values():
            provider.look_at_keys()

    def connections(self) -> tuple[int, int]:
        """Return how many connections to upstreams are in use, and how many are idle."""
        counts = [one.connections() for one in set(self._transports) if isinstance(one, HttpTransport)]
        return sum(used for used, _ in counts), sum(idle for _, idle in counts)

    async def aclose(self) -> None:
        """Close every connection of this configuration."""
        for transport in self._transports:
            await transport.aclose()
