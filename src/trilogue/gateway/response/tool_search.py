"""Responses in which the gateway runs the client's tool search, for an upstream that has none.

When the model has only searched, the client's request is sent again to the same account, with the response so far at
its end. It is translated in the same way as the client's next request will be, so that both have the same prefix and
prompt caches stay warm. The client sees one response.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from trilogue.base.json_text import dump, parse_request, parse_upstream
from trilogue.errors import UpstreamFailure
from trilogue.gateway.gateway import Gateway
from trilogue.gateway.observer import ByteObservers
from trilogue.gateway.request.call import ModelCall
from trilogue.gateway.request.large_bodies import LARGE_BYTES, in_thread
from trilogue.gateway.request.outbound import Outbound
from trilogue.gateway.response.attempt import RelayResult, UpstreamAttempt
from trilogue.gateway.response.client_response import ClientResponse
from trilogue.gateway.response.first_bytes import is_stream
from trilogue.gateway.response.timing import TimeLimits
from trilogue.gateway.response.tool_finder import find_tools
from trilogue.policies import PolicyRun
from trilogue.protocols.registry import CODECS
from trilogue.translate.responses import collect_stream
from trilogue.translate.streams import StreamTranslator

MOST_SEARCHES = 5
"""how often the model may search and be asked again in one response"""
_AFTERWARDS_SECONDS = 0.5

Prepare = Callable[[ModelCall], Outbound]
"""translates a request for the account of the attempt"""


class SearchContinuation:
    """The further requests of one response with searches. `prepare` makes each from a request of the client."""

    def __init__(
        self,
        attempt: UpstreamAttempt,
        call: ModelCall,
        prepare: Prepare,
        limits: TimeLimits,
        observers: ByteObservers | None,
    ) -> None:
        self._attempt = attempt
        self._call = call
        self._prepare = prepare
        self._limits = limits
        self._observers = observers
        self._rounds = 0
        self.pieces: list[bytes] = []
        """the bytes of the current part, which are not needed here"""

    async def continue_stream(self, path: StreamTranslator) -> bool:
        """Send the request with what was found. Return False if the model has searched too often.

        Raises UpstreamError, and ClientError if the target cannot express the request.
        """
        self.pieces = []
        self._rounds += 1
        if self._rounds > MOST_SEARCHES:
            return False
        attempt = self._attempt
        attempt.continued = True
        attempt.response.release(_AFTERWARDS_SECONDS)
        if self._call.stream:
            self._limits.attempt_ended()
        large = len(self._call.body) > LARGE_BYTES
        outbound = await in_thread(self._again, path) if large else self._again(path)
        known = {loss.code for loss in attempt.outbound.losses}
        losses = [*attempt.outbound.losses, *[loss for loss in outbound.losses if loss.code not in known]]
        attempt.outbound = replace(outbound, losses=losses)
        await attempt.send(self._limits, self._call.stream, self._observers)
        await attempt.check()
        return True

    def _again(self, path: StreamTranslator) -> Outbound:
        call = self._call
        form = CODECS[call.client].tools.search
        request = parse_request(call.body if call.turn is None else call.turn.expanded)
        body = dump(request if form is None else form.continued(request, path.so_far()))
        turn = call.turn if call.turn is None else call.turn.with_expanded(body)
        return self._prepare(replace(call, body=body, turn=turn))


async def relay_searching(
    client: ClientResponse, attempt: UpstreamAttempt, gateway: Gateway, continuation: SearchContinuation
) -> RelayResult:
    """Send the client a whole response with searches. Raises UpstreamError, before anything is sent, if it fails."""
    call, policies = client.call, client.call.policies
    run = policies.response_run() if policies is not None and policies.sees_responses else None
    path = StreamTranslator(
        source=attempt.outbound.protocol,
        target=call.client,
        exchange=attempt.outbound.exchange,
        stamp=client.stamp(),
        policies=run,
    )
    path.answer_searches(find_tools)
    pieces = [await _part(client, attempt, gateway, path, run)]
    while path.paused:
        if not await continuation.continue_stream(path):
            pieces.append(path.end_paused() + await _judged(client, path, run))
            break
        path.resume()
        pieces.append(await _part(client, attempt, gateway, path, run))
    record = client.record
    record.usage = path.usage
    if path.failed is not None:
        raise UpstreamFailure(path.failed.failure)
    if path.start is not None:
        record.response_id, record.response_model = path.start.id, path.start.model
    record.stop = None if path.finish is None else path.finish.stop.reason
    record.empty = not path.has_content
    body = dump(path.snapshot or collect_stream(b"".join(pieces), protocol=call.client))
    if call.turn is not None:
        await call.turn.keep(body, attempt.origin, attempt.account)
    if call.memory is not None:
        await call.memory.keep(path.kept)
    client.reply(attempt, [*attempt.outbound.losses, *path.losses], body)
    return RelayResult(usage=path.usage)


async def _part(
    client: ClientResponse, attempt: UpstreamAttempt, gateway: Gateway, path: StreamTranslator, run: PolicyRun | None
) -> bytes:
    """Read one part of the response, and return what it adds to the client's."""
    body = await attempt.response.read(gateway.settings.max_body_bytes)
    if body[:1] != b"{" and is_stream(attempt.response, body):
        part = collect_stream(body, protocol=attempt.outbound.protocol)
    else:
        part = parse_upstream(body, whole=True)
    return path.whole(part) + await _judged(client, path, run)


async def _judged(client: ClientResponse, path: StreamTranslator, run: PolicyRun | None) -> bytes:
    """Get what the policies wait for, and return what they let go on."""
    out, policies = b"", client.call.policies
    while policies is not None and run is not None and run.pending is not None and not path.done:
        out += path.release(await policies.answer(run))
    return out
