"""What a route sets holds for every name by which its targets can be reached."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from click.testing import CliRunner

from tests.gateway.pooling import Pooled, accepting, account, pooled
from tests.scripted import thread
from trilogue.app.cli.app import app
from trilogue.app.cli.explain import explanation

POLICIES = Path(__file__).with_name("policy_file.py")
KEYS = [{"name": "all", "key": "text-of-all"}, {"name": "bound", "key": "text-of-bound", "routes": ["judged"]}]
CONFIG = f"""\
keys: {json.dumps(KEYS)}
default_provider: chat
providers:
  chat:
    protocol: chat
    base_url: UPSTREAM/v1
    accounts: [{account("one")}]
    prices: {{'*': {{input: 1000, output: 1000}}}}
  other: {{protocol: chat, base_url: UPSTREAM/v1, accounts: [{account("one")}]}}
aliases: {{short: chat/secret-model, indirect: judged, limited-alias: chat/few, costly-alias: chat/dear}}
routes:
  - {{match: judged, provider: chat, model: secret-model, policies: [words]}}
  - {{match: "team-*", provider: chat, model: $1}}
  - {{match: fallback, targets: [other/free-model, chat/secret-model]}}
  - {{match: limited, provider: chat, model: few, limits: {{requests_per_day: 3}}}}
  - {{match: costly, targets: [chat/dear], budget: {{day: 0.01}}}}
  - {{match: "gpt-*", provider: chat, policies: [words]}}
policies:
  words: {{use: POLICIES:NoWeather}}
  elsewhere: {{use: force_model, models: {{"forced": chat/secret-model}}}}
model_limits: {{scarce: {{limits: {{requests_per_day: 1}}}}}}
admin: {{key: env:ADMIN_KEY, port: 0}}
server: {{policies: [elsewhere]}}
"""


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pooled]:
    text = CONFIG.replace("POLICIES", str(POLICIES))
    with thread.running(accepting("one")) as up, pooled(tmp_path_factory.mktemp("rules"), text, up) as running:
        yield running


def ask(pool: Pooled, model: str, text: str = "hi", key: str = "text-of-all") -> httpx2.Response:
    body = {"model": model, "messages": [{"role": "user", "content": text}], "max_tokens": 5}
    headers = {"authorization": f"Bearer {key}"}
    return httpx2.post(f"{pool.gateway.url}/v1/chat/completions", headers=headers, json=body, timeout=20)


@pytest.mark.parametrize(
    "name",
    [
        "judged",
        "chat/secret-model",
        "chat/Secret-Model",
        "secret-model",
        "secret-model ",
        "chat/ secret-model",
        "short",
        "indirect",
        "team-secret-model",
        "fallback",
        "forced",
        "gpt-5",
        "chat/gpt-5",
        "team-gpt-5",
    ],
)
def test_policies_hold_for_every_name(pool: Pooled, name: str) -> None:
    assert "No weather here." in ask(pool, name, "the weather").text


@pytest.mark.parametrize("name", ["chat/another", "other/secret-model", "team-another", "other/gpt-5"])
def test_other_targets_are_not_judged(pool: Pooled, name: str) -> None:
    assert "No weather here." not in ask(pool, name, "the weather").text


def test_limits_and_budgets_hold_for_every_name(pool: Pooled) -> None:
    assert [ask(pool, name).status_code for name in ("limited", "chat/few", "limited-alias")] == [200] * 3
    assert [ask(pool, name).status_code for name in ("limited", "chat/few", "team-few", "few")] == [429] * 4
    assert ask(pool, "costly-alias").status_code == 429
    assert ask(pool, "chat/dear").status_code == 429
    assert [ask(pool, name).status_code for name in ("chat/scarce", "team-scarce", "scarce")] == [200, 429, 429]
    assert [ask(pool, name).status_code for name in ("chat/Scarce", "chat/scarce ")] == [429, 429]


def test_a_key_of_a_route_may_use_no_other_name(pool: Pooled) -> None:
    assert ask(pool, "judged", key="text-of-bound").status_code == 200
    assert ask(pool, "indirect", key="text-of-bound").status_code == 200
    refused = [ask(pool, name, key="text-of-bound") for name in ("chat/secret-model", "short", "team-secret-model")]
    assert {one.json()["error"]["code"] for one in refused} == {"model_not_allowed"}


def test_explain_and_check_show_them(pool: Pooled) -> None:
    answer = ask(pool, "fallback")
    shown = pool.admin.get(f"/requests/{answer.headers['x-request-id']}").json()
    assert shown["ruled_by"] == ["judged"]
    assert "rules of route judged" in " ".join(" ".join(explanation(shown)).split())
    command = ["check", "--config", str(pool.gateway.config_file)]
    checked = CliRunner().invoke(app, command, env={"ADMIN_KEY": "admin-key-canary-7d1e9a"}).output
    for line in (
        "1. judged -> chat/secret-model (with policies words)",
        "5. costly -> chat/dear (with a budget)",
        "  short: route 1 (judged)",
        "  fallback: route 1 (judged)",
        "  chat/few: route 4 (limited)",
    ):
        assert line in checked, checked
    assert "indirect: route" not in checked
