"""JSON as text: parse it, write it, measure it, and read it while it is still arriving.

Every failure becomes one of our own errors, which says whose fault it is. Nothing here knows a protocol.
"""
