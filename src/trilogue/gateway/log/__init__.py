"""The log: where lines go, how they look, what must not appear in it, and the boundary for work beside requests.

`guard` is that boundary. The log knows nothing about HTTP or protocols and never makes a request wait.
"""
