"""What outlives the configuration: everything that a worker keeps over a reload, and how each part is carried over.

- Accounts (cooldowns, disabled keys, conversations, balances, counts, what models refused): all of it, by the names of
  provider and account. Running requests of the old configuration still report to it. It survives a
  restart too.
- Stored responses, conversations and reasoning: all of it, unless `state` changes. Each belongs to the text of a client
  key, so that a new key cannot use what an old one of the same name has stored. It survives a restart too, but for the
  reasoning of clients that asked to store nothing.
- Reasoning that accounts have refused: that of accounts whose address, headers and key are still the same.
- Lists of models: those of providers whose settings are still the same.
- Client keys that were made at run time: all of them, unless the database changes.
- Tool calls that wait for approval: all of them, with the requests that they belong to.
- Recent requests: the latest, as many as the new configuration keeps.
- Observers: those that the worker was started with, so that they can count over reloads.

Everything else belongs to `Gateway` and is made anew, the retry budget too: it only covers the last minute.

A `Worker` is made inside the worker process, after the fork.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from os import urandom
from pathlib import Path
from random import SystemRandom
from typing import TypeVar

from trilogue.app.build import configured_keys, gateway_settings, limit_rules, policy_table
from trilogue.app.stores import locations_at
from trilogue.base.cipher import KEY_BYTES
from trilogue.base.clock import steady_time
from trilogue.base.secrets import Secret
from trilogue.config.config import Config
from trilogue.gateway.access.access import Access
from trilogue.gateway.access.managed_keys import ManagedKeys
from trilogue.gateway.admin.administration import Administration
from trilogue.gateway.conversations.stores import Stores, WorkerStores
from trilogue.gateway.endpoints.app import GatewayApp
from trilogue.gateway.features.approvals.approvals import Approvals
from trilogue.gateway.features.cluster.lease_keeper import LeaseKeeper
from trilogue.gateway.features.cluster.worker import WorkerCluster
from trilogue.gateway.features.explain.history import RequestHistory
from trilogue.gateway.features.usage.before import Sources, used_before
from trilogue.gateway.features.usage.observer import UsageObserver
from trilogue.gateway.gateway import Gateway
from trilogue.gateway.limits.budget_table import SpentBudgets
from trilogue.gateway.limits.limiter import Limiter, LimitState
from trilogue.gateway.limits.shared_table import LazyTable, SharedTable
from trilogue.gateway.limits.webhook import Webhook
from trilogue.gateway.log.access_log import AccessLog
from trilogue.gateway.log.guard import Guard, close_all
from trilogue.gateway.observer import Observer
from trilogue.gateway.record import RequestRecord
from trilogue.policies.shipped.approve import ApprovalQuestion
from trilogue.protocols.registry import DEFAULT
from trilogue.routing.pool.pools import Pools
from trilogue.routing.router import ModelRoutes, ProviderModel
from trilogue.storage.database import StoreHealth
from trilogue.storage.engines import database_of
from trilogue.storage.locations import KEYS_FILE, LIMITS_FILE, Locations
from trilogue.storage.records import RecordFile, RecordMemory
from trilogue.translate.reasoning.seal import Sealer
from trilogue.upstreams.build import pools_of, router_of
from trilogue.upstreams.catalog import Catalog
from trilogue.upstreams.provider import TransportFor
from trilogue.upstreams.refused_reasoning import RefusedReasoning
from trilogue.upstreams.settings import ProviderSettings
from trilogue.upstreams.state.sync import StateSync
from trilogue.upstreams.upstreams import Upstreams, UpstreamState

Name = TypeVar("Name")


class Worker:
    """Everything that one process keeps over reloads, and what makes the gateway of each configuration.

    `accounts`: where the state of accounts is kept; for the two files see `WorkerPools`. `transports`: returns what
    makes the transports of one configuration: a reload closes those of the one before it. `observers`: those of all
    requests, besides the access log and the recent requests.
    """

    def __init__(
        self,
        accounts: Path,
        transports: Callable[[], TransportFor],
        sealer: Sealer,
        shared_file: Path | None = None,
        observers: Sequence[Observer] = (),
    ) -> None:
        self._accounts = accounts
        self._transports = transports
        self._sealer = sealer
        self.pools = WorkerPools(accounts, shared_file)
        self.sync = self.pools.sync
        self.close = self.pools.close
        """writes what is left of the accounts; `aclose` closes the rest too"""
        # Without a key, what is stored can be read until the process ends.
        self.stores = WorkerStores(sealer.storage_keys or (urandom(KEY_BYTES),))
        places = Locations(accounts)
        self.managed_keys = ManagedKeys(places.file(KEYS_FILE))
        self.webhook = Webhook()
        self.limits = LazyTable(lambda: SharedTable(places.file(LIMITS_FILE)))
        self.cluster = WorkerCluster(places.file)
        self.leases: LeaseKeeper | None = None
        """what a cluster has granted; None without one"""
        self.history = RequestHistory()
        self.approvals = Approvals()
        self._guard = Guard()
        self._config: Config | None = None
        self._refused_reasoning = RefusedReasoning()
        self._catalog = Catalog()
        self.observers = tuple(observers)

    def gateway(self, config: Config) -> Gateway:
        """Return the gateway of a configuration, which takes over what was learned with the one before it.

        Whatever can fail comes before anything is changed, so that a bad reload leaves all as it was.
        """
        router = router_of(config)
        policies = policy_table(config, router, {ApprovalQuestion: self.approvals.ask})
        configured = configured_keys(config)
        upstreams, stores = self._carried_over(config)
        models = ModelRoutes(router, config.routes, config.aliases, config.default_provider)
        kept: list[Observer] = [self.history] if self.history.limit else []
        gateway = Gateway(
            settings=gateway_settings(config),
            access=Access(configured, self.managed_keys, required=config.require_keys),
            models=models,
            upstreams=upstreams,
            limiter=self._limiter(config, upstreams, models),
            stores=stores,
            store=stores.durable,
            policies=policies,
            sealer=self._sealer,
            watching=(AccessLog(), *kept, *self.observers),
            sessions=self.history.sessions if kept else None,
        )
        self.admin = Administration(config.admin, gateway)
        """what administrators see: the gateway that was made last"""
        return gateway

    def _carried_over(self, config: Config) -> tuple[Upstreams, Stores]:
        """Make a configuration the one in use, and return what it takes over from the one before it."""
        old, self._config = self._config, config
        if old is not None:
            changed = _changed(_accounts(old), _accounts(config))
            self._refused_reasoning = self._refused_reasoning.without_accounts(changed)
            self._catalog = self._catalog.without_providers(_changed(old.served, config.served))
        places = locations_at(config, self._accounts)
        pools = self.pools.configure(config)
        self.cluster.configure(config.cluster, config.server.workers)
        if self.leases is None and self.cluster.member is not None:
            spent = SpentBudgets(database_of(places.shared)) if places.shared else None
            self.leases = LeaseKeeper(self.cluster.member, self.limits, spent)
        self.managed_keys.configure(places.keys)
        self.webhook.configure(config.webhook)
        self.history.resize(config.admin.keep_requests if config.admin.enabled else 0)
        known = UpstreamState(pools, self._catalog, self._refused_reasoning, self.sync)
        upstreams = Upstreams(config.providers, config.server.timeouts, self._transports(), known)
        return upstreams, self.stores.configure(config.state, places.responses)

    def _limiter(self, config: Config, upstreams: Upstreams, models: ModelRoutes) -> Limiter:
        usage = next((one for one in self.observers if isinstance(one, UsageObserver)), None)
        leases = self.leases
        before = Sources(
            None if usage is None else usage.read,
            None if leases is None else leases.spent_here,
            usage.lost_at if usage is not None else lambda: 0.0,
            lambda model: models.route_of(model, DEFAULT),
        )

        def cost(record: RequestRecord, now: float) -> int | None:
            usage = record.usage
            return None if usage is None else upstreams.cost(record.provider, record.upstream_model, usage, now)

        def unpriced(model: str) -> ProviderModel | None:
            return upstreams.unpriced(models.router, model)

        state = LimitState(self.limits, self.webhook, leases)
        return Limiter(limit_rules(config), state, cost, partial(used_before, before), unpriced)

    def tick(self) -> None:
        """Share what happened with other processes and machines. Call it several times a second."""
        self._guard.run("accounts", self.sync)
        self._guard.run("cluster", self.cluster.tick)
        self._guard.run("shares of limits", lambda: self.pools.share_with(self.cluster.nodes))
        if self.leases is not None:
            leases = self.leases
            self._guard.run("leases", lambda: leases.tick(self.cluster.nodes))

    def store_health(self) -> dict[str, StoreHealth]:
        """Return how reading and writing goes, by the name of the store in metrics."""
        found = {"accounts": self.pools.health, "responses": self.stores.health}
        return {name: health for name, health in found.items() if health is not None}

    async def aclose(self) -> None:
        """Write what is left and close everything."""
        await close_all(
            ("accounts", self.close),
            *([("leases", self.leases.aclose)] if self.leases is not None else []),
            ("cluster", lambda: asyncio.to_thread(self.cluster.close)),
            ("responses", self.stores.close),
            ("client keys", self.managed_keys.aclose),
            ("approvals", self.approvals.aclose),
            ("webhook", self.webhook.aclose),
            ("limits", self.limits.close),
        )


class WorkerPools:
    """The account pools of one worker, and the store that keeps their state.

    `file`: where it is kept if the configuration wants that. `shared_file`: a file that goes with the gateway, by which
    several workers agree where nothing is kept; a single worker needs none.
    """

    def __init__(self, file: Path, shared_file: Path | None = None) -> None:
        self._file = file
        self._shared_file = shared_file
        self._open: Path | None = None
        self._sync: StateSync | None = None
        self._workers = self._nodes = self._divided_by = 1

    def configure(self, config: Config) -> Pools:
        """Return pools for this configuration, which know what those of the last one knew."""
        now = steady_time()
        pools = pools_of(config, SystemRandom(), config.server.workers)
        successor = None
        if self._sync is not None:
            self._sync.replace(pools, now)
            successor = self._sync.successor
        # The link to a cluster is one per machine: it needs the one file that all processes of the machine share.
        wanted = self._file if config.pool.persist or config.cluster.redis else self._shared_file
        if wanted != self._open:
            self.close()
        if self._sync is None:
            self._open = wanted
            # In a cluster, what a power failure damages comes back from the other machines, which must learn of changes
            # at once: on a busy disk, waiting for it took longer than everything else (160 ms instead of 65, p99).
            kept = RecordMemory() if wanted is None else RecordFile(wanted, durable=not config.cluster.redis)
            self._sync = StateSync(pools, kept, now, successor)
        self._workers = self._divided_by = config.server.workers
        self.share_with(self._nodes)
        return pools

    def share_with(self, nodes: int) -> None:
        """Use an equal part of the accounts' limits, of which all workers of this many machines get one."""
        self._nodes = nodes
        if self._sync is not None and self._divided_by != nodes * self._workers:
            self._divided_by = nodes * self._workers
            self._sync.pools.set_share(1.0 / self._divided_by)

    def sync(self, now: float | None = None) -> None:
        """Write what happened here, read what happened elsewhere. `now`: the steady time, if the caller has it."""
        if self._sync is not None:
            self._sync.sync(steady_time() if now is None else now)

    @property
    def health(self) -> StoreHealth | None:
        """How writing to the store goes; None before it is open."""
        return None if self._sync is None else self._sync.health

    def close(self) -> None:
        """Write what is left and close the store."""
        if self._sync is not None:
            self._sync.close(steady_time())
            self._open = self._sync = None


def _accounts(config: Config) -> dict[tuple[str, str], object]:
    """Return what makes an upstream accept or refuse reasoning, by provider and account."""
    return {
        (name, account): (provider.base_url, provider.base_urls, provider.headers, key)
        for name, provider in config.served.items()
        for account, key in _credentials(name, provider)
    }


def _credentials(name: str, provider: ProviderSettings) -> list[tuple[str, Secret | None]]:
    """Return the names and keys of a provider's accounts; one that needs none is an account of the same name."""
    return [(account.name, account.key) for account in provider.accounts] or [(name, None)]


def _changed(old: Mapping[Name, object], new: Mapping[Name, object]) -> frozenset[Name]:
    """Return the names that are gone or no longer mean the same."""
    return frozenset(name for name, value in old.items() if name not in new or new[name] != value)


LOOK_TICKS = 10
"""Ticks after which files with keys are looked at."""
KEY_TICKS = 3
"""Ticks after which a worker looks for changes of client keys: a revoked key stops working within a second."""
RECLAIM_TICKS = 10
"""Ticks after which a worker looks for others that died, whose requests count as ended."""


class KeyWatch:
    """The keys of one worker. `forget`: forgets what was concluded from the headers of clients."""

    def __init__(self, app: GatewayApp, worker: Worker, forget: Callable[[], None]) -> None:
        self._app = app
        self._worker = worker
        self._forget = forget
        self._guard = Guard()
        self._ticks = 0
        worker.managed_keys.on_change = self._changed

    def tick(self) -> None:
        """Learn of keys that were made or revoked elsewhere, and end those whose time has come. Call it often."""
        self._ticks += 1
        gateway = self._app.gateway
        if self._ticks % LOOK_TICKS == 0:
            self._guard.run("keys of accounts", gateway.upstreams.look_at_keys)
        if gateway.access.keys.next_change is not None and gateway.access.keys.next_change <= time.time():
            self._guard.run("keys that end", self._changed)
        if self._ticks % KEY_TICKS == 0:
            self._guard.run("client keys", self._worker.managed_keys.look)
        if self._ticks % RECLAIM_TICKS == 0:
            self._guard.run("limits", self._worker.limits.reclaim)

    def _changed(self) -> None:
        """Use the keys that work now: heads that were admitted before are looked at again."""
        self._app.gateway.access.renew()
        self._forget()
        self._app.running.stop_revoked(self._worker.managed_keys.keys)
