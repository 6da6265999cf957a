"""A provider with a single account, on real sockets: with nobody else to answer, it is given another chance soon."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from itertools import product

import pytest

from tests.gateway.pooling import Pooled, accepting, account, config, pooled, secret
from tests.gateway.wire import Answer, outcome
from tests.scripted import thread
from tests.scripted.http import json_answer
from tests.timing import eventually, eventually_async
from trilogue.model import Protocol

WAYS = list(product(Protocol, (False, True)))
SLOW_DOWN = {"type": "error", "error": {"type": "rate_limit_error", "code": None, "message": "Slow down."}}


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pooled]:
    with (
        thread.running(accepting("a")) as up,
        pooled(tmp_path_factory.mktemp("single"), config([account("a")]), up) as running,
    ):
        yield running


def limit_once(pool: Pooled, seconds: str) -> None:
    pool.renew()
    pool.up.say(json_answer(429, [("retry-after", seconds)], SLOW_DOWN))


def test_a_short_rest_is_waited_out(pool: Pooled) -> None:
    """The client that was limited gets its answer, and so does one that comes meanwhile."""
    limit_once(pool, "1")

    async def main() -> list[Answer]:
        first = asyncio.create_task(pool.asking(Protocol.CHAT, "chat/text", stream=False))
        await eventually_async(lambda: pool.accounts()["chat/a"]["models"])
        later = (pool.asking(client, "chat/text", stream=stream) for client, stream in WAYS)
        return await asyncio.gather(first, *later)

    began = time.monotonic()
    first, *later = asyncio.run(main())
    assert time.monotonic() - began >= 1.0
    assert outcome(first, Protocol.CHAT).how == "complete"
    assert [outcome(one, client).how for one, (client, _) in zip(later, WAYS, strict=True)] == ["complete"] * 6
    assert len(pool.asked()) == 8
    decision = pool.decision(first)
    assert [attempt["why"] for attempt in decision["attempts"]] == ["rate_limited", ""]
    assert 0.9 <= decision["waited"] <= 1.2


def test_a_long_cooldown_is_reported_at_once(pool: Pooled) -> None:
    """With the time to come back."""
    limit_once(pool, "30")
    for _ in range(2):
        answer = pool.ask(Protocol.CHAT, "chat/text")
        assert (answer.status, answer.headers["x-should-retry"]) == (429, "true")
        assert 28 <= int(answer.headers["retry-after"]) <= 30
    assert pool.asked() == ["a"]


def test_other_models_go_on(pool: Pooled) -> None:
    """A 429 that does not say what it is about stops the model that got it."""
    limit_once(pool, "30")
    assert pool.ask(Protocol.CHAT, "chat/text").status == 429
    assert pool.ask(Protocol.CHAT, "chat/another").status == 200


def test_a_single_401_costs_two_seconds(pool: Pooled) -> None:
    """Then the next request finds out that the key is good."""
    pool.renew(a="error-401")
    assert pool.ask(Protocol.CHAT, "chat/text").status == 503
    pool.up.by_key[secret("a")] = "text"

    def answered() -> Answer | None:
        answer = pool.ask(Protocol.CHAT, "chat/text")
        return answer if answer.status == 200 else None

    answer = eventually(answered)
    assert answer is not None
    assert pool.asked() == ["a", "a"]
    assert pool.decision(answer)["outcome"] == "answered"
