"""Usage and cost: what each request is counted as, and where that is kept.

`observer` counts requests, `names` limits the number of rows, and `place` says where the ledger of a configuration is.
"""
