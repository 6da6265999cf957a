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
    PROVIDERS
    + """
  own: {protocol: anthropic_messages, base_url: UPSTREAM, vendor: anthropic, accounts: [{key: env:UP_KEY}]}
  kept:
    protocol: openai_chat_completions
    base_url: UPSTREAM/v1
    accounts: [{key: env:UP_KEY}]
    profile: {billing_block: true}
  removed:
    protocol: anthropic_messages
    base_url: UPSTREAM
    vendor: anthropic
    accounts: [{key: env:UP_KEY}]
    profile: {billing_block: false}
"""
)


@pytest.fixture(scope="module")
def quiet(_upstream: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway with upstreams that are Anthropic's own, those that are not, and those with a setting."""
    with running(tmp_path_factory.mktemp("billing"), CONFIG, _upstream.url) as gateway:
        yield gateway


def ask(gateway: Gateway, upstream: str, number: int, mode: str = "declare", path: str = "") -> Any:
    system = [{"type": "text", "text": f"{LINE}{number:05x};"}, {"type": "text", "text": "You are Claude Code."}]
    asked = body(Protocol.MESSAGES, f"{upstream}/text", stream=False, tools=False) | {"system": system}
    return gateway.http.post(PATHS[Protocol.MESSAGES] + path, json=asked, headers={"trilogue-mode": mode})


EVERY_UPSTREAM = pytest.mark.parametrize("upstream", ["chat", "messages", "responses", "removed"])


@EVERY_UPSTREAM
def test_two_requests_are_alike(quiet: Gateway, up: ScriptedUpstream, upstream: str) -> None:
    """Without the block the upstream sees the same bytes again, and it is told what was left out."""
    answers = [ask(quiet, upstream, number) for number in (1, 2)]
    first, second = (request.body for request in up.requests)
    assert first == second
    assert b"You are Claude Code." in first
    assert LINE.encode() not in first
    for answer in answers:
        assert answer.status_code == 200
        assert "system.billing_block" in answer.headers["trilogue-loss"]


@pytest.mark.parametrize("upstream", ["own", "kept"])
def test_kept(quiet: Gateway, up: ScriptedUpstream, upstream: str) -> None:
    """Anthropic's own API gets what the client sent, and so does an upstream whose user wants that."""
    answer = ask(quiet, upstream, 1)
    assert answer.status_code == 200
    assert LINE.encode() in up.last().body
    assert "system.billing_block" not in answer.headers.get("trilogue-loss", "")


def test_kept_byte_for_byte(quiet: Gateway, up: ScriptedUpstream) -> None:
    """Anthropic binds thinking to what came before it."""
    sent = ask(quiet, "own", 1).request.content
    assert up.last().body == sent.replace(b'"own/text"', b'"text"')


@pytest.mark.parametrize(("upstream", "stays"), [("own", True), ("messages", False)])
def test_counted(quiet: Gateway, up: ScriptedUpstream, upstream: str, stays: bool) -> None:
    """Tokens are counted for the prompt that a request has."""
    ask(quiet, upstream, 1, path="/count_tokens")
    assert (LINE.encode() in up.last().body) is stays


@EVERY_UPSTREAM
def test_strict(quiet: Gateway, up: ScriptedUpstream, upstream: str) -> None:
    """Leaving it out is only a notice: strict mode does not refuse Claude Code."""
    answer = ask(quiet, upstream, 1, "strict")
    assert answer.status_code == 200
    assert LINE.encode() not in up.last().body
    assert "system.billing_block" in answer.headers["trilogue-loss"]
