"""Content that all protocols share: ids, images and files, locations, texts for what has no form, token estimates.

Nothing here reads or writes a whole message; the protocol packages do.
"""
