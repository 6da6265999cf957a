"""Continuing a response that the provider has paused: the same request to the same account, with the turn so far.

The client's protocol has no pauses, so the client sees one response. `send` is called with the content of each part,
until the turn is complete or was continued as often as `server.max_continuations` allows. Whatever the upstream says
then is what the client gets: a failure of a later part is a failure of the response.
"""

from __future__ import annotations

from msgspec.structs import replace

from trilogue.base.json_text import dump, parse_request, parse_upstream
from trilogue.gateway.observer import ByteObservers
from trilogue.gateway.response.attempt import UpstreamAttempt
from trilogue.gateway.response.timing import TimeLimits
from trilogue.model import Json, Loss
from trilogue.protocols.codec import PauseForm
from trilogue.translate.responses import collect_stream
from trilogue.translate.streams import StreamTranslator

LOSS = "stop.pause_turn"
_AFTERWARDS_SECONDS = 0.5


class Continuation:
    """The parts of one response. `most`: how often it may be continued."""

    def __init__(
        self, attempt: UpstreamAttempt, form: PauseForm, limits: TimeLimits, most: int, observers: ByteObservers | None
    ) -> None:
        self._attempt = attempt
        self._form = form
        self._limits = limits
        self._most = most
        self._observers = observers
        self._request = attempt.outbound.request
        self._parts: list[dict[str, Json]] = []
        self.pieces: list[bytes] = []
        """the bytes of the current part, if it is a stream"""
        self.losses: list[Loss] = []

    async def continue_stream(self, _: StreamTranslator) -> bool:
        """Send the request again after the stream in `pieces` has paused. Return False if the limit is reached."""
        data, self.pieces = b"".join(self.pieces), []
        if data[:1] == b"{":  # some servers respond to a request for a stream with a whole body
            part = parse_upstream(data, whole=True)
        else:
            part = collect_stream(data, protocol=self._attempt.outbound.protocol)
        return await self._send(part, stream=True)

    async def complete(self, body: bytes, limit: int) -> bytes:
        """Return a complete response, from one that may be paused. `limit`: most bytes of a part."""
        while body.find(self._form.mark) >= 0 and self._form.is_paused(part := parse_upstream(body, whole=True)):
            if not await self._send(part, stream=False):
                self.losses.append(Loss(LOSS, self._attempt.outbound.protocol.traits.stop_path))
                return dump(self._form.cut_short(self._form.joined(self._parts)))
            body = await self._attempt.response.read(limit)
        if not self._parts:
            return body
        return dump(self._form.joined([*self._parts, parse_upstream(body, whole=True)]))

    async def _send(self, part: dict[str, Json], stream: bool) -> bool:
        """Note a part, and send the request again. Raises UpstreamError."""
        self._parts.append(part)
        if len(self._parts) > self._most:
            return False
        self._attempt.continued = True
        attempt, content = self._attempt, [block for one in self._parts for block in one["content"]]
        attempt.response.release(_AFTERWARDS_SECONDS)
        if stream:
            self._limits.attempt_ended()
        body = dump(self._form.continued(parse_request(self._request.body), content))
        attempt.outbound = replace(attempt.outbound, request=replace(self._request, body=body))
        await attempt.send(self._limits, stream, self._observers)
        await attempt.check()
        return True
