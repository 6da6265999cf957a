"""Gateways with several accounts per provider, told apart by their keys, and a look at them through the admin API."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from tests.gateway.process import Started, started
from tests.gateway.wire import Answer, exchange, post
from tests.scripted.ask import PATHS, body
from tests.scripted.http import Recorded
from tests.scripted.server import ScriptedUpstream, key_of
from trilogue.model import Protocol

ADMIN_KEY = "admin-key-canary-7d1e9a"
ADMIN = "admin: {key: env:ADMIN_KEY, port: 0}\n"
CLOCKS = """\
server:
  timeouts: {connect: 20, first_byte: 20, first_event: 20, between_events: 20, total: 60}
"""
SHORT_CLOCKS = """\
server:
  timeouts: {connect: 0.5, first_byte: 0.4, first_event: 0.4, between_events: 0.4, total: 8}
"""
"""for upstreams that hang; a busy machine misses them"""
BASES = {Protocol.CHAT: "UPSTREAM/v1", Protocol.MESSAGES: "UPSTREAM", Protocol.RESPONSES: "UPSTREAM/v1"}


def secret(account: str) -> str:
    """The key of an account."""
    return f"up-key-canary-{account}"


def account(name: str, more: str = "") -> str:
    """An account's line."""
    return f"{{name: {name}, key: {secret(name)}{', ' + more if more else ''}}}"


def ranked(*names: str) -> list[str]:
    """Accounts of which the first is used as long as it can be, then the second, and so on."""
    return [account(name, f"priority: {tier}") for tier, name in enumerate(names, 1)]


def config(accounts: list[str], *, provider: str = "", more: str = "", workers: int = 1, clocks: str = CLOCKS) -> str:
    """One provider per protocol, each with these accounts."""
    lines = [
        f"  {protocol.short}: {{protocol: {protocol.value}, base_url: {BASES[protocol]}, "
        f"accounts: [{', '.join(accounts)}]{', ' + provider if provider else ''}}}"
        for protocol in Protocol
    ]
    server = f"{clocks}  workers: {workers}\n"
    return "\n".join([server + "keys: [env:TRILOGUE_KEY]", "providers:", *lines, ADMIN, more])


@dataclass
class Pooled:
    """A running gateway with an admin interface, and its upstream."""

    gateway: Started
    up: ScriptedUpstream
    admin: httpx2.Client

    def ask(self, client: Protocol, model: str, *, stream: bool = False, **more: Any) -> Answer:
        """One request by hand."""
        return asyncio.run(self.asking(client, model, stream=stream, **more))

    async def asking(
        self, client: Protocol, model: str, *, stream: bool, headers: Mapping[str, str] | None = None, **more: Any
    ) -> Answer:
        """As `ask`, for several at a time."""
        data = json.dumps(body(client, model, stream=stream, tools=False) | more).encode()
        sent = post(PATHS[client], data, {"connection": "close", **(headers or {})})
        return await exchange(self.gateway.url, sent)

    def ask_all(self, client: Protocol, model: str, *, stream: bool) -> dict[Protocol, Answer]:
        """One request to each upstream, at the same time: their accounts have nothing to do with each other."""

        async def all_of_them() -> list[Answer]:
            asked = [self.asking(client, f"{upstream.short}/{model}", stream=stream) for upstream in Protocol]
            return await asyncio.gather(*asked)

        return dict(zip(Protocol, asyncio.run(all_of_them()), strict=True))

    def accounts(self) -> dict[str, dict[str, Any]]:
        """The live pool, by provider/account."""
        found = self.admin.get("/accounts").json()["accounts"]
        return {f"{line['provider']}/{line['account']}": line for line in found}

    def decision(self, answer: Answer) -> dict[str, Any]:
        """Why this request went where it went."""
        return dict(self.admin.get("/decisions", params={"request_id": answer.headers["x-request-id"]}).json())

    def asked(self, upstream: Protocol | None = None) -> list[str]:
        """The accounts that the upstream was asked with, in order; only those of one protocol if it is named."""
        path = PATHS[upstream] if upstream else ""
        return [name_of(request) for request in self.up.requests if path in ("", request.path)]

    def renew(self, **scenarios: str) -> None:
        """Forget what happened; from now on these accounts meet these scenarios, all others answer."""
        for name in self.accounts():
            assert self.admin.post(f"/accounts/{name}/reset").status_code == 200
        self.up.requests.clear()
        self.up.by_key = {key: "text" for key in self.up.by_key}
        self.up.by_key |= {secret(name): scenario for name, scenario in scenarios.items()}


def name_of(request: Recorded) -> str:
    """The account that a request came with."""
    return key_of(request).removeprefix("up-key-canary-")


@contextmanager
def pooled(directory: Path, text: str, up: ScriptedUpstream, **options: Any) -> Iterator[Pooled]:
    """A gateway with this configuration."""
    environ = {"ADMIN_KEY": ADMIN_KEY, **options.pop("environ", {})}
    with started(directory, text, up.url, environ=environ, **options) as gateway, _admin(gateway) as admin:
        yield Pooled(gateway, up, admin)


def _admin(gateway: Started) -> httpx2.Client:
    gateway.wait_for_log("admin interface")
    port = next(line["port"] for line in gateway.lines if line["event"] == "admin interface")
    return httpx2.Client(
        base_url=f"http://127.0.0.1:{port}", headers={"authorization": f"Bearer {ADMIN_KEY}"}, timeout=10
    )


def accepting(*names: str) -> ScriptedUpstream:
    """An upstream that knows these accounts, and answers with each of them."""
    up = ScriptedUpstream()
    up.by_key = {secret(name): "text" for name in names}
    return up
