"""What each failure means for the request and for the account, on real sockets: every client, every upstream."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pytest

from tests.gateway.pooling import CLOCKS, SHORT_CLOCKS, Pooled, accepting, config, pooled, ranked
from tests.gateway.wire import CASES, Answer, outcome
from tests.scripted import thread
from tests.scripted.http import json_answer
from tests.timing import TooSlowError
from trilogue.model import Protocol

MANY = "pool: {retry_budget: {floor: 100000}}\n"


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pooled]:
    """Two accounts: `b` is used when `a` cannot be."""
    with serving(tmp_path_factory.mktemp("tiers"), CLOCKS) as running:
        yield running


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pooled]:
    """The same, for upstreams that hang."""
    with serving(tmp_path_factory.mktemp("hasty"), SHORT_CLOCKS) as running:
        yield running


@contextmanager
def serving(folder: Path, clocks: str) -> Iterator[Pooled]:
    text = config(ranked("a", "b"), provider="pool: {sticky: false, max_wait_seconds: 0}", more=MANY, clocks=clocks)
    with thread.running(accepting("a", "b")) as up, pooled(folder, text, up) as running:
        yield running


@dataclass(frozen=True)
class Row:
    """What becomes of account `a`: its state, and why."""

    state: str
    why: str


NEXT = {
    "error-403-tokens": Row("failing", "insufficient_tokens"),
    "error-429": Row("cooling", "rate_limited"),
    "error-402": Row("cooling", "out_of_"),
    "error-401": Row("refused", "bad_key"),
    "error-404": Row("ready", "model_not_found"),
    "error-500": Row("failing", "server_error"),
    "error-503": Row("failing", "overloaded"),
    "error-529": Row("failing", "overloaded"),
    "stream-error-first": Row("failing", "overloaded"),
    "html-200": Row("failing", "broken_answer"),
    "reset-before-headers": Row("failing", "network"),
    "hang-before-headers": Row("failing", "timeout"),
    "hang-after-headers": Row("failing", "timeout"),
}


def _state(pool: Pooled, upstream: Protocol, account: str) -> str:
    return str(pool.accounts()[f"{upstream.short}/{account}"]["state"])


def _answers(pool: Pooled, **scenarios: str) -> Iterator[tuple[Protocol, Protocol, Answer]]:
    """Ask for every client and every upstream, streamed or not, with accounts that nothing has happened to."""
    for client, stream in product(Protocol, (False, True)):
        pool.renew(**scenarios)
        for upstream, answer in pool.ask_all(client, "some-model", stream=stream).items():
            yield client, upstream, answer


@pytest.mark.parametrize("scenario", NEXT)
def test_the_next_account_responds(pool: Pooled, hasty: Pooled, scenario: str) -> None:
    """The client notices nothing; the account rests, is disabled, goes behind the others, or is as before."""
    pool = hasty if scenario.startswith("hang") else pool
    row = NEXT[scenario]
    for client, upstream, answer in _answers(pool, a=scenario):
        if answer.status == 504:
            raise TooSlowError("the second account had no time to answer either")
        assert outcome(answer, client).how == "complete"
        # A reused connection that is reset is tried once more on a new one: that is no second attempt.
        assert list(dict.fromkeys(pool.asked(upstream))) == ["a", "b"]
        assert _state(pool, upstream, "a") == row.state
        decision = pool.decision(answer)
        first, second = decision["attempts"]
        assert first["why"].startswith(row.why)
        assert (second["account"], second["action"], decision["outcome"]) == ("b", "answered", "answered")


def test_an_account_that_cools_down_is_not_used(pool: Pooled) -> None:
    """The second request goes to the other account at once, and the record says why."""
    for scenario, why in (("error-429", "cooling"), ("error-401", "refused")):
        pool.renew(a=scenario)
        pool.ask(Protocol.CHAT, "messages/some-model")
        pool.up.requests.clear()
        answer = pool.ask(Protocol.RESPONSES, "messages/some-model", stream=True)
        assert answer.status == 200
        assert pool.asked() == ["b"]
        assert [skipped["account"] for skipped in pool.decision(answer)["considered"][0]["skipped"]] == ["a"]
        assert _state(pool, Protocol.MESSAGES, "a") == why


def test_an_account_that_lacks_a_model_is_asked_for_others(pool: Pooled) -> None:
    """404 is about one model."""
    pool.renew(a="error-404")
    pool.ask(Protocol.CHAT, "chat/one")
    pool.up.by_key[next(iter(pool.up.by_key))] = "text"
    pool.up.requests.clear()
    pool.ask(Protocol.CHAT, "chat/one")
    pool.ask(Protocol.CHAT, "chat/two")
    assert pool.asked() == ["b", "a"]


@pytest.mark.parametrize(("scenario", "status"), [("error-403-cost", 403), ("error-400", 400)])
def test_the_clients_own_error(pool: Pooled, scenario: str, status: int) -> None:
    """Tier 1, and whatever is wrong with the request: nobody else is asked, the account is as before."""
    for client, upstream, answer in _answers(pool, a=scenario):
        assert (answer.status, outcome(answer, client).how) == (status, "http")
        assert pool.asked(upstream) == ["a"]
        assert _state(pool, upstream, "a") == "ready"
        assert pool.decision(answer)["outcome"] == "client"


@pytest.mark.parametrize("scenario", ["stream-error-mid", "reset-mid", "truncate-mid", "hang-mid", "malformed"])
def test_no_retry_after_the_first_byte(pool: Pooled, hasty: Pooled, scenario: str) -> None:
    """A stream that breaks off ends with an error inside; a whole answer has not begun, so another account gives it."""
    pool = hasty if scenario.startswith("hang") else pool
    for client, upstream, answer in _answers(pool, a=scenario):
        stream = answer.streamed
        assert outcome(answer, client).how == ("stream" if stream else "complete")
        assert pool.asked(upstream) == (["a"] if stream else ["a", "b"])
        decision = pool.decision(answer)
        assert decision["outcome"] == ("client" if stream else "answered")
        assert decision["attempts"][0]["action"] == "next"


def _error(answer: Answer, client: Protocol, status: int, again: str = "true") -> None:
    found = outcome(answer, client)
    assert (found.how, answer.status) == ("http", status)
    assert answer.headers["x-should-retry"] == again


@pytest.mark.parametrize(("scenario", "status"), [("error-429", 429), ("error-401", 503), ("error-402", 503)], ids=str)
def test_no_account_is_left(pool: Pooled, scenario: str, status: int) -> None:
    """429 if all are limited, with the time when the first one is back, else 503, never our 401; until then none is
    asked. Clients are not told to try again where only a person can help: keys that were refused, money that is gone.
    Nor are they given a time: Codex would wait for it, again and again, without a word.
    """
    retry = "true" if scenario == "error-429" else "false"
    for client, upstream, stream in CASES:
        pool.renew(a=scenario, b=scenario)
        _error(pool.ask(client, f"{upstream.short}/some-model", stream=stream), client, status, retry)
        assert pool.asked() == ["a", "b"]
        again = pool.ask(client, f"{upstream.short}/some-model", stream=stream)
        _error(again, client, status, retry)
        assert pool.asked() == ["a", "b"]
        if status == 429:
            assert 1 <= int(again.headers["retry-after"]) <= 7
        else:
            assert "retry-after" not in again.headers
        assert pool.decision(again)["outcome"] == "exhausted"


def test_everybody_has_too_little(pool: Pooled) -> None:
    """The client cannot upgrade our plan: a 503 of ours, not the upstream's 403; and they are asked again."""
    for client, upstream, stream in CASES:
        pool.renew(a="error-403-tokens", b="error-403-tokens")
        for _ in range(2):
            answer = pool.ask(client, f"{upstream.short}/some-model", stream=stream)
            _error(answer, client, 503, "false")
            assert "plan" not in outcome(answer, client).message
        assert len(pool.asked()) == 4


@pytest.mark.parametrize(("scenario", "openai", "anthropic"), [("error-529", 503, 529), ("error-500", 500, 500)])
def test_everybody_fails(pool: Pooled, scenario: str, openai: int, anthropic: int) -> None:
    """The last failure says most, and those who only fail are asked again."""
    for client, upstream, stream in CASES:
        pool.renew(a=scenario, b=scenario)
        for _ in range(2):
            answer = pool.ask(client, f"{upstream.short}/some-model", stream=stream)
            _error(answer, client, anthropic if client is Protocol.MESSAGES else openai)
        assert len(pool.asked()) == 4


def test_limits_of_an_upstream_without_retry_after(pool: Pooled) -> None:
    """The reset of a limit that is used up says how long."""
    pool.renew()
    headers = [("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "1m30s")]
    pool.up.say(json_answer(429, headers, {"error": {"message": "Slow down.", "type": "tokens"}}))
    answer = pool.ask(Protocol.MESSAGES, "chat/some-model")
    assert answer.status == 200
    assert 89 < pool.decision(answer)["attempts"][0]["rests"] < 91
