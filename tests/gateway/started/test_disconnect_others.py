"""A client that leaves while it waits for a list of models, a count, or for us to find out who has its model."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.gateway.process import Started, started, until
from tests.gateway.running import CLIENT_KEY
from tests.gateway.started.test_disconnect import PATIENT, SECONDS, leave
from tests.gateway.wire import exchange, payload, post, reached, request
from tests.scripted.http import Do
from tests.scripted.server import ScriptedUpstream
from tests.timing import check_within, pause_for
from trilogue.model import Protocol

LISTS = len(Protocol)
"""every provider is asked for its list"""


def get(path: str) -> bytes:
    lines = [f"GET {path} HTTP/1.1", "host: 127.0.0.1", f"authorization: Bearer {CLIENT_KEY}", "", ""]
    return "\r\n".join(lines).encode()


def count(path: str, client: Protocol, upstream: Protocol) -> bytes:
    return post(path, payload(client, f"{upstream.short}/text", stream=False))


MESSAGES, RESPONSES = "/v1/messages/count_tokens", "/v1/responses/input_tokens"
WAITING: dict[str, tuple[bytes, int]] = {
    "list": (get("/v1/models"), LISTS),
    "one": (get("/v1/models/nobody"), LISTS),
    "count": (count(MESSAGES, Protocol.MESSAGES, Protocol.MESSAGES), 1),
    "count, translated": (count(MESSAGES, Protocol.MESSAGES, Protocol.RESPONSES), 1),
    "input tokens": (count(RESPONSES, Protocol.RESPONSES, Protocol.RESPONSES), 1),
    "input tokens, translated": (count(RESPONSES, Protocol.RESPONSES, Protocol.MESSAGES), 1),
    "chat, unknown model": (request(Protocol.CHAT, "nobody", stream=True), LISTS),
    "messages, unknown model": (request(Protocol.MESSAGES, "nobody", stream=False), LISTS),
    "count, unknown model": (post(MESSAGES, payload(Protocol.MESSAGES, "nobody", stream=False)), LISTS),
}


@pytest.fixture(scope="module")
def patient(up: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    with started(tmp_path_factory.mktemp("patient"), PATIENT, up.url) as gateway:
        yield gateway


@pytest.mark.parametrize("case", WAITING)
@pytest.mark.parametrize("headers", [False, True], ids=["before headers", "after headers"])
def test_the_upstream_is_let_go(patient: Started, up: ScriptedUpstream, case: str, headers: bool) -> None:
    """Within 100 ms, as for every other request; in the log it is the client's leaving."""
    data, asked = WAITING[case]
    up.requests.clear()
    for _ in range(asked):
        up.say(*([b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{"] if headers else []), Do.HANG)

    async def ready(_: asyncio.StreamReader) -> None:
        await reached(up, asked)

    lines = patient.log.count('"error":"client_gone"')
    left = asyncio.run(leave(patient.url, data, ready))
    for one in up.requests:
        until(lambda one=one: one.closed is not None)  # type: ignore[misc]
        assert one.closed is not None
        check_within(one.closed - left, SECONDS)
    until(lambda: patient.log.count('"error":"client_gone"') == lines + 1)
    assert '"level":"error"' not in patient.log


def test_others_still_get_their_list(patient: Started, up: ScriptedUpstream) -> None:
    """Who waits for the same list goes on waiting, and gets it."""
    up.requests.clear()
    for _ in range(LISTS):
        up.say(Do.HANG)

    async def main() -> int:
        async def ready(_: asyncio.StreamReader) -> None:
            await reached(up, LISTS)
            waiting.append(asyncio.create_task(exchange(patient.url, get("/v1/models"))))
            await pause_for(0.05)

        waiting: list[asyncio.Task[object]] = []
        await leave(patient.url, get("/v1/models"), ready)
        answer = await waiting[0]
        return int(getattr(answer, "status", 0))

    assert asyncio.run(main()) == 200
