"""An upstream for tests: a real server on loopback that speaks all three protocols and does what the model name says.

The rows of `scenario.ANSWERS` are responses (`text`, `tools`, `reasoning`…), those of `errors.ERRORS` are errors
(`error-429`…), those of `scenario.FAULTS` break the connection (`reset-mid`…), and `slow-30-50` is slow. Requests are
recorded and checked as official APIs check them: the key, the JSON, and that returned reasoning was made here.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Self

from tests.scripted.errors import BAD_BODY, BAD_KEY, BAD_SIGNATURE, ERRORS, NO_MODEL, NO_PATH
from tests.scripted.http import Recorded, Step, WatchedReader, json_answer, perform, read_request
from tests.scripted.scenario import ANSWERS, FAULTS, plan
from tests.scripted.steps import answer_steps, error_steps
from tests.scripted.tokens import Ids
from tests.scripted.wire import CHAT, MESSAGES, RESPONSES, WIRES, Wire

KEY = "up-key"
MODELS = (*ANSWERS, *FAULTS, *ERRORS, "slow")


class ScriptedUpstream:
    """A scripted upstream: `async with ScriptedUpstream() as up:` then `up.url`, `up.requests`.

    `keys` are the keys that it accepts, in either header. `aliases` maps further model names to scenarios, for clients
    that insist on certain names. `by_key` maps keys to scenarios, whatever the model is.
    """

    def __init__(self, keys: Iterable[str] = (KEY,), aliases: dict[str, str] | None = None) -> None:
        self.keys = set(keys)
        self.aliases = dict(aliases or {})
        self.by_key: dict[str, str] = {}
        self.requests: list[Recorded] = []
        self.url = ""
        self.tls: ssl.SSLContext | None = None
        """set before the start to use TLS"""
        self.connections = 0
        self._raw: deque[Iterable[Step]] = deque()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def say(self, *steps: Step) -> None:
        """Respond to the next request with exactly this, whatever the request is."""
        self._raw.append(steps)

    @property
    def waiting(self) -> int:
        """Return how many of these responses have not been requested yet."""
        return len(self._raw)

    def last(self, path: str = "") -> Recorded:
        """Return the last request, or the last one to a path."""
        return next(request for request in reversed(self.requests) if path in ("", request.path))

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._protocol, "127.0.0.1", 0, ssl=self.tls)
        scheme = "http" if self.tls is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _protocol(self) -> asyncio.StreamReaderProtocol:
        reader = WatchedReader()

        def connected(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.connections += 1
            task = asyncio.get_running_loop().create_task(self._serve(reader, writer, self.connections))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        return asyncio.StreamReaderProtocol(reader, connected)

    async def _serve(self, reader: WatchedReader, writer: asyncio.StreamWriter, connection: int) -> None:
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                while True:
                    request = await read_request(reader, connection)
                    self.requests.append(request)
                    if not await self._answer(request, reader, writer):
                        break
        finally:
            writer.close()

    async def _answer(self, request: Recorded, reader: WatchedReader, writer: asyncio.StreamWriter) -> bool:
        """Send the response unless the client disconnects first."""
        steps = self._raw.popleft() if self._raw else self._steps(request, len(self.requests))
        answering = asyncio.create_task(perform(steps, writer))
        leaving = asyncio.create_task(self._watch(request, reader))
        try:
            await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                return False
            request.complete = answering.exception() is None
            return answering.result()
        finally:
            answering.cancel()
            if request.complete:
                self._tasks.add(leaving)
                leaving.add_done_callback(self._tasks.discard)
            else:
                leaving.cancel()

    async def _watch(self, request: Recorded, reader: WatchedReader) -> None:
        await reader.closed.wait()
        request.closed = reader.closed_at

    def _steps(self, request: Recorded, number: int) -> Iterable[Step]:
        wire = _wire_of(request)
        if self.keys and not self._authorised(request):
            return error_steps(BAD_KEY, wire, number)
        if request.method == "GET" and request.path.startswith("/v1/models"):
            return self._models(request, number)
        try:
            body = json.loads(request.body)
        except ValueError:
            return error_steps(BAD_BODY, wire, number)
        if request.path in COUNTERS:
            return [
                json_answer(
                    200, wire.headers(Ids(number)), COUNTERS[request.path] | {"input_tokens": len(request.body) // 4}
                )
            ]
        if request.path not in WIRES or not isinstance(body, dict):
            return error_steps(NO_PATH, wire, number)
        return self._scenario(body, wire, number, self.by_key.get(key_of(request), ""))

    def _scenario(self, body: dict[str, Any], wire: Wire, number: int, scenario: str) -> Iterable[Step]:
        asked = wire.read(body)
        model = scenario or self.aliases.get(asked.model, asked.model)
        if model in ERRORS:
            return error_steps(ERRORS[model], wire, number)
        if asked.foreign:
            return error_steps(BAD_SIGNATURE, wire, number)
        planned = plan(model, asked.seen)
        if planned is None:
            return error_steps(NO_MODEL, wire, number)
        return answer_steps(planned, wire, asked, number)

    def _authorised(self, request: Recorded) -> bool:
        bearer = (request.header("authorization") or "").removeprefix("Bearer ")
        return key_of(request) in self.by_key or bool(
            self.keys & {bearer, request.header("x-api-key") or "", request.header("api-key") or ""}
        )

    def _models(self, request: Recorded, number: int) -> Iterable[Step]:
        wire = _wire_of(request)
        names = [*MODELS, *self.aliases]
        wanted = request.path.removeprefix("/v1/models").strip("/")
        describe = _anthropic_model if wire.anthropic else _openai_model
        if wanted and wanted not in names:
            return error_steps(NO_MODEL, wire, number)
        listed = [describe(name) for name in names]
        if wanted:
            body = describe(wanted)
        elif wire.anthropic:
            body = {"data": listed, "has_more": False, "first_id": names[0], "last_id": names[-1]}
        else:
            body = {"object": "list", "data": listed}
        return [json_answer(200, wire.headers(Ids(number)), body)]


COUNTERS: dict[str, dict[str, Any]] = {
    "/v1/messages/count_tokens": {},
    "/v1/responses/input_tokens": {"object": "response.input_tokens"},
}


def key_of(request: Recorded) -> str:
    """Return the key of a request, from either header."""
    bearer = (request.header("authorization") or "").removeprefix("Bearer ")
    return bearer or request.header("x-api-key") or request.header("api-key") or ""


def _wire_of(request: Recorded) -> Wire:
    """Return the protocol of a path. For shared paths, the client's headers decide."""
    for wire in (CHAT, MESSAGES, RESPONSES):
        if request.path.startswith(wire.path):
            return wire
    return MESSAGES if request.header("anthropic-version") else CHAT


def _openai_model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 1_780_000_000, "owned_by": "scripted"}


def _anthropic_model(name: str) -> dict[str, Any]:
    return {"type": "model", "id": name, "display_name": name.title(), "created_at": "2026-05-14T00:00:00Z"}
