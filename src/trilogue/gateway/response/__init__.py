"""From the upstream's bytes to the client's: attempts, the relay, pass-through, keep-alives and time limits.

What was sent upstream is decided in `gateway.request`, which account to use in `pool`.
"""
