"""The part of the admin interface that shows where a request would go and what it would lose. Nothing is sent.

In: a request as a client would send it. Out: its route, and for each target the accounts in the order in which they
would be tried, the request that the first of them would get, and the losses. Stored responses, kept reasoning and
policies are left out: they depend on the client's key, and policies may ask others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trilogue.base.clock import steady_time
from trilogue.base.json_text import dump, parse_request
from trilogue.capture import shown_headers, shown_url
from trilogue.errors import ClientError
from trilogue.gateway.admin.routes import AdminCall, AdminError, AdminRoute, Reply
from trilogue.gateway.admin.settings import AdminRole
from trilogue.gateway.features.explain.request_view import shown_loss
from trilogue.gateway.features.explain.routing import asked_protocol
from trilogue.gateway.gateway import Gateway
from trilogue.gateway.request.call import ModelCall, ReadBody, read_asked
from trilogue.gateway.request.large_bodies import LARGE_BYTES, in_thread
from trilogue.gateway.request.outbound import Place
from trilogue.gateway.response.attempt import prepare
from trilogue.model import Json, Loss, Protocol, refuses
from trilogue.protocols.endpoint import BYTES_PER_TOKEN
from trilogue.routing.pool.account import AccountRequest
from trilogue.routing.pool.conversation import sticky_key
from trilogue.routing.pool.pools import describe
from trilogue.routing.router import ProviderModel
from trilogue.translate.compare.detect import DocumentKind, protocol_of_body

MOST_ACCOUNTS = 20
"""accounts of a target that are listed in the order in which they would be tried"""
STATE_FIELDS = ("previous_response_id", "conversation")


def routes() -> tuple[AdminRoute, ...]:
    """Return the route of dry runs. Workers share the state of accounts, so each can respond alone."""
    return (AdminRoute("POST", "dry-run", _dry_run, AdminRole.VIEWER),)


async def _dry_run(call: AdminCall) -> Reply:
    gateway = call.gateway
    given = await call.body(gateway.settings.max_body_bytes)
    protocol, request = asked_protocol(given.get("protocol")), given.get("request")
    if not isinstance(request, str | dict):
        raise AdminError(400, 'the body must be {"request": REQUEST, "protocol": PROTOCOL}', "bad_dry_run")
    body = request.encode("utf-8", "replace") if isinstance(request, str) else dump(request)
    report: dict[str, Json] = {"protocol": protocol and protocol.short, "guessed": protocol is None, "problem": None}
    try:
        fields = parse_request(body)
        protocol = protocol or protocol_of_body(fields, DocumentKind.REQUEST) or next(iter(Protocol))
        report["protocol"] = protocol.short
        asked = read_asked(body, gateway.models.only_model, strict=None)
        report |= {"model": asked.model, "stream": asked.stream, "refers_to_state": _refers_to_state(fields)}
        found = gateway.models.router.resolve(asked.model, protocol)
        report |= {"matched": found.matched, "targets": await _targets(gateway, asked, protocol, found.targets)}
    except ClientError as error:
        # This is what the client would get, so it is a result.
        report["problem"] = _problem(error)
    return report


def _refers_to_state(fields: dict[str, Json]) -> bool:
    return any(fields.get(name) is not None for name in STATE_FIELDS)


def _problem(error: ClientError) -> dict[str, Json]:
    return {"status": error.status, "code": error.code, "message": error.message, "path": error.path or None}


async def _targets(
    gateway: Gateway, asked: ReadBody, protocol: Protocol, targets: Sequence[ProviderModel]
) -> list[Json]:
    call = ModelCall(
        client=protocol,
        body=asked.body,
        model=asked.model,
        long_context=asked.long_context,
        stream=asked.stream,
        headers={},
        sealer=gateway.sealer,
        forwarded=(),
        losses=asked.losses,
    )
    found: list[Json] = []
    for target in targets:
        accounts = _accounts(gateway, target, call)
        work = (gateway, target, accounts[0]["account"], call)
        sent = await in_thread(_sent, *work) if len(call.body) > LARGE_BYTES else _sent(*work)
        found.append({"provider": target.provider, "model": target.model, "accounts": accounts, **sent})
    return found


def _accounts(gateway: Gateway, target: ProviderModel, call: ModelCall) -> list[dict[str, Any]]:
    """Return the accounts of a target in the order in which they would be tried, then those that would not be."""
    pool, now = gateway.upstreams.pools.pools[target.provider], steady_time()
    sticky = sticky_key(call.body, call.client, call.headers) if len(pool.accounts) > 1 else ""
    request = AccountRequest(target.model, sticky, set(), len(call.body) // BYTES_PER_TOKEN)
    found: list[dict[str, Any]] = []
    for include_failing in (False, True):
        while len(found) < min(MOST_ACCOUNTS, pool.settings.max_attempts):
            choice = pool.pick(now, request, include_failing=include_failing)
            if choice is None:
                break
            request.tried.add(choice.account.name)
            found.append(_shown(describe(pool, choice.account, now), choice.how))
    rest = [one for one in pool.accounts if one.name not in request.tried]
    return found + [_shown(describe(pool, one, now), None) for one in rest[:MOST_ACCOUNTS]]


def _shown(account: dict[str, Any], how: str | None) -> dict[str, Any]:
    """Return an account with how it would be chosen; None if it would not be."""
    return {name: account[name] for name in ("account", "state", "why", "until")} | {"chosen": how}


def _sent(gateway: Gateway, target: ProviderModel, account: str, call: ModelCall) -> dict[str, Json]:
    """Return what an account would be sent, without credentials, or why it cannot be sent to this target."""
    provider = gateway.upstreams.providers[target.provider]
    remedies = gateway.upstreams.pools.pools[target.provider].lessons.of(target.model)
    try:
        made = prepare(call, Place(provider, provider.accounts[account], target.model, remedies), gateway, False)
    except ClientError as error:
        return {"problem": _problem(error)}
    return {
        "problem": None,
        "protocol": made.protocol.short,
        "passed_through": made.exchange is None,
        "url": shown_url(made.request.url),
        "headers": dict(shown_headers(made.request.headers)),
        "body": parse_request(made.request.body),
        "losses": [_loss(loss, gateway) for loss in made.losses],
    }


def _loss(loss: Loss, gateway: Gateway) -> dict[str, Json]:
    return shown_loss(loss) | {"refused_if_strict": refuses(gateway.settings.strict_from, loss.code)}
