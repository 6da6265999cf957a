"""What a failure means, and what it does to an account: the table of failures, cooldowns, and what models refused.

Which account is used next is decided in `pool.choice`.
"""
