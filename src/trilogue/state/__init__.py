"""What survives a restart and what workers share: one SQLite file in the state folder, readable by its owner only.

    keeper = StateSync(pools, state_directory(os.environ) / FILE_NAME, steady_time())   # in the worker, after the fork
    keeper.sync(steady_time())          # before `pools.begin` and before each `journey.next`: microseconds
    keeper.replace(new_pools, now)      # on reload
    keeper.close(now)                   # at the end

Nothing of this raises or waits for a disk: a file that is locked, full, broken or missing costs its memory, with one
warning in the log, and never a request. `load_into` and `write_now` are for commands beside a running gateway.
"""

from trilogue.state.offline import StateError, load_into, write_now
from trilogue.state.sync import FILE_NAME, PoolSuccessor, StateSync, steady_time

__all__ = ["FILE_NAME", "PoolSuccessor", "StateError", "StateSync", "load_into", "steady_time", "write_now"]
