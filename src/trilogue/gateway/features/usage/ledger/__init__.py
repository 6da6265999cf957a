"""The usage ledger: what was used, by hour, client key, model, provider and account, with its cost.

Nothing is lost. A worker adds each request to a row of its live file before the client gets the end of the response.
The file is mapped into memory, so that this takes no system call, and survives `kill -9`. A thread adds what is new in
the file to the table of all rows once a second, and notes in the same transaction how much of the file that is. So
every request is in the table or in a live file, and never counted twice. Whoever finds the live file of a worker that
has died adds it.

    ledger = UsageLedger(LedgerTables(database_of(setting)), folder, days)     # in the worker, after the fork
    row = ledger.row(RowName(hour=..., key=..., ...))                   # memory only; count in it with `row.save()`
    ledger.close()                                                      # adds what is left
    lines = read_usage(tables, folder, UsageQuery(by=("key",)))         # also while gateways run, and when none does

    counts          what is counted, and what a row is named by
    live_file       the file of one worker
    tables          the table of all rows
    ledger          the live files of a worker, and the thread
    reading         sums by any of the columns
"""
