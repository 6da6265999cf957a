"""The demo model behind the seam of upstreams: it is asked and answers like one, in its protocol, without a network.

So that nothing above needs to know that it is not real. Paths are recognised by their ends; hosts, keys and clocks of
a request do not matter.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from secrets import token_hex
from typing import Protocol as Interface
from urllib.parse import urlsplit

from trilogue.demo.model import PACE, DemoModel
from trilogue.errors import ClientError, UpstreamProtocolError
from trilogue.jsontext.text import dump, parse_request
from trilogue.model import Collector, Event, Failed, Failure, FailureKind, Json, Request
from trilogue.protocols.registry import codec
from trilogue.protocols.stream.reply import Reply

_ANSWER, _COUNT, _MODELS = "/responses", "/responses/input_tokens", "/models"


class DemoRequest(Interface):
    """What the demo reads of a request."""

    method: str
    url: str
    body: bytes


class DemoResponse:
    """An answer of the demo: all bytes at once, or a stream of them."""

    def __init__(self, status: int, headers: list[tuple[str, str]], body: AsyncIterator[bytes]) -> None:
        self.status = status
        self.headers = headers
        self._body: AsyncIterator[bytes] | None = body
        self.complete = False
        """unknown: it is made as it is read"""

    async def read(self, limit: int) -> bytes:
        """The whole body."""
        body = bytearray()
        while data := await self.chunk():
            body += data
            if len(body) > limit:
                raise UpstreamProtocolError(f"the upstream's answer is larger than {limit} bytes")
        return bytes(body)

    async def chunk(self) -> bytes:
        """The next bytes, b"" at the end."""
        if self._body is None:
            return b""
        return await anext(self._body, b"")

    async def pour(self, take: Callable[[bytes], bool]) -> None:
        """Everything, at its pace."""
        while (data := await self.chunk()) and not take(data):
            pass

    def hold(self, held: bool) -> None:
        """Nothing to do: an answer of the demo is short."""

    def release(self, seconds: float) -> None:
        """Nothing to do: there is no connection."""

    async def aclose(self) -> None:
        """Say no more."""
        self._body = None


class DemoTransport:
    """`pace`: seconds per word of a streamed answer. `clock`: wall-clock seconds, for the time stamps of answers."""

    def __init__(self, *, pace: float = PACE, clock: Callable[[], float] = time.time) -> None:
        self._model = DemoModel(token_hex(8))
        self._codec = codec(self._model.protocol)
        self._pace = pace
        self._clock = clock

    async def send(self, request: DemoRequest) -> DemoResponse:
        """Answer it."""
        path = urlsplit(request.url).path
        head, _, wanted = path.rpartition(_MODELS)
        try:
            if request.method == "GET" and (head or path.startswith(_MODELS)):
                return self._models(wanted.strip("/"))
            body = parse_request(request.body)
            asked = self._codec.decode_request(body)
        except ClientError as error:
            kind = FailureKind.INVALID_REQUEST
            return self._failure(Failure(kind=kind, message=error.message, param=error.path or None, code=error.code))
        if path.endswith(_COUNT):
            return _json(200, {"object": "response.input_tokens", "input_tokens": self._model.count(asked)})
        if not path.endswith(_ANSWER):
            return self._failure(Failure(kind=FailureKind.NOT_FOUND, message="the demo has no such endpoint"))
        return await self._answer(asked, self._reply(asked, body))

    async def aclose(self) -> None:
        """There is nothing to close."""

    def _reply(self, asked: Request, body: dict[str, Json]) -> Reply:
        source = self._model.protocol
        return Reply(body=body, model=asked.model, created=int(self._clock()), clock=self._clock, source=source)

    async def _answer(self, asked: Request, reply: Reply) -> DemoResponse:
        if not asked.stream:
            return self._whole(asked, reply)
        events = self._model.answer(asked, pace=self._pace)
        first = await anext(events)
        if isinstance(first, Failed):
            return self._failure(first.failure)
        headers = [("content-type", "text/event-stream; charset=utf-8")]
        return DemoResponse(200, headers, self._stream(first, events, reply))

    def _whole(self, asked: Request, reply: Reply) -> DemoResponse:
        collector = Collector()
        for event in self._model.events(asked):
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
