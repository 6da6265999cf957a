"""State that survives a restart and that workers share: the `Store` interface, its implementations, and the pools' use.

    sync = StateSync(pools, FileStore(folder / FILE_NAME), steady_time())   # in the worker, after the fork
    sync.sync(steady_time())          # before `pools.begin` and before each `plan.next`: microseconds
    sync.replace(new_pools, now)      # on reload
    sync.close(now)                   # at the end

None of this raises or waits for a disk: a store that is locked, full, damaged or missing costs what it remembers, with
one warning in the log, and never a request. `load_into` and `write_now` are for commands.
"""

from trilogue.storage.file import FileStore
from trilogue.storage.memory import MemoryStore
from trilogue.storage.store import (
    Retention,
    Session,
    Store,
    StoreBusy,
    StoreDamaged,
    StoredRecord,
    StoreError,
    StoreHealth,
    StoreUnavailable,
    Transaction,
)
from trilogue.upstreams.state.sync import STEADY_OFFSET, StateError, StateSync, load_into, steady_time, write_now

FILE_NAME = "pool.db"

__all__ = [
    "FILE_NAME",
    "STEADY_OFFSET",
    "FileStore",
    "MemoryStore",
    "Retention",
    "Session",
    "StateError",
    "StateSync",
    "Store",
    "StoreBusy",
    "StoreDamaged",
    "StoreError",
    "StoreHealth",
    "StoreUnavailable",
    "StoredRecord",
    "Transaction",
    "load_into",
    "steady_time",
    "write_now",
]
