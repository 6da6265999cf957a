"""The nine pairs, and what must hold for whatever goes over the wire."""

from __future__ import annotations

import json
from itertools import product
from typing import NamedTuple

import pytest

from tests.gateway.conversations import CONVERSATIONS, NOTHING, Conversation, Wish
from tests.gateway.running import Gateway
from tests.judges import sdk
from tests.scripted.server import ScriptedUpstream
from trilogue.lint import Finding, lint_request, lint_response, lint_stream
from trilogue.model import Protocol

PATHS = {
    Protocol.CHAT: "/v1/chat/completions",
    Protocol.MESSAGES: "/v1/messages",
    Protocol.RESPONSES: "/v1/responses",
}

EVERY_CLIENT = pytest.mark.parametrize("client", Protocol, ids=lambda protocol: protocol.short)


class Pair(NamedTuple):
    """A client's protocol, an upstream's, and whether answers are streamed."""

    client: Protocol
    upstream: Protocol
    stream: bool

    @property
    def same(self) -> bool:
        return self.client is self.upstream

    def talk(self, gateway: Gateway, scenario: str, wish: Wish = NOTHING) -> Conversation:
        """A conversation with a scenario of the upstream."""
        model = f"{self.upstream.short}/{scenario}"
        return CONVERSATIONS[self.client](gateway, model, stream=self.stream, wish=wish)


def _name(pair: Pair) -> str:
    return f"{pair.client.short}-{pair.upstream.short}-{'stream' if pair.stream else 'whole'}"


PAIRS = [Pair(*one) for one in product(Protocol, Protocol, (False, True))]
EVERY_PAIR = pytest.mark.parametrize("pair", PAIRS, ids=_name)
EVERY_TRANSLATION = pytest.mark.parametrize("pair", [pair for pair in PAIRS if not pair.same], ids=_name)


def check_wire(talked: Conversation, up: ScriptedUpstream, upstream: Protocol) -> None:
    """Both sides of the last exchange keep the rules of their protocols. Bytes that pass through are not ours."""
    sent = up.last(PATHS[upstream]).json
    if talked.protocol is upstream:
        return
    exchange = talked.exchange
    asked = exchange.asked
    if exchange.streamed:
        found = lint_stream(talked.protocol, exchange.body, request=asked)
    else:
        found = lint_response(talked.protocol, json.loads(exchange.body), request=asked)
    assert _errors(found) == []
    assert _errors(lint_request(upstream, sent)) == []
    assert sdk.request_problems(upstream, sent) == []


def _errors(findings: list[Finding]) -> list[str]:
    return [str(finding) for finding in findings if finding.severity == "error"]
