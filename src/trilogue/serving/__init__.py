"""The HTTP/1.1 server: requests of clients in, responses out. It knows no protocol, model or account.

`Listener` accepts connections, `HttpRequest` is what a client sent, and `Responder` writes the response. `WebSocket` is
a connection that a request has upgraded.
"""

from trilogue.serving.connection import App, Refusal
from trilogue.serving.listener import Listener
from trilogue.serving.request import BodyBroken, BodyEncoded, BodyTooLarge, BodyTooSlow, ClientGone, HttpRequest
from trilogue.serving.responder import Headers, Responder, header_lines
from trilogue.serving.websocket import MessageSocket, SocketLimits, WebSocket, handshake_problem, offers_websocket

__all__ = [
    "App",
    "BodyBroken",
    "BodyEncoded",
    "BodyTooLarge",
    "BodyTooSlow",
    "ClientGone",
    "Headers",
    "HttpRequest",
    "Listener",
    "MessageSocket",
    "Refusal",
    "Responder",
    "SocketLimits",
    "WebSocket",
    "handshake_problem",
    "header_lines",
    "offers_websocket",
]
