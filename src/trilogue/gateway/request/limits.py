"""Limits and budgets of one request: what it may take at most, and the headers that tell the client what is left."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime

from trilogue.errors import NotAllowed
from trilogue.gateway.access.client_keys import ClientKey
from trilogue.gateway.gateway import Gateway
from trilogue.gateway.limits.counting import Estimate, Remaining
from trilogue.gateway.limits.limiter import Asked, Reservation
from trilogue.gateway.limits.most import Facts, Model, inputs_of, likely_tokens, most, read_facts
from trilogue.gateway.request.call import ModelCall
from trilogue.gateway.request.large_bodies import LARGE_BYTES, in_thread
from trilogue.gateway.request.other import OtherCall, makes_something, named_models
from trilogue.gateway.request.ownership import may_name_others, models_of
from trilogue.gateway.request.request import RequestContext
from trilogue.model import Protocol
from trilogue.net.server.responder import header_lines
from trilogue.protocols.endpoint import LimitHeaders
from trilogue.protocols.registry import CODECS
from trilogue.routing.router import ProviderModel

_OF_COMPLETIONS = ("max_tokens",)


async def count_request(
    context: RequestContext, call: ModelCall, targets: Sequence[ProviderModel]
) -> tuple[Sequence[ProviderModel], Reservation | None]:
    """Count a request for its key, owner, route and model. Return the targets that the key may use, and the counts.

    Raises NotAllowed and LimitReached. What is left goes into the headers of the response.
    """
    gateway, key = context.entry.gateway, context.entry.key or ClientKey("")
    asked = _asked(gateway, call.model, call.client, targets, by_policy=bool(context.record.parent))
    allowed = gateway.limiter.check(key, asked, targets)
    others = _named_besides(check_fallbacks(context, key, call.body, allowed), allowed)
    if others:
        asked = _asked(gateway, call.model, call.client, [*targets, *others], by_policy=asked.by_policy)
        asked = asked._replace(others=_names_of(others))
    reservation = await gateway.limiter.begin(key, asked, await _estimate(context, call, [*allowed, *others]))
    _note(context, reservation)
    call.own_limits = _show(context, reservation)
    return allowed, reservation


async def count_other(
    context: RequestContext, call: OtherCall, targets: Sequence[ProviderModel]
) -> tuple[Sequence[ProviderModel], Reservation | None]:
    """Do the same for a request that passes through. Raises NotAllowed, LimitReached and BadRequest.

    A key for certain models cannot make what does not tell its models: behind a batch, there may be any. What looks at
    something or deletes it runs no model.
    """
    gateway, key, route = context.entry.gateway, context.entry.key or ClientKey(""), call.route
    runs = makes_something(context)
    if runs:
        _check_models(context, key, named_models(context, call), targets)
        if route.endpoint.paid == "unbounded" and route.endpoint.usage is None and gateway.limiter.limits_tokens(key):
            raise NotAllowed(
                f"the client key {key.name} has a limit on tokens, and what this request takes at most is unknown",
                code="not_bounded",
            )
    model = call.model if route.endpoint.models else ""
    allowed = gateway.limiter.check_providers(key, model or context.entry.path, targets)
    others: list[ProviderModel] = []
    if runs and model and call.body:
        others = _named_besides(check_fallbacks(context, key, call.body, allowed), allowed)
    asked = _asked(gateway, model, context.entry.client, [*targets, *others])._replace(others=_names_of(others))
    reservation = await gateway.limiter.begin(key, asked, await _other_estimate(context, call, [*allowed, *others]))
    _note(context, reservation)
    _show(context, reservation)
    return allowed, reservation


def is_charged(context: RequestContext, call: ModelCall, targets: Sequence[ProviderModel]) -> bool:
    """Return whether the usage of a request counts against a budget or a limit on tokens."""
    gateway = context.entry.gateway
    return gateway.limiter.charges(
        context.entry.key or ClientKey(""), _asked(gateway, call.model, call.client, targets)
    )


def _named_besides(names: Sequence[str], targets: Sequence[ProviderModel]) -> list[ProviderModel]:
    """Return models that a request names besides its own, at each provider that may use them instead."""
    return [ProviderModel(target.provider, name) for target in targets for name in dict.fromkeys(names)]


def _names_of(targets: Sequence[ProviderModel]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([target.model for target in targets]))


def _check_models(
    context: RequestContext, key: ClientKey, names: Sequence[str], targets: Sequence[ProviderModel]
) -> None:
    """Raise NotAllowed unless a key may ask for all of these models, and there is one."""
    gateway = context.entry.gateway
    if not (key.options.models or key.options.routes):
        return
    if not names:
        raise NotAllowed(
            f"the client key {key.name} may only use certain models, and this request does not name its models",
            code="model_not_allowed",
        )
    for name in names:
        _check_name(context, key, name, targets, gateway)


def _check_name(
    context: RequestContext, key: ClientKey, name: str, targets: Sequence[ProviderModel], gateway: Gateway
) -> None:
    """Raise NotAllowed unless a key may ask for a model by its own name, or by that with the name of its provider.

    Fallbacks are named as the provider names them.
    """
    client = context.entry.client
    spellings = [name, *(f"{target.provider}/{name}" for target in targets)]
    refusal: NotAllowed | None = None
    for one in spellings:
        try:
            gateway.limiter.check(key, Asked(one, gateway.models.route_of(one, client)), targets)
        except NotAllowed as error:
            refusal = refusal or error
        else:
            return
    if refusal is not None:
        raise refusal


def check_fallbacks(
    context: RequestContext, key: ClientKey, body: bytes, targets: Sequence[ProviderModel]
) -> list[str]:
    """Return the models that a request names besides its own, which an upstream may use instead.

    Raises NotAllowed if the key may not ask for one of them, and BadRequest if they are not names.
    """
    fields = CODECS[context.entry.client].endpoint.model_fields
    if not fields or not may_name_others(body, fields):
        return []
    names = models_of(body, fields)
    if names:
        _check_models(context, key, names, targets)
    return names


def check_allowed(
    context: RequestContext, model: str, targets: Sequence[ProviderModel], body: bytes = b""
) -> Sequence[ProviderModel]:
    """Return the targets that the key of a request may use. Raises NotAllowed. Nothing is counted."""
    entry = context.entry
    if entry.key is None or not entry.key.restricted:
        return targets
    asked = _asked(entry.gateway, model, entry.client, targets)
    allowed = entry.gateway.limiter.check(entry.key, asked, targets)
    check_fallbacks(context, entry.key, body, allowed)
    return allowed


def _asked(
    gateway: Gateway, model: str, client: Protocol, targets: Sequence[ProviderModel], *, by_policy: bool = False
) -> Asked:
    """Return what a request asks for, by all the names that limits could know it by."""
    route = gateway.models.route_of(model, client) if model else ""
    if not model or not gateway.limiter.applies_to_all:
        return Asked(model, route, by_policy)
    names = [name for target in targets for name in (target.model, f"{target.provider}/{target.model}")]
    return Asked(model, route, by_policy, gateway.models.ruling_routes(model, client, targets), tuple(names))


def _show(context: RequestContext, reservation: Reservation | None) -> bool:
    """Add what is left to the headers of the response. Return whether there was anything to add."""
    headers = CODECS[context.entry.client].endpoint.limit_headers
    if reservation is None or not reservation.remaining or headers is None:
        return False
    context.responder.common += header_lines(_shown(reservation.remaining, headers, time.time()))
    return True


def _note(context: RequestContext, reservation: Reservation | None) -> None:
    context.reservation = reservation
    if reservation is not None:
        context.record.most_cost = reservation.estimate.cost or 0


async def _other_estimate(context: RequestContext, call: OtherCall, targets: Sequence[ProviderModel]) -> Estimate:
    """Return the most that a request takes. Looking at something costs nothing; what making it costs may be unknown."""
    paid = call.route.endpoint.paid
    if paid == "nothing" or not makes_something(context):
        return Estimate(0, 0)
    if not call.body:
        return _worst(context, targets, None)
    facts = await _facts(call.body, call.body, 0, _OF_COMPLETIONS)
    if paid == "input":
        facts = facts._replace(output=0, inputs=inputs_of(call.body))
    return _worst(context, targets, facts if paid != "unbounded" else None)


async def _estimate(context: RequestContext, call: ModelCall, targets: Sequence[ProviderModel]) -> Estimate:
    """Return the most that a request takes: its input by its size, its output by what it asks for."""
    fields, limit = CODECS[call.client].endpoint.output_fields, CODECS[call.client].endpoint.call_limit
    more = 0 if call.memory is None else sum(map(len, [kept.encode() for kept in call.memory.found.values()]))
    return _worst(context, targets, await _facts(call.body, call.whole, more, fields, limit), call.client)


async def _facts(body: bytes, whole: bytes, more: int, fields: Sequence[str], call_limit: str = "") -> Facts:
    if len(whole) > LARGE_BYTES:
        return await in_thread(read_facts, body, whole, more, fields, call_limit)
    return read_facts(body, whole, more, fields, call_limit)


def _worst(
    context: RequestContext, targets: Sequence[ProviderModel], facts: Facts | None, client: Protocol | None = None
) -> Estimate:
    """Return the most that a request takes at any of its targets. `facts`: None if nobody can tell."""
    gateway = context.entry.gateway
    found = [_at(gateway, target, facts or Facts(0, output=0), client) for target in targets]
    costs = [one.cost for one in found if one.cost is not None]
    return Estimate(
        max([one.tokens for one in found], default=0),
        max(costs) if len(costs) == len(found) else None,
        facts is not None and all([one.bounded for one in found]),
    )


def _at(gateway: Gateway, target: ProviderModel, facts: Facts, client: Protocol | None) -> Estimate:
    provider = gateway.upstreams.settings[target.provider]
    profile = provider.profile_for(target.model)
    protocols = gateway.upstreams.providers[target.provider].protocols
    translated = client is not None and client not in protocols
    pauses = any([CODECS[one].turns.pauses is not None for one in protocols])
    model = Model(
        profile.context_window,
        profile.output_limit,
        hosts=not translated
        or pauses
        or profile.web_search
        or any([CODECS[one].endpoint.continues for one in protocols]),
        pauses=pauses,
        usual_output=profile.max_output,
        limits_tools=not translated,
        parts=gateway.settings.max_continuations + 1 if translated and pauses else 1,
    )
    bound = most(facts, model)
    cost = gateway.upstreams.most_cost(target.provider, target.model, (bound.input, bound.output, bound.searches))
    return Estimate(likely_tokens(facts, model), cost, bound.bounded)


def _shown(remaining: Sequence[Remaining], names: LimitHeaders, now: float) -> list[tuple[bytes, bytes]]:
    found: list[tuple[str, str]] = []
    for one in remaining:
        found.append((names.limit.format(one.what), str(one.limit)))
        found.append((names.remaining.format(one.what), str(one.remaining)))
        found.append((names.reset.format(one.what), _reset(one.reset, now) if names.is_date else _duration(one.reset)))
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in found]


def _reset(seconds: float, now: float) -> str:
    return datetime.fromtimestamp(round(now + seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _duration(seconds: float) -> str:
    """Return a duration as OpenAI writes it: 1h2m3s."""
    whole = max(1, round(seconds))
    parts = ((whole // 3600, "h"), (whole % 3600 // 60, "m"), (whole % 60, "s"))
    return "".join(f"{count}{unit}" for count, unit in parts if count)
