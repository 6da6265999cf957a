"""What the HTTP server lets a client do before there is a request: a bounded head, within a bounded time.

uvicorn's fast parser takes header lines of any length and waits for them for ever; both are limited here.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD_BYTES = 64 * 1024
HEAD_SECONDS = 10.0


class GuardedProtocol(HttpToolsProtocol):
    """One client connection."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._head_timer is None and self._answered():
            self._wait_for_head()
        if self._head_timer is not None:
            self._head_bytes += len(data)
            # Before the head is complete all bytes count; a body in the same read is cut off by the body limit.
            if self._head_bytes > MAX_HEAD_BYTES and b"\r\n\r\n" not in data:
                self._refuse(b"431 Request Header Fields Too Large")
                return
        super().data_received(data)

    def on_headers_complete(self) -> None:
        self._stop_waiting()
        if sum(name == b"host" for name, _ in self.headers) != 1:
            self._refuse(b"400 Bad Request")
            return
        super().on_headers_complete()

    def _answered(self) -> bool:
        """The request before is through: these bytes begin the next one."""
        cycle = getattr(self, "cycle", None)
        return cycle is not None and cycle.response_complete

    def _wait_for_head(self) -> None:
        self._head_bytes = 0
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self._refuse, b"408 Request Timeout")

    def _stop_waiting(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _refuse(self, status: bytes) -> None:
        self._stop_waiting()
        if not self.transport.is_closing():
            self.transport.write(b"HTTP/1.1 " + status + b"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            self.transport.close()
