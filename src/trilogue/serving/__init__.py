"""The HTTP/1.1 server: requests of clients in, responses out.

It knows nothing about protocols, models and accounts. `Listener` accepts connections, `HttpRequest` is what a client
sent, and `Responder` writes the response.
"""

from trilogue.serving.connection import App, Refusal
from trilogue.serving.listener import Listener
from trilogue.serving.request import BodyBroken, BodyEncoded, BodyTooLarge, BodyTooSlow, ClientGone, HttpRequest
from trilogue.serving.responder import Headers, Responder, header_lines

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
    "Refusal",
    "Responder",
    "header_lines",
]
