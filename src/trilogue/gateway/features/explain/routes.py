"""The part of the admin interface that shows requests: the latest of all workers, and all that is known about one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from operator import itemgetter
from typing import Any

import msgspec
from msgspec import Struct

from trilogue.gateway.admin.routes import AdminCall, AdminContext, AdminError, AdminRoute, Reply
from trilogue.gateway.admin.settings import AdminRole
from trilogue.gateway.features.explain.history import KnownRequests
from trilogue.gateway.features.explain.request_view import everything, summary
from trilogue.gateway.gateway import Gateway
from trilogue.gateway.record import RequestRecord

Rows = list[dict[str, Any]]
_encode = msgspec.json.Encoder().encode
_decode_rows = msgspec.json.Decoder(Rows).decode

LATEST = 50
MOST = 1_000
LAST = "last"
_REQUEST = re.compile(r"[\w-]{1,100}", re.ASCII)
_STATUS = re.compile(r"[1-5](\d\d|xx)")
_ASKED = (
    "id",
    "model",
    "provider",
    "running",
    "status",
    "error",
    "total_ms",
    "input_tokens",
    "output_tokens",
    "cost",
    "currency",
)
"""what is shown of a request that a policy has made"""
_BOOLEANS = {"true": True, "false": False}


class RequestQuery(Struct, frozen=True):
    """Which requests are asked for. `model`: as the client or the upstream calls it. `status`: such as 429 or 5xx."""

    limit: int = LATEST
    model: str = ""
    key: str = ""
    status: str = ""
    errors: bool | None = None
    running: bool | None = None
    losses: bool | None = None
    session: str = ""

    def wants(self, record: RequestRecord) -> bool:
        """Return whether a request is one of those."""
        return (
            self.model in ("", record.model, record.upstream_model)
            and self.key in ("", record.key)
            and (not self.status or str(record.status) == self.status or f"{record.status // 100}xx" == self.status)
            and self.errors in (None, failed(record))
            and self.running in (None, not record.ended_at)
            and self.losses in (None, bool(record.losses))
            and self.session in ("", record.cache.session if record.cache is not None else None)
        )


_decode_query = msgspec.json.Decoder(RequestQuery).decode


def failed(record: RequestRecord) -> bool:
    """Return whether a request has ended with an error, which may be inside its stream."""
    return record.status >= 400 or record.error is not None


def routes(context: AdminContext, known: KnownRequests) -> tuple[AdminRoute, ...]:
    """Return the routes of requests, and let other workers ask for those of this one."""
    part = _RequestsPart(context, known)
    context.workers.register("requests", lambda query: _encode(part.rows(_decode_query(query))))
    context.workers.register("request", lambda request_id: _encode(part.found(request_id)))
    return (
        AdminRoute("GET", "requests", part.list, AdminRole.VIEWER),
        AdminRoute("GET", "requests/{id}", part.one, AdminRole.VIEWER),
    )


class _RequestsPart:
    """The requests of this worker and of all others."""

    def __init__(self, context: AdminContext, known: KnownRequests) -> None:
        self._context = context
        self._known = known

    async def list(self, call: AdminCall) -> Reply:
        """Return the latest requests of all workers that the query asks for, the latest first."""
        query = _query(call.query)
        replies = await self._context.workers.ask("requests", _encode(query).decode())
        rows = self.rows(query) + [row for reply in replies for row in _decode_rows(reply)]
        return {"requests": sorted(rows, key=itemgetter("began_at"), reverse=True)[: query.limit]}

    async def one(self, call: AdminCall) -> Reply:
        """Return all that is known about one request, or about the last one."""
        (request_id,) = call.ids
        known: Rows = []
        if _REQUEST.fullmatch(request_id):
            known = self.found(request_id)
            if not known or request_id == LAST:
                replies = await self._context.workers.ask("request", request_id)
                known += [row for reply in replies for row in _decode_rows(reply)]
        if not known:
            text = "no worker remembers this request (admin.keep_requests); look for it in the log"
            raise AdminError(404, text, "no_such_request")
        return max(known, key=itemgetter("began_at"))

    def rows(self, query: RequestQuery) -> Rows:
        """Return the latest requests of this worker."""
        gateway = self._context.gateway()
        wanted = (record for record in self._known if query.wants(record))
        return [summary(record, gateway) for record in islice(wanted, query.limit)]

    def found(self, request_id: str) -> Rows:
        """Return all that this worker knows about a request, as the only row; none if it does not know it."""
        record = self._last() if request_id == LAST else self._known.find(request_id)
        if record is None:
            return []
        gateway = self._context.gateway()
        return [{**everything(record, gateway), "asked": self._asked(record, gateway)}]

    def _asked(self, record: RequestRecord, gateway: Gateway) -> Rows:
        """Return the requests that policies of a request have made, in their order."""
        if not record.policies and record.ended_at:
            return []
        made = [one for one in self._known if one.parent == record.request_id]
        rows = [summary(one, gateway) for one in sorted(made, key=lambda one: one.began_at)]
        return [{name: row[name] for name in _ASKED} for row in rows]

    def _last(self) -> RequestRecord | None:
        """Return the request of a client that began last, without those that are about no model and have not failed."""
        asked: Iterator[RequestRecord] = (
            record for record in self._known if not record.parent and (record.model or failed(record))
        )
        return max(asked, key=lambda record: record.began_at, default=None)


def _query(given: dict[str, str]) -> RequestQuery:
    """Return what a query string asks for. Raises AdminError if it cannot be understood."""
    unknown = given.keys() - set(RequestQuery.__struct_fields__)
    if unknown:
        names = ", ".join(RequestQuery.__struct_fields__)
        raise AdminError(400, f"there is no filter {min(unknown)[:100]}; there is {names}", "bad_query")
    limit = given.get("limit", str(LATEST))
    if not limit.isascii() or not limit.isdecimal() or not 1 <= int(limit[:9]) <= MOST:
        raise AdminError(400, f"limit must be a number from 1 to {MOST}", "bad_query")
    status = given.get("status", "")
    if status and not _STATUS.fullmatch(status):
        raise AdminError(400, "status must be a status code such as 429, or 4xx", "bad_query")
    flags: dict[str, bool] = {}
    for name in ("errors", "running", "losses"):
        if name in given:
            if given[name] not in _BOOLEANS:
                raise AdminError(400, f"{name} must be true or false", "bad_query")
            flags[name] = _BOOLEANS[given[name]]
    return RequestQuery(
        int(limit), given.get("model", ""), given.get("key", ""), status, session=given.get("session", ""), **flags
    )
