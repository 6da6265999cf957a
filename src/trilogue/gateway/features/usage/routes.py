"""The part of the admin interface that shows usage and cost. Workers share the ledger, so each can respond alone."""

from __future__ import annotations

import asyncio
import time

from trilogue.gateway.admin.routes import AdminCall, AdminError, AdminRoute, RawReply, Reply
from trilogue.gateway.admin.settings import AdminRole
from trilogue.gateway.features.usage.observer import UsageObserver
from trilogue.gateway.features.usage.report import usage_csv, usage_json, usage_query
from trilogue.gateway.gateway import Gateway
from trilogue.gateway.limits.remaining import subjects_with_budget
from trilogue.gateway.limits.shared_table import LimitsFull
from trilogue.model import Json
from trilogue.storage.database import StoreError

FORMATS = ("json", "csv")


def routes(usage: UsageObserver | None) -> tuple[AdminRoute, ...]:
    """Return the route of usage. `usage`: None if it is not counted."""
    return (AdminRoute("GET", "usage", _off if usage is None else _UsagePart(usage).handle, AdminRole.VIEWER),)


async def _off(_: AdminCall) -> Reply:
    raise AdminError(404, "usage is not counted (usage.store)", "not_found")


class _UsagePart:
    """The usage of all workers and machines that share the ledger."""

    def __init__(self, usage: UsageObserver) -> None:
        self._usage = usage

    async def handle(self, call: AdminCall) -> Reply:
        """Return sums of usage, in JSON or CSV."""
        asked = dict(call.query)
        form = asked.pop("format", FORMATS[0])
        if form not in FORMATS:
            raise AdminError(400, f"format must be {' or '.join(FORMATS)}", "bad_query")
        query = usage_query(asked, time.time())
        try:
            lines = await asyncio.to_thread(self._usage.read, query)
        except StoreError as error:
            raise AdminError(503, f"usage cannot be read: {error}", "store_unavailable") from None
        if form == "csv":
            return RawReply("text/csv; charset=utf-8", usage_csv(lines, query.by).encode())
        return RawReply("application/json", usage_json(lines, query.by, await _budgets(call.gateway)))


async def _budgets(gateway: Gateway) -> list[Json]:
    """Return what is left of all budgets; nothing if that cannot be read."""
    subjects = subjects_with_budget(
        gateway.limiter.rules, gateway.access.configured, gateway.access.managed.keys, time.time()
    )
    try:
        return await gateway.limiter.budgets_left(subjects) if subjects else []
    except (StoreError, OSError, ValueError, LimitsFull):
        return []
