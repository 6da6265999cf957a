"""The response to a request for a compaction: the upstream's own, or one that is made from what the model wrote.

An upstream that turns out to have no compaction gets another request in the same place: for a summary by its model.
"""

from __future__ import annotations

from msgspec import field
from msgspec.structs import replace

from trilogue.base.json_text import dump, parse_request
from trilogue.errors import UpstreamProtocolError
from trilogue.gateway.conversations.summaries import has_only_calls, is_unknown, without_calls
from trilogue.gateway.request.call import ModelCall
from trilogue.gateway.response.attempt import UpstreamAttempt
from trilogue.gateway.response.client_response import ClientResponse, ResponseStep, kept_headers
from trilogue.model import Failure, Json, Loss, events_of
from trilogue.protocols.registry import CODECS
from trilogue.protocols.stream.response_context import Reply
from trilogue.translate.learning.remedies import Remedy


class CompactionResponse(ClientResponse, kw_only=True):
    """The response to a client that asked for a compaction. The model's response, a summary, is held back."""

    form: Remedy
    """how the client asked, as it is remembered of an upstream that refuses it"""
    in_events: bool
    """whether the client asked for a stream"""
    asking: ModelCall | None
    """the request for a summary, if the model may write one; the current request if the upstream does not compact"""
    model_response: bytes = b""
    """the model's whole response in the client's protocol; empty if there is none"""
    _responded: UpstreamAttempt | None = None
    _losses: list[Loss] = field(default_factory=list)
    _may_call: bool = True
    """whether a call of a tool instead of a summary leads to another request, in which calls are forbidden"""
    _has_called: bool = False

    @property
    def streams(self) -> bool:
        """Whether the client gets a stream. A summary by the model always comes whole."""
        return self.in_events

    def reply(self, attempt: UpstreamAttempt, losses: list[Loss], body: bytes) -> None:
        """Send the upstream's own response, or keep the model's; `send_instead` sends another in its place.

        Raises UpstreamProtocolError for one that can be asked for again.
        """
        if self.call is not self.asking:
            super().reply(attempt, losses, body)
            return
        if self._may_call and has_only_calls(parse_request(body)):
            self._has_called = True
            raise UpstreamProtocolError("the model has called a tool instead of writing a summary")
        self._responded, self._losses, self.model_response = attempt, losses, body

    def changed_for(self, failure: Failure) -> tuple[Remedy, ...] | None:
        """Ask for a summary by the model if the upstream has no compaction, and forbid calls if the model makes one."""
        asking = self.asking
        if asking is None:
            return None
        if self.call is not asking:
            if not is_unknown(failure, self.form):
                return None
            # There is only one repetition.
            self.call, self._may_call = asking, False
            return (self.form,)
        if not (self._may_call and self._has_called):
            return None
        self.call = self.asking = replace(asking, body=without_calls(asking.body))
        self._may_call = False
        return ()

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
