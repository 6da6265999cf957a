"""The wire protocols: one package each with its codec, all of the same shape, and what codecs share.

`protocols.registry` finds them by name.
"""
