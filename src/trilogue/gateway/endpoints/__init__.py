"""The application and its endpoints: generation, token counts, lists of models, stored objects, WebSockets, others.

Sockets are in `net.server`, processes in `app.process`.
"""
