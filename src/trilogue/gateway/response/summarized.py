"""The response to a request for a compaction by the model: it is made from the model's own response."""

from __future__ import annotations

from msgspec import field

from trilogue.gateway.response.attempt import UpstreamAttempt
from trilogue.gateway.response.client_response import ClientResponse, ResponseStep
from trilogue.gateway.response.headers import kept_headers
from trilogue.jsontext.text import dump
from trilogue.model import Json, Loss, events_of
from trilogue.protocols.registry import CODECS
from trilogue.protocols.stream.reply import Reply


class SummarizedResponse(ClientResponse):
    """A response that holds the model's response back. `in_events`: the client asked for a stream."""

    in_events: bool = False
    model_response: bytes = b""
    """the model's whole response in the client's protocol; empty if there is none"""
    _responded: UpstreamAttempt | None = None
    _losses: list[Loss] = field(default_factory=list)

    @property
    def streams(self) -> bool:
        """Whether the client gets a stream. The model's response always comes whole."""
        return self.in_events

    def reply(self, attempt: UpstreamAttempt, losses: list[Loss], body: bytes) -> None:
        """Keep the model's response instead of sending it; `send_instead` sends another in its place."""
        self._responded, self._losses, self.model_response = attempt, losses, body

    def send_instead(self, body: dict[str, Json]) -> None:
        """Send the client this response, as it wanted it: whole, or in events."""
        attempt = self._responded
        if attempt is None:
            return
        if not self.in_events:
            super().reply(attempt, self._losses, dump(body))
            return
        self._advance(ResponseStep.COMMIT)
        self.record.declare(self._losses)
        self._start(kept_headers(attempt.response))
        self._advance(ResponseStep.END)
        self.settle()
        codec = CODECS[self.call.client]
        reply = Reply(body=body, model=self.call.shown_model, source=self.call.client, response_id=str(body["id"]))
        out = codec.encoder(reply).encode(list(events_of(codec.decode_response(body))))
        self.responder.end(self.with_losses(out, self._losses))
