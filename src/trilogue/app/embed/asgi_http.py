"""One HTTP request over ASGI: what the server has read becomes an `HttpRequest`, and what is written its messages.

In: scope and messages of an ASGI server. Out: the same interfaces that the gateway's own server has, so that the
application does not know the difference. Framing, keep-alive and TLS are the server's.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from trilogue.gateway.endpoints.app import GatewayApp, not_http
from trilogue.net.server.request import Head, HeadReader, HttpRequest, Problem, StopParsing, Upload
from trilogue.net.server.responder import Headers, Responder

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

HIGH_WATER = 64 * 1024
"""bytes that may wait for the client before the upstream is slowed down"""
_OF_CONNECTION = frozenset({b"connection", b"transfer-encoding", b"keep-alive"})


async def serve_http(app: GatewayApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Respond to one request. Returns without the end of a response that could not be completed."""
    outbox = Outbox()
    responder = AsgiResponder(outbox, bodiless=scope["method"] == "HEAD")
    reader = HeadReader()
    head = head_of(scope, reader)
    if not isinstance(head, Head):
        headers, body = not_http(head, scope["path"])
        responder.reply(head[0], headers, body)
        await outbox.run(send)
        return
    wanted = asyncio.Event()
    upload = Upload(lambda _: wanted.set(), reader.length)
    request = HttpRequest(head, upload)

    def gone() -> None:
        # Some servers also report a disconnection after a complete response.
        if not responder.ended:
            request.lost()

    request.task = asyncio.create_task(app(request, responder), name="request")
    reading = asyncio.create_task(_read(receive, upload, wanted, gone))
    writing = asyncio.create_task(_write(outbox, send, gone))
    try:
        await request.task
        if responder.ended:
            await writing
    finally:
        await end_tasks(reading, writing)


async def end_tasks(*tasks: asyncio.Task[None]) -> None:
    """Cancel tasks, and wait until they have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _read(receive: Receive, upload: Upload, wanted: asyncio.Event, gone: Callable[[], None]) -> None:
    """Take the body as it arrives, and notice when the client disconnects."""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            gone()
            return
        wanted.clear()
        has_room = upload.received(message.get("body", b""))
        if not message.get("more_body", False):
            upload.completed()
        elif not has_room:
            await wanted.wait()


async def _write(outbox: Outbox, send: Send, gone: Callable[[], None]) -> None:
    try:
        await outbox.run(send)
    except OSError:
        # This is how servers say that the client has disconnected, in newer versions of ASGI.
        gone()


def head_of(scope: Scope, reader: HeadReader) -> Head | Problem:
    """Return the head of a request, which the reader has read then, or what is wrong with it."""
    try:
        for name, value in scope["headers"]:
            reader.on_header(name, value)
    except StopParsing:
        return reader.problem
    headers, root = reader.headers, scope.get("root_path", "")
    if scope.get("scheme") in ("https", "wss"):
        headers.setdefault("x-forwarded-proto", "https")
    if root:
        headers.setdefault("x-forwarded-prefix", root)
    path = path_below(scope["path"], root)
    return reader.head_of(scope.get("method", "GET"), path, scope.get("query_string", b""))


def path_below(path: str, root: str) -> str:
    """Return the path of a request below the place where the application is mounted."""
    return path[len(root) :] or "/" if root and (path == root or path.startswith(f"{root}/")) else path


class Outbox:
    """Messages that wait to be sent to the client. The `ClientLink` of a response over ASGI."""

    peer = ""

    def __init__(self) -> None:
        self.keep_alive = True
        self.paused = False
        self.on_flow: Callable[[bool], None] = _ignore
        self._waiting: deque[tuple[Message, int]] = deque()
        self._size = 0
        self._finished = False
        self._filled = asyncio.Event()
        self._drained = asyncio.Event()

    def post(self, message: Message, size: int = 0) -> None:
        """Send a message with this many bytes."""
        self._waiting.append((message, size))
        self._size += size
        self._filled.set()
        if self._size > HIGH_WATER and not self.paused:
            self.paused = True
            self._drained.clear()
            self.on_flow(True)

    def finish(self) -> None:
        """Send nothing more."""
        self._finished = True
        self._filled.set()

    def put(self, data: bytes) -> None:
        """Send a piece of a body."""
        self.post({"type": "http.response.body", "body": data, "more_body": True}, len(data))

    def response_ended(self) -> None:
        """Go on after the response, whose end has been posted: there is nothing more."""
        self.on_flow = _ignore
        self.finish()

    async def drained(self) -> None:
        """Wait until the client has read enough of what it was sent."""
        while self.paused:
            await self._drained.wait()

    async def run(self, send: Send) -> None:
        """Send all messages, until there are no more. Raises what the server raises."""
        while self._waiting or not self._finished:
            if not self._waiting:
                self._filled.clear()
                await self._filled.wait()
                continue
            message, size = self._waiting.popleft()
            await send(message)
            self._size -= size
            if self.paused and self._size <= HIGH_WATER // 2:
                self._resume()

    def _resume(self) -> None:
        self.paused = False
        self._drained.set()
        self.on_flow(False)


class AsgiResponder(Responder):
    """The response to one request. It is never chunked: framing is the server's."""

    __slots__ = ("_outbox",)

    def __init__(self, outbox: Outbox, *, bodiless: bool) -> None:
        super().__init__(outbox, chunked=False, bodiless=bodiless)
        self._outbox = outbox

    def start(self, status: int, headers: Headers) -> None:
        """Send status and headers."""
        self.started, self.status = True, status
        if self.on_head is not None:
            self.on_head(status, headers)
        own = [header for header in headers if header[0] not in _OF_CONNECTION]
        shown = [*own, *common_headers(self.common)]
        self._outbox.post({"type": "http.response.start", "status": status, "headers": shown})

    def send(self, data: bytes) -> None:
        """Send a piece of the body."""
        self.piece(data, time.monotonic())

    def piece(self, data: bytes, now: float) -> None:
        """Send one of many small pieces of a stream. `now`: the current time."""
        self.last_write_at = now
        if data and not self._bodiless:
            self._observe(data, now)
            self._outbox.put(data)

    def end(self, data: bytes = b"") -> None:
        """Send the last piece. Does nothing if the response has ended."""
        if self.ended:
            return
        body = b"" if self._bodiless else data
        self._observe(body, time.monotonic())
        self.ended = True
        self._outbox.post({"type": "http.response.body", "body": body, "more_body": False}, len(body))
        self._outbox.response_ended()

    def reply(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a whole response."""
        self.start(status, [*headers, (b"content-length", b"%d" % len(body))])
        self.end(body)

    def _observe(self, data: bytes, now: float) -> None:
        if self.on_body is not None and data:
            self.on_body(data, now)


def common_headers(lines: bytes) -> Headers:
    """Return encoded header lines as pairs."""
    return [(name, value) for name, _, value in (line.partition(b": ") for line in lines.split(b"\r\n") if line)]


def _ignore(_: bool) -> None:
    """Ignore whether the client is slow."""
