"""The admin interface: shows the accounts, the recent decisions and the metrics, and changes accounts.

It has its own listener and its own key: client keys are not accepted here, and the admin key is not accepted for
completions. Responses contain names, counts and times, but never a key or a prompt.

Each worker knows only the decisions on its own requests and its own counts, so it asks the others.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs

import msgspec
import structlog

from trilogue.errors import ClientError
from trilogue.gateway.endpoints.other_workers import OtherWorkers, Respond
from trilogue.gateway.metrics.exposition import content_type, exposition
from trilogue.gateway.metrics.worker_metrics import WorkerMetrics
from trilogue.gateway.setup.access import presented_keys
from trilogue.gateway.setup.services import Services
from trilogue.jsontext.text import dump, parse_request
from trilogue.model import Json
from trilogue.pool import Account, Pool, Pools
from trilogue.serving import BodyBroken, BodyEncoded, BodyTooLarge, BodyTooSlow, ClientGone, HttpRequest, Responder
from trilogue.state import steady_time

Decisions = list[dict[str, Any]]
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Decisions).decode

log = structlog.get_logger("trilogue.admin")


Change = Callable[[Pools, tuple[Pool, Account], float], None]


class TextPage(NamedTuple):
    """The body of a response that is not JSON."""

    content_type: str
    data: bytes


Reply = tuple[int, dict[str, Any] | TextPage]

MAX_BODY_BYTES = 64 * 1024
MOST_MONEY = 1_000_000_000
LATEST = 100
NO_SUCH_PATH = "there is GET /accounts, POST /accounts/PROVIDER/NAME/ACTION, GET /decisions and GET /metrics"
_REQUEST = re.compile(r"[\w-]{1,100}", re.ASCII)


CHANGES: dict[str, Change] = {
    "enable": lambda pools, one, now: pools.enable(one),
    "disable": lambda pools, one, now: pools.disable(one, now),
    "reset": lambda pools, one, now: pools.reset(one),
}


class AdminApi:
    """The application. `services`: returns those in use; a reload replaces them. `folder`: the workers' sockets.

    `metrics`: None if they are off.
    """

    def __init__(
        self, services: Callable[[], Services], folder: Path | None = None, metrics: WorkerMetrics | None = None
    ) -> None:
        self._services = services
        self._metrics = metrics
        questions: dict[str, Respond] = {"decisions": lambda request_id: _encode(self._own_decisions(request_id))}
        if metrics is not None:
            questions["metrics"] = lambda _: metrics.for_others()
        self.other_workers = OtherWorkers(folder, questions)

    async def __call__(self, request: HttpRequest, responder: Responder) -> None:
        """Respond to one request, with JSON except for metrics."""
        try:
            status, body = await self._reply(request)
        except ClientGone:
            return
        except ClientError as error:
            status, body = _error(error.status, error.message, error.code)
        except (BodyBroken, BodyEncoded, BodyTooLarge, BodyTooSlow):
            status, body = _error(400, "the body is too large, too slow or compressed", "bad_body")
        page = body if isinstance(body, TextPage) else TextPage("application/json", dump(body))
        headers = [(b"content-type", page.content_type.encode()), (b"cache-control", b"no-store")]
        responder.reply(status, headers, page.data)

    async def _reply(self, request: HttpRequest) -> Reply:
        services = self._services()
        presented = presented_keys(request.headers)
        # A key that is configured as both must not let clients change accounts.
        if services.admin.find(presented) is None or services.keys.find(presented) is not None:
            return _error(401, "this is not the admin key", "invalid_admin_key")
        services.sync()
        parts = request.path.strip("/").split("/")
        match request.method, parts[0]:
            case "GET", "accounts" if len(parts) == 1:
                return 200, {"accounts": list(services.pools.overview(steady_time()))}
            case "GET", "decisions" if len(parts) == 1:
                return await self._decisions(request.query)
            case "GET", "metrics" if len(parts) == 1:
                return await self._metrics_page(request.headers.get("accept", ""))
            case "POST", "accounts" if len(parts) >= 4:
                provider, *names, action = parts[1:]
                return await _change(request, services, f"{provider}/{'/'.join(names)}", action)
        return _error(404, NO_SUCH_PATH, "not_found")

    async def _decisions(self, query: bytes) -> Reply:
        """Return the decision on one request, or the latest decisions, of all workers."""
        asked = parse_qs(query.decode("latin-1")).get("request_id")
        wanted = asked[0] if asked and _REQUEST.fullmatch(asked[0]) else ""
        if not asked:
            found = self._own_decisions("") + await self._others_decisions("")
            return 200, {"decisions": sorted(found, key=itemgetter("at"), reverse=True)[:LATEST]}
        found = (self._own_decisions(wanted) or await self._others_decisions(wanted)) if wanted else []
        if not found:
            return _error(404, "no worker remembers this request; look for it in the log", "no_such_request")
        return 200, found[0]

    async def _others_decisions(self, request_id: str) -> Decisions:
        replies = await self.other_workers.ask("decisions", request_id)
        return [decision for reply in replies for decision in _decode(reply)]

    async def _metrics_page(self, accept: str) -> Reply:
        """Return the metrics of all workers, in the format that the client prefers."""
        if self._metrics is None:
            return _error(404, "metrics are off (admin.metrics)", "not_found")
        samples = self._metrics.of_all(await self.other_workers.ask("metrics"))
        kind = content_type(accept)
        return 200, TextPage(kind, exposition(samples, kind))

    def _own_decisions(self, request_id: str) -> Decisions:
        """Return the decision of this worker on a request, or its latest decisions if the id is empty."""
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
