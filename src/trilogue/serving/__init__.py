"""The clients' side of HTTP/1.1: requests to read, answers to write. It knows nothing of protocols and models."""

from trilogue.serving.connection import Refusal
from trilogue.serving.listener import App, Listener
from trilogue.serving.request import BodyEncoded, HttpRequest
from trilogue.serving.responder import Headers, Responder, header_lines
from trilogue.serving.upload import BodyBroken, BodyTooLarge, BodyTooSlow, ClientGone

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
