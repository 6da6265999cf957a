"""Sends warnings to the webhook of the configuration, in the background: no request waits for it.

Each warning is sent until the receiver accepts it, with growing pauses, at most `ATTEMPTS` times. Only so many wait. A
warning that was dropped, or whose worker ended before, is not marked as sent, and comes again when its budget is used
the next time. The receiver may therefore get it twice, with the same `id`. Redirects are not followed.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from random import SystemRandom

import structlog
from msgspec import Struct

from trilogue.errors import TrilogueError
from trilogue.gateway.limits.settings import WebhookSettings
from trilogue.model import Json
from trilogue.net.client.interface import UpstreamRequest, UpstreamTimeouts
from trilogue.net.client.transport import HttpTransport
from trilogue.net.client.webhooks import signed_headers

log = structlog.get_logger("trilogue.webhook")

MOST_WAITING = 1_000
ATTEMPTS = 10
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 60.0
SEND_SECONDS = 10.0
CLOSE_SECONDS = 2.0
_random = SystemRandom()


class _Event(Struct, eq=False):
    id: str
    body: bytes
    sent: Callable[[], None]


class Webhook:
    """The webhook of one worker. It outlives reloads, which call `take`."""

    def __init__(self) -> None:
        self._settings = WebhookSettings()
        self._waiting: deque[_Event] = deque()
        self._task: asyncio.Task[None] | None = None
        self.failures = 0
        """attempts that the receiver did not accept"""

    def configure(self, settings: WebhookSettings) -> None:
        """Use these settings from now on, also for what waits."""
        self._settings = settings

    @property
    def is_on(self) -> bool:
        """Whether there is a webhook."""
        return self._settings.url is not None

    def send(self, event: Mapping[str, Json], sent: Callable[[], None]) -> None:
        """Send an event, which has an `id`, soon. `sent` is called once the receiver has accepted it."""
        if len(self._waiting) >= MOST_WAITING:
            log.error("webhook: too many events wait; the oldest one is dropped")
            self._waiting.popleft()
        self._waiting.append(_Event(str(event["id"]), json.dumps(event).encode(), sent))
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._deliver_all())

    async def aclose(self) -> None:
        """Try to send what waits, for a short time."""
        if self._task is not None and not self._task.done():
            await asyncio.wait([self._task], timeout=CLOSE_SECONDS)
            self._task.cancel()

    async def _deliver_all(self) -> None:
        transport = HttpTransport()
        try:
            while self._waiting:
                event = self._waiting.popleft()
                try:
                    await self._deliver(transport, event)
                except Exception as error:  # the task boundary: the next event may be sent
                    log.error("bug", error=type(error).__name__, exc_info=True)
        finally:
            await transport.aclose()

    async def _deliver(self, transport: HttpTransport, event: _Event) -> None:
        problem = ""
        for attempt in range(ATTEMPTS):
            if attempt:
                await asyncio.sleep(min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (attempt - 1)) * _random.uniform(0.7, 1.3))
            if self._settings.url is None:
                return
            problem = await self._attempt(transport, event)
            if not problem:
                event.sent()
                return
            self.failures += 1
            if not attempt:
                log.warning("webhook: the receiver does not accept an event; it is tried again", reason=problem)
        log.error("webhook: an event was given up", attempts=ATTEMPTS, reason=problem)

    async def _attempt(self, transport: HttpTransport, event: _Event) -> str:
        """Send an event once. Return what went wrong, without the URL; "" if nothing did."""
        settings, now = self._settings, int(time.time())
        if settings.url is None:
            return "there is no webhook any more"
        secret = settings.secret.reveal() if settings.secret is not None else None
        request = UpstreamRequest(
            method="POST",
            url=settings.url.reveal(),
            headers=signed_headers(secret, event.id, now, event.body),
            body=event.body,
            timeouts=UpstreamTimeouts(connect=SEND_SECONDS, first_byte=SEND_SECONDS),
        )
        try:
            async with asyncio.timeout(SEND_SECONDS):
                response = await transport.send(request)
                try:
                    with suppress(TrilogueError):
                        await response.read(64 * 1024)
                finally:
                    await response.aclose()
        except TimeoutError:
            return "it took too long"
        except TrilogueError as error:
            return type(error).__name__
        return "" if 200 <= response.status < 300 else f"status {response.status}"
