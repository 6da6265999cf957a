"""Real gateways in front of the strict upstreams, and the official clients that call them.

This is the only place that knows the names of the settings that these tests rely on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from tests.gateway.pooling import account
from tests.gateway.process import Started, started
from tests.gateway.running import CLIENT_KEY
from tests.multiturn.strict import StrictUpstream
from trilogue.model import Protocol

OTHER_KEY = "other-client-key-canary-9b2e"
NO_STATE = "none"
SHARED = "shared_objects: all"
STATE_FOLDER = "trilogue"
"""under XDG_STATE_HOME, which each test gateway has its own of"""
MODELS = {
    Protocol.CHAT: "chat/deepseek-reasoner",
    Protocol.MESSAGES: "messages/claude-opus-4-5",
    Protocol.RESPONSES: "responses/gpt-5.4",
}
OTHER_MODELS = {
    Protocol.CHAT: "moonshot/kimi-k2-thinking",
    Protocol.MESSAGES: "messages/claude-opus-4-8",
    Protocol.RESPONSES: "responses/gpt-5.1",
}
"""the models that a conversation changes to"""
PROVIDERS = (
    ("chat", Protocol.CHAT, "/deepseek/v1", "profile: deepseek"),
    ("moonshot", Protocol.CHAT, "/moonshot/v1", "profile: deepseek, vendor: moonshot"),
    ("plain", Protocol.CHAT, "/plain/v1", "profile: compatible"),
    ("messages", Protocol.MESSAGES, "", "vendor: anthropic"),
    ("responses", Protocol.RESPONSES, "/v1", "vendor: openai, profile: {keeps_state: true}"),
    ("bare", Protocol.RESPONSES, "/bare/v1", "vendor: openai, profile: {keeps_state: false}"),
)


def settings(
    *,
    workers: int = 1,
    state: str = "",
    accounts: tuple[str, ...] = ("a", "b"),
    provider: str = "",
    server: str = "",
    more: str = "",
) -> str:
    """Return a configuration.

    `state` is `none`, a path or a `postgresql://` URL; `provider` is added to each provider, `server` to the server.
    """
    pool = ", ".join(account(name, f"priority: {tier}") for tier, name in enumerate(accounts, 1))
    lines = [
        f"  {name}: {{protocol: {protocol.value}, base_url: UPSTREAM{path}, accounts: [{pool}], {what}"
        f"{', ' + provider if provider else ''}}}"
        for name, protocol, path, what in PROVIDERS
    ]
    lines.append('  demo: {protocol: openai_responses, base_url: "demo:"}')
    kept = [f"state: {state}"] if state else []
    keys = "keys: [{name: one, key: env:TRILOGUE_KEY}, {name: other, key: env:OTHER_KEY}]"
    first = f"server: {{workers: {workers}, drain_seconds: 2{', ' + server if server else ''}}}"
    return "\n".join([first, keys, *kept, "providers:", *lines, more])


EVERY_UPSTREAM = pytest.mark.parametrize("upstream", Protocol, ids=lambda protocol: protocol.short)
WITHOUT_COMPACTION_BY_MODEL = "compaction: none"
"""the setting of a provider whose model may not write a summary"""


@dataclass
class Gateway:
    """A running gateway and its clients. They never retry."""

    process: Started
    folder: Path
    up: StrictUpstream
    open: ExitStack
    """closes the clients: sockets that are left open are an error"""

    @property
    def url(self) -> str:
        return self.process.url

    def client_of(self, key: str = CLIENT_KEY) -> openai.OpenAI:
        """Return an OpenAI client with a key."""
        # A connection per request, so that every worker gets some.
        http = httpx2.Client(limits=httpx2.Limits(max_keepalive_connections=0), timeout=20)
        made = openai.OpenAI(api_key=key, base_url=f"{self.url}/v1", http_client=http, max_retries=0)
        return self.open.enter_context(made)

    def http(self, key: str = CLIENT_KEY) -> httpx2.Client:
        """Return a client that knows nothing of protocols."""
        made = httpx2.Client(base_url=self.url, headers={"authorization": f"Bearer {key}"}, timeout=20)
        return self.open.enter_context(made)

    @cached_property
    def client(self) -> openai.OpenAI:
        """Return the OpenAI client of the usual key."""
        return self.client_of()

    @cached_property
    def other(self) -> openai.OpenAI:
        """Return the OpenAI client of another key."""
        return self.client_of(OTHER_KEY)

    def asynchronous(self) -> openai.AsyncOpenAI:
        """Return an asynchronous OpenAI client, to be used with `async with`."""
        return openai.AsyncOpenAI(api_key=CLIENT_KEY, base_url=f"{self.url}/v1", max_retries=0, timeout=20)

    @cached_property
    def anthropic(self) -> anthropic.Anthropic:
        """Return the Anthropic client of the usual key."""
        made = anthropic.Anthropic(api_key=CLIENT_KEY, base_url=self.url, max_retries=0, timeout=20)
        return self.open.enter_context(made)

    def state_bytes(self) -> bytes:
        """Return everything that is in the state folder."""
        pieces = []
        for file in sorted((self.folder / STATE_FOLDER).rglob("*")):
            with suppress(FileNotFoundError):
                pieces.append(file.read_bytes() if file.is_file() else b"")
        return b"".join(pieces)


@contextmanager
def gateway(folder: Path, up: StrictUpstream, config: str = "", **options: Any) -> Iterator[Gateway]:
    """Run a gateway. One that is started again in the same folder finds the state of the one before."""
    environ = {"OTHER_KEY": OTHER_KEY, **options.pop("environ", {})}
    with started(folder, config or settings(), up.url, environ=environ, **options) as process, ExitStack() as stack:
        yield Gateway(process, folder, up, stack)
