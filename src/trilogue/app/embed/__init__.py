"""The gateway inside of another program: as an ASGI application, or for one client.

It has no signals, workers and admin interface of its own.

`gateway` builds it, keeps it going and stops it. `asgi` makes it an ASGI application, with one adapter for HTTP and one
for WebSockets. `sdk` needs no gateway: it translates between an official SDK and an upstream.
"""
