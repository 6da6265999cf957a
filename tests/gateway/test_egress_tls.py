"""Egress proxies of every kind in front of upstreams with TLS, through the whole gateway."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.pooling import accepting, account, config, pooled, secret
from tests.gateway.proxies import proxying
from tests.gateway.wire import CASES, outcome
from tests.scripted import thread
from tests.scripted.server import ScriptedUpstream
from tests.upstream.certificates import Authority
from trilogue.model import Protocol

LOGIN = "user:p%40ss-canary@"
KINDS = ["http", "https", "socks5", "socks5h"]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("root"))


@pytest.fixture(scope="module")
def up(authority: Authority) -> Iterator[ScriptedUpstream]:
    """An upstream with TLS, whose certificate only those trust who know our root."""
    served = accepting("a")
    served.tls = authority.server()
    with thread.running(served) as running:
        yield running


@pytest.mark.parametrize("kind", KINDS)
def test_tls_through_every_kind_of_proxy(tmp_path: Path, up: ScriptedUpstream, authority: Authority, kind: str) -> None:
    """The proxy is logged in to and learns where to connect to, and nothing else; its password is told to nobody."""
    up.requests.clear()
    trust = {"SSL_CERT_FILE": str(authority.file)}
    with proxying(kind, tls=authority.server()) as (proxy,):
        text = config([account("a", f"proxies: ['{proxy.url.replace('://', '://' + LOGIN)}']")])
        with pooled(tmp_path, text, up, environ=trust) as pool:
            for client, upstream, stream in CASES:
                answer = pool.ask(client, f"{upstream.short}/text", stream=stream)
                assert outcome(answer, client).how == "complete"
            assert "p@ss-canary" not in pool.gateway.log
            assert "p%40ss-canary" not in pool.gateway.log
    assert len(up.requests) == len(CASES)
    assert proxy.logins == {"user:p@ss-canary"}
    assert proxy.tunnels == {up.url.removeprefix("https://")}


def test_plain_upstream_behind_an_https_proxy(tmp_path: Path, authority: Authority) -> None:
    """No tunnel: the proxy gets the whole request, over TLS."""
    trust = {"SSL_CERT_FILE": str(authority.file)}
    with thread.running(accepting("a")) as plain, proxying("https", tls=authority.server()) as (proxy,):
        text = config([account("a", f"proxies: ['{proxy.url}']")])
        with pooled(tmp_path, text, plain, environ=trust) as pool:
            for client, upstream, stream in CASES:
                answer = pool.ask(client, f"{upstream.short}/text", stream=stream)
                assert outcome(answer, client).how == "complete"
        assert len(plain.requests) == len(CASES)
    assert proxy.connections > 0
    assert proxy.tunnels == set()


def test_a_proxy_with_an_untrusted_certificate(tmp_path: Path, up: ScriptedUpstream, authority: Authority) -> None:
    """It gets neither the request nor the key; the proxy is to blame, and the account goes through another one."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    up.requests.clear()
    trust = {"SSL_CERT_FILE": str(authority.file)}
    with (
        proxying("https", tls=Authority(elsewhere).server()) as (stranger,),
        proxying("https", tls=authority.server()) as (known,),
    ):
        text = config([account("a", f"proxies: ['{stranger.url}', '{known.url}']")])
        with pooled(tmp_path, text, up, environ=trust) as pool:
            for protocol in Protocol:
                answer = pool.ask(protocol, f"{protocol.short}/text")
                assert outcome(answer, protocol).how == "complete"
                assert pool.decision(answer)["attempts"][-1]["proxy"] == 1
            assert {line["state"] for line in pool.accounts().values()} == {"ready"}
            assert secret("a") not in pool.gateway.log
    assert (stranger.connections, stranger.tunnels) == (0, set())
    assert known.tunnels == {up.url.removeprefix("https://")}
