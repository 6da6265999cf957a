"""The part of the admin interface that shows recent decisions. Each worker knows those on its own requests only."""

from __future__ import annotations

import re
from itertools import islice
from operator import itemgetter
from typing import Any

import msgspec

from trilogue.gateway.admin.routes import AdminCall, AdminError, AdminRoute, Reply
from trilogue.gateway.admin.settings import AdminRole
from trilogue.gateway.admin.worker_group import OtherWorkers
from trilogue.gateway.features.explain.history import KnownRequests

Decisions = list[dict[str, Any]]
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Decisions).decode

LATEST = 100
_REQUEST = re.compile(r"[\w-]{1,100}", re.ASCII)


def routes(known: KnownRequests, workers: OtherWorkers) -> tuple[AdminRoute, ...]:
    """Return the routes of decisions, and let other workers ask for those of this one."""
    shown = _DecisionsPart(known, workers)
    workers.register("decisions", lambda request_id: _encode(shown.own(request_id)))
    return (AdminRoute("GET", "decisions", shown.handle, AdminRole.VIEWER),)


class _DecisionsPart:
    """The decisions of this worker and of all others."""

    def __init__(self, known: KnownRequests, workers: OtherWorkers) -> None:
        self._known = known
        self._workers = workers

    async def handle(self, call: AdminCall) -> Reply:
        """Return the decision on one request, or the latest decisions, of all workers."""
        asked = call.query.get("request_id")
        if asked is None:
            found = self.own("") + await self._others("")
            return {"decisions": sorted(found, key=itemgetter("at"), reverse=True)[:LATEST]}
        known = (self.own(asked) or await self._others(asked)) if _REQUEST.fullmatch(asked) else []
        if not known:
            raise AdminError(404, "no worker remembers this request; look for it in the log", "no_such_request")
        return known[0]

    def own(self, request_id: str) -> Decisions:
        """Return the decision of this worker on a request, or its latest decisions if the id is empty."""
        if request_id:
            record = self._known.find(request_id)
            return [] if record is None or record.decision is None else [record.decision.as_dict()]
        made = (record.decision for record in self._known if record.decision is not None)
        return [decision.as_dict() for decision in islice(made, LATEST)]

    async def _others(self, request_id: str) -> Decisions:
        replies = await self._workers.ask("decisions", request_id)
        return [decision for reply in replies for decision in _decode(reply)]
