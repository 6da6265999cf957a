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

import msgspec
import structlog
from msgspec import Struct

from trilogue.base.json_text import DECODE_ERRORS
from trilogue.base.text import printable
from trilogue.errors import UpstreamError
from trilogue.net.client.interface import UpstreamRequest, UpstreamTimeouts
from trilogue.net.client.transport import HttpTransport
from trilogue.net.client.webhooks import signed_headers
from trilogue.policies import Pending
from trilogue.policies.checks import PolicyProblem
from trilogue.policies.shipped.approve import Approval, ApprovalQuestion, WebhookTarget

MOST_BYTES = 64 * 1024
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0
DECISIONS = {"yes": True, "no": False}
RETRIED = frozenset({408, 425, 429, 500, 502, 503, 504})


class DecisionBody(Struct, frozen=True):
    """A decision as a webhook or an administrator sends it. `decision`: yes or no."""

    decision: str = ""
    by: str = ""


_decode = msgspec.json.Decoder(DecisionBody).decode


class WebhookSender:
    """Sends questions. It makes connections only if there is a webhook."""

    def __init__(self) -> None:
        self._transport: HttpTransport | None = None

    async def send(self, webhook: WebhookTarget, message_id: str, question: object, until: float) -> Approval | None:
        """Send a question, and return the decision that the response has; None if it has none."""
        body, pause = msgspec.json.encode({"type": "approval", "approval": question}), FIRST_PAUSE
        while (left := until - time.time()) > 0:
            try:
                status, answer = await self._post(webhook, message_id, body, left)
            except UpstreamError as error:
                status, answer = 0, b""
                log.warning("webhook failed", approval=message_id, error=type(error).__name__)
            if 200 <= status < 300:
                return _decision(answer, message_id)
            if status:
                log.warning("webhook failed", approval=message_id, status=status)
            if status and status not in RETRIED:
                return None
            await asyncio.sleep(min(pause, left))
            pause = min(2 * pause, LONGEST_PAUSE)
        return None

    async def aclose(self) -> None:
        """Close all connections."""
        if self._transport is not None:
            await self._transport.aclose()

    async def _post(self, webhook: WebhookTarget, message_id: str, body: bytes, seconds: float) -> tuple[int, bytes]:
        self._transport = self._transport or HttpTransport()
        now = int(time.time())
        headers = signed_headers(webhook.secret, message_id, now, body)
        # The receiver may respond when somebody has decided, so it may take as long as the question waits.
        timeouts = UpstreamTimeouts(first_byte=seconds, between=seconds)
        request = UpstreamRequest("POST", webhook.url, headers, body, timeouts)
        response = await self._transport.send(request)
        return response.status, await response.read(MOST_BYTES)


def _decision(body: bytes, message_id: str) -> Approval | None:
    """Return the decision in a response; None if it has none yet."""
    if not body.strip():
        return None
    try:
        found = _decode(body)
    except DECODE_ERRORS:
        log.warning("webhook responded with something else than a decision", approval=message_id)
        return None
    approved = DECISIONS.get(found.decision)
    if approved is None and found.decision:
        log.warning("webhook responded with something else than a decision", approval=message_id)
    return None if approved is None else Approval(approved, found.by)


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
