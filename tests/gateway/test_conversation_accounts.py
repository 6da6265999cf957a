"""A conversation stays with its account: its prompt cache is there, and only that account can read its reasoning."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.pooling import Pooled, accepting, account, config, pooled, secret
from tests.gateway.process import until
from tests.gateway.sockets import socket_to
from tests.gateway.wire import Answer
from tests.scripted import thread
from tests.scripted.server import ScriptedUpstream
from trilogue.model import Protocol

C, M, R = Protocol.CHAT, Protocol.MESSAGES, Protocol.RESPONSES
NAMES = ("a", "b", "c")
TURNS = 8
EVERY_UPSTREAM = pytest.mark.parametrize("upstream", Protocol, ids=lambda protocol: protocol.short)


@pytest.fixture(scope="module")
def up() -> Iterator[ScriptedUpstream]:
    with thread.running(accepting(*NAMES)) as server:
        yield server


@pytest.fixture(scope="module")
def gateway(up: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pooled]:
    """Three accounts, of which the least recently used one is next."""
    with pooled(tmp_path_factory.mktemp("conversations"), three_accounts(), up) as running:
        yield running


@pytest.fixture(autouse=True)
def _all_accounts(up: ScriptedUpstream, request: pytest.FixtureRequest) -> None:
    up.by_key = {secret(name): "text" for name in NAMES}
    up.requests.clear()
    if "gateway" in request.fixturenames:
        request.getfixturevalue("gateway").renew()


def three_accounts(more: str = "") -> str:
    return config([account(name) for name in NAMES], more=more)


def chain(gateway: Pooled, upstream: Protocol, turns: int, previous: str | None = None, about: str = "Turn") -> str:
    """Ask for several turns, each of which continues the one before. Return the id of the last response."""
    for turn in range(turns):
        given = {"input": f"{about} {turn}."} | ({"previous_response_id": previous} if previous else {})
        answer = gateway.ask(R, f"{upstream.short}/text", stream=turn % 2 == 1, store=True, **given)
        assert answer.status == 200, answer.body
        previous = response_id(answer)
    return previous or ""


def response_id(answer: Answer) -> str:
    """The id of a response, streamed or not."""
    text = answer.body.decode()
    if not text.startswith("{"):
        text = next(line for line in text.splitlines() if '"response.completed"' in line and line.startswith("data:"))
        return str(json.loads(text.removeprefix("data: "))["response"]["id"])
    return str(json.loads(text)["id"])


def explained(gateway: Pooled, request_id: str = "last") -> dict[str, Any]:
    """What is known about a request that has ended."""
    found: dict[str, Any] = {}

    def ended() -> bool:
        found.update(gateway.admin.get(f"/requests/{request_id}").json())
        return not found["running"]

    until(ended)
    return found


@EVERY_UPSTREAM
def test_a_chain_of_responses(gateway: Pooled, upstream: Protocol) -> None:
    chain(gateway, upstream, TURNS)
    assert len(set(gateway.asked())) == 1
    assert len(gateway.asked()) == TURNS
    chain(gateway, upstream, 2, about="Another turn")
    assert len(set(gateway.asked())) == 2


@EVERY_UPSTREAM
@pytest.mark.parametrize("store", [True, False], ids=["stored", "unstored"])
def test_a_chain_over_a_websocket(gateway: Pooled, upstream: Protocol, store: bool) -> None:
    previous: str | None = None
    with socket_to(gateway.gateway.url) as socket:
        for turn in range(TURNS):
            end = socket.ask(f"{upstream.short}/text", f"{turn}", store=store, previous_response_id=previous)
            previous = end["response"]["id"]
    assert len(gateway.asked()) == TURNS
    assert len(set(gateway.asked())) == 1


@EVERY_UPSTREAM
@pytest.mark.parametrize("store", [True, False], ids=["stored", "unstored"])
def test_connections_that_are_prepared(gateway: Pooled, upstream: Protocol, store: bool) -> None:
    """Codex prepares each connection with a response that no upstream makes, and names its session."""
    model = f"{upstream.short}/text"
    for number in range(4):
        with socket_to(gateway.gateway.url) as socket:
            fields: dict[str, Any] = {"store": store, "prompt_cache_key": f"session-{upstream.short}-{store}"}
            previous = socket.ask(model, f"{number}", generate=False, **fields)["response"]["id"]
            for turn in range(2):
                end = socket.ask(model, f"{turn}", previous_response_id=previous, **fields)
                previous = end["response"]["id"]
    assert len(gateway.asked()) == 8
    assert len(set(gateway.asked())) == 1


@pytest.mark.parametrize("upstream", [C, M], ids=lambda protocol: protocol.short)
def test_a_response_that_no_upstream_has_made(gateway: Pooled, upstream: Protocol) -> None:
    """In the middle of a chain: the next turn goes to the account of the turn before it."""
    model = f"{upstream.short}/text"
    with socket_to(gateway.gateway.url) as socket:
        previous = socket.ask(model, "First")["response"]["id"]
        previous = socket.ask(model, "Next", generate=False, previous_response_id=previous)["response"]["id"]
        socket.ask(model, "Last", previous_response_id=previous)
    assert len(gateway.asked()) == 2
    assert len(set(gateway.asked())) == 1


@EVERY_UPSTREAM
def test_a_conversation_object(gateway: Pooled, upstream: Protocol) -> None:
    headers = {"authorization": "Bearer client-key-canary-5f0c"}
    made = gateway.admin.post(f"{gateway.gateway.url}/v1/conversations", json={}, headers=headers).json()["id"]
    for turn in range(TURNS):
        answer = gateway.ask(R, f"{upstream.short}/text", input=f"Turn {turn}.", store=True, conversation=made)
        assert answer.status == 200, answer.body
    assert len(set(gateway.asked())) == 1


@EVERY_UPSTREAM
@pytest.mark.parametrize("persist", [True, False], ids=["kept", "forgotten"])
def test_a_chain_goes_on_after_a_restart(
    up: ScriptedUpstream, tmp_path: Path, upstream: Protocol, persist: bool
) -> None:
    """Also if the accounts of conversations are not kept: a stored response knows its account."""
    text = three_accounts("" if persist else "pool: {persist: false}\n")
    with pooled(tmp_path, text, up) as first:
        # So that the chain is not with the account that is the first one after a restart.
        chain(first, upstream, 1, about="Another turn")
        last = chain(first, upstream, 3)
        before = set(first.asked()[1:])
        first.gateway.signal(signal.SIGTERM if persist else signal.SIGKILL)
        first.gateway.process.wait(30)
    assert len(before) == 1
    up.requests.clear()
    with pooled(tmp_path, text, up) as second:
        chain(second, upstream, 3, last)
        assert set(second.asked()) == before


@EVERY_UPSTREAM
def test_a_limit_moves_a_chain_once(gateway: Pooled, upstream: Protocol) -> None:
    """It stays with its new account, also when the old one can be used again: the cache is there now."""
    last = chain(gateway, upstream, 2)
    old = gateway.asked()[0]
    gateway.up.by_key[secret(old)] = "error-429"
    gateway.up.requests.clear()
    last = chain(gateway, upstream, 1, last)
    assert gateway.asked()[0] == old
    new = gateway.asked()[-1]
    assert new != old
    found = explained(gateway)["attempts"][-1]
    assert (found["left"], found["broken"]) == (old, "tried")
    assert found["chosen"] == (
        f"the next account; the conversation was with {old} and changed because the account is over its rate limit"
    )
    gateway.up.by_key[secret(old)] = "text"
    assert gateway.admin.post(f"/accounts/{upstream.short}/{old}/reset").status_code == 200
    gateway.up.requests.clear()
    chain(gateway, upstream, 4, last)
    assert gateway.asked() == [new] * 4
    assert explained(gateway)["attempts"][-1]["left"] == ""


def session_of(client: str, turn: int, agent: str = "") -> tuple[Protocol, dict[str, str], dict[str, Any]]:
    """A turn of a session as a client sends it: the protocol, what names the session, and the history."""
    said: list[dict[str, Any]] = [
        {"role": "assistant" if number % 2 else "user", "content": f"{number}"} for number in range(2 * turn + 1)
    ]
    if client == "claude-code":
        # Reminders come and go in the first turn, and the line for billing changes in every request.
        said[0] = {"role": "user", "content": [{"type": "text", "text": f"<system-reminder>{turn}</system-reminder>"}]}
        headers = {"x-claude-code-session-id": "0b7c"} | ({"x-claude-code-agent-id": agent} if agent else {})
        system = [{"type": "text", "text": f"x-anthropic-billing-header: cch={turn};"}, {"type": "text", "text": agent}]
        return M, headers, {"messages": said, "system": system}
    if client == "codex":
        session = f"0199-{agent}"
        return R, {"session_id": session}, {"input": said, "prompt_cache_key": session, "instructions": f"{turn}"}
    return C, {"x-session-affinity": f"ses_{agent}"}, {"messages": [{"role": "system", "content": f"{turn}"}, *said]}


@EVERY_UPSTREAM
@pytest.mark.parametrize("client", ["claude-code", "codex", "opencode"])
def test_clients_that_send_the_whole_history(gateway: Pooled, client: str, upstream: Protocol) -> None:
    """The names that they give their sessions count, whatever changes at the beginning of a request."""
    accounts: dict[str, set[str]] = {}
    for turn in range(TURNS):
        for agent in ("", "explorer"):
            gateway.up.requests.clear()
            protocol, headers, more = session_of(client, turn, agent)
            answer = gateway.ask(protocol, f"{upstream.short}/text", headers=headers, **more)
            assert answer.status == 200, answer.body
            accounts.setdefault(agent, set()).update(gateway.asked())
            # Somebody else's request in between.
            gateway.ask(C, f"{upstream.short}/text", messages=[{"role": "user", "content": f"{turn}{agent}"}])
    assert [len(found) for found in accounts.values()] == [1, 1]


REASONS: dict[str, tuple[str, str]] = {
    "by hand": ("disabled", "the account was disabled by hand"),
    "limited": ("cooling", "the account is over its rate limit"),
}


@pytest.mark.parametrize("reason", REASONS)
def test_why_a_conversation_has_left_its_account(gateway: Pooled, reason: str) -> None:
    broken, words = REASONS[reason]
    asked: dict[str, Any] = {"headers": {"x-session-affinity": f"ses_{reason}"}}
    gateway.ask(C, "chat/text", **asked)
    (old,) = gateway.asked()
    if reason == "by hand":
        assert gateway.admin.post(f"/accounts/chat/{old}/disable").status_code == 200
    else:
        gateway.up.by_key[secret(old)] = "error-429"
        while gateway.accounts()[f"chat/{old}"]["state"] != "cooling":
            gateway.ask(C, "chat/text", messages=[{"role": "user", "content": f"{len(gateway.asked())}"}])
    gateway.ask(C, "chat/text", **asked)
    (found,) = explained(gateway)["attempts"]
    assert (found["left"], found["broken"]) == (old, broken)
    assert found["chosen"] == f"the next account; the conversation was with {old} and changed because {words}"
    gateway.ask(C, "chat/text", **asked)
    (found,) = explained(gateway)["attempts"]
    assert (found["how"], found["left"]) == ("sticky", "")


def test_an_account_that_was_removed(up: ScriptedUpstream, tmp_path: Path) -> None:
    asked: dict[str, Any] = {"headers": {"x-session-affinity": "ses_1"}}
    with pooled(tmp_path, three_accounts(), up) as first:
        first.ask(C, "chat/text", **asked)
        (old,) = first.asked()
        first.gateway.signal(signal.SIGTERM)
        assert first.gateway.process.wait(30) == 0
    left = [name for name in NAMES if name != old]
    with pooled(tmp_path, config([account(name) for name in left]), up) as second:
        second.ask(C, "chat/text", **asked)
        (found,) = explained(second)["attempts"]
    assert found["left"] == old
    assert found["chosen"].endswith("changed because the configuration has no such account any more")


def test_a_new_conversation_has_left_no_account(gateway: Pooled) -> None:
    """Its first account has failed before it was with any."""
    gateway.up.by_key |= {secret(name): "error-500" for name in ("a", "b")}
    answer = gateway.ask(C, "chat/text", headers={"x-session-affinity": "ses_new"})
    attempts = explained(gateway, answer.headers["x-request-id"])["attempts"]
    assert attempts[-1]["account"] == "c"
    assert [one["chosen"] for one in attempts] == ["the next account"] * len(attempts)
