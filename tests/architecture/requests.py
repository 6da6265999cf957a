"""The requests whose way through the code is watched, and what is called meanwhile."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from tests.architecture.calls import Call, recorder
from tests.architecture.in_process import gateway_in_process
from tests.gateway.running import CLIENT_KEY
from tests.gateway.sockets import socket_to
from tests.gateway.wire import exchange, outcome, payload, post, request
from tests.scripted.server import ScriptedUpstream
from tests.timing import eventually_async
from trilogue import Protocol

KEYS = ("key-of-first", "key-of-second")
PROVIDERS = f"""\
pool: {{persist: false}}
state: memory
providers:
  chat:
    protocol: openai_chat_completions
    base_url: UPSTREAM/v1
    accounts: [{{name: first, key: {KEYS[0]}, priority: 1}}, {{name: second, key: {KEYS[1]}, priority: 2}}]
  messages: {{protocol: anthropic_messages, base_url: UPSTREAM, accounts: [{KEYS[0]}]}}
"""
PLAIN = f"keys: [{CLIENT_KEY}]\n{PROVIDERS}"
JUDGED = f"""\
keys: [{{key: {CLIENT_KEY}, name: limited, limits: {{requests_per_minute: 10}}, policies: [no-shell]}}]
policies: {{no-shell: {{use: tools, deny: [bash]}}}}
{PROVIDERS}"""


class Case(NamedTuple):
    """A request, and the configuration of its gateway."""

    title: str
    client: Protocol
    stream: bool = False
    config: str = PLAIN
    refusal: str = ""
    """what the upstream says to the first account, if it is not a response"""
    continued: bool = False
    """whether the request goes over a WebSocket and continues a stored response"""


CASES = [
    Case("A translated request", Protocol.MESSAGES),
    Case("A translated stream", Protocol.MESSAGES, stream=True),
    Case("A pass-through", Protocol.CHAT, stream=True),
    Case("A 429, then the next account", Protocol.CHAT, refusal="error-429"),
]
"""those whose calls the page lists"""
WALKS = [
    *CASES,
    Case("A whole pass-through", Protocol.CHAT),
    Case("A translated stream with a policy and a limited key", Protocol.MESSAGES, stream=True, config=JUDGED),
    Case("A stored response, continued over a WebSocket", Protocol.RESPONSES, stream=True, continued=True),
]
"""those whose files are counted"""


def calls_of(case: Case) -> list[Call]:
    """Return all calls inside the package while a gateway in this process responds to a request.

    The request is made by two gateways, one after the other, and the second is watched: the first fills caches and
    loads modules, which would otherwise depend on what ran before.
    """
    for _ in range(2):
        with TemporaryDirectory() as folder:
            found = asyncio.run(_calls_of(case, Path(folder)))
    return found


async def _calls_of(case: Case, folder: Path) -> list[Call]:
    async with ScriptedUpstream(keys=KEYS) as up:
        up.by_key = {KEYS[0]: case.refusal} if case.refusal else {}
        async with gateway_in_process(folder, case.config.replace("UPSTREAM", up.url)) as gateway:
            ask = await _continuation(gateway.url) if case.continued else lambda: _ask(gateway.url, case)
            expected = len(up.requests) + 1 + bool(case.refusal)
            calls, profile = recorder()
            sys.setprofile(profile)
            try:
                await ask()
                await eventually_async(gateway.is_idle)
            finally:
                sys.setprofile(None)
        assert len(up.requests) == expected
    return calls


async def _ask(url: str, case: Case) -> None:
    response = await exchange(url, request(case.client, "chat/text", stream=case.stream))
    assert outcome(response, case.client).how == "complete"


async def _continuation(url: str) -> Callable[[], Awaitable[None]]:
    """Store a response, and return what continues it over a WebSocket."""
    model = "messages/text"
    first = await exchange(url, post("/v1/responses", payload(Protocol.RESPONSES, model, stream=False, store=True)))
    assert first.status == 200

    def ask() -> None:
        with socket_to(url) as socket:
            end = socket.ask(model, "And now?", previous_response_id=first.json["id"])
        assert end["type"] == "response.completed"

    return lambda: asyncio.to_thread(ask)
