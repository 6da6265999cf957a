"""The stores of one worker: responses, conversations and reasoning that clients refer to later.

A store is opened by the first request that needs it, inside the event loop, and outlives reloads. A reload that changes
the settings opens another one; the old one is closed once no request uses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from trilogue.gateway.conversations.settings import StateSettings
from trilogue.gateway.conversations.store.service import RunningJobs, StoreService
from trilogue.gateway.conversations.store.store import ResponseStore
from trilogue.gateway.conversations.store.types import StoreLimits
from trilogue.storage.database import StoreHealth
from trilogue.storage.engines import database_of
from trilogue.storage.locations import MEMORY
from trilogue.storage.postgresql import PostgresqlDatabase

_HOUR, _DAY = 3_600.0, 86_400.0
_VOLATILE_BYTES = 64 * 2**20


def limits_of(settings: StateSettings) -> StoreLimits:
    """Return how long and how much a configuration keeps."""
    return StoreLimits(
        seconds=settings.days * _DAY,
        reasoning_seconds=settings.reasoning_hours * _HOUR,
        owner_bytes=settings.key_bytes,
        total_bytes=settings.total_bytes,
    )


class GatewayStore:
    """A store and the service through which the event loop uses it. `where`: what `database_of` takes."""

    def __init__(self, where: str, keys: Sequence[bytes], limits: StoreLimits) -> None:
        database = database_of(where)
        self.store = ResponseStore(database, keys, limits)
        self._is_shared = where != MEMORY
        self.is_on_server = isinstance(database, PostgresqlDatabase)
        """whether other machines may use it too"""
        self._service: StoreService | None = None
        self._jobs: RunningJobs | None = None
        self.left_alone_until = 0.0
        """when to use it again for what can do without it, after it was away; by the clock of the event loop"""

    @property
    def service(self) -> StoreService:
        """The service, which starts with its first use inside the event loop."""
        if self._service is None:
            self._service = StoreService(self.store)
            if self._is_shared:
                # Every worker that uses a store also fails the jobs of workers that died.
                self._jobs = RunningJobs(self._service)
        return self._service

    @property
    def jobs(self) -> RunningJobs:
        """The background jobs that this worker runs in the store."""
        if self._jobs is None:
            self._jobs = RunningJobs(self.service)
        return self._jobs

    @property
    def in_use(self) -> bool:
        """Whether anything was read or written here."""
        return self._service is not None

    @property
    def health(self) -> StoreHealth:
        """How reading and writing goes."""
        return StoreHealth() if self._service is None else self._service.health

    async def close(self) -> None:
        """Finish what waits, and close the store."""
        if self._jobs is not None:
            self._jobs.close()
        if self._service is not None:
            await self._service.close()


class Stores(NamedTuple):
    """Where a configuration keeps things: for good, if it wants that, and until the process ends."""

    durable: GatewayStore | None
    volatile: GatewayStore


class WorkerStores:
    """The stores of one worker over all its configurations. `keys`: they encrypt what is stored."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._keys = keys
        self._settings: StateSettings | None = None
        self._durable: GatewayStore | None = None
        self._replaced: list[GatewayStore] = []
        """stores of earlier configurations, which running requests may still use"""
        self._volatile = self._in_memory(StateSettings())

    def configure(self, settings: StateSettings, where: str) -> Stores:
        """Return the stores for a configuration: those of the last one, if it keeps things in the same way.

        `where`: as `database_of` takes it.
        """
        if settings != self._settings:
            hours = StateSettings().reasoning_hours if self._settings is None else self._settings.reasoning_hours
            if settings.reasoning_hours != hours:
                self._replaced.append(self._volatile)
                self._volatile = self._in_memory(settings)
            self._settings = settings
            if self._durable is not None:
                self._replaced.append(self._durable)
            self._durable = GatewayStore(where, self._keys, limits_of(settings)) if settings.kept else None
        return Stores(self._durable, self._volatile)

    def start(self) -> None:
        """Use a store that machines share from now on, inside the event loop: some may have died with their jobs."""
        if self._durable is not None and self._durable.is_on_server:
            _ = self._durable.service

    def _in_memory(self, settings: StateSettings) -> GatewayStore:
        limits = StoreLimits(
            reasoning_seconds=settings.reasoning_hours * _HOUR,
            owner_bytes=_VOLATILE_BYTES,
            total_bytes=4 * _VOLATILE_BYTES,
        )
        return GatewayStore(MEMORY, self._keys, limits)

    @property
    def health(self) -> StoreHealth | None:
        """How reading and writing goes; None if nothing is kept."""
        return None if self._durable is None else self._durable.health

    async def close(self) -> None:
        """Finish what waits, and close all stores."""
        for store in (*self._replaced, self._durable, self._volatile):
            if store is not None:
                await store.close()
