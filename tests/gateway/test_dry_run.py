"""Dry runs: where a request would go and what it would lose, with nothing sent and no account used."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.gateway.pooling import Pooled, accepting, account, config, pooled, secret
from tests.scripted import thread
from trilogue.model import Protocol

ROUTES = """\
aliases: {short: chat/some-model}
routes:
  - {match: "both-*", targets: [{provider: chat, model: some-model}, {provider: messages}]}
"""
REQUEST = {
    "model": "both-1",
    "max_tokens": 50,
    "top_k": 4,
    "system": "Be brief.",
    "messages": [{"role": "user", "content": "Hello"}],
}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pooled]:
    folder = tmp_path_factory.mktemp("dry-run")
    text = config([account("one"), account("two")], more=ROUTES)
    with thread.running(accepting("one", "two")) as up, pooled(folder, text, up) as pool:
        yield pool


def dry_run(gateway: Pooled, request: Any, protocol: str = "") -> dict[str, Any]:
    reply = gateway.admin.post("/dry-run", json={"request": request, "protocol": protocol})
    assert reply.status_code == 200
    return dict(reply.json())


def test_a_dry_run_has_what_would_be_sent_to_each_target(gateway: Pooled) -> None:
    report = dry_run(gateway, REQUEST)
    assert (report["protocol"], report["guessed"], report["matched"]) == ("messages", True, "route 1")
    first, second = report["targets"]
    assert (first["provider"], first["protocol"], first["passed_through"]) == ("chat", "chat", False)
    assert first["body"]["messages"][0] == {"role": "system", "content": "Be brief."}
    [loss] = first["losses"]
    assert (loss["code"], loss["path"], loss["severity"]) == ("param.dropped", "top_k", "degraded")
    assert loss["refused_if_strict"]
    assert (second["provider"], second["passed_through"], second["losses"]) == ("messages", True, [])
    assert second["body"] == REQUEST
    assert first["headers"]["authorization"] == "***"
    assert secret("one") not in json.dumps(report)


def test_nothing_is_sent_and_no_account_counts_as_used(gateway: Pooled) -> None:
    before = gateway.accounts()
    orders = [[one["account"] for one in dry_run(gateway, REQUEST)["targets"][0]["accounts"]] for _ in range(3)]
    assert orders[0] == orders[1] == orders[2]
    assert sorted(orders[0]) == ["one", "two"]
    assert gateway.accounts() == before
    assert gateway.up.requests == []
    # The next real request uses the account that the dry run named.
    answer = gateway.ask(Protocol.CHAT, "both-1")
    assert [one["account"] for one in gateway.decision(answer)["attempts"]] == orders[0][:1]
    gateway.up.requests.clear()


def test_accounts_that_cannot_be_used_come_last(gateway: Pooled) -> None:
    gateway.admin.post("/accounts/chat/one/disable")
    accounts = dry_run(gateway, REQUEST)["targets"][0]["accounts"]
    assert [(one["account"], one["chosen"]) for one in accounts] == [("two", "strategy"), ("one", None)]
    gateway.admin.post("/accounts/chat/one/enable")


@pytest.mark.parametrize(
    ("request_", "code", "part"),
    [
        ('{"model": ', "invalid_request", "JSON"),
        ("[]", "invalid_request", "JSON object"),
        ({"model": "unknown-model", "messages": []}, "model_not_found", "unknown-model"),
        ({"messages": [{"role": "user", "content": "x"}]}, "invalid_request", "model is required"),
    ],
)
def test_what_the_client_would_be_told(gateway: Pooled, request_: Any, code: str, part: str) -> None:
    problem = dry_run(gateway, request_)["problem"]
    assert problem["code"] == code
    assert part in problem["message"]


def test_a_target_that_cannot_express_a_request_says_so(gateway: Pooled) -> None:
    request = {"model": "messages/m", "input": "x", "previous_response_id": "resp_1"}
    report = dry_run(gateway, request)
    assert report["refers_to_state"]
    [target] = report["targets"]
    assert target["problem"]["path"] == "previous_response_id"


def test_mistakes_in_a_call_are_errors(gateway: Pooled) -> None:
    for body, code in (({"request": 1}, "bad_dry_run"), ({"request": {}, "protocol": "x"}, "bad_protocol")):
        reply = gateway.admin.post("/dry-run", json=body)
        assert (reply.status_code, reply.json()["error"]["code"]) == (400, code)


def test_model_names_resolve_as_they_do_for_requests(gateway: Pooled) -> None:
    assert gateway.admin.get("/routes/short").json()["targets"] == ["chat/some-model"]
    found = gateway.admin.get("/routes/responses/a/b", params={"protocol": "messages"}).json()
    assert (found["targets"], found["matched"], found["protocol"]) == (["responses/a/b"], "provider prefix", "messages")
    assert gateway.admin.get("/routes/nowhere").status_code == 404
    listed = gateway.admin.get("/routes").json()
    assert listed["routes"] == [{"match": "both-*", "targets": ["chat/some-model", "messages/$0"]}]
    assert [(one["name"], one["accounts"]) for one in listed["providers"]] == [
        ("chat", 2),
        ("messages", 2),
        ("responses", 2),
    ]
