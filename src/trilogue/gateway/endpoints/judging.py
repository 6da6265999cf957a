"""The request on its way through policies: which apply to it, what they make of it, and the response if they stop it.

Policies are chosen by the model that the client asked for. If one of them changes the model, those of the new model
join in, so that nothing is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from msgspec import Struct
from msgspec.structs import replace

from trilogue.base.json_text import dump, parse_request
from trilogue.errors import ClientError
from trilogue.gateway.endpoints.questions import answerer
from trilogue.gateway.policies.run import RequestPolicies, words_of
from trilogue.gateway.policies.table import ChosenPolicies, UnknownPolicy
from trilogue.gateway.request.call import ModelCall, ReadBody
from trilogue.gateway.request.judged_request import judged_call
from trilogue.gateway.request.ownership import may_name_others, models_of
from trilogue.gateway.request.request import RequestContext, targets_of, watching
from trilogue.gateway.response.attempts import complete, new_call
from trilogue.gateway.response.client_response import ClientResponse, WordsResponse
from trilogue.gateway.response.timing import KeepAlive
from trilogue.policies import Context, Policy
from trilogue.protocols.registry import CODECS, codec
from trilogue.routing.router import ProviderModel


class JudgedRequest(Struct, frozen=True):
    """A request that may go out, and where to."""

    call: ModelCall
    targets: Sequence[ProviderModel]


def chosen_policies(context: RequestContext, model: str, targets: Sequence[ProviderModel]) -> ChosenPolicies:
    """Return the policies for a request. Raises UnknownPolicy."""
    entry, table = context.entry, context.entry.gateway.policies
    own = entry.key.options.policies if entry.key is not None else ()
    if table is None:
        if own:
            raise UnknownPolicy(own[0])
        return ChosenPolicies()
    chosen = table.of(own, model, entry.client, targets)
    if not context.record.parent:
        return chosen
    return ChosenPolicies(tuple([policy for policy in chosen.policies if policy.internal]), chosen.route)


def _with_fallbacks(
    context: RequestContext, call: ModelCall, chosen: ChosenPolicies, targets: Sequence[ProviderModel]
) -> ChosenPolicies:
    """Return policies with those of all other models that a request names: the upstream may use one of them instead."""
    fields = CODECS[call.client].endpoint.model_fields
    if context.entry.gateway.policies is None or not may_name_others(call.body, fields):
        return chosen
    policies = list(chosen.policies)
    for name in models_of(call.body, fields):
        there = [ProviderModel(target.provider, name) for target in targets]
        joined = chosen_policies(context, name, there).policies
        policies += [one for one in joined if one not in policies]
    return ChosenPolicies(tuple(policies), chosen.route)


class StoppedByPolicy(ClientError):
    """A policy has stopped a request that has no response which could hold its words."""

    status = 403

    def __init__(self, words: str) -> None:
        super().__init__(words, code="stopped_by_policy")


async def judge_count(context: RequestContext, asked: ReadBody, targets: Sequence[ProviderModel]) -> JudgedRequest:
    """Apply the policies to a request for a token count: its content goes to an upstream too.

    Raises StoppedByPolicy.
    """
    counting = codec(context.entry.client).endpoint.counting
    added = {} if counting is None else counting.added
    fields = parse_request(asked.body)
    call = new_call(context, replace(asked, body=dump({**added, **fields})), context.strict)
    chosen = chosen_policies(context, call.model, targets)
    if chosen.policies:
        policies = _begin(context, call, chosen)
        with watching(context):
            call, targets = await _judged(context, call, policies, targets)
        if policies.stopped is not None:
            raise StoppedByPolicy(words_of(policies.stopped))
    if call.asked is None:
        return JudgedRequest(replace(call, body=asked.body), targets)
    kept = {name: value for name, value in parse_request(call.body).items() if name in fields or name not in added}
    return JudgedRequest(replace(call, body=dump(kept)), targets)


async def judge_request(
    context: RequestContext, call: ModelCall, targets: Sequence[ProviderModel]
) -> JudgedRequest | None:
    """Apply the policies to a request. Return None if one has stopped it, and the client has got its words.

    The policies of the call must be closed when the response has ended.
    """
    chosen = _with_fallbacks(context, call, chosen_policies(context, call.model, targets), targets)
    if not chosen.policies:
        return JudgedRequest(call, targets)
    policies = call.policies = _begin(context, call, chosen)
    with _kept_alive(context, call), watching(context):
        call, targets = await _judged(context, call, policies, targets)
        if policies.stopped is not None:
            gateway = context.entry.gateway
            await WordsResponse(call, context.responder, context.record, gateway.observers).say(policies.stopped)
            return None
    return JudgedRequest(call, targets)


async def _judged(
    context: RequestContext, call: ModelCall, policies: RequestPolicies, targets: Sequence[ProviderModel]
) -> tuple[ModelCall, Sequence[ProviderModel]]:
    """Return a request as it may go out, and where to. If a policy has stopped it, that is noted in the policies."""
    # Ends, because each round needs policies that have not judged yet.
    waiting: tuple[Policy, ...] = policies.policies
    while waiting:
        judged = await judged_call(call, policies, waiting)
        if judged is None:
            break
        changed, call = judged.model != call.model, judged
        if not changed:
            break
        targets = await targets_of(context, call.model)
        joined = chosen_policies(context, call.model, targets).policies
        waiting = tuple([policy for policy in joined if policy not in policies.policies])
        policies.policies += waiting
    return call, targets


def _begin(context: RequestContext, call: ModelCall, chosen: ChosenPolicies) -> RequestPolicies:
    table, record = context.entry.gateway.policies, context.record
    if table is None:
        raise UnknownPolicy(chosen.policies[0].name)
    about = Context(
        client=call.client,
        key=record.key,
        route=chosen.route,
        model=call.model,
        internal=bool(record.parent),
    )
    return RequestPolicies(chosen.policies, about, record, answerer(context, _respond), table.threads)


async def _respond(context: RequestContext, call: ModelCall) -> None:
    """Respond to a request that was made for a policy. Only policies that want to see such requests judge it."""
    judged = await judge_request(context, call, await targets_of(context, call.model))
    if judged is None:
        return
    client = ClientResponse(judged.call, context.responder, context.record, context.entry.gateway.observers)
    try:
        await complete(context, client, judged.targets)
    finally:
        if call.policies is not None:
            call.policies.close()


@contextmanager
def _kept_alive(context: RequestContext, call: ModelCall) -> Iterator[None]:
    """Send keep-alives to a client that waits for a stream while policies judge its request."""
    gateway = context.entry.gateway
    client = ClientResponse(call, context.responder, context.record, gateway.observers)
    context.in_band = client.fail_in_band
    keepalive = None
    if call.stream:
        keepalive = KeepAlive(gateway.settings.keepalive_seconds, context.responder, client.keepalive)
    try:
        yield
    finally:
        if keepalive is not None:
            keepalive.stop()
