"""Tool calls that wait until a person has decided, and the latest decisions. Every worker has its own.

A question is answered by whoever decides first: the admin interface, which finds it in whichever worker it waits, or
the webhook. A question whose client has disconnected, or whose time is over, is gone. The arguments of calls are shown
there and nowhere else, and are forgotten with the decision.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque

import structlog
from msgspec import Struct

from trilogue.base.text import printable
from trilogue.gateway.features.approvals.webhook import WebhookSender
from trilogue.policies import Pending
from trilogue.policies.checks import PolicyProblem
from trilogue.policies.shipped.approve import Approval, ApprovalQuestion

MOST_WAITING = 1_000
MOST_DECIDED = 50
MOST_NAME = 100

log = structlog.get_logger("trilogue.policies")


class WaitingApproval(Struct, frozen=True, kw_only=True):
    """A call that waits. Times are in seconds since 1970. Do not log `arguments`."""

    id: str
    request_id: str
    policy: str
    tool: str
    arguments: str
    key: str
    route: str
    model: str
    asked_at: float
    until: float

    def __repr__(self) -> str:
        return f"WaitingApproval({self.id})"


class DecidedApproval(Struct, frozen=True, kw_only=True):
    """A decision, without the arguments of the call."""

    id: str
    request_id: str
    policy: str
    tool: str
    key: str
    approved: bool
    by: str
    decided_at: float


class Approvals:
    """The questions to people in one worker."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[WaitingApproval, asyncio.Future[Approval]]] = {}
        self._decided: deque[DecidedApproval] = deque(maxlen=MOST_DECIDED)
        self._webhooks = WebhookSender()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def waiting(self) -> list[WaitingApproval]:
        """The calls that wait, the oldest first."""
        return [one for one, _ in self._waiting.values()]

    @property
    def decided(self) -> list[DecidedApproval]:
        """The latest decisions, the latest first."""
        return list(reversed(self._decided))

    async def ask(self, question: ApprovalQuestion, pending: Pending, request_id: str) -> object:
        """Wait for a decision and return it. The caller stops waiting after the time limit."""
        if len(self) >= MOST_WAITING:
            return PolicyProblem("too many calls wait for approval")
        now = time.time()
        asked = WaitingApproval(
            id=f"apr_{secrets.token_hex(8)}",
            request_id=request_id,
            policy=pending.policy,
            tool=question.tool,
            arguments=question.arguments,
            key=question.key,
            route=question.route,
            model=question.model,
            asked_at=now,
            until=now + pending.timeout,
        )
        loop = asyncio.get_running_loop()
        decision: asyncio.Future[Approval] = loop.create_future()
        self._waiting[asked.id] = asked, decision
        log.info("approval asked for", approval=asked.id, policy=asked.policy, request_id=request_id)
        sending = None
        if question.webhook is not None:
            sending = loop.create_task(self._send(question, asked))
        try:
            return await decision
        finally:
            self._waiting.pop(asked.id, None)
            if sending is not None:
                sending.cancel()

    def decide(self, approval_id: str, approved: bool, by: str) -> bool:
        """Decide on a call. Return False if it does not wait here."""
        found = self._waiting.pop(approval_id, None)
        if found is None or found[1].done():
            return False
        asked, decision = found
        name = printable(by[:MOST_NAME])
        self._decided.append(
            DecidedApproval(
                id=asked.id,
                request_id=asked.request_id,
                policy=asked.policy,
                tool=asked.tool,
                key=asked.key,
                approved=approved,
                by=name,
                decided_at=time.time(),
            )
        )
        log.info("approval decided", approval=asked.id, approved=approved, by=name, request_id=asked.request_id)
        decision.set_result(Approval(approved, name))
        return True

    async def aclose(self) -> None:
        """Close the connections to webhooks."""
        await self._webhooks.aclose()

    async def _send(self, question: ApprovalQuestion, asked: WaitingApproval) -> None:
        """Ask the webhook, and decide as it says if its response has a decision."""
        if question.webhook is None:
            return
        answer = await self._webhooks.send(question.webhook, asked.id, asked, asked.until)
        if answer is not None:
            self.decide(asked.id, answer.approved, answer.by or "webhook")
