"""Limits and budgets of one request: what it may take at most, and the headers that tell the client what is left."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime

from trilogue.errors import NotAllowed
from trilogue.gateway.request.call import Call
from trilogue.gateway.request.context import RequestContext
from trilogue.gateway.request.other import OtherCall
from trilogue.gateway.setup.access import ClientKey
from trilogue.gateway.setup.limiter import Asked, Reservation
from trilogue.gateway.setup.services import Services
from trilogue.jsontext.text import parse_request
from trilogue.limits import Estimate, Remaining
from trilogue.model import Protocol, Usage
from trilogue.protocols.content.tokens import BYTES_PER_TOKEN
from trilogue.protocols.endpoint import LimitHeaders
from trilogue.protocols.registry import CODECS
from trilogue.routing import Upstream
from trilogue.serving import header_lines


async def count_request(
    context: RequestContext, call: Call, targets: Sequence[Upstream]
) -> tuple[Sequence[Upstream], Reservation | None]:
    """Count a request for its key, owner, route and model. Return the targets that the key may use, and the counts.

    Raises NotAllowed and LimitReached. What is left goes into the headers of the response.
    """
    services, key = context.entry.services, context.entry.key or ClientKey("")
    asked = _asked(services, call.model, call.client, targets)
    allowed = services.limiter.check(key, asked, targets)
    reservation = await services.limiter.begin(key, asked, _estimate(call, services, allowed))
    call.own_limits = _show(context, reservation)
    return allowed, reservation


async def count_other(
    context: RequestContext, call: OtherCall, targets: Sequence[Upstream]
) -> tuple[Sequence[Upstream], Reservation | None]:
    """Do the same for a request that passes through. Raises NotAllowed and LimitReached.

    A key for certain models cannot use endpoints that name none: behind a batch, there may be any model.
    """
    services, key = context.entry.services, context.entry.key or ClientKey("")
    if not call.model and (key.options.models or key.options.routes):
        raise NotAllowed(
            f"the client key {key.name} may only use certain models, and this request names none",
            code="model_not_allowed",
        )
    asked = _asked(services, call.model, context.entry.client, targets)
    allowed = services.limiter.check(key, asked, targets)
    reservation = await services.limiter.begin(key, asked, _other_estimate(context, call, allowed))
    _show(context, reservation)
    return allowed, reservation


def check_allowed(context: RequestContext, model: str, targets: Sequence[Upstream]) -> Sequence[Upstream]:
    """Return the targets that the key of a request may use. Raises NotAllowed. Nothing is counted."""
    entry = context.entry
    if entry.key is None or not entry.key.restricted:
        return targets
    asked = _asked(entry.services, model, entry.client, targets)
    return entry.services.limiter.check(entry.key, asked, targets)


def _asked(services: Services, model: str, client: Protocol, targets: Sequence[Upstream]) -> Asked:
    """Return what a request asks for, by all the names that limits could know it by."""
    route = services.route_of(model, client) if model else ""
    if not model or not services.limiter.applies_to_all:
        return Asked(model, route)
    names = [name for target in targets for name in (target.model, f"{target.provider}/{target.model}")]
    return Asked(model, route, services.ruling_routes(model, client, targets), tuple(names))


def _show(context: RequestContext, reservation: Reservation | None) -> bool:
    """Add what is left to the headers of the response. Return whether there was anything to add."""
    headers = CODECS[context.entry.client].endpoint.limit_headers
    if reservation is None or not reservation.remaining or headers is None:
        return False
    context.responder.common += header_lines(_shown(reservation.remaining, headers, time.time()))
    return True


def _other_estimate(context: RequestContext, call: OtherCall, targets: Sequence[Upstream]) -> Estimate:
    """Return what a request takes at most. Looking at something costs nothing; what making it costs may be unknown."""
    tokens = len(call.body) // BYTES_PER_TOKEN if call.route.endpoint.usage is not None else 0
    if context.request.method != "POST":
        return Estimate(0, 0)
    usage, services = Usage(fresh=tokens), context.entry.services
    costs = [services.cost(target.provider, target.model, usage) for target in targets]
    known = [cost for cost in costs if cost is not None]
    return Estimate(tokens, max(known) if len(known) == len(costs) else None)


def _estimate(call: Call, services: Services, targets: Sequence[Upstream]) -> Estimate:
    """Return what a request will take at most: its input by its size, its output by what it asks for."""
    tokens = len(call.whole) // BYTES_PER_TOKEN
    asked = [value for value in _output_limits(call) if isinstance(value, int) and not isinstance(value, bool)]
    costs: list[int | None] = []
    most = 0
    for target in targets:
        profile = services.config.providers[target.provider].profile_for(target.model)
        output = min(max(asked, default=profile.max_output), profile.output_limit or profile.max_output * 8)
        most = max(most, output)
        costs.append(services.cost(target.provider, target.model, Usage(fresh=tokens, output=output)))
    known = [cost for cost in costs if cost is not None]
    return Estimate(tokens + most, max(known) if len(known) == len(costs) else None)


def _output_limits(call: Call) -> list[object]:
    body = parse_request(call.body)
    return [body.get(name) for name in CODECS[call.client].endpoint.output_fields]


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
