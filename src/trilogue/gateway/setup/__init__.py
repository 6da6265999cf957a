"""A configuration put to work: client keys, providers with their transports, pools, catalogs and memories.

Made at start and on every reload; nothing here handles a request.
"""
