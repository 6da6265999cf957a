"""Client keys that are made at run time: read from their store when it changes, and given to the key ring in use.

With them come the sessions of the console that were ended, which must not work again on any worker.

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

from trilogue.gateway.access.client_keys import ManagedKey
from trilogue.gateway.access.key_store import KeyMark, KeyStore, exists
from trilogue.gateway.log.guard import Guard
from trilogue.storage.database import StoreError
from trilogue.storage.engines import database_of
from trilogue.storage.locations import is_postgresql

log = structlog.get_logger("trilogue.keys")

FILE_NAME = "keys.db"
LOOK_SECONDS = 0.2
"""the least time between two looks at the store, however many requests with unknown keys there are"""
KNOWN_SECONDS = 3_600.0
"""how long keys go on working that cannot be read again: another machine may have revoked one"""
WAIT_SECONDS = 2.0
"""how long a request with an unknown key waits for a look at most, if the store is slow"""


def mark_file(file: Path) -> Path:
    """Return the file that says that there were keys. It is not in the database, which may be lost."""
    return file.with_suffix(".made")


class ManagedKeys:
    """The keys of one worker. `file`: where they are kept unless the configuration has a PostgreSQL database."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._where = ""
        self._store: KeyStore | None = None
        self._mark = KeyMark(mark_file(file))
        self._revision = -1
        self._task: asyncio.Task[None] | None = None
        self._looked_at = -LOOK_SECONDS
        self._read_at = time.monotonic()
        self._next_look: asyncio.Future[None] | None = None
        """ends with the next look that begins; None if nobody wants one"""
        self._warned = False
        self._guard = Guard()
        self.keys: tuple[ManagedKey, ...] = ()
        self.fault = ""
        """why it is not known which keys there are; "" if it is. Then no such key works, and requests need one"""
        self.were_made = False
        """whether there ever was a key: then requests need one, even if all are lost"""
        self.ended_sessions: frozenset[str] = frozenset()
        """sessions of the console that were ended by signing out, by their digests"""
        self.fault_since = 0.0
        """since when there is the fault, in seconds since the epoch"""
        self.on_change: Callable[[], None] = _ignore
        """called in the event loop when keys have changed"""

    def configure(self, where: str) -> None:
        """Use the store in this place, and read its keys. This may block, as every start and reload does."""
        if where == self._where:
            return
        if self._store is not None:
            self._store.close()
        self._where, self._store = where, None
        self._forget("")
        try:
            if self._may_exist():
                self.store.check()
            self._read()
            if self.were_made and not self.keys:
                log.warning(
                    "client keys were made here, and none is left: requests need a new one",
                    store=self._where_shown,
                    remembered_in=str(mark_file(self._file)),
                    hint="restore the database, or make keys; see docs/keys.md",
                )
        except StoreError as error:
            self._forget(str(error))
            self._warn(error)

    @property
    def is_needed(self) -> bool:
        """Whether requests need a client key, because there is one, there was one, or nobody knows."""
        return bool(self.keys) or self.were_made or bool(self.fault)

    @property
    def _where_shown(self) -> str:
        return database_of(self._where).name

    @property
    def store(self) -> KeyStore:
        """The store, which is made if there is none."""
        if self._store is None:
            self._store = KeyStore(database_of(self._where), mark_file(self._file))
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
                self._read_at = time.monotonic()
                if self._warned:
                    self._warned = False
                    log.info("client keys can be read again", keys=len(self.keys))
            except StoreError as error:
                if not self.fault and time.monotonic() - self._read_at > KNOWN_SECONDS:
                    # One of them may have been revoked on another machine.
                    self._forget(str(error))
                    self._warned = False
                    self.on_change()
                self._warn(error)
            except Exception as error:  # the task boundary: requests wait for this, and the next look may work
                if self._guard.begins_to_fail("client keys"):
                    log.error("bug", part="client keys", error=type(error).__name__, exc_info=True)
            else:
                self._guard.worked("client keys")
            finally:
                look.set_result(None)

    def _read(self) -> bool:
        """Read all keys if one has changed. Return whether anything has."""
        found: tuple[ManagedKey, ...] = ()
        revision = 0
        if self._may_exist():
            if self.fault:
                # Some of a damaged database may be readable. It must not be taken for all.
                self.store.check()
            revision = self.store.revision()
            if revision == self._revision and not self.fault:
                return False
            found = tuple(self.store.all())
            self.ended_sessions = self.store.audit.ended_sessions()
        were_made = self.were_made or bool(found) or self._mark.is_set()
        if found:
            self._remember()
        changed = (found, were_made, "") != (self.keys, self.were_made, self.fault)
        self._revision, self.keys, self.were_made, self.fault = revision, found, were_made, ""
        return changed

    def _may_exist(self) -> bool:
        """Return whether there is a database, as far as it shows without making one. Raise StoreError."""
        return self._store is not None or is_postgresql(self._where) or exists(Path(self._where))

    def _remember(self) -> None:
        try:
            self._mark.set()
        except StoreError as error:
            if not self.were_made:
                log.warning("it cannot be remembered outside of the database that keys were made", reason=str(error))

    def _forget(self, fault: str) -> None:
        """Know no keys. `fault`: why."""
        self.keys, self._revision, self.fault, self.fault_since = (), -1, fault, time.time()

    def _warn(self, error: StoreError) -> None:
        if self._warned:
            return
        self._warned = True
        if self.fault:
            log.error(
                "client keys cannot be read: requests that need one are refused until they can be",
                reason=str(error),
                store=self._where_shown,
                hint="restore the database or move it away; see docs/keys.md",
            )
        else:
            log.warning("client keys cannot be read; those that are known go on working", reason=str(error))

    async def aclose(self) -> None:
        """Close the store."""
        if self._task is not None:
            self._task.cancel()
        if self._store is not None:
            await asyncio.to_thread(self._store.close)


def _ignore() -> None:
    """Do nothing about a change."""
