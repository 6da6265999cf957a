"""The part of the admin interface that shows the audit log, and what other parts write into it."""

from __future__ import annotations

import asyncio
import time

import msgspec
import structlog

from trilogue.base.clock import parse_time
from trilogue.gateway.access.audit_log import AuditEntry, AuditQuery
from trilogue.gateway.admin.routes import AdminCall, AdminError, AdminRoute, Identity, Reply
from trilogue.gateway.admin.settings import AdminRole
from trilogue.model import Json
from trilogue.storage.database import StoreError

log = structlog.get_logger("trilogue.admin")

MOST_ENTRIES = 1_000


def routes() -> tuple[AdminRoute, ...]:
    """Return the route of the audit log. All workers have the same one."""
    return (AdminRoute("GET", "audit", _audit, AdminRole.ADMIN),)


async def audited(call: AdminCall, what: str, subject: str, *, before: Json = None, after: Json = None) -> None:
    """Write who changes what into the audit log. Call it before the change: raises AdminError if it fails.

    `before` and `after` must have no secret and nothing of a prompt or a response.
    """
    actor = call.actor
    entry = AuditEntry(who=actor.who, via=actor.via, what=what, subject=subject, before=before, after=after)
    try:
        await asyncio.to_thread(lambda: call.gateway.access.managed.store.audit.add(entry))
    except StoreError as error:
        text = f"nothing was changed, because the audit log cannot be written: {error}"
        raise AdminError(503, text, "store_unavailable") from None


async def note_sign_in(call: AdminCall, who: Identity) -> None:
    """Write a sign-in into the log and the audit log.

    If the audit log cannot be written, the sign-in goes on: administrators must be able to find out why.
    """
    log.info("console: signed in", who=who.name, via=who.via, role=who.role.value)
    entry = AuditEntry(who=who.name, via=who.via, what="sign in", subject=who.name, after={"role": who.role.value})
    try:
        await asyncio.to_thread(lambda: call.gateway.access.managed.store.audit.add(entry))
    except StoreError as error:
        log.warning("a sign-in is not in the audit log", who=who.name, reason=str(error))


async def _audit(call: AdminCall) -> Reply:
    query = audit_query(call.query, time.time())
    try:
        # One more than is shown tells whether there is another page.
        wanted = msgspec.structs.replace(query, limit=query.limit + 1)
        found = await asyncio.to_thread(lambda: call.gateway.access.managed.store.audit.find(wanted))
    except StoreError as error:
        raise AdminError(503, f"the audit log cannot be read: {error}", "store_unavailable") from None
    shown = found[: query.limit]
    return {
        "entries": [msgspec.to_builtins(entry) for entry in shown],
        "next": shown[-1].number if len(found) > query.limit else None,
    }


def audit_query(given: dict[str, str], now: float) -> AuditQuery:
    """Return what a query string asks for. Raises AdminError if it cannot be understood."""
    unknown = given.keys() - set(AuditQuery.__struct_fields__)
    if unknown:
        names = ", ".join(AuditQuery.__struct_fields__)
        raise AdminError(400, f"there is no filter {min(unknown)[:100]}; there is {names}", "bad_query")
    limit = _number("limit", given.get("limit", "100"))
    if not 1 <= limit <= MOST_ENTRIES:
        raise AdminError(400, f"limit must be a number from 1 to {MOST_ENTRIES}", "bad_limit")
    return AuditQuery(
        limit=limit,
        before=_number("before", given["before"]) if "before" in given else None,
        who=given.get("who", ""),
        what=given.get("what", ""),
        subject=given.get("subject", ""),
        since=_moment("since", given["since"], now) if "since" in given else None,
        until=_moment("until", given["until"], now) if "until" in given else None,
    )


def _number(name: str, text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 18:
        raise AdminError(400, f"{name} must be a number", "bad_limit")
    return int(text)


def _moment(name: str, text: str, now: float) -> float:
    try:
        return past_time(text, now)
    except ValueError:
        text = f"{name} must be a date or time such as 2027-01-31, or 7d for seven days ago"
        raise AdminError(400, text, "bad_query") from None


def past_time(text: str, now: float) -> float:
    """Return a moment: a date or time, or so many hours or days ago. Raises ValueError."""
    found = parse_time(text, 0.0)
    is_duration = parse_time(text, 1.0) != found
    return now - found if is_duration else found
