"""A configuration, put to work: routes, keys, providers with their transports. Made at start-up and on every reload.

Running requests keep the `Services` they began with; a reload only changes what new requests get.

The account pools of one worker and the file that they share with others: made after the fork, kept over reloads.
"""

from __future__ import annotations

from pathlib import Path
from random import SystemRandom

from msgspec import Struct

from trilogue.config import Config
from trilogue.config import ProviderSettings as ProviderConfig
from trilogue.gateway.setup.access import ClientKey, KeyRing
from trilogue.gateway.setup.catalog import Catalog
from trilogue.gateway.setup.items import ItemStore
from trilogue.gateway.setup.provider import TransportFor, UpstreamProvider
from trilogue.gateway.setup.refused_reasoning import RefusedReasoning
from trilogue.model import Protocol
from trilogue.pool import Pools
from trilogue.routing import Router, Upstream
from trilogue.state import PoolSuccessor, StateSync, steady_time
from trilogue.translate.reasoning.seal import Sealer
from trilogue.upstream import Transport


class WorkerPools:
    """The pools as they are now. `file`: where their state is kept if the configuration wants that.

    `passing`: a file that does not outlive the gateway, by which several workers agree where nothing is to be kept.
    """

    def __init__(self, file: Path, passing: Path | None = None) -> None:
        self._file = file
        self._passing = passing
        self._open: Path | None = None
        self._keeper: StateSync | None = None
        self._pools: Pools | None = None
        self._earlier = PoolSuccessor()
        """for pools without a keeper, which sees to it itself"""

    def take(self, config: Config) -> Pools:
        """Pools for this configuration, which know what those of the last one knew."""
        now = steady_time()
        pools = config.pools(SystemRandom())
        if self._keeper is not None:
            self._keeper.replace(pools, now)
        elif self._pools is not None:
            self._earlier.hand_over(self._pools, pools, now)
        wanted = self._file if config.pool.persist else self._passing
        if wanted != self._open:
            self.close()
        if wanted is not None and self._keeper is None:
            self._open, self._keeper = wanted, StateSync(pools, wanted, now)
        self._pools = pools
        return pools

    def sync(self, now: float | None = None) -> None:
        """Pass on what happened here, take over what happened elsewhere. `now`: the steady time, if it is known."""
        if self._keeper is not None:
            self._keeper.sync(steady_time() if now is None else now)
        elif self._earlier.retired and self._pools is not None:
            self._earlier.hear(self._pools, steady_time() if now is None else now)

    def close(self) -> None:
        """Write what is left."""
        if self._keeper is not None:
            self._keeper.close(steady_time())
            self._open = self._keeper = None


MAX_RESOLVED = 1000


class GatewayLimits(Struct, frozen=True):
    """What the gateway takes, and how often a client hears from it."""

    max_body_bytes: int
    keepalive_seconds: float


class Services:
    """Everything that a request needs."""

    def __init__(self, config: Config, transport_for: TransportFor, sealer: Sealer, accounts: WorkerPools) -> None:
        server = config.server
        self.config = config
        self.catalog = Catalog()
        self.items = ItemStore()
        self.rejected = RefusedReasoning()
        self.router: Router = config.router()
        self.only_model = self.router.only_model()
        self._resolved: dict[tuple[str, Protocol], tuple[Upstream, ...]] = {}
        self.resolved = self._resolved.get
        """where a model goes, if that was asked before"""
        self.sealer = sealer
        self.keys = KeyRing(
            [(ClientKey(key.name or f"key-{n}", key.mode), key.key.reveal()) for n, key in enumerate(config.keys, 1)]
        )
        admin = config.admin.key
        self.admin = KeyRing([(ClientKey("admin"), admin.reveal())] if admin else [])
        self.limits = GatewayLimits(server.max_body_bytes, server.keepalive_seconds)
        self.pools = accounts.take(config)
        self.sync = accounts.sync
        self._transports: list[Transport] = []

        def way(provider: ProviderConfig, proxy: str | None) -> Transport:
            self._transports.append(transport_for(provider, proxy))
            return self._transports[-1]

        self.providers = {
            name: UpstreamProvider(name, provider, config.timeouts(name), way, self.pools.pools[name])
            for name, provider in config.providers.items()
        }

    def routed(self, model: str, client: Protocol) -> tuple[Upstream, ...]:
        """Where a model goes, as the routes say. Raises NoRoute."""
        targets = self.router.resolve(model, client).targets
        # Routes are as they are until the next reload, and clients ask for the same few models all the time.
        if len(self._resolved) >= MAX_RESOLVED:
            self._resolved.clear()
        self._resolved[model, client] = targets
        return targets

    async def offered(self, model: str, client: Protocol) -> Upstream | None:
        """Where a model goes that no route knows: to a provider that lists it, if one can be to one like the client."""
        offering = await self.catalog.offering(model, self.providers.values())
        if not offering:
            return None
        return Upstream(min(offering, key=lambda one: client not in one.protocols).name, model)

    async def aclose(self) -> None:
        """Close every connection of this configuration."""
        for transport in self._transports:
            await transport.aclose()
