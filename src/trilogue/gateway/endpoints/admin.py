"""The admin interface: the accounts as they are, what a hand can do to them, and why requests went where they went.

An application on a listener of its own, with a key of its own: client keys do not work here, and the admin key
does not work there. Names, counts and times; never a key or a prompt.

The other workers of this gateway, asked over Unix sockets: each knows the decisions on its own requests only.

The sockets are in a folder that the supervisor makes, which nobody else can enter. One line goes there, one comes back.
A worker that does not answer has nothing to say.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import msgspec
import structlog

from trilogue.errors import ClientError
from trilogue.gateway.setup.access import presented_keys
from trilogue.gateway.setup.services import Services
from trilogue.jsontext.text import dump, parse_request
from trilogue.model import Json
from trilogue.pool import Account, Pool, Pools
from trilogue.serving import BodyBroken, BodyEncoded, BodyTooLarge, BodyTooSlow, ClientGone, HttpRequest, Responder
from trilogue.state import steady_time

ANSWER_SECONDS = 1.0
MAX_LINE_BYTES = 64 * 1024 * 1024

Decisions = list[dict[str, Any]]
Tell = Callable[[str], Decisions]
"""the decisions of this worker: that on a request, or with an empty id the latest"""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Decisions).decode

log = structlog.get_logger("trilogue.admin")


class OtherWorkers:
    """`folder`: where the sockets are; None if there is only this worker."""

    def __init__(self, folder: Path | None, tell: Tell) -> None:
        self._folder = folder
        self._tell = tell
        self._own = "" if folder is None else str(folder / f"{os.getpid()}.sock")

    async def listen(self) -> asyncio.Server | None:
        """Answer the others."""
        if self._folder is None:
            return None
        try:
            return await asyncio.start_unix_server(self._answer, self._own)
        except OSError as error:
            log.warning("other workers cannot ask this one for its decisions", error=error.strerror)
            return None

    async def ask(self, request_id: str) -> Decisions:
        """What all others tell."""
        others = [] if self._folder is None else [str(path) for path in self._folder.glob("*.sock")]
        found = await asyncio.gather(*(_ask(path, request_id) for path in others if path != self._own))
        return [decision for decisions in found for decision in decisions]

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            wanted = (await reader.readline()).decode("utf-8", "replace").strip()
            writer.write(_encode(self._tell(wanted)) + b"\n")
            await writer.drain()
        except (OSError, ValueError):
            pass  # it has gone, or it is none of ours
        finally:
            writer.close()


async def _ask(path: str, request_id: str) -> Decisions:
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            reader, writer = await asyncio.open_unix_connection(path, limit=MAX_LINE_BYTES)
            try:
                writer.write(request_id.encode() + b"\n")
                return _decode(await reader.readline())
            finally:
                writer.close()
    except (OSError, ValueError, msgspec.MsgspecError):  # a worker that has died leaves its socket
        return []


Change = Callable[[Pools, tuple[Pool, Account], float], None]
Reply = tuple[int, dict[str, Any]]

MAX_BODY_BYTES = 64 * 1024
MOST_MONEY = 1_000_000_000
LATEST = 100
_REQUEST = re.compile(r"[\w-]{1,100}", re.ASCII)


CHANGES: dict[str, Change] = {
    "enable": lambda pools, one, now: pools.enable(one),
    "disable": lambda pools, one, now: pools.disable(one, now),
    "reset": lambda pools, one, now: pools.reset(one),
}


class AdminApi:
    """The application. `services`: those of now, which a reload replaces. `folder`: where to find the other workers."""

    def __init__(self, services: Callable[[], Services], folder: Path | None = None) -> None:
        self._services = services
        self.siblings = OtherWorkers(folder, self._own)

    async def __call__(self, request: HttpRequest, responder: Responder) -> None:
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

    async def _answer(self, request: HttpRequest) -> Reply:
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
        recent = self._services().decisions
        if not request_id:
            return [decision.as_dict() for decision in recent.latest(LATEST)]
        decision = recent.find(request_id)
        return [] if decision is None else [decision.as_dict()]


async def _change(request: HttpRequest, services: Services, name: str, action: str) -> Reply:
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
