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

Everything else belongs to `Services` and is made anew, the retry budget too: it only covers the last minute.

A `WorkerState` is made inside the worker process, after the fork.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from os import urandom
from pathlib import Path
from random import SystemRandom
from typing import NamedTuple, TypeVar

from trilogue.base.cipher import KEY_BYTES
from trilogue.base.clock import steady_time
from trilogue.base.secrets import Secret
from trilogue.config.types import Config
from trilogue.gateway.access.managed_keys import FILE_NAME as KEYS_FILE
from trilogue.gateway.access.managed_keys import NOWHERE, ManagedKeys, is_postgresql
from trilogue.gateway.access.settings import ClientKeySettings
from trilogue.gateway.conversations.stores import FILE_NAME, Stores, WorkerStores
from trilogue.gateway.features.approvals.approvals import Approvals
from trilogue.gateway.features.cluster.lease_keeper import LeaseKeeper
from trilogue.gateway.features.cluster.worker import WorkerCluster
from trilogue.gateway.features.explain.history import RequestHistory
from trilogue.gateway.limits.budget_table import SpentBudgets
from trilogue.gateway.limits.shared_table import FILE_NAME as LIMITS_FILE
from trilogue.gateway.limits.shared_table import SharedTable
from trilogue.gateway.limits.table import LazyTable
from trilogue.gateway.limits.webhook import Webhook
from trilogue.gateway.log.guard import Guard, close_all
from trilogue.gateway.observer import Observer
from trilogue.routing.pool.pools import Pools
from trilogue.storage.database import database_of
from trilogue.storage.file import FileStore
from trilogue.storage.memory import MemoryStore
from trilogue.storage.store import StoreHealth
from trilogue.upstreams.catalog import Catalog
from trilogue.upstreams.refused_reasoning import RefusedReasoning
from trilogue.upstreams.settings import ProviderSettings as ProviderConfig
from trilogue.upstreams.state.sync import FILE_NAME as POOL_FILE
from trilogue.upstreams.state.sync import StateSync

Name = TypeVar("Name")


class CarriedOver(NamedTuple):
    """What a configuration gets from the one before it."""

    pools: Pools
    stores: Stores
    refused_reasoning: RefusedReasoning
    catalog: Catalog
    history: RequestHistory
    managed_keys: ManagedKeys
    approvals: Approvals


class WorkerState:
    """Everything in one worker that outlives its configuration. For the two files see `WorkerPools`.

    `observers`: those of all requests, besides the access log and the recent requests. `storage_keys`: those that
    encrypt stored responses, 32 bytes each, the one for new ones first.
    """

    def __init__(
        self,
        file: Path,
        shared_file: Path | None = None,
        observers: Sequence[Observer] = (),
        *,
        storage_keys: Sequence[bytes] = (),
    ) -> None:
        self.pools = WorkerPools(file, shared_file)
        self.sync = self.pools.sync
        self.close = self.pools.close
        """writes what is left of the accounts; `aclose` closes the rest too"""
        # Without a key, what is stored can be read until the process ends.
        self.stores = WorkerStores(_sibling(file, FILE_NAME), storage_keys or (urandom(KEY_BYTES),))
        self.managed_keys = ManagedKeys(_sibling(file, KEYS_FILE))
        self.webhook = Webhook()
        self.limits = LazyTable(lambda: SharedTable(limits_file(file)))
        self.cluster = WorkerCluster(lambda name: _sibling(file, name))
        self.leases: LeaseKeeper | None = None
        """what a cluster has granted; None without one"""
        self._guard = Guard()
        self._config: Config | None = None
        self._refused_reasoning = RefusedReasoning()
        self._catalog = Catalog()
        self._history = RequestHistory()
        self._approvals = Approvals()
        self.observers = tuple(observers)

    def take(self, config: Config) -> CarriedOver:
        """Make a configuration the one in use and return what it takes over from the one before it."""
        old, self._config = self._config, config
        if old is not None:
            changed = _changed(_accounts(old), _accounts(config))
            self._refused_reasoning = self._refused_reasoning.without_accounts(changed)
            self._catalog = self._catalog.without_providers(_changed(old.served, config.served))
        pools = self.pools.take(config)
        self.cluster.configure(config.cluster, config.server.workers)
        if self.leases is None and self.cluster.member is not None:
            self.leases = LeaseKeeper(self.cluster.member, self.limits, _spent_budgets(config))
        self.managed_keys.take(config)
        self.webhook.take(config.webhook)
        self._history.resize(config.admin.keep_requests if config.admin.enabled else 0)
        return CarriedOver(
            pools,
            self.stores.take(config.state),
            self._refused_reasoning,
            self._catalog,
            self._history,
            self.managed_keys,
            self._approvals,
        )

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
            ("approvals", self._approvals.aclose),
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

    def take(self, config: Config) -> Pools:
        """Return pools for this configuration, which know what those of the last one knew."""
        now = steady_time()
        pools = config.pools(SystemRandom())
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
            kept = MemoryStore() if wanted is None else FileStore(wanted, durable=not config.cluster.redis)
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


def _spent_budgets(config: Config) -> SpentBudgets | None:
    """Return where nodes of a cluster keep what was spent; None if that is not in a database that they share."""
    where = (config.cluster.postgresql or config.state.store or NOWHERE).reveal()
    return SpentBudgets(database_of(where)) if is_postgresql(where) else None


def limits_file(file: Path) -> Path:
    """Return where limits are counted. `file`: where the state of accounts is kept."""
    return _sibling(file, LIMITS_FILE)


def _sibling(file: Path, name: str) -> Path:
    """Return the file of another kind for the same configuration: next to `pool-work-0123.db`, `keys-work-0123.db`."""
    other = Path(name)
    return file.with_name(file.stem.replace(Path(POOL_FILE).stem, other.stem, 1) + other.suffix)


def client_keys(config: Config) -> dict[str, ClientKeySettings]:
    """Return the client keys by name: key-1, key-2, … for those without one, so that a reload may change what it means.

    The configuration has checked that no name is there twice.
    """
    return {key.name or f"key-{number}": key for number, key in enumerate(config.keys, 1)}


def _accounts(config: Config) -> dict[tuple[str, str], object]:
    """Return what makes an upstream accept or refuse reasoning, by provider and account."""
    return {
        (name, account): (provider.base_url, provider.base_urls, provider.headers, key)
        for name, provider in config.served.items()
        for account, key in _credentials(name, provider)
    }


def _credentials(name: str, provider: ProviderConfig) -> list[tuple[str, Secret | None]]:
    """Return the names and keys of a provider's accounts; one that needs none is an account of the same name."""
    return [(account.name, account.key) for account in provider.accounts] or [(name, None)]


def _changed(old: Mapping[Name, object], new: Mapping[Name, object]) -> frozenset[Name]:
    """Return the names that are gone or no longer mean the same."""
    return frozenset(name for name, value in old.items() if name not in new or new[name] != value)
