"""The application and its endpoints: generation, token counts, lists of models, stored objects, WebSockets, others.

Sockets and processes are in `serving` and `gateway.process`.
"""
