"""Which account is used next: limits, queues of available accounts, and the account that a conversation belongs to.

What a failure does to an account is in `pool.health`.
"""
