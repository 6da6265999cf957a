"""The state of accounts over processes and restarts: what one process learns is written, what others learned is read.

    sync = StateSync(pools, RecordFile(file), steady_time())   # in the worker, after the fork
    sync.sync(steady_time())          # before `pools.begin` and before each `plan.next`: microseconds
    sync.replace(new_pools, now)      # on reload
    sync.close(now)                   # at the end

None of this raises or waits for a disk: a store that is locked, full, damaged or missing costs what it remembers, with
one warning in the log, and never a request. `load_into` and `write_now` are for commands.
"""
