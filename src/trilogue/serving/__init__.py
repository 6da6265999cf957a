"""The clients' side of HTTP/1.1: requests to read, answers to write. It knows nothing of protocols and models."""

from trilogue.serving.connection import Refusal
from trilogue.serving.heads import Headers
from trilogue.serving.listener import App, Listener
from trilogue.serving.request import BodyBroken, BodyEncoded, BodyTooLarge, BodyTooSlow, ClientGone, Request
from trilogue.serving.responder import Responder

__all__ = [
    "App",
    "BodyBroken",
    "BodyEncoded",
    "BodyTooLarge",
    "BodyTooSlow",
    "ClientGone",
    "Headers",
    "Listener",
    "Refusal",
    "Request",
    "Responder",
]
