"""The fields of wire objects: read each once, keep the unknown ones, and decide what another protocol makes of them.

Nothing here knows which fields a protocol has; each protocol package has its own tables.
"""
