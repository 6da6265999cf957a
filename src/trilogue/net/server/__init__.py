"""The HTTP/1.1 server: requests of clients in, responses out. It knows no protocol, model or account.

`Listener` accepts connections, `HttpRequest` is what a client sent, and `Responder` writes the response. `WebSocket` is
a connection that a request has upgraded.
"""
