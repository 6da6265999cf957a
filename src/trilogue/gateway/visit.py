"""One HTTP request with everything that its handling needs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from msgspec import Struct

from trilogue.errors import BadRequest, UpstreamError, UpstreamFailure
from trilogue.gateway.auth import ClientKey
from trilogue.gateway.failures import error_reply, raw_headers
from trilogue.gateway.record import Record
from trilogue.gateway.services import Services
from trilogue.model import Failure, Json, Protocol
from trilogue.protocols.jsontext import dump
from trilogue.serving import Request, Responder

_MODES = ("", "declare", "strict")


class Visit(Struct, kw_only=True):
    """A request that was let in. `client`: whose shape the answer has. `path`: without the version prefix."""

    request: Request
    responder: Responder
    services: Services
    record: Record
    client: Protocol
    path: str
    request_id: str
    key: ClientKey | None = None
    task: asyncio.Task[object] | None = None
    """what answers it, once it was let in"""
    in_band: Callable[[UpstreamError], None] | None = None
    """how to tell of an error once the answer has begun"""

    def reply(self, body: Json, status: int = 200) -> None:
        """A whole JSON answer."""
        self.responder.reply(status, [(b"content-type", b"application/json")], dump(body))

    def refuse(self, failure: Failure) -> None:
        """An error, in the client's shape: instead of the answer, or inside one that has begun."""
        if self.responder.started:
            if self.in_band is not None and not self.responder.ended:
                self.in_band(UpstreamFailure(failure))
            return
        reply = error_reply(failure, self.client, self.request_id)
        self.record.failed(failure)
        self.responder.reply(reply.status, raw_headers(reply.headers), dump(reply.body))

    @property
    def strict(self) -> bool:
        """Refuse what would lose something: asked for by the request, its key or the configuration."""
        asked = self.request.headers.get("trilogue-mode", "")
        if asked:
            asked = asked.strip().lower()
            if asked not in _MODES:
                raise BadRequest("trilogue-mode is strict or declare", path="trilogue-mode")
        mode = asked or (self.key and self.key.mode) or self.services.config.mode
        return mode == "strict"
