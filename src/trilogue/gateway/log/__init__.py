"""The log: where lines go, how they look, what one request leaves in it, and what must not appear in it.

It knows nothing about HTTP or protocols and never makes a request wait.
"""
