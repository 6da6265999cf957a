"""One request to a live server: what came back, and when each piece of it arrived."""

from __future__ import annotations

import asyncio
import time

from msgspec import Struct, field

from trilogue.base.json_text import dump
from trilogue.errors import UpstreamError
from trilogue.model import Json, Protocol
from trilogue.net.client.interface import Transport, UpstreamRequest, UpstreamTimeouts
from trilogue.net.client.transport import HttpTransport
from trilogue.protocols.registry import CODECS
from trilogue.upstreams.addresses import endpoint
from trilogue.vendors.profile import FIRST_VERSION

SECONDS = 120.0
MOST_BYTES = 64 * 1024 * 1024


class ProbedServer(Struct, frozen=True, kw_only=True):
    """A server to ask. `url`: its address, with or without /v1, or the URL of the endpoint."""

    url: str
    protocol: Protocol
    model: str = ""
    key: str = ""
    seconds: float = SECONDS
    """how long one response may take"""

    def __repr__(self) -> str:
        return f"ProbedServer({self.protocol.short})"

    def headers(self, *, stream: bool, key: str | None = None) -> tuple[tuple[str, str], ...]:
        """Return the headers of a request. `key`: instead of the server's own."""
        key = self.key if key is None else key
        pairs = [
            ("content-type", "application/json"),
            ("accept", "text/event-stream" if stream else "application/json"),
        ]
        api = CODECS[self.protocol].endpoint
        if api.version_header:
            pairs.append((api.version_header, FIRST_VERSION))
        if key:
            pairs.append(("authorization", f"Bearer {key}") if api.auth == "bearer" else (api.auth, key))
        return tuple(pairs)

    def address(self, *, stream: bool) -> str:
        """Return the URL that requests go to."""
        return endpoint(self.url, self.protocol, CODECS[self.protocol].endpoint.url_path(self.model, stream))


class Received(Struct, kw_only=True):
    """What came back. Times are seconds since the request was sent. `error`: why the response is not complete."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    head_at: float = 0.0
    pieces: list[tuple[float, bytes]] = field(default_factory=list)
    ended_at: float = 0.0
    error: str = ""

    @property
    def body(self) -> bytes:
        """The whole body, joined from the pieces in which it arrived."""
        return b"".join(data for _, data in self.pieces)


async def ask_server(
    server: ProbedServer, body: dict[str, Json], transport: Transport, key: str | None = None
) -> Received:
    """Send a request and return everything that came back. Never raises because of what the server does."""
    stream = bool(body.get("stream"))
    request = UpstreamRequest(
        method="POST",
        url=server.address(stream=stream),
        headers=server.headers(stream=stream, key=key),
        body=dump(body),
        timeouts=UpstreamTimeouts(connect=10, first_byte=server.seconds, between=server.seconds),
    )
    received, began = Received(), time.monotonic()
    try:
        async with asyncio.timeout(server.seconds):
            await _receive(request, transport, received, began)
    except UpstreamError as error:
        received.error = str(error)
    except TimeoutError:
        received.error = f"the response was not complete within {server.seconds:g} s"
    received.ended_at = time.monotonic() - began
    return received


async def _receive(request: UpstreamRequest, transport: Transport, received: Received, began: float) -> None:
    response = await transport.send(request)
    try:
        received.status, received.headers = response.status, dict(response.headers)
        received.head_at = time.monotonic() - began
        size = 0
        while data := await response.chunk():
            received.pieces.append((time.monotonic() - began, data))
            size += len(data)
            if size > MOST_BYTES:
                received.error = f"the response is larger than {MOST_BYTES} bytes"
                return
    finally:
        await response.aclose()


async def ask_once(server: ProbedServer, body: dict[str, Json]) -> Received:
    """Send one request on a connection of its own."""
    transport = HttpTransport()
    try:
        return await ask_server(server, body, transport)
    finally:
        await transport.aclose()
