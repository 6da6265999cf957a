"""A configuration in use: routes, keys, providers with their transports. Made at start and on every reload.

Running requests keep the `Services` that they began with; a reload only changes what new requests get. What the next
configuration takes over from this one is in `worker_state`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from hashlib import blake2b
from typing import TypeVar

from msgspec import Struct

from trilogue.app.worker import WorkerState, client_keys
from trilogue.base.clock import parse_time
from trilogue.config.types import Config
from trilogue.errors import ClientError
from trilogue.gateway.access.client_keys import ClientKey, ConfiguredKey, KeyRing, owner_of
from trilogue.gateway.access.settings import ClientKeySettings, KeyOptions
from trilogue.gateway.admin.settings import Role
from trilogue.gateway.features.usage.observer import UsageObserver
from trilogue.gateway.limits.before import Sources
from trilogue.gateway.limits.limiter import Limiter, LimitState
from trilogue.gateway.limits.most import Most
from trilogue.gateway.log.access_log import AccessLog
from trilogue.gateway.observer import Observer, Observers
from trilogue.gateway.policies.table import policy_table
from trilogue.gateway.record import RequestRecord
from trilogue.model import Protocol, Usage
from trilogue.net.client.interface import Transport
from trilogue.net.client.transport import HttpTransport
from trilogue.protocols.registry import DEFAULT
from trilogue.routing.models.router import Router, Upstream
from trilogue.translate.reasoning.seal import Audience, Sealer
from trilogue.upstreams.provider import TransportFor, UpstreamProvider
from trilogue.upstreams.settings import ProviderSettings as ProviderConfig
from trilogue.vendors.prices.book import HOUR_SECONDS
from trilogue.vendors.prices.price import TokenPrices

MAX_RESOLVED = 1000
OfObserver = TypeVar("OfObserver", bound=Observer)


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
        self.trusts_callers = False
        """whether clients need no key, wherever they are, because the program around the gateway checks them"""
        self.policies = policy_table(config, self.router)
        """what judges requests and responses; None if the configuration has no policies"""
        self._resolved: dict[tuple[str, Protocol], tuple[Upstream, ...]] = {}
        self.resolved = self._resolved.get
        """the targets of a model and a client's protocol, if they were resolved before"""
        self._route_names: dict[tuple[str, Protocol], str] = {}
        self._ruling: dict[tuple[str, Protocol, tuple[Upstream, ...]], tuple[str, ...]] = {}
        self.sealer = sealer
        configured = configured_keys(config)
        self.configured = tuple([one.key for one in configured])
        """the client keys of the configuration, also those that have expired"""
        self.keys = KeyRing(configured, required=config.require_keys)
        admins = config.admin.all_keys()
        self._admin_keys = KeyRing([ConfiguredKey(ClientKey(name), key.reveal()) for name, (key, _) in admins.items()])
        self.limits = GatewayLimits(server.max_body_bytes, server.keepalive_seconds)
        carried = state.take(config)
        self.pools, self.catalog = carried.pools, carried.catalog
        self.store = carried.stores.durable
        """what is kept of responses and conversations; None if the configuration wants nothing kept"""
        self.stores = carried.stores
        """the same, and a store in memory for reasoning that must not be written"""
        self.refused_reasoning = carried.refused_reasoning
        self.history = carried.history
        """the latest requests"""
        self.managed_keys = carried.managed_keys
        self.approvals = carried.approvals
        """tool calls that wait until a person has decided"""
        self.renew_keys()
        self.sync = state.sync
        self.store_health = state.store_health
        self.cluster = state.cluster
        kept: list[Observer] = [self.history] if self.history.limit else []
        self._observers: list[Observer] = [AccessLog(), *kept, *state.observers]
        self.observers = Observers(self._observers)
        limits = LimitState(state.limits, state.webhook, state.leases)
        self.limiter = Limiter(config, limits, self._record_cost, self._sources(state))
        self.price_books = {name: provider.price_book() for name, provider in config.providers.items()}
        """what the models of each provider cost: see `gateway.usage.cost`"""
        self._transports: list[Transport] = []

        def transport(provider: ProviderConfig, proxy: str | None) -> Transport:
            self._transports.append(transport_for(provider, proxy))
            return self._transports[-1]

        self.providers = {
            name: UpstreamProvider(name, provider, config.timeouts(name), transport, self.pools.pools[name])
            for name, provider in config.served.items()
        }
        self.passes_client_keys = any(provider.passes_client_key for provider in self.providers.values())
        """whether keys of clients are passed on to any provider"""

    def _sources(self, state: WorkerState) -> Sources:
        """Return where to find out what was used before it was counted."""
        usage, leases = self.observer(UsageObserver), state.leases
        return Sources(
            None if usage is None else usage.read,
            None if leases is None else leases.spent_here,
            usage.lost_at if usage is not None else lambda: 0.0,
            lambda model: self.route_of(model, DEFAULT),
        )

    def admin_key(self, presented: Sequence[str]) -> tuple[str, Role] | None:
        """Return the name and the role of the first of these keys that is an admin key; None if none is."""
        found = self._admin_keys.find(presented)
        # A key that is configured as both must not let clients change accounts.
        if found is None or self.keys.find(presented) is not None:
            return None
        return found.name, self.config.admin.all_keys()[found.name][1]

    def most_cost(self, provider: str, model: str, most: Most) -> int | None:
        """Return the most that a request can cost, in billionths of a dollar; None if the price is unknown."""
        prices = self._prices(provider, model, time.time())
        found = None if prices is None else prices.most(most.input, most.output, most.searches)
        return None if found is None else -(-found // 1_000)

    def cost(self, provider: str, model: str, usage: Usage) -> int | None:
        """Return what usage of a model costs, in billionths of a dollar; None if the price is unknown."""
        prices = self._prices(provider, model, time.time())
        found = None if prices is None else prices.cost(usage)
        return None if found is None else round(found / 1_000)

    def _record_cost(self, record: RequestRecord, now: float) -> int | None:
        prices, usage = self._prices(record.provider, record.upstream_model, now), record.usage
        found = None if prices is None or usage is None else prices.cost(usage)
        return None if found is None else round(found / 1_000)

    def _prices(self, provider: str, model: str, now: float) -> TokenPrices | None:
        book = self.price_books.get(provider)
        return None if book is None else book.prices(model, int(now) // HOUR_SECONDS)

    def observer(self, kind: type[OfObserver]) -> OfObserver | None:
        """Return the observer of this class, if there is one."""
        return next((one for one in self._observers if isinstance(one, kind)), None)

    def sealer_of(self, key: ClientKey | None) -> Sealer:
        """Return what seals reasoning for a client key: other keys cannot open it, unless they share their objects."""
        shared = self.config.server.shared_objects
        if key is None or not key.owner or shared == "all":
            return self.sealer
        # A key that is rotated or renamed keeps what follows the colon.
        own, team = _digest("key", key.owner.rpartition(":")[2]), key.options.owner
        if shared == "key" or not team:
            return self.sealer.bound_to(Audience(own, frozenset({own})))
        group = _digest("owner", team)
        return self.sealer.bound_to(Audience(group, frozenset({own, group})))

    def renew_keys(self) -> None:
        """Accept the client keys that work now, and no others."""
        managed = self.managed_keys
        self.keys.update(managed.keys, time.time(), needed=managed.is_needed)

    def observe(self, capture: Observer | None) -> None:
        """Add an observer to those of new requests, in place of the one that was added before; None to add none."""
        self.observers = Observers([*self._observers, *([capture] if capture is not None else [])])

    def routed(self, model: str, client: Protocol) -> tuple[Upstream, ...]:
        """Return the targets of a model according to the routes. Raises NoRoute."""
        targets = self.router.resolve(model, client).targets
        # Routes don't change until the next reload, and clients ask for the same few models all the time.
        if len(self._resolved) >= MAX_RESOLVED:
            self._resolved.clear()
        self._resolved[model, client] = targets
        return targets

    def route_of(self, model: str, client: Protocol) -> str:
        """Return the route that a model goes by, as its `match`; "" if none matches."""
        known = self._route_names.get((model, client))
        if known is None:
            if len(self._route_names) >= MAX_RESOLVED:
                self._route_names.clear()
            try:
                number = self.router.resolve(model, client).route
            except ClientError:
                number = None
            known = "" if number is None else self.config.routes[number].match
            self._route_names[model, client] = known
        return known

    def ruling_routes(self, model: str, client: Protocol, targets: Sequence[Upstream]) -> tuple[str, ...]:
        """Return the routes whose policies, limits and budgets hold for a request, as their `match`."""
        known = (model, client, tuple(targets))
        found = self._ruling.get(known)
        if found is None:
            if len(self._ruling) >= MAX_RESOLVED:
                self._ruling.clear()
            numbers = self.router.ruling(model, client, targets)
            found = self._ruling[known] = tuple(dict.fromkeys(self.config.routes[number].match for number in numbers))
        return found

    async def offered(self, model: str, client: Protocol) -> Upstream | None:
        """Return the target of a model that no route knows: a provider that lists it, or None.

        Of several providers, one that speaks the client's protocol is preferred.
        """
        offering = await self.catalog.offering(model, self.providers.values())
        if not offering:
            return None
        return Upstream(min(offering, key=lambda one: client not in one.protocols).name, model)

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


def _digest(kind: str, name: str) -> str:
    """Return a short name for a client key or an owner inside of sealed values."""
    return blake2b(f"{kind}:{name}".encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()


def configured_keys(config: Config) -> list[ConfiguredKey]:
    """Return the client keys of a configuration, with their texts."""
    return [_configured(name, key) for name, key in client_keys(config).items()]


def _configured(name: str, settings: ClientKeySettings) -> ConfiguredKey:
    text = settings.key.reveal()
    options = KeyOptions(**{field: getattr(settings, field) for field in KeyOptions.__struct_fields__})
    expires = parse_time(settings.expires, 0.0) if settings.expires else None
    return ConfiguredKey(
        ClientKey(name, settings.mode, owner_of(name, text), "", options, options.restricts), text, expires
    )
