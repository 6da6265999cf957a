"""Proxies that the environment names, through the whole gateway."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gateway.pooling import accepting, account, config, pooled
from tests.gateway.proxies import proxying
from tests.gateway.wire import CASES, outcome
from tests.scripted import thread
from trilogue.model import Protocol


@pytest.mark.parametrize("kind", ["http", "socks5h"])
def test_followed_if_asked(tmp_path: Path, kind: str) -> None:
    """The upstream has a name that only the proxy can resolve."""
    with thread.running(accepting("a")) as up, proxying(kind) as (proxy,):
        far = config([account("a")], more="env_proxies: true\n").replace(
            "UPSTREAM", up.url.replace("127.0.0.1", "up.test")
        )
        with pooled(tmp_path, far, up, environ={"ALL_PROXY": proxy.url, "NO_PROXY": "other.test"}) as pool:
            for client, upstream, stream in CASES:
                answer = pool.ask(client, f"{upstream.short}/text", stream=stream)
                assert outcome(answer, client).how == "complete"
                assert pool.decision(answer)["attempts"][0]["proxy"] == 0
        assert len(up.requests) == len(CASES)
        assert proxy.connections > 0


@pytest.mark.parametrize("more", ["", "env_proxies: true\n"], ids=["not asked", "this machine"])
def test_left_alone(tmp_path: Path, more: str) -> None:
    """Where nobody asked, and for upstreams on this machine."""
    with thread.running(accepting("a")) as up, proxying("http") as (proxy,):
        environ = {"ALL_PROXY": proxy.url, "HTTP_PROXY": proxy.url, "http_proxy": proxy.url}
        with pooled(tmp_path, config([account("a")], more=more), up, environ=environ) as pool:
            assert pool.ask(Protocol.CHAT, "chat/text").status == 200
        assert proxy.connections == 0
