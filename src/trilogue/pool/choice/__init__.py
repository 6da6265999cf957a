"""Which account serves a request: limits, the queues of ready accounts, and the account that a conversation belongs to.

What a failure does to an account is in `pool.health`.
"""
