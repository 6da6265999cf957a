"""One HTTP request with everything that its handling needs."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from trilogue.errors import BadRequest, UpstreamError, UpstreamFailure
from trilogue.gateway.log.record import Record
from trilogue.gateway.request.admission import Admission
from trilogue.gateway.request.failures import error_reply, raw_headers
from trilogue.jsontext.text import dump
from trilogue.model import Failure, Json
from trilogue.serving import HttpRequest, Responder

_MODES = ("declare", "strict")


class RequestContext(Struct, kw_only=True, eq=False):
    """A request that was let in, as `entry` says."""

    request: HttpRequest
    responder: Responder
    entry: Admission
    record: Record
    request_id: str
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
        reply = error_reply(failure, self.entry.client, self.request_id)
        self.record.failed(failure)
        self.responder.reply(reply.status, raw_headers(reply.headers), dump(reply.body))

    @property
    def strict(self) -> bool:
        """Refuse what would lose something: asked for by the request, its key or the configuration."""
        mode = self.entry.mode
        if mode not in _MODES:
            raise BadRequest("trilogue-mode is strict or declare", path="trilogue-mode")
        return mode == "strict"
