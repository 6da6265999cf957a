"""Generated sessions of all clients with all families of models: no request breaks the prefix of the one before it.

`make test` plays one session for each pair of protocols and family of models; the slow test plays every client with
every family, streamed and not, with one account and with three.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, product
from typing import NamedTuple

import pytest

from tests.caches.clients import Client
from tests.caches.clients_messages import ClaudeCode, MessagesClient, OpencodeMessages, PlainMessages, SdkMessages
from tests.caches.clients_openai import (
    Chain,
    Codex,
    CodexSocket,
    OpencodeChat,
    OpencodeResponses,
    SdkChat,
    SdkResponses,
)
from tests.caches.prefixes import problems
from tests.caches.running import World, world
from tests.caches.sessions import generated
from trilogue.model import Protocol

FAMILIES: dict[Protocol, dict[str, str]] = {
    Protocol.CHAT: {
        "openai-chat/gpt-5.4": "openai-chat/gpt-5.1",
        "deepseek/deepseek-reasoner": "deepseek/deepseek-chat",
        "vllm/qwen3": "vllm/gemma3",
    },
    Protocol.MESSAGES: {
        "anthropic/claude-opus-4-8": "anthropic/claude-sonnet-5",
        "anthropic/claude-opus-4-5": "anthropic/claude-sonnet-4-5",
        "glm/glm-4.6": "glm/glm-4.5-air",
    },
    Protocol.RESPONSES: {
        "openai/gpt-5.4": "openai/gpt-5.1",
        "openai/gpt-5.6": "openai/gpt-5.6-mini",
        "vllm-responses/qwen3": "vllm-responses/gemma3",
    },
}
"""the models of an upstream, and those that a session changes to and back"""
KINDS: dict[Protocol, tuple[type[Client], ...]] = {
    Protocol.CHAT: (OpencodeChat, SdkChat),
    Protocol.MESSAGES: (ClaudeCode, OpencodeMessages, SdkMessages, PlainMessages),
    Protocol.RESPONSES: (Codex, Chain, CodexSocket, SdkResponses, OpencodeResponses),
}


class Played(NamedTuple):
    """One session."""

    kind: type[Client]
    model: str
    other: str
    stream: bool
    accounts: int
    seed: int

    def __str__(self) -> str:
        how = f"{'stream' if self.stream else 'whole'}-{self.accounts}"
        return f"{self.kind.__name__}-{self.model.replace('/', '-')}-{how}-{self.seed}"


def _sample() -> Iterator[Played]:
    """Yield a session for each client protocol and family; clients, streams and accounts take turns."""
    kinds = {protocol: cycle(found) for protocol, found in KINDS.items()}
    ways = cycle(product((1, 3), (True, False)))
    upstreams = [pair for families in FAMILIES.values() for pair in families.items()]
    for seed, (client, (model, other)) in enumerate(product(Protocol, upstreams)):
        accounts, stream = next(ways)
        yield Played(next(kinds[client]), model, other, stream, accounts, seed)


def _all() -> Iterator[Played]:
    every = [kind for kinds in KINDS.values() for kind in kinds]
    upstreams = [pair for families in FAMILIES.values() for pair in families.items()]
    for seed, (kind, pair, stream, accounts) in enumerate(product(every, upstreams, (True, False), (1, 3)), 1000):
        yield Played(kind, *pair, stream, accounts, seed)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One upstream, and gateways with one and with three accounts."""
    with world(tmp_path_factory.mktemp("caches")) as found:
        yield found


def _check(played: World, one: Played) -> None:
    client = one.kind(one.model, stream=one.stream)
    if isinstance(client, MessagesClient) and "4-5" in one.model and "claude" in one.model:
        # The client knows which of its own vendor's models refuse instructions in the middle.
        client.mid_system = False
    session = generated(one.seed, one.other, images="deepseek" not in one.model)
    exchanges = played.through(client, session, one.accounts)
    assert len(exchanges) > 2
    assert problems(exchanges, client.protocol) == []
    assert played.up.refusals == []


@pytest.mark.parametrize("one", list(_sample()), ids=str)
def test_each_request_begins_with_the_one_before(played: World, one: Played) -> None:
    """Tools, instructions and turns come in the same form every time, and from the same account."""
    _check(played, one)


@pytest.mark.slow
@pytest.mark.parametrize("one", list(_all()), ids=str)
def test_each_request_of_every_client_begins_with_the_one_before(played: World, one: Played) -> None:
    """As above, for all clients, families, ways of responding and numbers of accounts."""
    _check(played, one)
