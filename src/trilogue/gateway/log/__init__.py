"""The log: where lines go, how they look, and what must not appear in it.

It knows nothing about HTTP or protocols and never makes a request wait.
"""
