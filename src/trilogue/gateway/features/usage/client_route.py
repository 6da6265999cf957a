"""`GET /v1/usage`: what the holder of a client key has used, and what is left of the limits and budgets of the key.

Only what belongs to this key is shown: nothing of its owner's other keys, and no names of providers and accounts.
"""

from __future__ import annotations

import asyncio
import time
from urllib.parse import parse_qs

from trilogue.errors import BadRequest
from trilogue.gateway.access.client_keys import ClientKey
from trilogue.gateway.features.usage.ledger.tables import total_of
from trilogue.gateway.features.usage.observer import LOCAL, UsageObserver
from trilogue.gateway.features.usage.report import encode, fields_of, usage_query
from trilogue.gateway.limits.remaining import shown_budget, shown_limit
from trilogue.gateway.request.admission import Handler
from trilogue.gateway.request.request import RequestContext, watching
from trilogue.protocols.failure import own_failure
from trilogue.storage.database import StoreError

COLUMNS = ("day", "hour", "model")
PARAMETERS = ("by", "since", "until")


def usage_handler(usage: UsageObserver | None) -> Handler:
    """Return the handler of the route. `usage`: None if it is not counted."""

    async def handle(context: RequestContext) -> None:
        await _respond(context, usage)

    return handle


async def _respond(context: RequestContext, usage: UsageObserver | None) -> None:
    """Respond with the usage of the client key. Raises BadRequest."""
    key = context.entry.key or ClientKey("")
    asked = {name: values[0] for name, values in parse_qs(context.request.query.decode("latin-1")).items()}
    if any(name not in PARAMETERS for name in asked):
        raise BadRequest(f"there is no such parameter; use {', '.join(PARAMETERS)}", code="bad_query")
    by = [part.strip() for part in asked.get("by", "").split(",") if part.strip()]
    if any(name not in COLUMNS for name in by):
        raise BadRequest(f"`by` must be some of {', '.join(COLUMNS)}, separated by commas", code="bad_query")
    try:
        limits, budgets = await context.entry.gateway.limiter.standing(key)
        used = await _usage(context, usage, key, {**asked, "by": ",".join(by)})
    except (StoreError, OSError, ValueError):
        context.refuse(own_failure(503, "usage cannot be read now", "store_unavailable"))
        return
    shown = {
        "object": "usage",
        "key": key.name or LOCAL,
        "limits": [shown_limit(one) for one in limits],
        "budgets": [shown_budget(one) for one in budgets],
        "usage": used,
    }
    context.reply_json(encode(shown))


async def _usage(
    context: RequestContext, observer: UsageObserver | None, key: ClientKey, asked: dict[str, str]
) -> dict[str, object] | None:
    """Return sums of what was used with a key; None if usage is not counted, or not under a name of its own."""
    if observer is None or key.is_unnamed or context.entry.gateway.access.keys.shares_name(key):
        return None
    query = usage_query({**asked, "key": key.name or LOCAL}, time.time())
    with watching(context):
        lines = await asyncio.to_thread(observer.read, query)
    total: dict[str, object] = {"total": fields_of(total_of(lines))}
    return {**total, "by": query.by, "lines": [fields_of(line, query.by) for line in lines]} if query.by else total
