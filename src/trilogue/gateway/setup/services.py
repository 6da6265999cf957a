"""A configuration in use: routes, keys, providers with their transports. Made at start and on every reload.

Running requests keep the `Services` that they began with; a reload only changes what new requests get. What the next
configuration takes over from this one is in `worker_state`.
"""

from __future__ import annotations

from msgspec import Struct

from trilogue.config import Config
from trilogue.config import ProviderSettings as ProviderConfig
from trilogue.gateway.observe.access_log import AccessLog
from trilogue.gateway.observe.decisions import DecisionLog
from trilogue.gateway.observe.observer import Observers
from trilogue.gateway.setup.access import ClientKey, KeyRing, owner_of
from trilogue.gateway.setup.provider import TransportFor, UpstreamProvider
from trilogue.gateway.setup.worker_state import WorkerState, client_keys
from trilogue.model import Protocol
from trilogue.routing import Router, Upstream
from trilogue.translate.reasoning.seal import Sealer
from trilogue.upstream import HttpTransport, Transport

MAX_RESOLVED = 1000


class GatewayLimits(Struct, frozen=True):
    """The largest request that is accepted, and how often a client gets a keep-alive comment or ping."""

    max_body_bytes: int
    keepalive_seconds: float


class Services:
    """Everything that a request needs."""

    def __init__(self, config: Config, transport_for: TransportFor, sealer: Sealer, state: WorkerState) -> None:
        server = config.server
        self.config = config
        self.router: Router = config.router()
        self.only_model = self.router.only_model()
        self._resolved: dict[tuple[str, Protocol], tuple[Upstream, ...]] = {}
        self.resolved = self._resolved.get
        """the targets of a model and a client's protocol, if they were resolved before"""
        self.sealer = sealer
        keys = client_keys(config)
        self.keys = KeyRing(
            [
                (ClientKey(name, key.mode, owner_of(name, key.key.reveal())), key.key.reveal())
                for name, key in keys.items()
            ]
        )
        admin = config.admin.key
        self.admin = KeyRing([(ClientKey("admin"), admin.reveal())] if admin else [])
        self.limits = GatewayLimits(server.max_body_bytes, server.keepalive_seconds)
        carried = state.take(config)
        self.pools = carried.pools
        self.store = carried.stores.durable
        """what is kept of responses and conversations; None if the configuration wants nothing kept"""
        self.stores = carried.stores
        """the same, and a store in memory for reasoning that must not be written"""
        self.refused_reasoning = carried.refused_reasoning
        self.catalog = carried.catalog
        self.decisions = carried.decisions
        self.sync = state.sync
        self.observers = Observers([AccessLog(), DecisionLog(self.decisions), *state.observers])
        self._transports: list[Transport] = []

        def transport(provider: ProviderConfig, proxy: str | None) -> Transport:
            self._transports.append(transport_for(provider, proxy))
            return self._transports[-1]

        self.providers = {
            name: UpstreamProvider(name, provider, config.timeouts(name), transport, self.pools.pools[name])
            for name, provider in config.providers.items()
        }

    def routed(self, model: str, client: Protocol) -> tuple[Upstream, ...]:
        """Return the targets of a model according to the routes. Raises NoRoute."""
        targets = self.router.resolve(model, client).targets
        # Routes don't change until the next reload, and clients ask for the same few models all the time.
        if len(self._resolved) >= MAX_RESOLVED:
            self._resolved.clear()
        self._resolved[model, client] = targets
        return targets

    async def offered(self, model: str, client: Protocol) -> Upstream | None:
        """Return the target of a model that no route knows: a provider that lists it, or None.

        Of several providers, one that speaks the client's protocol is preferred.
        """
        offering = await self.catalog.offering(model, self.providers.values())
        if not offering:
            return None
        return Upstream(min(offering, key=lambda one: client not in one.protocols).name, model)

    def connections(self) -> tuple[int, int]:
        """Return how many connections to upstreams are in use, and how many are idle."""
        counts = [one.connections() for one in set(self._transports) if isinstance(one, HttpTransport)]
        return sum(used for used, _ in counts), sum(idle for _, idle in counts)

    async def aclose(self) -> None:
        """Close every connection of this configuration."""
        for transport in self._transports:
            await transport.aclose()
