"""The gateway: HTTP requests of clients in, responses of upstreams out, in rooms that import only those below them.

docs/architecture.md lists the rooms. The sockets are in `serving` and `upstream`, the choice of accounts is in `pool`,
and the translation in `translate`.
"""
