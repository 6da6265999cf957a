"""The endpoints: generation, token counts, model lists, the admin interface, and the dispatch to them.

Sockets and processes are in `serving` and `gateway.process`.
"""
