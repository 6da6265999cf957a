"""Recent requests: `GET /requests`, `GET /requests/{id}` and `trilogue explain`, over all workers of a gateway."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.gateway.pooling import ADMIN_KEY, Pooled, accepting, account, config, pooled, ranked, secret
from tests.gateway.process import until
from tests.gateway.wire import Answer
from tests.scripted import thread
from tests.timing import eventually_async
from trilogue.app.cli.explain import explain, explanation
from trilogue.gateway.features.explain.request_view import MEANINGS, consequence, meaning
from trilogue.model import Protocol
from trilogue.routing.pool.classify import OTHERWISE, ROWS, Action, Scope
from trilogue.routing.pool.decision import Attempt

C, M, R = Protocol.CHAT, Protocol.MESSAGES, Protocol.RESPONSES
MORE = """\
aliases: {fast: chat/text, rested: fresh/text}
routes: [{match: "gpt-*", targets: [priced/$0]}]
"""
PROVIDERS = f"""
providers:
  priced: {{protocol: openai_chat_completions, base_url: UPSTREAM/v1, vendor: openai, accounts: [{account("a")}]}}
  fresh: {{protocol: openai_chat_completions, base_url: UPSTREAM/v1, accounts: [{", ".join(ranked("a", "b"))}]}}
"""
"""one whose models have known prices, and one that only one test uses, so that none of its accounts is cooling down"""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pooled]:
    """Two workers, and providers with two accounts each; one more provider has models with known prices."""
    text = config(ranked("a", "b"), provider="pool: {sticky: false}", more=MORE, workers=2)
    text = text.replace("\nproviders:\n", PROVIDERS)
    with thread.running(accepting("a", "b")) as up, pooled(tmp_path_factory.mktemp("explain"), text, up) as running:
        yield running


def known(gateway: Pooled, answer: Answer) -> dict[str, Any]:
    """All that is known about a request, as soon as it has ended."""
    found: dict[str, Any] = {}

    def ended() -> bool:
        found.update(gateway.admin.get(f"/requests/{answer.headers['x-request-id']}").json())
        return not found["running"]

    until(ended)
    return found


def rows(gateway: Pooled, **query: Any) -> list[dict[str, Any]]:
    reply = gateway.admin.get("/requests", params=query)
    assert reply.status_code == 200, reply.text
    return list(reply.json()["requests"])


def test_a_request_with_two_attempts(gateway: Pooled) -> None:
    """Route, accounts, both attempts with what the failure meant, losses with advice, times, tokens."""
    gateway.up.by_key[secret("a")] = "error-429"
    found = known(gateway, gateway.ask(M, "rested", stream=True, top_k=5))
    assert (found["client"], found["upstream"], found["passed_through"]) == ("messages", "chat", False)
    assert (found["route"], found["targets"]) == ("alias rested", ["fresh/text"])
    assert (found["status"], found["error"], found["outcome"], found["key"]) == (200, None, "answered", "key-1")
    first, second = found["attempts"]
    assert (first["account"], first["protocol"], first["status"]) == ("a", "chat", 429)
    assert (first["why"], first["meaning"]) == ("rate_limited", "the account is over its rate limit")
    assert first["consequence"].startswith("the account")
    assert first["cooldown_seconds"] > 0
    assert (second["account"], second["action"], second["consequence"]) == (
        "b",
        "answered",
        "the client got its response",
    )
    assert {choice["provider"] for choice in found["considered"]} == {"fresh"}
    assert found["considered"][-1]["skipped"][0]["account"] == "a"
    lost = next(loss for loss in found["losses"] if loss["path"] == "top_k")
    assert (lost["code"], lost["severity"]) == ("param.dropped", "degraded")
    assert "remove the parameter" in lost["advice"]
    assert (found["severity"], found["loss_count"]) == ("degraded", len(found["losses"]))
    times = [second["began_ms"], second["first_byte_ms"], found["first_token_ms"], found["total_ms"]]
    assert times == sorted(times)
    assert first["began_ms"] < first["first_byte_ms"] <= first["ended_ms"] <= second["began_ms"]
    assert found["first_byte_ms"] == second["first_byte_ms"]
    assert (found["fresh_tokens"], found["cache_read_tokens"], found["input_tokens"]) == (20, 5, 25)
    assert found["output_tokens"] == 10
    assert (found["cost"], found["currency"]) == (None, None)


def test_the_cost_of_a_model_with_a_price(gateway: Pooled) -> None:
    gateway.renew()
    found = known(gateway, gateway.ask(C, "gpt-5.4"))
    assert (found["route"], found["passed_through"], found["losses"]) == ("route 1", True, [])
    assert (found["provider"], found["vendor"], found["currency"]) == ("priced", "openai", "USD")
    assert 0 < found["cost"] < 0.01
    assert found["first_token_ms"] is None


def test_a_connection_is_opened_once(gateway: Pooled) -> None:
    """Only a new connection has a time; the workers have one each."""
    gateway.renew()
    found = [known(gateway, gateway.ask(R, "responses/text"))["connect_ms"] for _ in range(5)]
    assert None in found
    assert all(one is None or 0 < one < 5_000 for one in found)


def test_the_list(gateway: Pooled) -> None:
    """The latest first, of both workers, flat, and only what a filter asks for."""
    gateway.renew(a="error-500", b="error-500")
    failed = gateway.ask(C, "chat/text")
    gateway.renew()

    def both_have_served() -> bool:
        gateway.ask(C, "messages/text")
        return len({row["worker"] for row in rows(gateway, limit=1000)}) == 2

    until(both_have_served)
    answers = [gateway.ask(C, "messages/text", stream=True) for _ in range(8)]
    last = known(gateway, answers[-1])
    listed = rows(gateway)
    assert [row["began_at"] for row in listed] == sorted([row["began_at"] for row in listed], reverse=True)
    assert {answer.headers["x-request-id"] for answer in answers} <= {row["id"] for row in listed}
    assert all(not isinstance(value, dict) for row in listed for value in row.values())
    assert [row["id"] for row in rows(gateway, limit=1)] == [last["id"]]
    assert failed.headers["x-request-id"] in {row["id"] for row in rows(gateway, errors="true", status="5xx")}
    assert {row["status"] for row in rows(gateway, errors="true")} <= {500, 502, 503}
    assert {row["status"] for row in rows(gateway, status=200)} == {200}
    assert {row["upstream"] for row in rows(gateway, model="messages/text")} == {"messages"}
    assert {row["client"] for row in rows(gateway, losses="false", model="gpt-5.4")} <= {"chat"}
    assert rows(gateway, key="nobody") == []
    assert rows(gateway, running="true") == []


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=1001", "limit=x", "status=6xx", "status=ok", "errors=1", "running=", "colour=blue"]
)
def test_filters_that_make_no_sense(gateway: Pooled, query: str) -> None:
    reply = (
        gateway.admin.get(f"/requests?{query}") if query != "running=" else gateway.admin.get("/requests?running=no")
    )
    assert reply.status_code == 400
    assert reply.json()["error"]["code"] == "bad_query"


def test_a_running_request(gateway: Pooled) -> None:
    """It can be looked at while it runs, and ends as disconnected if the client leaves."""
    gateway.renew(a="slow-200-50", b="slow-200-50")

    async def main() -> dict[str, Any]:
        asking = asyncio.create_task(gateway.asking(C, "chat/text", stream=True))

        def begun() -> dict[str, Any] | None:
            return next((row for row in rows(gateway, running="true") if row["first_token_ms"] is not None), None)

        found = await eventually_async(begun)
        asking.cancel()
        assert found is not None
        return found

    row = asyncio.run(main())
    assert (row["running"], row["status"], row["outcome"], row["provider"]) == (True, None, None, "chat")
    assert row["total_ms"] > row["first_token_ms"]
    until(lambda: not rows(gateway, running="true"))
    ended = gateway.admin.get(f"/requests/{row['id']}").json()
    assert (ended["status"], ended["error"], ended["outcome"]) == (200, "client_gone", "released")


def test_unknown_requests(gateway: Pooled) -> None:
    for name in ("req_unknown", "%2e%2e", "x" * 200):
        reply = gateway.admin.get(f"/requests/{name}")
        assert (reply.status_code, reply.json()["error"]["code"]) == (404, "no_such_request")


def run(gateway: Pooled, *arguments: str) -> Result:
    folder = gateway.gateway.config_file.parent
    environ = {"XDG_STATE_HOME": str(folder), "ADMIN_KEY": ADMIN_KEY, "TRILOGUE_KEY": "client-key"}
    options = ["--config", str(gateway.gateway.config_file)]
    return CliRunner(env=environ).invoke(explain, [*arguments, *options])


def test_the_command(gateway: Pooled) -> None:
    gateway.renew(a="error-429")
    answer = gateway.ask(M, "fast", top_k=5)
    known(gateway, answer)
    shown = run(gateway, answer.headers["x-request-id"])
    assert shown.exit_code == 0, shown.output
    text = shown.output
    assert text.startswith(answer.headers["x-request-id"])
    for part in (
        "status 200",
        "asked for    fast in messages, key key-1",
        "route        chat/text (alias fast)",
        "accounts     chat: 2 of 2 available",
        "attempt 1    chat/a, text in chat: the ",
        "429 rate_limited: the account is over its rate limit",
        "attempt 2    chat/b, text in chat",
        "translation  messages > chat",
        "param.dropped (degraded) at top_k: dropped",
        "advice: remove the parameter",
        "first byte ",
        "tokens       25 in (5 from the cache), 10 out",
        "cost         unknown",
    ):
        assert part in text
    assert json.loads(run(gateway, "last", "--json").output)["id"] == answer.headers["x-request-id"]
    assert run(gateway).output == text
    gateway.admin.get("/accounts")
    missing = run(gateway, "req_unknown")
    assert missing.exit_code == 2
    assert "no worker remembers this request" in missing.output
    for no_id in ("", "a/b"):
        assert "ID is the x-request-id of a response" in run(gateway, no_id).output


def test_names_cannot_contain_terminal_codes(gateway: Pooled) -> None:
    answer = gateway.ask(C, "no\x1b[31m/such")
    lines = list(explanation(known(gateway, answer)))
    assert "\x1b" not in "".join(lines)
    assert any("no\\x1b[31m/such" in line for line in lines)


def test_every_failure_has_words() -> None:
    whys = {row.why for row in ROWS} | {OTHERWISE, "parameter_refused"}
    assert set(MEANINGS) == whys
    for action in [*Action, "answered", "released", "adjust"]:
        for scope in Scope:
            made = Attempt(provider="p", account="a", model="m", how="strategy", action=action, scope=scope, rests=3.0)
            assert "{" not in consequence(made)
            assert " " in consequence(made)
    rule = Attempt(provider="p", account="a", model="m", how="strategy", action="client", why="rule_2")
    assert meaning(rule) == "rule 2 of pool.rules applies"


def test_the_page_has_every_field(gateway: Pooled) -> None:
    page = (Path(__file__).parent.parent.parent / "docs" / "explain.md").read_text()
    found = known(gateway, gateway.ask(M, "fast", top_k=5))
    for named in (found, *found["attempts"], *found["losses"], *found["considered"]):
        assert [field for field in named if f"`{field}`" not in page] == []
