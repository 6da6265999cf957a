"""Compaction: `POST /v1/responses/compact`, and requests that end with `compaction_trigger`.

Passed on to upstreams that compact by themselves. Elsewhere, and if such an upstream refuses, the model writes a
summary, which is declared as a loss, unless its provider is configured with `compaction: none`. What a summary looks
like is in `stored.compaction`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from msgspec import Raw
from msgspec.structs import replace

from trilogue.base.json_text import dump, parse_request
from trilogue.errors import Unsupported
from trilogue.gateway.conversations.request_fields import input_items, read_state_fields, with_ids
from trilogue.gateway.conversations.summaries import (
    NO_ENDPOINT,
    NO_TRIGGER,
    as_output,
    compaction_item,
    kept_messages,
    summary_of,
    summary_request,
)
from trilogue.gateway.endpoints.judging import judge_request
from trilogue.gateway.gateway import Gateway
from trilogue.gateway.request.call import ModelCall, read_asked
from trilogue.gateway.request.large_bodies import LARGE_BYTES
from trilogue.gateway.request.ownership import check_body
from trilogue.gateway.request.request import RequestContext, read_large, targets_of, watching
from trilogue.gateway.request.turns import stored_turn
from trilogue.gateway.response.attempts import complete, new_call
from trilogue.gateway.response.compaction import CompactionResponse
from trilogue.model import Json, Loss, refuse_losses, refuses
from trilogue.protocols.parts import digest
from trilogue.protocols.registry import CODECS
from trilogue.routing.router import ProviderModel
from trilogue.translate.learning.remedies import Remedy

LOSS = "compaction.model"
_REFUSED = (
    "this upstream cannot compact a conversation, and its provider is configured with `compaction: none`; with "
    "`compaction: model`, the model writes a summary"
)
_ECHOED: dict[str, Json] = {"tool_choice": "auto", "text": {"format": {"type": "text"}}, "previous_response_id": None}
"""fields that the request for a summary has changed, as a response shows them if the client did not set them"""


async def handle(context: RequestContext) -> None:
    """Respond to a request to the endpoint for compaction."""
    gateway = context.entry.gateway
    body = await context.request.body(gateway.settings.max_body_bytes)
    if context.byte_observers is not None and context.byte_observers.inbound_request is not None:
        context.byte_observers.inbound_request(body)
    if len(body) > LARGE_BYTES:
        asked = await read_large(context, body)
    else:
        asked = read_asked(body, gateway.models.only_model, strict=context.strict)
    call = replace(new_call(context, asked, context.strict), stream=False)
    fields = read_state_fields(call.body)
    fields.store = False  # the API keeps nothing of a compaction
    call.turn = await stored_turn(context, call.body, fields)
    routed: Sequence[ProviderModel] = await targets_of(context, call.model)
    await check_body(context, call.body, routed)
    if context.entry.judged:
        judged = await judge_request(context, call, routed)
        if judged is None:
            return
        call, routed = judged.call, judged.targets
    try:
        await _compact(context, call, routed)
    finally:
        if call.policies is not None:
            call.policies.close()


async def _compact(context: RequestContext, call: ModelCall, routed: Sequence[ProviderModel]) -> None:
    targets, own = compacting(routed, call, context.entry.gateway, NO_ENDPOINT)
    # Only the upstream can read what it returns, so there is nothing to judge.
    passed = replace(call, path=CODECS[call.client].endpoint.compaction, policies=None) if own else None
    client, response = await _responded(context, call, targets, NO_ENDPOINT, passed)
    if response is not None:
        client.send_instead(_compacted(call, response, context.entry.gateway))


async def compact_turn(context: RequestContext, call: ModelCall, targets: Sequence[ProviderModel]) -> None:
    """Respond to a request that ends with the item that asks for a compaction."""
    gateway, turn = context.entry.gateway, call.turn
    targets, own = compacting(targets, call, gateway, NO_TRIGGER)
    client, response = await _responded(context, call, targets, NO_TRIGGER, call if own else None)
    if response is None:
        return
    body = _compacted_turn(call, response, gateway)
    if turn is not None:
        with watching(context):
            await turn.keep(dump(body), None)
    client.send_instead(body)


def compacting(
    targets: Sequence[ProviderModel], call: ModelCall, gateway: Gateway, form: Remedy
) -> tuple[tuple[ProviderModel, ...], bool]:
    """Return the targets that can compact, and whether they do it by themselves. Raises Unsupported if there are none.

    All of them do it in the same way as the first one: what comes next depends on it. `form`: how the client asks.
    """
    alone = len(targets) == 1 and len(gateway.upstreams.pools.pools[targets[0].provider].accounts) == 1
    # In strict mode, a summary by the model would be refused. Of a response that only the upstream knows, only the
    # upstream has the history.
    trusts = alone or refuses(call.strict, LOSS) or (call.turn is not None and call.turn.foreign is not None)
    able = [(target, own) for target in targets if (own := _compacts(target, call, gateway, form, trusts)) is not None]
    if not able:
        items = input_items(read_state_fields(call.body).input)
        raise Unsupported(f"input[{len(items) - 1}]" if form is NO_TRIGGER else "input", _REFUSED)
    first = able[0][1]
    return tuple(target for target, own in able if own is first), first


def _compacts(target: ProviderModel, call: ModelCall, gateway: Gateway, form: Remedy, trusts: bool) -> bool | None:
    """Return whether a target compacts by itself; None if not even its model may write a summary.

    `trusts`: it may do so because nobody else has to go on. What it returns can only be read by the account that made
    it: if that one fails, or another model is chosen, the conversation would be over.
    """
    provider = gateway.upstreams.providers[target.provider]
    profile = provider.profile(target.model, call.client)
    # A server that keeps nothing is not OpenAI's own, whatever its models are called.
    if call.client in provider.protocols and not provider.is_demo and profile.compacts and profile.keeps_state:
        known = gateway.upstreams.pools.pools[target.provider].lessons.of(target.model)
        if all(remedy.path != form.path for remedy in known):
            return trusts or provider.compacts_itself or not provider.summarizes
    return False if provider.summarizes else None


async def _responded(
    context: RequestContext, call: ModelCall, targets: Sequence[ProviderModel], form: Remedy, passed: ModelCall | None
) -> tuple[CompactionResponse, dict[str, Json] | None]:
    """Have the upstream compact, or the model write a summary.

    `passed`: the request to an upstream that compacts. Return the model's response in the client's protocol; None if
    the client has got a response, or an error.
    """
    gateway = context.entry.gateway
    asking: ModelCall | None = None
    if passed is None:
        first = asking = _asking(call)
    else:
        first = passed
        if _may_ask_model(call, gateway, targets):
            asking = _asking(call)
    client = CompactionResponse(
        first,
        context.responder,
        context.record,
        gateway.observers,
        form=form,
        in_events=call.stream,
        asking=asking,
    )
    await complete(context, client, targets)
    return client, parse_request(client.model_response) if client.model_response else None


def _asking(call: ModelCall) -> ModelCall:
    """Return the request for a summary. Raises StrictLoss."""
    loss = Loss(LOSS, "input")
    refuse_losses((loss,), call.strict)
    history = call.body if call.turn is None else call.turn.expanded
    losses = (*call.losses, loss)
    return replace(call, body=summary_request(history), stream=False, turn=None, losses=losses, summary=True)


def _may_ask_model(call: ModelCall, gateway: Gateway, targets: Sequence[ProviderModel]) -> bool:
    """Return whether a model may write the summary if its upstream refuses to compact."""
    if refuses(call.strict, LOSS) or (call.turn is not None and call.turn.foreign is not None):
        return False
    return all(gateway.upstreams.providers[target.provider].summarizes for target in targets)


def _compacted(call: ModelCall, response: dict[str, Json], gateway: Gateway) -> dict[str, Json]:
    """Return the object that the endpoint responds with: the messages that stay, and the item with the summary."""
    turn, identifier = call.turn, _new_id(call)
    own = input_items(read_state_fields(call.sent).input)
    history = [item.data for item in turn.history] if turn is not None else []
    kept = kept_messages((*history, *(turn.own if turn is not None and turn.own else own)))
    messages = with_ids([as_output(data) for data in kept], identifier)
    item = compaction_item(summary_of(response), call.client, call.sealer, identifier)
    return {
        "id": identifier,
        "object": "response.compaction",
        "created_at": int(time.time()),
        "output": [*(Raw(one.data) for one in messages), item],
        "usage": response.get("usage"),
    }


def _compacted_turn(call: ModelCall, response: dict[str, Json], gateway: Gateway) -> dict[str, Json]:
    """Return the response to a request with the trigger: that of the model, with the item as its only output."""
    asked, identifier = parse_request(call.sent), _new_id(call)
    item = compaction_item(summary_of(response), call.client, call.sealer, identifier)
    echoed = {name: asked.get(name) or default for name, default in _ECHOED.items()}
    stored = call.turn is not None and call.turn.fields.stores
    return {**response, **echoed, "id": identifier, "model": call.shown_model, "store": stored, "output": [item]}


def _new_id(call: ModelCall) -> str:
    # An id that begins with the time is found faster among many.
    return f"resp_{int(time.time() * 1000):012x}{digest(call.request_id, 6)}"
