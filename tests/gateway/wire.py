"""Requests by hand over a socket, and what an answer amounts to: complete, an HTTP error, or an error in the stream.

No client library: what a library would repair or hide is what these tests look for.
"""

from __future__ import annotations

import asyncio
import errno
import json
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from tests.gateway.running import CLIENT_KEY
from tests.scripted.ask import PATHS, body
from tests.scripted.server import ScriptedUpstream
from tests.timing import eventually_async
from trilogue.model import Protocol

Case = tuple[Protocol, Protocol, bool]
"""client, upstream, streamed"""
CASES: list[Case] = list(product(Protocol, Protocol, (False, True)))

_ENDS = {
    Protocol.CHAT: {"[DONE]"},
    Protocol.MESSAGES: {"message_stop"},
    Protocol.RESPONSES: {"response.completed", "response.incomplete"},
}
_FAILURES = {Protocol.CHAT: {"error"}, Protocol.MESSAGES: {"error"}, Protocol.RESPONSES: {"response.failed", "error"}}


@dataclass
class Answer:
    """An HTTP answer as it came. `whole`: its framing says that it is complete."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    whole: bool = False
    raw: bytes = b""

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def streamed(self) -> bool:
        return self.headers.get("content-type", "").startswith("text/event-stream")

    @property
    def events(self) -> list[tuple[str, Any]]:
        """Name (or type) and data of every event; comments are not events."""
        found = []
        for block in self.body.decode().split("\n\n"):
            lines = [line for line in block.split("\n") if line and not line.startswith(":")]
            data = "".join(line.removeprefix("data: ") for line in lines if line.startswith("data: "))
            if data == "[DONE]":
                found.append(("[DONE]", None))
            elif data:
                value = json.loads(data)
                found.append((value.get("type") or ("error" if "error" in value else "chunk"), value))
        return found


@dataclass(frozen=True)
class Outcome:
    """What a client is left with. `how`: complete, http (an error instead of the answer), stream (an error inside)."""

    how: str
    status: int = 0
    kind: str = ""
    code: str = ""
    message: str = ""


def payload(client: Protocol, model: str, *, stream: bool, **more: Any) -> bytes:
    """A small request."""
    return json.dumps(body(client, model, stream=stream, tools=False) | more).encode()


def post(path: str, data: bytes, headers: Mapping[str, str] | None = None, *, key: str | None = CLIENT_KEY) -> bytes:
    """The bytes of a POST."""
    auth = {"authorization": f"Bearer {key}"} if key is not None else {}
    fields = {"host": "127.0.0.1", "content-type": "application/json", "content-length": str(len(data))}
    lines = [f"{name}: {value}" for name, value in (fields | auth | dict(headers or {})).items()]
    return "\r\n".join([f"POST {path} HTTP/1.1", *lines, "", ""]).encode("latin-1") + data


def request(client: Protocol, model: str, *, stream: bool, **more: Any) -> bytes:
    """The bytes of a small request."""
    return post(PATHS[client], payload(client, model, stream=stream, **more), {"connection": "close"})


async def exchange(url: str, data: bytes, seconds: float = 10) -> Answer:
    """Send this on a new connection; the answer, as far as it came before the gateway closed or time was up."""
    reader, writer = await asyncio.open_connection(*address(url))
    try:
        with suppress(ConnectionError):
            writer.write(data)
            await writer.drain()
        return parse(await read_all(reader, seconds))
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def read_all(reader: asyncio.StreamReader, seconds: float) -> bytes:
    """Until the end of the connection, or of the answer, or of the time."""
    data = b""
    with suppress(TimeoutError, ConnectionError):
        async with asyncio.timeout(seconds):
            while (piece := await reader.read(65536)) and not parse(data := data + piece).whole:
                pass
    return data


def address(url: str) -> tuple[str, int]:
    """Host and port."""
    host, port = url.removeprefix("http://").split(":")
    return host, int(port)


def parse(data: bytes) -> Answer:
    """The first final answer in these bytes."""
    head, found, rest = data.partition(b"\r\n\r\n")
    if not found:
        return Answer(raw=data)
    line, *lines = head.decode("latin-1").split("\r\n")
    status = int(line.split(" ")[1])
    if status < 200:
        return parse(rest)
    headers = {name.lower(): value.strip() for name, _, value in (text.partition(":") for text in lines)}
    if headers.get("transfer-encoding") == "chunked":
        content, whole = _unchunk(rest)
    else:
        content = rest[: int(headers.get("content-length", 0))]
        whole = len(content) == int(headers.get("content-length", 0))
    return Answer(status, headers, content, whole, data)


def _unchunk(data: bytes) -> tuple[bytes, bool]:
    pieces: list[bytes] = []
    while b"\r\n" in data:
        size, _, data = data.partition(b"\r\n")
        length = int(size, 16)
        if not length:
            return b"".join(pieces), data == b"\r\n"
        if len(data) < length + 2:
            break
        pieces.append(data[:length])
        data = data[length + 2 :]
    return b"".join(pieces), False


def outcome(answer: Answer, client: Protocol) -> Outcome:
    """Exactly one of the three; anything else is a fault of the gateway."""
    assert answer.whole, f"cut off: {answer.raw[-300:]!r}"
    if not answer.streamed:
        return _whole(answer, client)
    assert answer.status == 200
    kinds = [kind for kind, _ in answer.events]
    ends = [kind for kind in kinds if kind in _ENDS[client]]
    failures = [(kind, value) for kind, value in answer.events if kind in _FAILURES[client]]
    assert bool(ends) != bool(failures), f"ends {ends}, failures {failures}: {answer.body[-500:]!r}"
    assert [kind for kind, _ in failures] in ([], ["error"], ["response.failed"], ["error", "response.failed"])
    assert kinds[-1] in _ENDS[client] | _FAILURES[client], f"something follows the end: {answer.body[-500:]!r}"
    if ends:
        return Outcome("complete")
    return _described("stream", 200, failures[-1][1], client)


def _whole(answer: Answer, client: Protocol) -> Outcome:
    value = answer.json
    if answer.status == 200:
        assert "error" not in value or value["error"] is None
        return Outcome("complete")
    return _described("http", answer.status, value, client)


def _described(how: str, status: int, value: dict[str, Any], client: Protocol) -> Outcome:
    if client is Protocol.MESSAGES:
        assert value["type"] == "error"
    if value.get("type") == "response.failed":
        assert value["response"]["status"] == "failed"
        value = value["response"]
    error = value["error"] if isinstance(value.get("error"), dict) else value
    assert isinstance(error["message"], str)
    assert error["message"]
    return Outcome(how, status, error.get("type") or "", error.get("code") or "", error["message"])


def is_refused(place: tuple[str, int]) -> bool:
    """Return whether nobody listens there."""
    with socket.socket() as new:
        return new.connect_ex(place) == errno.ECONNREFUSED


async def reached(up: ScriptedUpstream, count: int) -> None:
    """Wait until the upstream has been asked this often."""
    await eventually_async(lambda: len(up.requests) >= count)


async def outcomes(url: str, scenario: str, **more: Any) -> dict[str, Outcome]:
    """The same scenario for all 3 clients, 3 upstreams, streamed and not, at the same time."""

    async def one(case: Case) -> Outcome:
        client, upstream, stream = case
        data = request(client, f"{upstream.short}/{scenario}", stream=stream, **more)
        return outcome(await exchange(url, data), client)

    found = await asyncio.gather(*map(one, CASES), return_exceptions=True)
    return {name(case): _raised(name(case), result) for case, result in zip(CASES, found, strict=True)}


def _raised(case: str, result: Outcome | BaseException) -> Outcome:
    if isinstance(result, BaseException):
        raise AssertionError(f"{case}: {result}") from result
    return result


def name(case: Case) -> str:
    client, upstream, stream = case
    return f"{client.short}-{upstream.short}-{'stream' if stream else 'whole'}"
