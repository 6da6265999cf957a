"""`accounts: [client]`: the key of a client goes to the vendor that issued it, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.gateway.process import Started, started
from tests.gateway.running import CLIENT_KEY
from tests.scripted import thread
from tests.scripted.ask import PATHS, body
from tests.scripted.server import KEY as UPSTREAM_KEY
from tests.scripted.server import ScriptedUpstream
from trilogue.model import Protocol

CHAT, MESSAGES, RESPONSES = Protocol.CHAT, Protocol.MESSAGES, Protocol.RESPONSES
CONFIG = """\
keys: [env:TRILOGUE_KEY]
providers:
  anthropic: {protocol: messages, base_url: "http://127.0.0.1:PORT", accounts: [client]}
  openai:
    protocol: responses
    also_speaks: [chat]
    base_url: "http://localhost:PORT/v1"
    accounts: [client]
  configured: {protocol: messages, base_url: "http://127.0.0.1:PORT", accounts: [env:UP_KEY]}
routes:
  - {match: "fallback", targets: [anthropic/text, configured/text]}
"""
PATCH = """\
import trilogue.vendors.addresses as one
one.KEY_SCHEMES = ("http",)
one.KEY_HOSTS.clear()
one.KEY_HOSTS.update({"127.0.0.1": "anthropic", "localhost": "openai"})
"""
"""In place of the vendors' hosts, which tests must not call."""
ALICE, BOB, TOKEN = "sk-ant-api03-fake-canary-a", "sk-ant-api03-fake-canary-b", "sk-ant-oat01-fake-canary-t"
OPENAI, SUBSCRIPTION, OLD = "sk-proj-fake-canary-o", "eyJfake-canary-jwt", "sk-fake-canary-old"
ALL = {ALICE, BOB, TOKEN, OPENAI, SUBSCRIPTION, OLD, UPSTREAM_KEY}


@pytest.fixture(scope="module")
def upstream() -> Iterator[ScriptedUpstream]:
    with thread.running() as found:
        yield found


@pytest.fixture(scope="module")
def gateway(upstream: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    config = CONFIG.replace("PORT", upstream.url.rpartition(":")[2])
    with started(tmp_path_factory.mktemp("client"), config, patch=PATCH) as found:
        yield found
        assert "canary" not in found.log.replace(CLIENT_KEY, "")


@pytest.fixture
def up(upstream: ScriptedUpstream) -> ScriptedUpstream:
    upstream.keys = set(ALL)
    upstream.by_key = {}
    upstream.requests.clear()
    return upstream


def ask(
    gateway: Started, client: Protocol, model: str, headers: dict[str, str], path: str = "", **more: Any
) -> httpx2.Response:
    asked = body(client, model, stream=False, tools=more.pop("tools", False)) | more
    sent = {"trilogue-key": CLIENT_KEY, **headers}
    return httpx2.post(f"{gateway.url}{path or PATHS[client]}", json=asked, headers=sent, timeout=20)


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


@pytest.mark.parametrize(
    ("client", "model", "headers", "sent"),
    [
        (MESSAGES, "anthropic/text", {"x-api-key": ALICE}, {"x-api-key": ALICE}),
        (MESSAGES, "anthropic/text", bearer(ALICE), {"x-api-key": ALICE}),
        (MESSAGES, "anthropic/text", bearer(TOKEN), {**bearer(TOKEN), "anthropic-beta": "oauth-2025-04-20"}),
        (
            MESSAGES,
            "anthropic/text",
            {**bearer(TOKEN), "anthropic-beta": "one-beta,oauth-2025-04-20"},
            {**bearer(TOKEN), "anthropic-beta": "one-beta,oauth-2025-04-20"},
        ),
        (CHAT, "anthropic/text", bearer(ALICE), {"x-api-key": ALICE}),
        (RESPONSES, "anthropic/text", bearer(TOKEN), {**bearer(TOKEN), "anthropic-beta": "oauth-2025-04-20"}),
        (CHAT, "openai/text", bearer(OLD), bearer(OLD)),
        (MESSAGES, "openai/text", {"x-api-key": OPENAI}, bearer(OPENAI)),
        (
            RESPONSES,
            "openai/text",
            {**bearer(SUBSCRIPTION), "chatgpt-account-id": "account-1"},
            {**bearer(SUBSCRIPTION), "chatgpt-account-id": "account-1"},
        ),
        # A placeholder in one header, the key in the other.
        (MESSAGES, "anthropic/text", {**bearer("none-needed"), "x-api-key": ALICE}, {"x-api-key": ALICE}),
    ],
)
def test_the_key_is_passed_on(
    gateway: Started,
    up: ScriptedUpstream,
    client: Protocol,
    model: str,
    headers: dict[str, str],
    sent: dict[str, str],
) -> None:
    """In the header that the vendor expects, with what belongs to it, and without the gateway's own key."""
    response = ask(gateway, client, model, headers)
    assert response.status_code == 200, response.text
    got = up.last()
    watched = ("authorization", "x-api-key", "anthropic-beta", "chatgpt-account-id", "trilogue-key")
    assert {name: value for name in watched if (value := got.header(name)) is not None} == sent
    assert not any(CLIENT_KEY in value for _, value in got.headers)


@pytest.mark.parametrize(
    ("client", "model", "headers", "words"),
    [
        (
            MESSAGES,
            "openai/text",
            {"x-api-key": ALICE},
            "served by openai, and the key in the request is one of anthropic",
        ),
        (RESPONSES, "anthropic/text", bearer(SUBSCRIPTION), "is one of openai"),
        (CHAT, "anthropic/text", bearer(OLD), "does not show that it is one of anthropic"),
        (MESSAGES, "anthropic/text", {}, "the request has none"),
        (MESSAGES, "fallback", {"x-api-key": OPENAI}, ""),
    ],
)
def test_no_other_vendor_gets_it(
    gateway: Started, up: ScriptedUpstream, client: Protocol, model: str, headers: dict[str, str], words: str
) -> None:
    """The request is refused before anything is sent, or goes to a target with a key of its own."""
    response = ask(gateway, client, model, headers)
    keys = [got.header("x-api-key") for got in up.requests]
    if not words:
        assert (response.status_code, keys) == (200, [UPSTREAM_KEY])
        return
    assert (response.status_code, keys) == (401, [])
    assert words in response.json()["error"]["message"]


def test_the_gateways_key_is_needed_as_well(gateway: Started, up: ScriptedUpstream) -> None:
    response = ask(gateway, MESSAGES, "anthropic/text", {"trilogue-key": "", "x-api-key": ALICE})
    assert (response.status_code, up.requests) == (401, [])


@pytest.mark.parametrize(("scenario", "status"), [("error-401", 401), ("error-429", 429), ("error-402", 402)])
def test_what_is_wrong_with_one_key_concerns_nobody_else(
    gateway: Started, up: ScriptedUpstream, scenario: str, status: int
) -> None:
    """The client gets the vendor's error, no configured key takes its place, and others are served at once."""
    up.by_key = {ALICE: scenario}
    for _ in range(3):
        refused = ask(gateway, MESSAGES, "fallback", {"x-api-key": ALICE})
        assert refused.status_code == status, refused.text
        assert ask(gateway, MESSAGES, "fallback", {"x-api-key": BOB}).status_code == 200
    assert [got.header("x-api-key") for got in up.requests] == [ALICE, BOB] * 3
    assert ALICE not in refused.text


def test_token_counts_and_lists(gateway: Started, up: ScriptedUpstream) -> None:
    """Counts are asked for with the client's key; a list of models is not, because all clients would get it."""
    counted = ask(gateway, MESSAGES, "anthropic/text", {"x-api-key": BOB}, "/v1/messages/count_tokens")
    assert counted.status_code == 200, counted.text
    assert up.last().header("x-api-key") == BOB
    up.requests.clear()
    httpx2.get(f"{gateway.url}/v1/models", headers={"trilogue-key": CLIENT_KEY, "x-api-key": BOB}, timeout=20)
    assert [got.header("x-api-key") for got in up.requests] == [UPSTREAM_KEY]
