"""With `state: none`: requests that rely on what an upstream keeps of earlier ones, and upstreams that keep nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.gateway.pairs import PATHS
from tests.gateway.running import Gateway, running
from tests.scripted.ask import body
from tests.scripted.server import ScriptedUpstream
from trilogue.model import Protocol

CONFIG = """\
keys: [env:TRILOGUE_KEY]
state: none
providers:
  none: {protocol: PROTOCOL, base_url: UPSTREAM/v1, accounts: [{key: env:UP_KEY}], profile: {keeps_state: false}}
  some: {protocol: PROTOCOL, base_url: UPSTREAM/v1, accounts: [{key: env:UP_KEY}], profile: {keeps_state: true}}
  auto: {protocol: PROTOCOL, base_url: UPSTREAM/v1, accounts: [{key: env:UP_KEY}]}
routes:
  - {match: both, targets: [none/text, some/text]}
"""
STATE: list[tuple[Protocol, dict[str, Any]]] = [
    (Protocol.MESSAGES, {"thread": {"type": "create"}}),
    (Protocol.MESSAGES, {"thread": {"type": "continue", "previous_message_id": "msg_1"}}),
    (Protocol.RESPONSES, {"previous_response_id": "resp_1"}),
    (Protocol.RESPONSES, {"conversation": "conv_1"}),
]


def ask(gateway: Gateway, client: Protocol, model: str, **more: Any) -> Any:
    return gateway.http.post(PATHS[client], json=body(client, model, stream=False, tools=False) | more)


@pytest.mark.parametrize(("client", "state"), STATE, ids=lambda value: str(value)[:30])
def test_refused_before_it_is_sent(
    tmp_path: Path, up: ScriptedUpstream, client: Protocol, state: dict[str, Any]
) -> None:
    """An upstream that ignored the field would answer without the history. Another target may keep it."""
    with running(tmp_path, CONFIG.replace("PROTOCOL", client.value), up.url) as gateway:
        refused = ask(gateway, client, "none/text", **state)
        assert refused.status_code == 400
        assert "keeps nothing of earlier requests" in refused.json()["error"]["message"]
        if client is Protocol.MESSAGES:
            assert refused.json()["error"]["details"]["error_code"] == "thread_unsupported_request"
        else:
            assert refused.json()["error"]["param"] == next(iter(state))
        assert up.requests == []
        assert ask(gateway, client, "some/text", **state).status_code == 200
        assert ask(gateway, client, "both", **state).status_code == 200
        assert len(up.requests) == 2


@pytest.mark.parametrize(
    ("client", "model", "status"),
    [
        (Protocol.MESSAGES, "auto/text", 400),
        (Protocol.MESSAGES, "auto/claude-opus-4-8", 200),
        (Protocol.RESPONSES, "auto/text", 200),
    ],
)
def test_by_the_name(tmp_path: Path, up: ScriptedUpstream, client: Protocol, model: str, status: int) -> None:
    """Of Messages models only Claude is known to have threads; Responses servers say what they do not know."""
    state = {"thread": {"type": "create"}} if client is Protocol.MESSAGES else {"previous_response_id": "resp_1"}
    up.aliases["claude-opus-4-8"] = "text"
    with running(tmp_path, CONFIG.replace("PROTOCOL", client.value), up.url) as gateway:
        assert ask(gateway, client, model, **state).status_code == status


@pytest.mark.parametrize("client", [Protocol.MESSAGES, Protocol.RESPONSES], ids=lambda protocol: protocol.short)
def test_words_are_no_state(tmp_path: Path, up: ScriptedUpstream, client: Protocol) -> None:
    """The same names elsewhere, or without a value, say nothing."""
    with running(tmp_path, CONFIG.replace("PROTOCOL", client.value), up.url) as gateway:
        inner = {"metadata": {"thread": "1", "conversation": "1"}, "thread": None, "previous_response_id": None}
        assert ask(gateway, client, "none/text", **inner).status_code == 200
