"""The demo model as an upstream: it takes HTTP requests and returns HTTP responses, without a network.

It has the interface of the HTTP transport, so that the gateway does not need to know that it is not a real upstream.
Endpoints are recognized by the end of the path. Host, headers and time limits of a request are ignored.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from secrets import token_hex
from typing import Protocol as Interface
from urllib.parse import urlsplit

from trilogue.base.json_text import dump, parse_request
from trilogue.errors import ClientError, UpstreamProtocolError
from trilogue.model import Collector, Event, Failed, Failure, FailureKind, Json, Request
from trilogue.protocols.registry import codec
from trilogue.protocols.stream.response_context import Reply
from trilogue.upstreams.demo.model import PACE, DemoModel
from trilogue.upstreams.demo.request import orphaned_result

_RESPONSES, _COUNT, _MODELS = "/responses", "/responses/input_tokens", "/models"


class DemoRequest(Interface):
    """The parts of an upstream request that the demo reads."""

    method: str
    url: str
    body: bytes


class DemoResponse:
    """An upstream response of the demo. The methods are those of the HTTP transport's responses."""

    def __init__(self, status: int, headers: list[tuple[str, str]], body: AsyncIterator[bytes]) -> None:
        self.status = status
        self.headers = headers
        self._body: AsyncIterator[bytes] | None = body
        self.complete = False
        """always False: the body is made while it is read"""

    async def read(self, limit: int) -> bytes:
        """Return the whole body. Raises UpstreamProtocolError if it is larger than `limit` bytes."""
        body = bytearray()
        while data := await self.chunk():
            body += data
            if len(body) > limit:
                raise UpstreamProtocolError(f"the upstream's response is larger than {limit} bytes")
        return bytes(body)

    async def chunk(self) -> bytes:
        """Return the next bytes, or b"" at the end."""
        if self._body is None:
            return b""
        return await anext(self._body, b"")

    async def pour(self, take: Callable[[bytes], bool]) -> None:
        """Pass all bytes to `take` as they are made, until it returns True."""
        while (data := await self.chunk()) and not take(data):
            pass

    def hold(self, held: bool) -> None:
        """Do nothing: responses of the demo are too short to need flow control."""

    def release(self, seconds: float) -> None:
        """Do nothing: there is no connection to give back."""

    async def aclose(self) -> None:
        """Drop the rest of the body."""
        self._body = None


class DemoTransport:
    """The demo model with the interface of a transport.

    `pace` is the time per word of a streamed response, in seconds. `clock` supplies the timestamps of responses.
    """

    def __init__(self, *, pace: float = PACE, clock: Callable[[], float] = time.time) -> None:
        # Ids must differ between workers and restarts, because clients distinguish responses by them.
        self._model = DemoModel(token_hex(8))
        self._codec = codec(self._model.protocol)
        self._pace = pace
        self._clock = clock

    async def send(self, request: DemoRequest) -> DemoResponse:
        """Return the response of the endpoint that the path names, or an error response."""
        path = urlsplit(request.url).path
        head, _, wanted = path.rpartition(_MODELS)
        try:
            if request.method == "GET" and (head or path.startswith(_MODELS)):
                return self._models(wanted.strip("/"))
            body = parse_request(request.body)
            decoded = self._codec.decode_request(body)
        except ClientError as error:
            kind = FailureKind.INVALID_REQUEST
            return self._failure(Failure(kind=kind, message=error.message, param=error.path or None, code=error.code))
        if path.endswith(_COUNT):
            return _json(200, {"object": "response.input_tokens", "input_tokens": self._model.count(decoded)})
        if not path.endswith(_RESPONSES):
            return self._failure(Failure(kind=FailureKind.NOT_FOUND, message="the demo has no such endpoint"))
        if orphan := orphaned_result(decoded):
            # In the words of the API.
            text = f"No tool call found for function call output with call_id {orphan}."
            return self._failure(Failure(kind=FailureKind.INVALID_REQUEST, message=text, param="input"))
        return await self._respond(decoded, self._reply(decoded, body))

    async def reach(self, url: str, seconds: float) -> None:
        """Do nothing: the model is always there."""

    async def aclose(self) -> None:
        """Do nothing: there are no connections."""

    def _reply(self, request: Request, body: dict[str, Json]) -> Reply:
        """Return what the encoder needs to know of the request."""
        source = self._model.protocol
        return Reply(body=body, model=request.model, created=int(self._clock()), clock=self._clock, source=source)

    async def _respond(self, request: Request, reply: Reply) -> DemoResponse:
        """Return a stream, a complete body, or an error if the first event is one."""
        if not request.stream:
            return self._complete_body(request, reply)
        events = self._model.stream(request, pace=self._pace)
        first = await anext(events)
        if isinstance(first, Failed):
            return self._failure(first.failure)
        headers = [("content-type", "text/event-stream; charset=utf-8")]
        return DemoResponse(200, headers, self._stream(first, events, reply))

    def _complete_body(self, request: Request, reply: Reply) -> DemoResponse:
        collector = Collector()
        for event in self._model.events(request):
            if isinstance(event, Failed):
                return self._failure(event.failure)
            collector.feed(event)
        return _json(200, self._codec.encode_response(collector.response(), reply))

    async def _stream(self, first: Event, rest: AsyncIterator[Event], reply: Reply) -> AsyncIterator[bytes]:
        encoder = self._codec.encoder(reply)
        yield encoder.encode([first])
        async for event in rest:
            if data := encoder.encode([event]):
                yield data

    def _models(self, wanted: str) -> DemoResponse:
        """Return the list of models, or the one that is wanted."""
        listed = [{"id": name, "object": "model", "created": 0, "owned_by": "trilogue"} for name in self._model.models]
        if not wanted:
            return _json(200, {"object": "list", "data": listed})
        found = [model for model in listed if model["id"] == wanted]
        if found:
            return _json(200, found[0])
        return self._failure(Failure(kind=FailureKind.MODEL_NOT_FOUND, message=f"there is no demo model {wanted!r}"))

    def _failure(self, failure: Failure) -> DemoResponse:
        reply = self._codec.encode_error(failure, "")
        return _json(reply.status, reply.body)


def _json(status: int, body: dict[str, Json]) -> DemoResponse:
    return DemoResponse(status, [("content-type", "application/json")], _once(dump(body)))


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data
