"""Content that all protocols share: ids, media types, locations, effort levels, fallback texts, token estimates.

Nothing here reads or writes a whole message; the protocol packages do.
"""
