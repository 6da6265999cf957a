"""The part of the admin interface that shows tool calls which wait for approval, and takes decisions.

A call waits in the worker that handles its request. Any worker may get the decision, and hands it to the others.
"""

from __future__ import annotations

import os
from operator import itemgetter
from typing import Any

import msgspec
from msgspec import Struct

from trilogue.gateway.admin.audit import audited
from trilogue.gateway.admin.routes import AdminCall, AdminError, AdminRoute, Reply
from trilogue.gateway.admin.settings import AdminRole
from trilogue.gateway.admin.worker_group import OtherWorkers
from trilogue.gateway.features.approvals.approvals import DECISIONS, MOST_DECIDED, Approvals, DecisionBody

LIST = "approvals"
DECIDE = "approval"

Rows = list[dict[str, Any]]


class DecisionOrder(Struct, frozen=True):
    """A decision that one worker hands to the others."""

    id: str
    approved: bool
    by: str


class ApprovalRows(Struct, frozen=True):
    """What one worker knows: the calls that wait, and the latest decisions."""

    waiting: Rows
    decided: Rows


_encode = msgspec.json.Encoder().encode
_decode_rows = msgspec.json.Decoder(ApprovalRows).decode
_decode_order = msgspec.json.Decoder(DecisionOrder).decode
_decode_bool = msgspec.json.Decoder(bool).decode


def routes(approvals: Approvals, workers: OtherWorkers) -> tuple[AdminRoute, ...]:
    """Return the routes of approvals, and let other workers ask for those of this one and decide on them."""
    part = _ApprovalsPart(approvals, workers)
    workers.register(LIST, lambda _: _encode(part.rows()))
    workers.register(DECIDE, lambda order: _encode(part.decided(_decode_order(order))))
    # The arguments of a call are content of a response, so viewers do not see them.
    return (
        AdminRoute("GET", "approvals", part.listing, AdminRole.OPERATOR),
        AdminRoute("POST", "approvals/{id}", part.decide, AdminRole.OPERATOR),
    )


class _ApprovalsPart:
    """The approvals of this worker and of all others."""

    def __init__(self, own: Approvals, workers: OtherWorkers) -> None:
        self._own = own
        self._workers = workers

    async def listing(self, _: AdminCall) -> Reply:
        """Return the calls that wait in all workers, the oldest first, and the latest decisions."""
        found = await self._all()
        waiting = sorted([row for one in found for row in one.waiting], key=itemgetter("asked_at"))
        decided = sorted([row for one in found for row in one.decided], key=itemgetter("decided_at"), reverse=True)
        return {"approvals": waiting, "decided": decided[:MOST_DECIDED]}

    async def decide(self, call: AdminCall) -> Reply:
        """Let a call go on, or not, in whichever worker it waits."""
        order = _order(call, await call.body())
        waiting = [row for one in await self._all() for row in one.waiting if row["id"] == order.id]
        if waiting:
            subject, after = str(waiting[0]["request_id"]), {"approved": order.approved, "by": order.by}
            await audited(call, "decide on call", subject, after={"tool": waiting[0]["tool"], **after})
        if not waiting or not await self._decide(order):
            text = "this call does not wait any more: it was decided, its time is over, or its client has left"
            raise AdminError(404, text, "no_such_approval")
        return {"id": order.id, "approved": order.approved, "by": order.by}

    async def _all(self) -> list[ApprovalRows]:
        return [self.rows(), *(_decode_rows(reply) for reply in await self._workers.ask(LIST))]

    async def _decide(self, order: DecisionOrder) -> bool:
        if self.decided(order):
            return True
        replies = await self._workers.ask(DECIDE, _encode(order).decode())
        return any(_decode_bool(reply) for reply in replies)

    def rows(self) -> ApprovalRows:
        """Return what this worker knows."""
        worker = {"worker": os.getpid()}
        waiting = [{**msgspec.to_builtins(one), **worker} for one in self._own.waiting]
        return ApprovalRows(waiting, [msgspec.to_builtins(one) for one in self._own.decided])

    def decided(self, order: DecisionOrder) -> bool:
        """Decide on a call of this worker. Return False if it has no such call."""
        return self._own.decide(order.id, order.approved, order.by)


def _order(call: AdminCall, body: dict[str, Any]) -> DecisionOrder:
    try:
        given = msgspec.convert(body, DecisionBody)
    except msgspec.ValidationError:
        given = DecisionBody()
    if given.decision not in DECISIONS:
        raise AdminError(
            400, 'the body must be {"decision": "yes"} or "no", with "by": NAME if you like', "bad_decision"
        )
    return DecisionOrder(call.ids[0], DECISIONS[given.decision], given.by.strip() or call.actor.who)
