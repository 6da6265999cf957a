"""An upstream's response that shows its bytes to observers. It is only used for requests that have such observers."""

from __future__ import annotations

import time
from collections.abc import Callable

from trilogue.gateway.observer import ByteObservers, Notify
from trilogue.net.client.interface import UpstreamResponse
from trilogue.routing.pool.decision import Attempt


def observed_response(response: UpstreamResponse, attempt: Attempt, observers: ByteObservers) -> UpstreamResponse:
    """Show the head of a response to observers. Return a response that shows them its body, if they want that."""
    if observers.upstream_head is not None:
        observers.upstream_head(attempt, response.status, response.headers)
    notify = observers.upstream_response
    return response if notify is None else ObservedResponse(response, attempt, notify)


class ObservedResponse:
    """An `UpstreamResponse` around another one."""

    def __init__(self, response: UpstreamResponse, attempt: Attempt, notify: Notify) -> None:
        self.status = response.status
        self.headers = response.headers
        self.hold = response.hold
        self.release = response.release
        self.aclose = response.aclose
        self._response = response
        self._attempt = attempt
        self._notify = notify

    @property
    def complete(self) -> bool:
        """Return True if all of the body has arrived."""
        return self._response.complete

    async def read(self, limit: int) -> bytes:
        """Return the whole body, which the observers get too. Raise UpstreamProtocolError above `limit` bytes."""
        return self._seen(await self._response.read(limit))

    async def chunk(self) -> bytes:
        """Return the next bytes; b"" at the end."""
        return self._seen(await self._response.chunk())

    async def pour(self, take: Callable[[bytes], bool]) -> None:
        """Call `take` with all bytes as they arrive."""

        def seen(data: bytes) -> bool:
            return take(self._seen(data))

        await self._response.pour(seen)

    def _seen(self, data: bytes) -> bytes:
        if data:
            self._notify(self._attempt, data, time.monotonic())
        return data
