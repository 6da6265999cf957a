"""A request on its way: without reasoning, to other protocols, with its own account, within limits, through proxies."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.pooling import (
    CLOCKS,
    SHORT_CLOCKS,
    Pooled,
    accepting,
    account,
    config,
    name_of,
    pooled,
    ranked,
    secret,
)
from tests.gateway.proxies import proxying
from tests.gateway.wire import CASES, outcome
from tests.judges.loss_header import codes
from tests.scripted import thread
from tests.scripted.errors import BAD_SIGNATURE, NO_RESPONSE
from tests.scripted.server import ScriptedUpstream
from tests.scripted.steps import error_steps
from tests.scripted.tokens import sign
from tests.scripted.wire import WIRES
from tests.timing import TooSlowError
from trilogue.lint import lint_request
from trilogue.model import Protocol

MANY = "pool: {retry_budget: {floor: 100000}}\n"
PATHS = {
    "/v1/messages": Protocol.MESSAGES,
    "/v1/chat/completions": Protocol.CHAT,
    "/v1/responses": Protocol.RESPONSES,
}
WAYS = list(product(Protocol, (False, True)))
FOREIGN = b"Rm9yZWlnbg=="
ACCOUNTS = ("a", "b", "x", "y", "z")


@pytest.fixture(scope="module")
def up() -> Iterator[ScriptedUpstream]:
    with thread.running(accepting(*ACCOUNTS)) as running:
        yield running


@pytest.fixture(autouse=True)
def _everybody_answers(up: ScriptedUpstream) -> None:
    up.by_key = {secret(name): "text" for name in ACCOUNTS}
    up.requests.clear()


def names(up: ScriptedUpstream) -> list[str]:
    """The accounts that were asked with."""
    return [name_of(request) for request in up.requests]


def _thought(client: Protocol, mark: str = "") -> dict[str, Any]:
    """A history with reasoning that no upstream can verify; another mark makes it another one."""
    foreign = mark + FOREIGN.decode()
    if client is Protocol.MESSAGES:
        said = [
            {"type": "thinking", "thinking": "Hm.", "signature": foreign},
            {"type": "text", "text": "Hello."},
        ]
        turns = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": said}]
        return {"messages": [*turns, {"role": "user", "content": "And?"}]}
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": foreign}
    answer = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hello."}]}
    return {"input": [{"role": "user", "content": "Hi"}, reasoning, answer, {"role": "user", "content": "And?"}]}


@pytest.fixture(scope="module")
def pool(up: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pooled]:
    """Two accounts, of which `a` comes first."""
    text = config(ranked("a", "b"), provider="pool: {sticky: false}", more=f"state: none\n{MANY}")
    with pooled(tmp_path_factory.mktemp("journeys"), text, up) as running:
        yield running


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("client", [Protocol.MESSAGES, Protocol.RESPONSES], ids=lambda protocol: protocol.short)
def test_reasoning_that_is_refused_is_left_out(pool: Pooled, client: Protocol, stream: bool) -> None:
    """Once more with the same account, and the client is told what was lost."""
    answer = pool.ask(client, f"{client.short}/text", stream=stream, **_thought(client, str(stream)))
    assert outcome(answer, client).how == "complete"
    assert codes(answer.headers) == ["reasoning.foreign_dropped"]
    assert pool.asked() == ["a", "a"]
    assert [FOREIGN in request.body for request in pool.up.requests] == [True, False]
    attempts = pool.decision(answer)["attempts"]
    assert [(one["how"], one["why"]) for one in attempts] == [("strategy", "reasoning_rejected"), ("stripped", "")]


def test_reasoning_is_refused_by_every_upstream(pool: Pooled) -> None:
    """Also where the request is translated, streamed or not; a second refusal is the client's to hear."""
    for client, upstream, stream in CASES:
        wire = next(wire for path, wire in WIRES.items() if PATHS[path] is upstream)
        for refusals, how in ((1, "complete"), (2, "http")):
            pool.renew()
            for number in range(refusals):
                pool.up.say(*error_steps(BAD_SIGNATURE, wire, number))
            answer = pool.ask(client, f"{upstream.short}/text", stream=stream)
            assert outcome(answer, client).how == how
            assert pool.asked() == ["a", "a"]


def test_what_was_refused_is_not_sent_again(pool: Pooled) -> None:
    """The next request goes without it at once, and keeps the reasoning that the account has made since."""
    pool.renew()
    own = {"type": "thinking", "thinking": "Mine.", "signature": sign("Mine.")}
    history = _thought(Protocol.MESSAGES, "once")["messages"]
    since = [{"role": "assistant", "content": [own, {"type": "text", "text": "So."}]}, history[0]]
    for turns, asked in ((history, ["a", "a"]), (history + since, ["a", "a", "a"])):
        answer = pool.ask(Protocol.MESSAGES, "messages/text", messages=turns)
        assert outcome(answer, Protocol.MESSAGES).how == "complete"
        assert codes(answer.headers) == ["reasoning.foreign_dropped"]
        assert pool.asked() == asked
    last = pool.up.requests[-1].body
    assert sign("Mine.").encode() in last
    assert FOREIGN not in last


def test_strict_mode_loses_no_reasoning(pool: Pooled) -> None:
    """The upstream's refusal is the answer."""
    pool.renew()
    asked = _thought(Protocol.MESSAGES)
    answer = pool.ask(Protocol.MESSAGES, "messages/text", headers={"trilogue-mode": "strict"}, **asked)
    assert answer.status == 400
    assert "signature" in answer.json["error"]["message"]
    assert pool.asked() == ["a"]


def _chain() -> str:
    urls = {"messages": "UPSTREAM", "chat": "UPSTREAM/v1", "responses": "UPSTREAM/v1"}
    lines = [
        f"  {name}: {{protocol: {Protocol(value).value}, base_url: {urls[name]}, accounts: [{account(key)}]}}"
        for name, value, key in (
            ("messages", Protocol.MESSAGES, "x"),
            ("chat", Protocol.CHAT, "y"),
            ("responses", Protocol.RESPONSES, "z"),
        )
    ]
    routes = "routes: [{match: chain, targets: [messages/one, chat/two, responses/three]}]\n"
    head = f"{CLOCKS}keys: [env:TRILOGUE_KEY]\nadmin: {{key: env:ADMIN_KEY, port: 0}}\nproviders:\n"
    return head + "\n".join(lines) + "\n" + routes + MANY


@pytest.fixture(scope="module")
def chain(up: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pooled]:
    """Three providers of three protocols behind one model."""
    with pooled(tmp_path_factory.mktemp("chain"), _chain(), up) as running:
        yield running


@pytest.mark.parametrize(("client", "stream"), WAYS)
def test_fallback_across_protocols(chain: Pooled, client: Protocol, stream: bool) -> None:
    """Translated anew for each target; the client gets one answer in its own protocol."""
    chain.renew(x="error-401", y="error-429")
    answer = chain.ask(client, "chain", stream=stream)
    assert outcome(answer, client).how == "complete"
    assert [request.json["model"] for request in chain.up.requests] == ["one", "two", "three"]
    for request in chain.up.requests:
        found = lint_request(PATHS[request.path], request.json)
        assert [str(finding) for finding in found if finding.severity == "error"] == []


@pytest.mark.parametrize(("client", "stream"), WAYS)
def test_fallback_in_an_outage(chain: Pooled, client: Protocol, stream: bool) -> None:
    """While a provider fails nobody notices, and soon the next one comes first; then it is as before."""
    chain.renew(x="error-529" if stream else "reset-before-headers")
    for _ in range(7):
        assert outcome(chain.ask(client, "chain", stream=stream), client).how == "complete"
    assert names(chain.up)[-1] == names(chain.up)[-2] == "y"
    chain.renew()
    while names(chain.up)[-1:] != ["x"]:
        assert outcome(chain.ask(client, "chain", stream=stream), client).how == "complete"


def test_a_conversation_stays_with_its_account(tmp_path: Path, up: ScriptedUpstream) -> None:
    """By its user, its cache key, its beginning or the response that it continues; it leaves for a reason only."""
    with pooled(tmp_path, config([account("a"), account("b")], more="state: none"), up) as pool:
        for client, stream in WAYS:
            named = {"metadata": {"user_id": "ada"}} if client is Protocol.MESSAGES else {"prompt_cache_key": "ada"}
            up.requests.clear()
            for more in ({}, {}, named, named, {}, named):
                assert pool.ask(client, "responses/text", stream=stream, **more).status == 200
            found = names(up)
            assert len({found[0], found[1], found[4]}) == 1
            assert len({found[2], found[3], found[5]}) == 1
        first = pool.ask(Protocol.RESPONSES, "responses/text", prompt_cache_key="new")
        own = names(up)[-1]
        for _ in range(3):
            pool.ask(Protocol.RESPONSES, "responses/text", previous_response_id=first.json["id"], input="More")
        assert names(up)[-3:] == [own] * 3
        assert pool.admin.post(f"/accounts/responses/{own}/disable").status_code == 200
        moved = pool.ask(Protocol.RESPONSES, "responses/text", previous_response_id=first.json["id"])
        assert names(up)[-1] != own
        assert pool.decision(moved)["attempts"][0]["broken"] == "disabled"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_response_that_another_account_made(pool: Pooled, stream: bool) -> None:
    """Nobody knows any more who made it: everybody is asked, and what they say is the answer if nobody has it."""
    for refusals, asked in ((1, ["a", "b"]), (2, ["a", "b"])):
        pool.renew()
        for number in range(refusals):
            pool.up.say(*error_steps(NO_RESPONSE, WIRES["/v1/responses"], number))
        more = {"previous_response_id": "resp_1", "input": "More"}
        answer = pool.ask(Protocol.RESPONSES, "responses/text", stream=stream, **more)
        assert pool.asked() == asked
        if refusals == 1:
            assert outcome(answer, Protocol.RESPONSES).how == "complete"
        else:
            assert (answer.status, answer.json["error"]["code"]) == (400, "previous_response_not_found")
        assert {line["state"] for line in pool.accounts().values()} == {"ready"}


def test_limits_are_respected_before_sending(tmp_path: Path, up: ScriptedUpstream) -> None:
    """Requests at a time and requests per minute: what is too much is a 429 of ours, and nobody is asked."""
    limits = [account("a", "limits: {concurrency: 2}"), account("b", "limits: {requests_per_minute: 1}")]
    with pooled(tmp_path, config(limits), up) as pool:

        async def main() -> list[int]:
            asked = [pool.asking(Protocol.CHAT, "chat/slow-10-50", stream=True, user=f"u{n}") for n in range(6)]
            return sorted(answer.status for answer in await asyncio.gather(*asked))

        up.by_key = {secret(name): "slow-10-50" for name in ACCOUNTS}
        assert asyncio.run(main()) == [200, 200, 200, 429, 429, 429]
        assert sorted(names(up)) == ["a", "a", "b"]
        late = pool.ask(Protocol.MESSAGES, "chat/slow-10-50", stream=True)
        assert (late.status, names(up)[-1]) == (200, "a")


def test_money_that_is_spent(tmp_path: Path, up: ScriptedUpstream) -> None:
    """An account with nothing left is not used until someone sets its balance."""
    text = config(
        [account("a", "balance: 0.00001, priority: 1"), account("b", "priority: 2")],
        provider="prices: {'*': {input: 1, output: 1}}, pool: {sticky: false}",
    )
    with pooled(tmp_path, text, up) as pool:
        for client, stream in WAYS[:3]:
            pool.ask(client, "messages/text", stream=stream)
        assert pool.asked() == ["a", "b", "b"]
        assert pool.admin.post("/accounts/messages/a/balance", json={"balance": 5}).json()["balance"] == 5
        pool.ask(Protocol.CHAT, "messages/text")
        assert pool.asked()[-1] == "a"
        assert 4.9999 < pool.accounts()["messages/a"]["balance"] < 5


def _dead() -> str:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{closed.getsockname()[1]}"


@pytest.mark.parametrize("kind", ["http", "socks5", "socks5h"])
def test_egress_proxies(tmp_path: Path, up: ScriptedUpstream, kind: str) -> None:
    """One per account or per provider, in rotation; a dead one is skipped, and the account is not blamed."""
    with proxying(kind, kind) as (own, shared):
        text = config(
            [account("a", f"priority: 1, proxies: ['{_dead()}', '{own.url}']"), account("b", "priority: 2")],
            provider=f"proxies: ['{shared.url}'], pool: {{sticky: false}}",
        )
        with pooled(tmp_path, text, up) as pool:
            for client, upstream, stream in CASES:
                answer = pool.ask(client, f"{upstream.short}/text", stream=stream)
                assert outcome(answer, client).how == "complete"
                assert pool.decision(answer)["attempts"][-1]["proxy"] == 1
            assert set(pool.asked()) == {"a"}
            assert {line["state"] for line in pool.accounts().values()} == {"ready"}
            assert {line["success_rate"] for line in pool.accounts().values()} <= {1.0, None}
            assert (own.connections > 0, shared.connections) == (True, 0)
            for protocol in Protocol:
                pool.admin.post(f"/accounts/{protocol.short}/a/disable")
            assert pool.ask(Protocol.CHAT, "chat/text").status == 200
            assert (shared.connections, pool.asked()[-1]) == (1, "b")


def test_many_failures_are_not_multiplied(tmp_path: Path, up: ScriptedUpstream) -> None:
    """With every upstream failing, under load, the upstreams see at most 1.2 times what the clients send."""
    everyone = [f"n{number}" for number in range(10)]
    up.by_key = {secret(name): "error-500" for name in everyone}
    count = 200
    with pooled(tmp_path, config([account(name) for name in everyone]), up) as pool:

        async def main() -> set[int]:
            gate = asyncio.Semaphore(20)

            async def one(number: int) -> int:
                client, upstream, stream = CASES[number % len(CASES)]
                async with gate:
                    model = f"{upstream.short}/text"
                    return (await pool.asking(client, model, stream=stream, user=str(number))).status

            return set(await asyncio.gather(*map(one, range(count))))

        assert asyncio.run(main()) <= {500, 504}  # on a busy machine some of them come too late
        assert count <= len(up.requests) <= 1.2 * count


def test_a_keepalive_is_not_a_response(tmp_path: Path, up: ScriptedUpstream) -> None:
    """After one, somebody else may still answer; if nobody does, the error is told inside the stream."""
    text = config(ranked("a", "b"), provider="pool: {sticky: false}", more=MANY, clocks=SHORT_CLOCKS)
    with pooled(tmp_path, text.replace("server:\n", "server:\n  keepalive_seconds: 0.1\n"), up) as pool:
        for client, (others, how) in product(Protocol, (("text", "complete"), ("error-500", "stream"))):
            pool.renew(a="hang-before-headers", b=others)
            for upstream, answer in pool.ask_all(client, "text", stream=True).items():
                assert answer.body.startswith(b": keepalive\n\n")
                if b"upstream_timeout" in answer.body:
                    raise TooSlowError("the second account had no time to answer either")
                assert outcome(answer, client).how == how
                assert pool.asked(upstream) == ["a", "b"]
