"""What a translation cannot carry is declared in a header and in the log; in strict mode it is refused beforehand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.gateway.pairs import EVERY_CLIENT, PATHS
from tests.gateway.running import CONFIG, Gateway, running
from tests.judges.loss_header import members
from tests.scripted.ask import body
from tests.scripted.server import ScriptedUpstream
from trilogue.lint import lint_error
from trilogue.model import LOSSES, Protocol

STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])

# A field of the client's protocol, an upstream that does not know it, and how that is told.
LOSSY: dict[Protocol, tuple[dict[str, Any], Protocol, str]] = {
    Protocol.CHAT: ({"seed": 7}, Protocol.MESSAGES, "param.dropped"),
    Protocol.MESSAGES: ({"top_k": 5}, Protocol.RESPONSES, "param.dropped"),
    Protocol.RESPONSES: ({"max_tool_calls": 3}, Protocol.CHAT, "param.dropped"),
}


def ask(gateway: Gateway, client: Protocol, upstream: Protocol, *, stream: bool = False, mode: str = "") -> Any:
    asked = body(client, f"{upstream.short}/text", stream=stream, tools=False) | LOSSY[client][0]
    asked.pop("thinking", None)
    return gateway.http.post(PATHS[client], json=asked, headers={"trilogue-mode": mode} if mode else {})


@EVERY_CLIENT
@STREAMED
def test_declared(gateway: Gateway, client: Protocol, stream: bool) -> None:
    """The answer comes, and says what was lost: codes of the documented list, each with its place."""
    field, upstream, code = LOSSY[client]
    answer = ask(gateway, client, upstream, stream=stream)
    assert answer.status_code == 200
    declared = members(answer.headers["trilogue-loss"])
    assert (code, next(iter(field))) in declared
    assert len(declared) == len(set(declared))
    assert {name for name, _ in declared} <= LOSSES.keys()
    assert code in gateway.record(answer.headers["x-request-id"])["losses"]


@EVERY_CLIENT
@STREAMED
def test_strict(gateway: Gateway, up: ScriptedUpstream, client: Protocol, stream: bool) -> None:
    """A native 400 that names the field, before anything is sent."""
    field, upstream, code = LOSSY[client]
    answer = ask(gateway, client, upstream, stream=stream, mode="Strict")
    assert answer.status_code == 400
    assert lint_error(client, answer.json()) == []
    message = answer.json()["error"]["message"]
    assert code in message
    assert next(iter(field)) in message
    assert answer.headers["x-should-retry"] == "false"
    assert up.requests == []


@EVERY_CLIENT
def test_strict_with_nothing_to_lose(gateway: Gateway, up: ScriptedUpstream, client: Protocol) -> None:
    """The same protocol on both sides loses nothing."""
    answer = ask(gateway, client, client, mode="strict")
    assert answer.status_code == 200
    assert "trilogue-loss" not in answer.headers


@pytest.mark.parametrize(("strict_from", "status"), [("notice", 400), ("dropped", 200)])
def test_strict_from(up: ScriptedUpstream, tmp_path: Path, strict_from: str, status: int) -> None:
    """The configuration decides from which severity on strict mode refuses."""
    with running(tmp_path, f"strict_from: {strict_from}\n{CONFIG}", up.url) as gateway:
        asked = {"model": "messages/text", "input": "hi", "max_tool_calls": 3}
        headers = {"trilogue-mode": "strict"}
        answer = gateway.http.post(PATHS[Protocol.RESPONSES], json=asked, headers=headers)
        assert answer.status_code == status
        if status == 400:
            assert "max_tokens.defaulted" in answer.json()["error"]["message"]


@EVERY_CLIENT
def test_a_mode_that_is_none(gateway: Gateway, up: ScriptedUpstream, client: Protocol) -> None:
    """Who misspells strict would otherwise never learn that it is off."""
    answer = ask(gateway, client, client, mode="strikt")
    assert answer.status_code == 400
    assert "trilogue-mode" in answer.json()["error"]["message"]
    assert up.requests == []


@EVERY_CLIENT
def test_what_has_no_equivalent(gateway: Gateway, up: ScriptedUpstream, client: Protocol) -> None:
    """What the user relies on and nobody could do is refused, in any mode."""
    fields: dict[Protocol, tuple[dict[str, Any], Protocol]] = {
        Protocol.CHAT: ({"n": 2}, Protocol.MESSAGES),
        Protocol.MESSAGES: ({"container": "container_1"}, Protocol.CHAT),
        Protocol.RESPONSES: ({"prompt": {"id": "pmpt_1"}}, Protocol.MESSAGES),
    }
    extra, upstream = fields[client]
    asked = body(client, f"{upstream.short}/text", stream=True) | extra
    answer = gateway.http.post(PATHS[client], json=asked)
    assert answer.status_code == 400
    assert lint_error(client, answer.json()) == []
    assert next(iter(extra)) in answer.json()["error"]["message"]
    assert up.requests == []
