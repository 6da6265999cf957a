"""JSON as text: parsing, writing, measuring, and reading it while it is still arriving.

Every failure becomes one of our own errors, which says whose fault it is. Nothing here knows about protocols.
"""
