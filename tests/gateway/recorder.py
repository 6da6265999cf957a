"""What goes over the wire between an official client and the gateway, kept as bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx2

from tests.judges.loss_header import codes


@dataclass
class Exchange:
    """One request and its answer, as far as the client has read it."""

    request: httpx2.Request
    status: int
    headers: httpx2.Headers
    pieces: list[bytes] = field(default_factory=list)

    @property
    def asked(self) -> dict[str, Any]:
        """The request's body."""
        return dict(json.loads(self.request.content))

    @property
    def body(self) -> bytes:
        """The bytes of the answer."""
        return b"".join(self.pieces)

    @property
    def streamed(self) -> bool:
        return self.headers["content-type"].startswith("text/event-stream")

    @property
    def losses(self) -> list[str]:
        """The codes in `trilogue-loss`, each once."""
        return codes(self.headers)


class _Copied(httpx2.SyncByteStream):
    def __init__(self, stream: httpx2.SyncByteStream, pieces: list[bytes]) -> None:
        self._stream = stream
        self._pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._stream:
            self._pieces.append(piece)
            yield piece

    def close(self) -> None:
        self._stream.close()


class Recorder(httpx2.BaseTransport):
    """The usual transport, with a copy of all that comes back."""

    def __init__(self, inner: httpx2.BaseTransport | None = None) -> None:
        self._inner = inner or httpx2.HTTPTransport()
        self.exchanges: list[Exchange] = []

    @property
    def last(self) -> Exchange:
        return self.exchanges[-1]

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        response = self._inner.handle_request(request)
        exchange = Exchange(request, response.status_code, response.headers)
        self.exchanges.append(exchange)
        if response.is_closed:
            # A transport of ours in process: the response is whole already.
            exchange.pieces.append(response.content)
            return response
        assert isinstance(response.stream, httpx2.SyncByteStream)
        response.stream = _Copied(response.stream, exchange.pieces)
        return response

    def close(self) -> None:
        self._inner.close()
