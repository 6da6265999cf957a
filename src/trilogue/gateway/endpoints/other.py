"""The endpoints that pass through: embeddings, images, audio, files, batches and the like.

Which paths there are is in the tables of the protocols (`Endpoint.others`). Their requests have everything that those
for models have: client keys, accounts and their limits, retries, log lines and metrics.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from functools import partial

from trilogue.base.clock import steady_time
from trilogue.base.text import sane
from trilogue.errors import UpstreamError
from trilogue.gateway.endpoints.judged_texts import judge_other
from trilogue.gateway.request.admission import HttpRoute
from trilogue.gateway.request.failures import client_failure
from trilogue.gateway.request.limits import count_other
from trilogue.gateway.request.other import OtherCall, OtherRoute, check_objects_of, find_targets, read_other
from trilogue.gateway.request.request import RequestContext, cancelled_error
from trilogue.gateway.response.other import OtherAttempts
from trilogue.gateway.response.timing import TimeLimits
from trilogue.model import Protocol
from trilogue.protocols.endpoint import BYTES_PER_TOKEN, OtherEndpoint
from trilogue.protocols.registry import CODECS, protocol_of_client
from trilogue.routing.router import ProviderModel

_SEGMENT = re.compile(r"[\w~:@=.-]{1,200}", re.ASCII)
_PREFIX = re.compile(r"(/[\w~.-]{1,200}){1,8}", re.ASCII)
_MOST_SEGMENTS = 8


class OtherEndpoints:
    """All endpoints that pass through, by path."""

    def __init__(self) -> None:
        protocols: dict[tuple[str, OtherEndpoint], list[Protocol]] = {}
        for one in CODECS.values():
            for endpoint in one.endpoint.others:
                protocols.setdefault((one.endpoint.vendor, endpoint), []).append(one.protocol)
        self._routes: dict[str, list[OtherRoute]] = {}
        for (_, endpoint), speaking in protocols.items():
            self._routes.setdefault(endpoint.path, []).append(OtherRoute(endpoint, tuple(speaking)))

    def find(self, method: str, path: str, headers: Mapping[str, str]) -> HttpRoute | None:
        """Return the route of a request, or None. For another method of the path, `methods` names those that it has."""
        candidates = self._candidates(path)
        if not candidates:
            return None
        # Two vendors have `/files`: then the client's headers decide.
        client = protocol_of_client(headers)
        route = next((one for one in candidates if client in one.protocols), candidates[0])
        methods = route.endpoint.methods
        return HttpRoute(
            partial(handle, route), route.protocols[0], path, methods=methods if method not in methods else ()
        )

    def _candidates(self, path: str) -> list[OtherRoute]:
        """Return the routes of a path: its own, or those of objects above it."""
        if path in self._routes:
            return self._routes[path]
        parts = path.split("/")[1:]
        if len(parts) > _MOST_SEGMENTS or not all(_SEGMENT.fullmatch(part) and part.strip(".") for part in parts):
            return []
        for end in range(len(parts) - 1, 0, -1):
            above = self._routes.get("/" + "/".join(parts[:end]), [])
            found = [route for route in above if route.endpoint.objects]
            if found:
                return found
        return []


async def handle(route: OtherRoute, context: RequestContext) -> None:
    """Respond to one request. Raises ClientGone and errors of the request; others are sent to the client."""
    gateway, record = context.entry.gateway, context.record
    call = await read_other(context, route)
    record.model = sane(call.model)
    targets: Sequence[ProviderModel] = await find_targets(context, call)
    if context.entry.judged:
        call = await judge_other(context, call, targets)
    key, reservation = context.entry.key, None
    if key is not None and (key.restricted or gateway.limiter.applies_to_all):
        targets, reservation = await count_other(context, call, targets)
    try:
        await check_objects_of(context, call, targets)
        await _respond(context, call, targets)
    finally:
        if reservation is not None:
            gateway.limiter.settle(reservation, record)


async def _respond(context: RequestContext, call: OtherCall, targets: Sequence[ProviderModel]) -> None:
    """Make attempts until the client has a response or an error."""
    gateway, record, endpoint = context.entry.gateway, context.record, call.route.endpoint
    now = steady_time()
    gateway.upstreams.sync(now)
    tokens = len(call.body) // BYTES_PER_TOKEN if endpoint.usage is not None else 0
    plan = gateway.upstreams.pools.begin(now, context.request_id, targets, tokens=tokens)
    if endpoint.objects:
        plan.use_home()
    record.decision, record.targets = plan.decision, targets
    if gateway.observers.request_planned is not None:
        gateway.observers.request_planned(record)
    limits = TimeLimits(context.cancellation, context.responder)
    attempts = OtherAttempts(context, gateway, limits, plan, call=call, public_url=public_url(context))
    context.request.on_gone = context.cancellation.client_gone
    try:
        await attempts.run(now)
    except UpstreamError as error:
        _fail(context, error)
    except asyncio.CancelledError:
        _fail(context, cancelled_error(context))
    finally:
        limits.stop()


def _fail(context: RequestContext, error: UpstreamError) -> None:
    """Send an error. A response that has begun is left without its end, so that the client notices."""
    failure = client_failure(error, context.entry.client, context.record)
    context.record.mark_failed(failure)
    context.refuse(failure)


def public_url(context: RequestContext) -> str:
    """Return the address of the gateway as the client knows it, by the headers of the request."""
    headers = context.request.headers
    secure = headers.get("x-forwarded-proto", "").partition(",")[0].strip().lower() == "https"
    prefix = headers.get("x-forwarded-prefix", "").rstrip("/")
    place = prefix if _PREFIX.fullmatch(prefix) else ""
    return f"{'https' if secure else 'http'}://{headers.get('host', 'localhost')}{place}"
