"""What users say about failures and limits, through the whole gateway: every action, every scope, tokens per minute."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.pooling import Pooled, accepting, account, config, pooled, ranked, secret
from tests.gateway.wire import CASES, Answer, outcome
from tests.scripted import thread
from tests.scripted.ask import PATHS, body
from tests.scripted.http import json_answer
from tests.scripted.scenario import plan
from tests.scripted.server import ScriptedUpstream
from tests.scripted.tokens import Ids
from tests.scripted.wire import WIRES
from tests.timing import eventually_async
from trilogue.model import Protocol

RULES = """\
pool:
  retry_budget: {floor: 100000}
  rules:
    - {status: 500, action: client}
    - {status: 400, text: "WORKSPACE * suspended", action: disable}
    - {code: daily_cap, action: cooldown, seconds: 3000}
    - {code: model_cap, action: cooldown, scope: account_model, seconds: 3000}
    - {code: all_cap, action: cooldown, scope: provider, seconds: 3000}
    - {code: no_time, action: cooldown}
    - {status: 418, action: next}
routes:
  - {match: "way/*", targets: [chat/$1, messages/$1]}
"""
ACCOUNTS = ("a", "b")


@pytest.fixture(scope="module")
def up() -> Iterator[ScriptedUpstream]:
    with thread.running(accepting(*ACCOUNTS)) as running:
        yield running


@pytest.fixture(autouse=True)
def _everybody_answers(up: ScriptedUpstream) -> None:
    up.by_key = {secret(name): "text" for name in ACCOUNTS}
    up.requests.clear()


@pytest.fixture(scope="module")
def _pool(up: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pooled]:
    text = config(ranked(*ACCOUNTS), provider="pool: {sticky: false}", more=RULES)
    with pooled(tmp_path_factory.mktemp("rules"), text, up) as running:
        yield running


@pytest.fixture
def pool(_pool: Pooled) -> Pooled:
    """Two accounts, of which `a` comes first, and everybody is well."""
    _pool.renew()
    return _pool


def refuse(up: ScriptedUpstream, status: int, code: str = "odd", message: str = "No.") -> None:
    """The next request is refused like this, in a shape that holds for all protocols."""
    error = {"type": code, "code": code, "message": message, "param": None}
    up.say(json_answer(status, [], {"type": "error", "error": error}))


def last(pool: Pooled, answer: Any) -> tuple[str, str, str]:
    """What the first attempt's failure meant."""
    attempt = pool.decision(answer)["attempts"][0]
    return attempt["why"], attempt["action"], attempt["scope"]


def test_client(pool: Pooled, up: ScriptedUpstream) -> None:
    """The client hears of it at once, and the account is as good as before."""
    for client, upstream, stream in CASES:
        pool.renew()
        refuse(up, 500, message="image input is not supported")
        answer = pool.ask(client, f"{upstream.short}/text", stream=stream)
        message = outcome(answer, client).message
        assert message.removesuffix(f" (provider {upstream.short})") == "image input is not supported"
        assert pool.asked() == ["a"]
        assert pool.accounts()[f"{upstream.short}/a"]["state"] == "ready"
        assert last(pool, answer)[0] == "rule_1"


def test_disable(pool: Pooled, up: ScriptedUpstream) -> None:
    """Another one answers, and this one is not asked any more. Upper or lower case is the same."""
    for client, upstream, stream in CASES:
        pool.renew()
        refuse(up, 400, message="Your workspace acme is Suspended.")
        answer = pool.ask(client, f"{upstream.short}/text", stream=stream)
        assert outcome(answer, client).how == "complete"
        pool.ask(client, f"{upstream.short}/other", stream=stream)
        assert pool.asked() == ["a", "b", "b"]
        line = pool.accounts()[f"{upstream.short}/a"]
        assert (line["state"], line["why"]) == ("disabled", "rule_2")


def test_everything_given_must_fit(pool: Pooled, up: ScriptedUpstream) -> None:
    """The same words with another status are something else."""
    refuse(up, 422, message="Your workspace acme is suspended.")
    answer = pool.ask(Protocol.CHAT, "chat/text")
    assert last(pool, answer)[0] == "client_error"
    assert pool.asked() == ["a"]


def test_cooldown_of_the_account(pool: Pooled, up: ScriptedUpstream) -> None:
    """It rests as long as the rule says, for every model."""
    for client, upstream, stream in CASES:
        pool.renew()
        refuse(up, 403, "daily_cap")
        answer = pool.ask(client, f"{upstream.short}/text", stream=stream)
        assert outcome(answer, client).how == "complete"
        pool.ask(client, f"{upstream.short}/other", stream=stream)
        assert pool.asked() == ["a", "b", "b"]
        line = pool.accounts()[f"{upstream.short}/a"]
        assert (line["state"], line["why"]) == ("cooling", "rule_3")
        assert 2900 < pool.decision(answer)["attempts"][0]["rests"] <= 3000


def test_cooldown_of_the_account_for_a_model(pool: Pooled, up: ScriptedUpstream) -> None:
    """It rests for this model only."""
    for client, upstream, stream in CASES:
        pool.renew()
        refuse(up, 403, "model_cap")
        answer = pool.ask(client, f"{upstream.short}/text", stream=stream)
        assert outcome(answer, client).how == "complete"
        assert last(pool, answer) == ("rule_4", "cooldown", "account_model")
        pool.ask(client, f"{upstream.short}/text", stream=stream)
        pool.ask(client, f"{upstream.short}/other", stream=stream)
        assert pool.asked() == ["a", "b", "b", "a"]


def test_cooldown_of_the_provider(pool: Pooled, up: ScriptedUpstream) -> None:
    """None of its accounts is asked any more; the next target answers."""
    refuse(up, 403, "all_cap")
    answer = pool.ask(Protocol.RESPONSES, "way/text")
    assert outcome(answer, Protocol.RESPONSES).how == "complete"
    assert last(pool, answer) == ("rule_5", "cooldown", "provider")
    pool.ask(Protocol.RESPONSES, "way/other")
    paths = [PATHS[Protocol.CHAT], PATHS[Protocol.MESSAGES], PATHS[Protocol.MESSAGES]]
    assert [request.path for request in up.requests] == paths
    assert pool.ask(Protocol.CHAT, "chat/text").status == 503
    assert len(up.requests) == 3
    for name in ACCOUNTS:
        line = pool.accounts()[f"chat/{name}"]
        assert (line["state"], line["why"]) == ("cooling", "rule_5")
    assert pool.admin.post("/accounts/chat/b/reset").json()["state"] == "ready"
    assert pool.ask(Protocol.CHAT, "chat/text").status == 200


def test_cooldown_without_a_time(pool: Pooled, up: ScriptedUpstream) -> None:
    """What the upstream says counts, as far as it may."""
    error = {"type": "no_time", "code": "no_time", "message": "No.", "param": None}
    up.say(json_answer(403, [("retry-after", "900")], {"type": "error", "error": error}))
    answer = pool.ask(Protocol.CHAT, "chat/text")
    assert answer.status == 200
    assert 800 < pool.decision(answer)["attempts"][0]["rests"] <= 900


def test_next(pool: Pooled, up: ScriptedUpstream) -> None:
    """Another one answers, and goes first for a while: every second request would be a retry otherwise."""
    refuse(up, 418)
    assert pool.ask(Protocol.MESSAGES, "chat/text").status == 200
    pool.ask(Protocol.MESSAGES, "chat/text")
    assert pool.asked() == ["a", "b", "b"]


LIMITED = [account("a", "priority: 1, limits: {tokens_per_minute: 1000}"), account("b", "priority: 2")]
LONG = "word " * 800
"""about a thousand tokens, so that a bucket of as many is empty"""


@pytest.mark.parametrize("client", Protocol, ids=lambda protocol: protocol.short)
def test_tokens_per_minute(tmp_path: Path, up: ScriptedUpstream, client: Protocol) -> None:
    """What is under way counts by its length; when the upstream has said what it really was, by that."""
    field = "input" if client is Protocol.RESPONSES else "messages"
    long: dict[str, Any] = {field: [{"role": "user", "content": LONG}]}
    up.by_key[secret("a")] = "slow-20-50"
    with pooled(tmp_path, config(LIMITED, provider="pool: {sticky: false}"), up) as pool:

        async def one(upstream: Protocol) -> tuple[Answer, Answer]:
            model = f"{upstream.short}/text"
            first = asyncio.create_task(pool.asking(client, model, stream=True, **long))
            await eventually_async(lambda: pool.asked(upstream))
            second = await pool.asking(client, model, stream=True, **long)
            assert (await first).status == 200
            return second, await pool.asking(client, model, stream=True)

        async def all_upstreams() -> list[tuple[Answer, Answer]]:
            """All at the same time: their accounts have nothing to do with each other."""
            return await asyncio.gather(*map(one, Protocol))

        for upstream, (second, third) in zip(Protocol, asyncio.run(all_upstreams()), strict=True):
            assert (second.status, third.status) == (200, 200)
            assert pool.asked(upstream) == ["a", "b", "a"]
            considered = pool.decision(second)["considered"][0]["skipped"]
            assert [(one["account"], one["why"]) for one in considered] == [("a", "tokens_per_minute")]


@pytest.mark.parametrize("upstream", Protocol, ids=lambda protocol: protocol.short)
def test_tokens_that_turned_out_more(tmp_path: Path, up: ScriptedUpstream, upstream: Protocol) -> None:
    """A use that was larger than thought is made up for: a 429 of ours, with a time, and nobody is asked."""
    wire = WIRES[PATHS[upstream]]
    asked = wire.read(body(upstream, "text", stream=False, tools=False))
    planned = plan("text", asked.seen)
    assert planned is not None
    large = wire.whole(planned.answer, asked, Ids(1))
    large["usage"] = {name: 5000 if type(value) is int else value for name, value in large["usage"].items()}
    with pooled(tmp_path, config([account("a", "limits: {tokens_per_minute: 1000}")]), up) as pool:
        up.say(json_answer(200, [], large))
        assert pool.ask(Protocol.CHAT, f"{upstream.short}/text").status == 200
        for client in Protocol:
            refused = pool.ask(client, f"{upstream.short}/text")
            assert refused.status == 429
            assert 1 <= int(refused.headers["retry-after"]) <= 60
        assert pool.asked() == ["a"]
