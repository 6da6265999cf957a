"""Gateways that lead to each other: a request goes round a few times, and then its client hears why."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator

import httpx2
import pytest

from tests.gateway.pairs import EVERY_CLIENT, PATHS
from tests.gateway.process import Started, started, until
from tests.gateway.running import CLIENT_KEY, Gateway
from tests.scripted.ask import body
from tests.scripted.server import ScriptedUpstream
from trilogue.model import Protocol
from trilogue.upstreams.catalog import PATIENCE_SECONDS
from trilogue.upstreams.headers import HOPS, MOST_HOPS, hops_of
from trilogue.upstreams.provider import UpstreamAccount
from trilogue.upstreams.settings import AccountSettings
from trilogue.upstreams.settings import ProviderSettings as ProviderConfig

KEYS = {"UP_KEY": CLIENT_KEY}
ROUND = """
keys: [env:TRILOGUE_KEY]
routes: [{match: "*", provider: next}]
aliases: {NAME: next/m}
providers:
  next: {protocol: PROTOCOL, base_url: OTHER, accounts: [{key: env:UP_KEY}, {name: second, key: env:UP_KEY}]}
"""


def _round(name: str, protocol: Protocol, other: str) -> str:
    return ROUND.replace("NAME", name).replace("PROTOCOL", protocol.value).replace("OTHER", other)


@pytest.fixture(scope="module")
def circle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Started, Started]]:
    """Two gateways, each the only upstream of the other; one of them speaks Messages to the other, and gets Chat."""
    folders = [tmp_path_factory.mktemp(name) for name in ("one", "other")]
    with (
        started(folders[0], _round("first", Protocol.MESSAGES, "http://127.0.0.1:9"), environ=KEYS) as one,
        started(folders[1], _round("second", Protocol.CHAT, one.url), environ=KEYS) as other,
    ):
        one.config_file.write_text(_round("first", Protocol.MESSAGES, other.url))
        one.signal(signal.SIGHUP)
        one.wait_for_log('"reloaded"')
        yield one, other


def _served(gateways: tuple[Started, Started]) -> int:
    return sum(line["event"] == "request" for gateway in gateways for line in gateway.lines)


@EVERY_CLIENT
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_circle_ends(circle: tuple[Started, Started], client: Protocol, stream: bool) -> None:
    """With an error that says whose fault it is, whatever is spoken on the way. Nobody tries again, not even with the
    second account."""
    before = _served(circle)
    asked = body(client, "m", stream=stream, tools=False)
    headers = {"authorization": f"Bearer {CLIENT_KEY}"}
    answer = httpx2.post(circle[0].url + PATHS[client], json=asked, headers=headers, timeout=20)
    assert (answer.status_code, answer.headers["x-should-retry"]) == (508, "false")
    message = answer.json()["error"]["message"]
    assert f"passed {MOST_HOPS} gateways and goes in a circle" in message
    assert "the request is not at fault" in message
    until(lambda: _served(circle) >= before + MOST_HOPS + 1)
    assert _served(circle) == before + MOST_HOPS + 1
    assert {line["error"] for line in circle[0].lines if line["event"] == "request"} == {"gateway_loop"}


def test_lists_of_models_in_a_circle(circle: tuple[Started, Started]) -> None:
    """Each asks the other, who is waiting for it: the one that is asked meanwhile says what it knows."""
    headers = {"authorization": f"Bearer {CLIENT_KEY}"}
    before, began = _served(circle), time.monotonic()
    lists = [httpx2.get(one.url + "/v1/models", headers=headers, timeout=20) for one in circle]
    assert time.monotonic() - began < PATIENCE_SECONDS + 3
    assert [{model["id"] for model in found.json()["data"]} for found in lists] == [{"first", "second"}] * 2
    until(lambda: _served(circle) >= before + 4)
    assert _served(circle) <= before + 5


@EVERY_CLIENT
@pytest.mark.parametrize("upstream", Protocol, ids=lambda protocol: protocol.short)
def test_every_upstream_may_be_a_gateway(
    gateway: Gateway, up: ScriptedUpstream, client: Protocol, upstream: Protocol
) -> None:
    """So each hears how many there were, translated or not; a client that says so is counted on."""
    for said, told in (({}, "1"), ({HOPS: "4"}, "5"), ({HOPS: "many"}, "1")):
        asked = body(client, f"{upstream.short}/text", stream=False, tools=False)
        answer = gateway.http.post(PATHS[client], content=json.dumps(asked), headers=said)
        assert answer.status_code == 200, answer.text
        assert dict(up.last().headers)[HOPS] == told


@pytest.mark.parametrize(
    ("url", "seen"),
    [
        ("https://api.openai.com/v1", False),
        ("https://api.anthropic.com", False),
        ("https://api.anthropic.com/v1", False),
        ("https://gateway.example/v1", True),
    ],
)
def test_the_official_apis_hear_nothing_of_it(url: str, seen: bool) -> None:
    """No circle goes through them."""
    config = ProviderConfig(protocol=Protocol.CHAT, base_url=url)
    account = UpstreamAccount(AccountSettings(name="a"), [], config)
    posted = dict(account.posting(((HOPS, "1"), ("x-custom", "kept")), False, None, Protocol.CHAT))
    assert (HOPS in posted) is seen
    assert posted["x-custom"] == "kept"


@pytest.mark.parametrize(
    ("text", "hops"), [("", 0), ("1", 1), ("10", 10), ("-1", 0), ("1e9", 0), ("9" * 5000, 0), ("\u0663", 0)]
)
def test_what_is_no_count_counts_for_nothing(text: str, hops: int) -> None:
    """Anyone may send anything."""
    assert hops_of({HOPS: text}) == hops
