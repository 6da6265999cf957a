"""A configuration in use: client keys, providers, pools, limits and budgets, and what outlives a reload.

`before` knows what was used before it was counted. Made at start and on every reload; nothing here handles a request.
"""
