"""The three endpoints that respond with a model's output, and the list of running requests.

Read the request, look up what it refers to, and route it; the rest is in `complete`. A shutdown waits for the running
requests, and ends them with an error if they take too long.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from trilogue.errors import UpstreamFailure
from trilogue.gateway.access.client_keys import ManagedKey
from trilogue.gateway.conversations.reasoning import ReasoningMemory
from trilogue.gateway.conversations.summaries import TRIGGER_MARK, asks_for_compaction
from trilogue.gateway.endpoints.compaction import compact_turn
from trilogue.gateway.endpoints.judging import judge_request
from trilogue.gateway.request.call import ModelCall, read_asked
from trilogue.gateway.request.failures import REVOKED, SHUTTING_DOWN
from trilogue.gateway.request.large_bodies import LARGE_BYTES, in_thread
from trilogue.gateway.request.ownership import check_body, watch_made_objects
from trilogue.gateway.request.request import CancelReason, RequestContext, read_large, targets_of, watching
from trilogue.gateway.request.turns import stored_turn
from trilogue.gateway.response.attempts import complete, new_call
from trilogue.gateway.response.client_response import ClientResponse
from trilogue.protocols.registry import CODECS
from trilogue.routing.router import ProviderModel

_TOOLS = re.compile(rb'"tool|"call_id"')
"""what is in every request that offers tools or has called any"""


class ActiveRequests:
    """All running requests of one process."""

    def __init__(self) -> None:
        self.requests: dict[RequestContext, None] = {}
        """a dictionary because adding to one is cheaper than to a set"""
        self.leaving = False
        """a stop signal has come: the gateway is not ready for more, but still responds"""
        self.draining = False
        """the time for draining is over: new requests on open connections are refused"""

    def using(self, gateway: object) -> bool:
        """Return whether any running request needs these gateway."""
        return any(context.entry.gateway is gateway for context in self.requests)

    def stop_revoked(self, keys: Sequence[ManagedKey]) -> None:
        """End the requests of keys that were revoked together with their running requests."""
        ended = {key.id for key in keys if key.revoked is not None and key.stops_streams}
        for context in list(self.requests) if ended else ():
            if context.entry.key is not None and context.entry.key.id in ended:
                context.cancellation.cancel(CancelReason.REVOKED, UpstreamFailure(REVOKED))

    def stop_all(self) -> None:
        """End all running requests with an error, and refuse new ones."""
        self.draining = True
        for context in list(self.requests):
            context.cancellation.cancel(CancelReason.DRAINING, UpstreamFailure(SHUTTING_DOWN))


async def handle(context: RequestContext) -> None:
    """Respond to one request, streamed or not. Raises ClientGone; other errors are sent to the client."""
    await run(context, await read_call(context))


async def read_call(context: RequestContext) -> ModelCall:
    """Read a request, and look up what it refers to."""
    gateway = context.entry.gateway
    body = await context.request.body(gateway.settings.max_body_bytes)
    if context.byte_observers is not None and context.byte_observers.inbound_request is not None:
        context.byte_observers.inbound_request(body)
    strict = context.strict
    if len(body) > LARGE_BYTES:
        asked = await read_large(context, body)
    else:
        asked = read_asked(body, gateway.models.only_model, strict=strict, head=context.entry.head)
    call = new_call(context, asked, strict)
    if context.entry.continues:
        call.turn = await stored_turn(context, call.body)
    return call


async def run(context: RequestContext, call: ModelCall, targets: Sequence[ProviderModel] = ()) -> None:
    """Respond to a request that was read. `targets`: where it may go, if that is known."""
    gateway = context.entry.gateway
    try:
        targets = targets or gateway.models.resolved((call.model, call.client)) or await targets_of(context, call.model)
        if gateway.access.keys.is_shared:
            await check_body(context, call.body, targets)
            watch_made_objects(context, call.body)
        if context.entry.judged:
            judged = await judge_request(context, call, targets)
            if judged is None:
                return
            call, targets = judged.call, judged.targets
        for target in targets:
            if gateway.upstreams.providers[target.provider].protocols != (call.client,):
                # An upstream may get the request in another protocol, and the client may not know how to return its
                # reasoning.
                if _TOOLS.search(call.body if call.turn is None else call.whole) is not None:
                    call.memory = await _recalled(context, call)
                break
        if context.entry.continues and call.body.find(TRIGGER_MARK) >= 0 and asks_for_compaction(call.body):
            await compact_turn(context, call, targets)
            return
        client = ClientResponse(call, context.responder, context.record, gateway.observers)
        await complete(context, client, targets)
    finally:
        if call.policies is not None:
            call.policies.close()


async def _recalled(context: RequestContext, call: ModelCall) -> ReasoningMemory | None:
    """Find the reasoning that the client has not sent back. Returns None if it sends back all of it by itself."""
    body, codec = call.whole, CODECS[call.client]
    if len(body) > LARGE_BYTES:
        calls = await in_thread(codec.reasoning.unsealed_calls, body)
    else:
        calls = codec.reasoning.unsealed_calls(body)
    if not calls and codec.reasoning.may_hold_sealed(body, True):
        return None
    memory = ReasoningMemory(context.entry.gateway.stores, context.owner, body)
    if calls:
        with watching(context):
            await memory.find(calls)
    return memory
