"""The part of the admin interface that shows accounts and changes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import structlog

from trilogue.base.clock import steady_time
from trilogue.gateway.admin.audit import audited
from trilogue.gateway.admin.routes import AdminCall, AdminError, AdminRoute, Reply
from trilogue.gateway.admin.settings import AdminRole
from trilogue.gateway.gateway import Gateway
from trilogue.model import Json
from trilogue.routing.pool.account import Account
from trilogue.routing.pool.pool import Pool
from trilogue.routing.pool.pools import Pools

Found = tuple[Pool, Account]

log = structlog.get_logger("trilogue.admin")

MOST_MONEY = 1_000_000_000
CHANGES: dict[str, Callable[[Pools, Found, float], None]] = {
    "enable": lambda pools, one, now: pools.enable(one),
    "disable": lambda pools, one, now: pools.disable(one, now),
    "reset": lambda pools, one, now: pools.reset(one),
}
AFTER: dict[str, dict[str, Json]] = {
    "enable": {"state": "enabled"},
    "disable": {"state": "disabled", "why": "by_hand"},
    "reset": {"state": "ready"},
    "balance": {},
}
"""what an action leads to, for the audit log"""


def routes() -> tuple[AdminRoute, ...]:
    """Return the routes of accounts. Workers share the state of accounts, so each can respond alone."""
    return (
        AdminRoute("GET", "accounts", _list, AdminRole.VIEWER),
        AdminRoute("POST", "accounts/{provider}/{account*}/{action}", _change, AdminRole.OPERATOR),
    )


async def _list(call: AdminCall) -> Reply:
    call.gateway.upstreams.sync()  # as before every choice: show what the next request would find
    return {"accounts": list(call.gateway.upstreams.pools.overview(steady_time()))}


async def _change(call: AdminCall) -> Reply:
    provider, account, action = call.ids
    name, pools = f"{provider}/{account}", call.gateway.upstreams.pools
    found = pools.find(name)
    if not found:
        raise AdminError(404, "there is no such account", "no_such_account")
    if action not in AFTER:
        raise AdminError(404, "the actions are enable, disable, reset and balance", "no_such_action")
    balance = await _balance(call) if action == "balance" else None
    before, after = account_change(_shown(call.gateway, found[0]), action, balance)
    await audited(call, f"{action} account", name, before=before, after=after)
    if balance is not None:
        pools.set_balance(found[0], balance)
    else:
        CHANGES[action](pools, found[0], steady_time())
    call.gateway.upstreams.sync()
    log.info("account changed", account=name, action=action, by=call.actor.who)
    return _shown(call.gateway, found[0])


def account_change(shown: Mapping[str, Json], action: str, balance: float | None) -> tuple[Json, Json]:
    """Return what the audit log says about a change: the values that it changes, before and after it."""
    names = ("balance",) if action == "balance" else ("state", "why")
    return {name: shown[name] for name in names}, {"balance": balance} if action == "balance" else dict(AFTER[action])


def _shown(gateway: Gateway, one: Found) -> dict[str, Json]:
    names = one[0].name, one[1].name
    return next(
        line for line in gateway.upstreams.pools.overview(steady_time()) if (line["provider"], line["account"]) == names
    )


async def _balance(call: AdminCall) -> float:
    value = (await call.body()).get("balance")
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > MOST_MONEY:
        raise AdminError(400, 'the body must be {"balance": NUMBER}', "bad_balance")
    return float(value)
