"""The seam between the gateway and the network: what is asked of an upstream, and what comes back.

Everything above talks to `Transport`; tests and other networks can put their own behind it. Failures are the
`Upstream…` errors of `trilogue.errors`, and their texts name no host, no path and no header.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol
from urllib.parse import urlsplit

from msgspec import Struct, field

HeaderPairs = tuple[tuple[str, str], ...]


class UpstreamTimeouts(Struct, frozen=True):
    """Clocks on progress, in seconds; there is none on the whole.

    `connect`: until the connection, its TLS and its proxy are ready. `first_byte`: from then until the answer's
    headers are complete. `between`: each wait for more of the body; None if whoever reads it has a clock of its own.
    """

    connect: float = 5
    first_byte: float = 60
    between: float | None = 120


class UpstreamRequest(Struct):
    """One HTTP request. Framing and connection headers are the transport's own: those in `headers` are ignored."""

    method: str
    url: str
    headers: HeaderPairs
    body: bytes
    timeouts: UpstreamTimeouts = field(default_factory=UpstreamTimeouts)

    def __repr__(self) -> str:
        """Without headers, query and body: they hold secrets."""
        parts = urlsplit(self.url)
        return f"UpstreamRequest({self.method} {parts.scheme}://{parts.hostname}{parts.path}, {len(self.body)} bytes)"


class UpstreamResponse(Protocol):
    """An answer whose headers are here and whose body may still be coming. Read it to its end, or close it.

    Cancelling a task that awaits `read` or `chunk` closes the upstream connection, as `aclose` does.
    """

    status: int
    headers: list[tuple[str, str]]
    """in order, names in lower case"""

    @property
    def complete(self) -> bool:
        """All of the body has arrived, so that nobody will have to wait for it."""
        ...

    async def read(self, limit: int) -> bytes:
        """The whole body; `UpstreamProtocolError` if it is larger than `limit` bytes."""
        ...

    async def chunk(self) -> bytes:
        """What has arrived since the last call, or the next bytes to arrive; b"" at the end.

        While nobody asks, the upstream is held back by its own socket.
        """
        ...

    async def pour(self, take: Callable[[bytes], bool]) -> None:
        """Hand over what has arrived and whatever comes, as it comes, until the end or until `take` has enough.

        `take` is called from where the bytes come from, with no task in between, and must not wait.
        """
        ...

    def hold(self, held: bool) -> None:
        """Leave what comes in the upstream's socket for the time being, or no longer."""
        ...

    def release(self, seconds: float) -> None:
        """The answer is complete for its reader: what is left may still come for so long, so that the connection can
        be used again.
        """
        ...

    async def aclose(self) -> None:
        """Done with it: if the body is not complete, and not released, the connection is dropped at once."""
        ...


class Transport(Protocol):
    """Sends requests. Cancelling a `send` closes the connection it was using or opening."""

    async def send(self, request: UpstreamRequest) -> UpstreamResponse:
        """The answer as soon as its headers are complete."""
        ...

    async def aclose(self) -> None:
        """Close every connection."""
        ...
