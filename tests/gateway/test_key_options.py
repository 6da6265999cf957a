"""Options of client keys at work, for keys of the configuration and for keys made at run time: the same results."""

from __future__ import annotations

import hmac
import json
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx2
import pytest
from click.testing import CliRunner

from tests.gateway.pooling import ADMIN_KEY, Pooled, accepting, account, pooled
from tests.gateway.process import until
from tests.gateway.webhook_receiver import Receiver, receiver
from tests.scripted import thread
from trilogue.app.cli.app import app

POLICIES = Path(__file__).with_name("policy_file.py")
HOOK_SECRET = "webhook-secret-canary-91ce"
PRICES = "prices: {'*': {input: 1000, output: 1000}}"
"""so that a request costs cents"""
OPTIONS: dict[str, dict[str, Any]] = {
    "routed": {"routes": ["house"]},
    "strict": {"mode": "strict"},
    "judged": {"policies": ["words"]},
    "tagged": {"tags": ["ci"], "owner": "team"},
    "narrow": {"models": ["chat/*"], "providers": ["chat"]},
    "counted": {"limits": {"requests_per_day": 2, "tokens_per_day": 1_000_000_000, "concurrency": 9}},
    "paying": {"budget": {"day": 1000, "month": 4000}},
    "unpriced": {"budget": {"day": 1000}},
    "unpriced-allowed": {"budget": {"day": 1000, "unknown_prices": "allow"}},
    "warned": {"budget": {"total": 16}},
}
CONFIG = f"""\
server: {{workers: 1}}
require_keys: true
keys: KEYS
providers:
  chat: {{protocol: chat, base_url: UPSTREAM/v1, accounts: [{account("one")}], {PRICES}}}
  free: {{protocol: chat, base_url: UPSTREAM/v1, accounts: [{account("one")}]}}
routes:
  - {{match: house, provider: chat, model: some-model}}
  - {{match: "limited-*", provider: chat, model: limited-model, limits: {{requests_per_day: 2}}}}
  - {{match: "costly-*", provider: chat, model: costly-model, budget: {{day: 0.01}}}}
policies: {{words: {{use: POLICIES:NoWeather}}}}
webhook: {{url: env:HOOK_URL, secret: env:HOOK_SECRET}}
admin: {{key: env:ADMIN_KEY, port: 0}}
"""
HTTP = httpx2.Client(timeout=20, limits=httpx2.Limits(max_keepalive_connections=0))
"""keeps no connection, because nobody closes it"""


@pytest.fixture(scope="module")
def hook() -> Iterator[Receiver]:
    with receiver() as found:
        yield found


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory, hook: Receiver) -> Iterator[Pooled]:
    folder = tmp_path_factory.mktemp("options")
    keys = [{"name": f"config-{name}", "key": f"text-of-{name}", **options} for name, options in OPTIONS.items()]
    keys += [{"key": "text-of-unnamed"}]
    text = CONFIG.replace("KEYS", json.dumps(keys)).replace("POLICIES", str(POLICIES))
    environ = {"HOOK_URL": hook.url, "HOOK_SECRET": HOOK_SECRET}
    with thread.running(accepting("one")) as up, pooled(folder, text, up, environ=environ) as running:
        yield running


@pytest.fixture(scope="module", params=["configured", "made"])
def keys(request: pytest.FixtureRequest, pool: Pooled) -> dict[str, str]:
    """The texts of keys with all options: those of the configuration, then the same made at run time."""
    if request.param == "configured":
        return {name: f"text-of-{name}" for name in OPTIONS}
    texts = {}
    for name, options in OPTIONS.items():
        made = pool.admin.post("/keys", json={"name": name, **options})
        assert made.status_code == 200, made.text
        texts[name] = str(made.json()["key"])
    return texts


def ask(pool: Pooled, key: str, model: str = "chat/some-model", **more: Any) -> httpx2.Response:
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 5, **more}
    headers = {"authorization": f"Bearer {key}"}
    return HTTP.post(f"{pool.gateway.url}/v1/chat/completions", headers=headers, json=body)


def get(pool: Pooled, key: str, path: str) -> Any:
    response = HTTP.get(f"{pool.gateway.url}{path}", headers={"authorization": f"Bearer {key}"})
    assert response.status_code == 200, response.text
    return response.json()


def code(response: httpx2.Response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["code"]


def test_routes_models_and_providers_are_restricted(pool: Pooled, keys: dict[str, str]) -> None:
    assert ask(pool, keys["routed"], "house").status_code == 200
    assert code(ask(pool, keys["routed"])) == (403, "model_not_allowed")
    assert code(ask(pool, keys["narrow"], "house")) == (403, "model_not_allowed")
    counting = {"model": "house", "messages": [{"role": "user", "content": "hi"}]}
    headers = {"authorization": f"Bearer {keys['narrow']}"}
    url = f"{pool.gateway.url}/v1/messages/count_tokens"
    assert HTTP.post(url, headers=headers, json=counting).status_code == 403
    listed = [model["id"] for model in get(pool, keys["routed"], "/v1/models")["data"]]
    assert "chat/some-model" not in listed


def test_mode_and_policies_apply(pool: Pooled, keys: dict[str, str]) -> None:
    assert "No weather here." not in ask(pool, keys["judged"]).text
    stopped = ask(pool, keys["judged"], messages=[{"role": "user", "content": "the weather"}])
    assert "No weather here." in stopped.text
    # A field of Messages that Chat does not have would be lost: only the mode of the key refuses that.
    lossy = {"model": "chat/some-model", "max_tokens": 5, "top_k": 4, "messages": [{"role": "user", "content": "hi"}]}
    found = []
    for name in ("strict", "tagged"):
        headers = {"authorization": f"Bearer {keys[name]}"}
        found.append(HTTP.post(f"{pool.gateway.url}/v1/messages", headers=headers, json=lossy).status_code)
    assert found == [400, 200]


def test_unknown_prices_close_a_budget(pool: Pooled, keys: dict[str, str]) -> None:
    assert code(ask(pool, keys["unpriced"], "free/some-model")) == (429, "unknown_price")
    assert ask(pool, keys["unpriced-allowed"], "free/some-model").status_code == 200


def test_the_holder_sees_what_is_left(pool: Pooled, keys: dict[str, str]) -> None:
    assert ask(pool, keys["counted"]).status_code == 200
    found = get(pool, keys["counted"], "/v1/usage?by=model&since=1d")
    shown = {one["name"]: (one["limit"], one["used"], one["left"]) for one in found["limits"]}
    assert shown["requests_per_day"] == (2, 1, 1)
    assert shown["concurrency"] == (9, 0, 9)
    assert found["limits"][-1]["resets_at"].endswith("T00:00:00Z")
    assert (found["budgets"], found["usage"]["total"]["requests"]) == ([], 1)
    assert [line["model"] for line in found["usage"]["lines"]] == ["chat/some-model"]
    assert [ask(pool, keys["counted"]).status_code for _ in range(2)] == [200, 429]
    assert ask(pool, keys["paying"]).status_code == 200
    paying = get(pool, keys["paying"], "/v1/usage")
    assert [(one["period"], one["limit"], one["reserved"]) for one in paying["budgets"]] == [
        ("day", 1000, 0),
        ("month", 4000, 0),
    ]
    spent = paying["budgets"][0]["spent"]
    assert spent > 0
    assert paying["budgets"][0]["left"] == pytest.approx(1000 - spent)
    assert paying["usage"]["total"]["cost"] == pytest.approx(spent)
    assert paying["usage"]["total"]["requests"] == 1


def test_usage_is_that_of_the_key_alone(pool: Pooled, keys: dict[str, str]) -> None:
    fresh = str(pool.admin.post("/keys", json={"name": f"fresh-{keys['routed'][:11]}"}).json()["key"])
    assert get(pool, fresh, "/v1/usage")["usage"]["total"]["requests"] == 0
    ask(pool, "text-of-unnamed")
    assert get(pool, "text-of-unnamed", "/v1/usage")["usage"] is None
    for query in ("key=routed", "by=key", "by=account", "owner=team"):
        refused = HTTP.get(f"{pool.gateway.url}/v1/usage?{query}", headers={"authorization": f"Bearer {fresh}"})
        assert code(refused) == (400, "bad_query")
    assert HTTP.get(f"{pool.gateway.url}/v1/usage").status_code == 401


def test_a_warning_goes_to_the_webhook_until_it_is_accepted(pool: Pooled, hook: Receiver, keys: dict[str, str]) -> None:
    hook.received.clear()
    hook.refusals = 1
    found = 200
    while found == 200:
        found = ask(pool, keys["warned"]).status_code
    until(lambda: len(hook.received) >= 2, 20)
    first, second = hook.events[:2]
    assert first == second
    assert (first["event"], first["kind"], first["period"], first["limit"]) == (
        "budget.nearly_spent",
        "key",
        "total",
        16,
    )
    assert first["name"] in ("config-warned", "warned")
    assert 0.8 * 16 <= first["spent"] <= 16
    headers, body = hook.received[1]
    assert headers["webhook-id"] == first["id"]
    signed = f"{first['id']}.{headers['webhook-timestamp']}.".encode() + body
    digest = b64encode(hmac.new(HOOK_SECRET.encode(), signed, sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{digest}"
    log = pool.gateway.log_file.read_text()
    assert "budget nearly spent" in log
    assert "token-canary" not in log
    assert HOOK_SECRET not in log


def test_routes_have_limits_and_budgets(pool: Pooled) -> None:
    """They count for all keys together."""
    found = [ask(pool, f"text-of-{name}", f"limited-{name}").status_code for name in ("strict", "tagged", "strict")]
    assert found == [200, 200, 429]
    assert code(ask(pool, "text-of-tagged", "costly-x", max_tokens=5000)) == (429, "budget_exceeded")


def test_names_that_the_configuration_lacks_are_refused(pool: Pooled) -> None:
    for options in ({"routes": ["hause"]}, {"providers": ["chatt"]}, {"policies": ["word"]}):
        refused = pool.admin.post("/keys", json={"name": "wrong", **options})
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "bad_key")
        assert "did you mean" in refused.json()["error"]["message"]


def test_the_command_shows_what_is_left(pool: Pooled, monkeypatch: pytest.MonkeyPatch) -> None:
    file = pool.gateway.config_file
    ask(pool, "text-of-paying")
    given = {"XDG_STATE_HOME": str(file.parent), "ADMIN_KEY": ADMIN_KEY, "HOOK_URL": "http://127.0.0.1:1/"}
    for name, value in {**given, "HOOK_SECRET": HOOK_SECRET}.items():
        monkeypatch.setenv(name, value)
    shown = CliRunner().invoke(app, ["usage", "--config", str(file), "--json"])
    assert shown.exit_code == 0, shown.output
    budgets = [line["budget"] for line in map(json.loads, shown.output.splitlines()) if "budget" in line]
    by_name = {(one["kind"], one["name"], one["period"]): one for one in budgets}
    assert by_name["key", "config-paying", "day"]["spent"] > 0
    assert by_name["route", "costly-*", "day"]["left"] == pytest.approx(0.01)
    text = CliRunner().invoke(app, ["usage", "--config", str(file)]).output
    assert "key config-paying" in text
    listed = pool.admin.get("/usage").json()["budgets"]
    assert ("config-paying", "day") in [(one["name"], one["period"]) for one in listed]
