"""Questions to a webhook: signed as standardwebhooks.com says, and sent again until they arrive or time is over.

In: a question as data, and until when an answer is of use. Out: the decision in the response, or None if the response
has none: then it comes later, through the admin interface. URL, secret and content are never logged.
"""

from __future__ import annotations

import asyncio
import time

import msgspec
import structlog
from msgspec import Struct

from trilogue.base.json_text import DECODE_ERRORS
from trilogue.errors import UpstreamError
from trilogue.net.client.interface import UpstreamRequest, UpstreamTimeouts
from trilogue.net.client.transport import HttpTransport
from trilogue.net.client.webhooks import signed_headers
from trilogue.policies.shipped.approve import Approval, WebhookTarget

MOST_BYTES = 64 * 1024
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0
DECISIONS = {"yes": True, "no": False}
RETRIED = frozenset({408, 425, 429, 500, 502, 503, 504})

log = structlog.get_logger("trilogue.policies")


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
