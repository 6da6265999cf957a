"""Client keys that are made at run time: read from their store when it changes, and given to the key ring in use.

A worker asks the store several times a second for a number that grows with every change, and once more before it
refuses a key that may have been made since. If the store is away, the keys that were read last go on working, and no
other key starts to. A file that nobody has made yet is not made here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import structlog

from trilogue.config import Config, Secret
from trilogue.keys import ManagedKey
from trilogue.state.database import database_of
from trilogue.state.keys import KeyStore
from trilogue.state.store import StoreError

log = structlog.get_logger("trilogue.keys")

FILE_NAME = "keys.db"
LOOK_SECONDS = 0.2
"""the least time between two looks at the store, however many requests with unknown keys there are"""
WAIT_SECONDS = 2.0
"""how long a request with an unknown key waits for a look at most, if the store is slow"""
NOWHERE = Secret("none", literal=True)
_POSTGRESQL = ("postgresql://", "postgres://")


def place_of_keys(config: Config, file: Path) -> str:
    """Return where a configuration keeps client keys, as `database_of` takes it. `file`: the default."""
    where = (config.cluster.postgresql or config.state.store or NOWHERE).reveal()
    return where if is_postgresql(where) else str(file)


def is_postgresql(where: str) -> bool:
    """Return whether a place for keys is a PostgreSQL database; otherwise it is a file."""
    return where.startswith(_POSTGRESQL)


class ManagedKeys:
    """The keys of one worker. `file`: where they are kept unless the configuration has a PostgreSQL database."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._where = ""
        self._store: KeyStore | None = None
        self._revision = -1
        self._task: asyncio.Task[None] | None = None
        self._looked_at = -LOOK_SECONDS
        self._next_look: asyncio.Future[None] | None = None
        """ends with the next look that begins; None if nobody wants one"""
        self._warned = False
        self.keys: tuple[ManagedKey, ...] = ()
        self.on_change: Callable[[], None] = _ignore
        """called in the event loop when keys have changed"""

    def take(self, config: Config) -> None:
        """Use the store of this configuration, and read its keys. This may block, as every start and reload does."""
        where = place_of_keys(config, self._file)
        if where != self._where:
            self._where, self._store, self._revision = where, None, -1
            try:
                self._read()
            except StoreError as error:
                self._warn(error)

    @property
    def store(self) -> KeyStore:
        """The store, which is made if there is none."""
        if self._store is None:
            self._store = KeyStore(database_of(self._where))
        return self._store

    def look(self) -> asyncio.Future[None]:
        """Look for changes soon. What is returned ends with a look that begins after this call.

        Looks follow each other with a pause, and all calls before the next one share it.
        """
        loop = asyncio.get_running_loop()
        if self._next_look is None:
            self._next_look = loop.create_future()
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._look())
        return self._next_look

    async def renew(self) -> None:
        """Wait until keys are known that were made before this call, or until the store has taken too long."""
        await asyncio.wait([self.look()], timeout=WAIT_SECONDS)

    async def _look(self) -> None:
        while self._next_look is not None:
            await asyncio.sleep(self._looked_at + LOOK_SECONDS - time.monotonic())
            look, self._next_look = self._next_look, None
            self._looked_at = time.monotonic()
            try:
                if await asyncio.to_thread(self._read):
                    self.on_change()
                self._warned = False
            except StoreError as error:
                self._warn(error)
            finally:
                look.set_result(None)

    def _read(self) -> bool:
        """Read all keys if one has changed. Return whether one has."""
        if self._store is None and not is_postgresql(self._where) and not Path(self._where).exists():
            return False
        revision = self.store.revision()
        if revision == self._revision:
            return False
        self.keys = tuple(self.store.all())
        self._revision = revision
        return True

    def _warn(self, error: StoreError) -> None:
        if not self._warned:
            self._warned = True
            log.warning("client keys cannot be read; those that are known go on working", reason=str(error))

    async def aclose(self) -> None:
        """Close the store."""
        if self._task is not None:
            self._task.cancel()
        if self._store is not None:
            await asyncio.to_thread(self._store.close)


def _ignore() -> None:
    """Do nothing about a change."""
