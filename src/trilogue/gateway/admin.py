"""The admin interface: the accounts as they are, what a hand can do to them, and why requests went where they went.

An application on a listener of its own, with a key of its own: client keys do not work here, and the admin key
does not work there. Names, counts and times; never a key or a prompt.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import structlog

from trilogue.errors import ClientError
from trilogue.gateway.auth import presented_keys
from trilogue.gateway.services import Services
from trilogue.gateway.siblings import Decisions, Siblings
from trilogue.model import Json
from trilogue.pool import Account, Pool, Pools
from trilogue.protocols.jsontext import dump, parse_request
from trilogue.serving import BodyBroken, BodyEncoded, BodyTooLarge, BodyTooSlow, ClientGone, Request, Responder
from trilogue.state import steady_time

Change = Callable[[Pools, tuple[Pool, Account], float], None]
Reply = tuple[int, dict[str, Any]]

MAX_BODY_BYTES = 64 * 1024
MOST_MONEY = 1_000_000_000
LATEST = 100
_REQUEST = re.compile(r"[\w-]{1,100}", re.ASCII)

log = structlog.get_logger("trilogue.admin")

CHANGES: dict[str, Change] = {
    "enable": lambda pools, one, now: pools.enable(one),
    "disable": lambda pools, one, now: pools.disable(one, now),
    "reset": lambda pools, one, now: pools.reset(one),
}


class Admin:
    """The application. `services`: those of now, which a reload replaces. `folder`: where to find the other workers."""

    def __init__(self, services: Callable[[], Services], folder: Path | None = None) -> None:
        self._services = services
        self.siblings = Siblings(folder, self._own)

    async def __call__(self, request: Request, responder: Responder) -> None:
        """One request."""
        try:
            status, body = await self._answer(request)
        except ClientGone:
            return
        except ClientError as error:
            status, body = _error(error.status, error.message, error.code)
        except (BodyBroken, BodyEncoded, BodyTooLarge, BodyTooSlow):
            status, body = _error(400, "the body is too large, too slow or compressed", "bad_body")
        headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]
        responder.reply(status, headers, dump(body))

    async def _answer(self, request: Request) -> Reply:
        services = self._services()
        presented = presented_keys(request.headers)
        if services.admin.find(presented) is None or services.keys.find(presented) is not None:
            return _error(401, "this is not the admin key", "invalid_admin_key")
        services.sync()
        parts = request.path.strip("/").split("/")
        match request.method, parts[0]:
            case "GET", "accounts" if len(parts) == 1:
                return 200, {"accounts": list(services.pools.overview(steady_time()))}
            case "GET", "decisions" if len(parts) == 1:
                return await self._decisions(request.query)
            case "POST", "accounts" if len(parts) >= 4:
                provider, *names, action = parts[1:]
                return await _change(request, services, f"{provider}/{'/'.join(names)}", action)
        return _error(
            404, "there is GET /accounts, POST /accounts/PROVIDER/NAME/ACTION and GET /decisions", "not_found"
        )

    async def _decisions(self, query: bytes) -> Reply:
        """One by its request, or the latest, of all workers."""
        asked = parse_qs(query.decode("latin-1")).get("request_id")
        wanted = asked[0] if asked and _REQUEST.fullmatch(asked[0]) else ""
        if not asked:
            found = self._own("") + await self.siblings.ask("")
            return 200, {"decisions": sorted(found, key=itemgetter("at"), reverse=True)[:LATEST]}
        found = (self._own(wanted) or await self.siblings.ask(wanted)) if wanted else []
        if not found:
            return _error(404, "no worker knows of such a request; the log may", "no_such_request")
        return 200, found[0]

    def _own(self, request_id: str) -> Decisions:
        """What this worker knows."""
        recent = self._services().pools.recent
        if not request_id:
            return [decision.as_dict() for decision in recent.latest(LATEST)]
        decision = recent.find(request_id)
        return [] if decision is None else [decision.as_dict()]


async def _change(request: Request, services: Services, name: str, action: str) -> Reply:
    pools = services.pools
    found = pools.find(name)
    if not found:
        return _error(404, "there is no such account", "no_such_account")
    if action == "balance":
        balance = _balance(await request.body(MAX_BODY_BYTES))
        if balance is None:
            return _error(400, 'the body must be {"balance": NUMBER}', "bad_balance")
        pools.set_balance(found[0], balance)
    elif action in CHANGES:
        CHANGES[action](pools, found[0], steady_time())
    else:
        return _error(404, "the actions are enable, disable, reset and balance", "no_such_action")
    services.sync()
    log.info("account changed", account=name, action=action)
    return 200, next(
        line for line in pools.overview(steady_time()) if (line["provider"], line["account"]) == _names(found[0])
    )


def _names(one: tuple[Pool, Account]) -> tuple[str, str]:
    return one[0].name, one[1].name


def _balance(body: bytes) -> float | None:
    value: Json = parse_request(body).get("balance")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) <= MOST_MONEY else None


def _error(status: int, message: str, code: str) -> Reply:
    return status, {"error": {"message": message, "code": code}}
