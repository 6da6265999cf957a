"""A group of cases: requests to one gateway, in this order, each with a transcript of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.scripted.ask import PATHS, body
from tests.scripted.server import KEY
from tests.transcripts.gateway import Stage, request
from trilogue import Protocol

Run = Callable[[Stage], object]


@dataclass(frozen=True)
class Group:
    """`keys`: further keys of the upstream, with their scenarios; without a scenario, the model's name decides."""

    name: str
    config: str
    cases: Mapping[str, Run]
    keys: Mapping[str, str] = field(default_factory=dict)


ADMIN = "admin: {key: env:ADMIN_KEY, port: 0}\n"
KEYS = "keys: [{key: env:TRILOGUE_KEY, name: laptop}]\n"
BASES = {Protocol.CHAT: "UPSTREAM/v1", Protocol.MESSAGES: "UPSTREAM", Protocol.RESPONSES: "UPSTREAM/v1"}
ONE_ACCOUNT = f"accounts: [{{name: only, key: {KEY}}}]"


def server(more: str = "") -> str:
    """Return settings of a server that no busy machine keeps from anything."""
    times = "connect: 60, first_byte: 60, first_event: 60, between_events: 60, total: 600"
    return f"server: {{keepalive_seconds: 15, timeouts: {{{times}}}{', ' + more if more else ''}}}\n"


def provider(name: str, protocol: Protocol, more: str = ONE_ACCOUNT) -> str:
    """Return a provider at the scripted upstream."""
    # Cooldowns that end in no case.
    pool = "max_wait_seconds: 0, first_delay_seconds: 300"
    place = f"protocol: {protocol.value}, base_url: {BASES[protocol]}"
    return f"  {name}: {{{place}, pool: {{{pool}}}, {more}}}\n"


def providers(more: str = ONE_ACCOUNT) -> str:
    """Return a provider for each protocol, named after it."""
    return "providers:\n" + "".join(provider(protocol.short, protocol, more) for protocol in Protocol)


def asking(client: Protocol, model: str, *, stream: bool = False, calls: bool = False, **more: Any) -> bytes:
    """Return the bytes of a request for a response. `calls`: with tools. `key` and `headers` are those of it."""
    key, headers = more.pop("key", None), more.pop("headers", None)
    value = {name: one for name, one in (body(client, model, stream=stream, tools=calls) | more).items() if one != ...}
    return request("POST", PATHS[client], value, headers, **({"key": key} if key else {}))


def said(client: Protocol, text: str) -> dict[str, Any]:
    """Return the fields of a request in which the user says this."""
    return {"input": text} if client is Protocol.RESPONSES else {"messages": [{"role": "user", "content": text}]}


def ask(client: Protocol, model: str, **more: Any) -> Run:
    """Return a case that sends such a request."""
    data = asking(client, model, **more)
    return lambda stage: stage.send(data)


def call(method: str, path: str, value: Any = None, headers: Mapping[str, str] | None = None, **more: Any) -> Run:
    """Return a case that sends any request of a client."""
    return lambda stage: stage.request(method, path, value, headers, **more)


def word(stream: bool) -> str:
    """Return how such a response comes."""
    return "stream" if stream else "whole"
