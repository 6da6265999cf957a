"""A configuration in use: client keys, providers with their transports, pools, and what outlives a reload.

Made at start and on every reload; nothing here handles a request.
"""
