"""What a request refers to, and what is kept of its response: turns, background jobs, reasoning, compaction.

Only clients of protocols that can continue a response have that. How it is stored is in `store`. Endpoints
are in `gateway.endpoints`.
"""
