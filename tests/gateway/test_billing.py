"""Claude Code's billing block on its way to upstreams that are not Anthropic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.gateway.pairs import PATHS
from tests.gateway.running import PROVIDERS, Gateway, running
from tests.scripted.ask import body
from tests.scripted.server import ScriptedUpstream
from trilogue.model import Protocol

LINE = "x-anthropic-billing-header: cc_version=2.1.325.abc; cc_entrypoint=cli; cch="
CONFIG = (
    PROVIDERS.replace("web_search: true}", "web_search: true, billing_block: false}")
    .replace("UPSTREAM,    accounts: [{key: env:UP_KEY}]", "UPSTREAM, accounts: [{key: env:UP_KEY}], PROFILE")
    .replace("UPSTREAM/v1, accounts: [{key: env:UP_KEY}]", "UPSTREAM/v1, accounts: [{key: env:UP_KEY}], PROFILE")
    .replace("PROFILE", "profile: {billing_block: false}")
)


@pytest.fixture(scope="module")
def quiet(_upstream: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway whose upstreams are not to see the block."""
    with running(tmp_path_factory.mktemp("billing"), CONFIG, _upstream.url) as gateway:
        yield gateway


def ask(gateway: Gateway, upstream: Protocol, number: int, mode: str = "declare") -> Any:
    system = [{"type": "text", "text": f"{LINE}{number:05x};"}, {"type": "text", "text": "You are Claude Code."}]
    asked = body(Protocol.MESSAGES, f"{upstream.short}/text", stream=False, tools=False) | {"system": system}
    return gateway.http.post(PATHS[Protocol.MESSAGES], json=asked, headers={"trilogue-mode": mode})


EVERY_UPSTREAM = pytest.mark.parametrize("upstream", Protocol, ids=lambda protocol: protocol.short)


@EVERY_UPSTREAM
def test_two_requests_are_alike(quiet: Gateway, up: ScriptedUpstream, upstream: Protocol) -> None:
    """Without the block the upstream sees the same bytes again, and it is told what was left out."""
    answers = [ask(quiet, upstream, number) for number in (1, 2)]
    first, second = (request.body for request in up.requests)
    assert first == second
    assert b"You are Claude Code." in first
    assert LINE.encode() not in first
    for answer in answers:
        assert answer.status_code == 200
        assert "system.billing_block" in answer.headers["trilogue-loss"]


@EVERY_UPSTREAM
def test_passed_on_by_default(gateway: Gateway, up: ScriptedUpstream, upstream: Protocol) -> None:
    """Nothing is left out unless someone says so."""
    answer = ask(gateway, upstream, 1)
    assert LINE.encode() in up.last().body
    assert "system.billing_block" not in answer.headers.get("trilogue-loss", "")


@EVERY_UPSTREAM
def test_strict(quiet: Gateway, up: ScriptedUpstream, upstream: Protocol) -> None:
    """Leaving it out was configured, and is only a notice: strict mode does not refuse it."""
    answer = ask(quiet, upstream, 1, "strict")
    assert answer.status_code == 200
    assert LINE.encode() not in up.last().body
    assert "system.billing_block" in answer.headers["trilogue-loss"]
