"""The interface between the gateway and the network: a request goes in, a response comes back.

The gateway uses only `Transport`, so tests can replace the network. Errors are the `Upstream…` errors of
`trilogue.errors`. Their texts name no host, no path and no header, because clients see them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol
from urllib.parse import urlsplit

from msgspec import Struct, field

HeaderPairs = tuple[tuple[str, str], ...]


class UpstreamTimeouts(Struct, frozen=True):
    """Time limits on progress, in seconds. The whole exchange has no limit here.

    `connect`: until the connection, its TLS and its proxy are ready. `first_byte`: from then until the headers of the
    response are complete. `between`: each wait for more of the body; None if the caller has its own time limit.
    """

    connect: float = 5
    first_byte: float = 60
    between: float | None = 120


class BodySource(Protocol):
    """A body that is sent while it arrives. `length`: its number of bytes, or None if that is not known."""

    length: int | None

    async def piece(self) -> bytes:
        """Return the next part of the body; b"" at its end."""
        ...


class UpstreamRequest(Struct):
    """One HTTP request. The transport writes framing and connection headers itself and ignores those in `headers`.

    `upload`: takes the place of `body`. It is read once; what it raises is raised by `send`.
    """

    method: str
    url: str
    headers: HeaderPairs
    body: bytes
    timeouts: UpstreamTimeouts = field(default_factory=UpstreamTimeouts)
    upload: BodySource | None = None
    connect_seconds: float | None = None
    """how long a new connection took, set by the transport that has opened one"""
    unsent: bool = False
    """whether the transport knows that the upstream has got nothing of it"""

    def __repr__(self) -> str:
        """Leave out headers, query and body: they hold secrets."""
        parts = urlsplit(self.url)
        return f"UpstreamRequest({self.method} {parts.scheme}://{parts.hostname}{parts.path}, {len(self.body)} bytes)"


class UpstreamResponse(Protocol):
    """A response whose headers have arrived and whose body may still be on its way. Read all of it, or close it.

    Cancelling a task that awaits `read` or `chunk` closes the upstream connection, as `aclose` does.
    """

    status: int
    headers: list[tuple[str, str]]
    """All headers in order, with names in lower case."""

    @property
    def complete(self) -> bool:
        """Return True if all of the body has arrived, so that reading it does not wait."""
        ...

    async def read(self, limit: int) -> bytes:
        """Return the whole body. Raise `UpstreamProtocolError` if it is larger than `limit` bytes."""
        ...

    async def chunk(self) -> bytes:
        """Return the bytes that have arrived since the last call, or wait for the next ones; b"" at the end.

        Between calls the socket is read only up to a limit, so a slow reader slows the upstream down.
        """
        ...

    async def pour(self, take: Callable[[bytes], bool]) -> None:
        """Call `take` with all bytes, as they arrive, until the end of the body or until `take` returns True.

        `take` is called from the protocol's callback, without a task in between, and must not block.
        """
        ...

    def hold(self, held: bool) -> None:
        """Stop reading from the upstream's socket, or start again."""
        ...

    def release(self, seconds: float) -> None:
        """Stop using the response. The upstream has this many seconds to finish it, so that the connection can be
        used again.
        """
        ...

    async def aclose(self) -> None:
        """Close the connection at once unless the body is complete or released."""
        ...


class Transport(Protocol):
    """A way to send requests. Cancelling a `send` closes the connection that it uses or opens."""

    async def send(self, request: UpstreamRequest) -> UpstreamResponse:
        """Send a request and return the response as soon as its headers are complete. Raise UpstreamError."""
        ...

    async def reach(self, url: str, seconds: float) -> None:
        """Open a connection to the server of an address, and keep it for a request. Raise UpstreamError."""
        ...

    async def aclose(self) -> None:
        """Close every connection, also those in use."""
        ...
