"""The fields of wire objects: read each once, keep unknown ones, and decide their fate in another protocol.

Nothing here knows which fields a protocol has; each protocol package has its own tables.
"""
