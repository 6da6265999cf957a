"""Play sessions: real requests of a client to a gateway or to its own vendor, and what arrived there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
from websockets.sync.client import ClientConnection, connect

from tests.caches.clients import Client, Result, Spent
from tests.caches.clients_messages import ClaudeCode
from tests.caches.sessions import RESULT_TEXT, Compact, NewSession, Session, Switch, Task, Wait, words_of
from tests.caches.units import Json
from tests.caches.upstream import Arrived, CachingUpstream, Reply
from tests.caches.vendors import Luck
from tests.gateway.pooling import account
from tests.gateway.process import started
from tests.gateway.running import CLIENT_KEY
from tests.gateway.wire import Answer
from tests.scripted import thread
from trilogue.model import Protocol

ACCOUNTS = ("a", "b", "c")
OWN_VENDORS = {
    Protocol.MESSAGES: ("anthropic", "claude-opus-4-8"),
    Protocol.CHAT: ("openai", "gpt-5.4"),
    Protocol.RESPONSES: ("openai", "gpt-5.4"),
}
"""whom the clients of a protocol were made for"""
PROVIDERS = {
    "anthropic": (Protocol.MESSAGES, "anthropic", "vendor: anthropic"),
    "glm": (Protocol.MESSAGES, "glm", "vendor: none"),
    "openai": (Protocol.RESPONSES, "openai/v1", "vendor: openai"),
    "openai-chat": (Protocol.CHAT, "openai/v1", "vendor: openai"),
    "deepseek": (Protocol.CHAT, "deepseek", "vendor: deepseek"),
    "vllm": (Protocol.CHAT, "vllm/v1", "vendor: none, profile: compatible"),
    "vllm-responses": (Protocol.RESPONSES, "vllm/v1", "vendor: none"),
}
"""by name: the protocol, the address below that of the upstream, and further settings"""


def config(accounts: int) -> str:
    """Return a configuration with these providers, each with so many accounts."""
    pool = ", ".join(account(name) for name in ACCOUNTS[:accounts])
    lines = [
        f"  {name}: {{protocol: {protocol.value}, base_url: UPSTREAM/{path}, {more}, accounts: [{pool}]}}"
        for name, (protocol, path, more) in PROVIDERS.items()
    ]
    return "\n".join(["server: {drain_seconds: 2}", "keys: [env:TRILOGUE_KEY]", "providers:", *lines, ""])


@dataclass
class Exchange:
    """A request of a client and what came of it. `thread` is the conversation, counted anew after each compaction."""

    thread: str
    model: str
    sent: Json
    arrived: list[Arrived]
    spent: Spent | None
    status: int
    error: str = ""


@dataclass
class Play:
    """A session that is being played."""

    http: httpx2.Client
    up: CachingUpstream
    client: Client
    prefix: str = ""
    """in front of the path: the vendor"""
    exchanges: list[Exchange] = field(default_factory=list)
    epoch: int = 0
    sockets: dict[Client, ClientConnection] = field(default_factory=dict)
    open: ExitStack = field(default_factory=ExitStack)

    def run(self, session: Session) -> list[Exchange]:
        """Play all events, and return all requests. Raises FailedError."""
        with self.open:
            return self._run(session)

    def _run(self, session: Session) -> list[Exchange]:
        usual = self.client.model
        for event in session:
            if isinstance(event, Wait):
                self.up.now += event.seconds
            elif isinstance(event, NewSession):
                self.epoch += 1
                fresh = type(self.client)(self.client.model, self.client.session + 1, self.client.stream)
                fresh_like(fresh, self.client)
                self.client = fresh
            elif isinstance(event, Switch):
                self.client.model = event.name or usual
            elif isinstance(event, Compact):
                self._compact()
            else:
                self._task(event)
        return self.exchanges

    def _task(self, task: Task) -> None:
        client, thread_name = self.client, f"main {self.epoch}"
        if task.agent:
            client, thread_name = self.client.fork(task.agent), f"{task.agent} {self.epoch}"
            fresh_like(client, self.client)
        client.say(words_of(task, "user", 200), image=task.images)
        for step in range(task.steps):
            calls = tuple(client.call(step * 10 + part) for part in range(3 if task.parallel else 1))
            ids = self._ask(client, thread_name, _reply(task, step, calls))
            client.results([_result(task, step, part, call) for part, call in enumerate(ids)])
            if task.reminder and step == 1:
                client.remind(words_of(task, "reminder", 120))
            self.up.now += 5
        self._ask(client, thread_name, _reply(task, task.steps))

    def _compact(self) -> None:
        task = Task(f"compaction {self.epoch}", 0)
        self.client.say(words_of(task, "summarise all of this", 400))
        self._ask(self.client, f"main {self.epoch}", Reply(words_of(task, "summary", 1500)))
        self.epoch += 1
        self.client.restart(words_of(task, "summary", 1500))
        self._ask(self.client, f"main {self.epoch}", Reply("I go on."))

    def _ask(self, client: Client, thread_name: str, reply: Reply) -> list[str]:
        self.up.reply, seen = reply, len(self.up.arrived)
        sent = client.body()
        native, status, error = (self._over_socket if client.by_socket else self._over_http)(client, sent)
        arrived = list(self.up.arrived[seen:])
        if native is None:
            self.exchanges.append(Exchange(thread_name, client.model, sent, arrived, None, status, error))
            raise FailedError(self.exchanges[-1])
        self.exchanges.append(Exchange(thread_name, client.model, sent, arrived, client.spent(native), 200))
        self.up.now += 3
        return client.take(native)

    def _over_http(self, client: Client, sent: Json) -> tuple[Any, int, str]:
        response = self.http.post(self.prefix + client.path, json=sent, headers=client.headers())
        if response.status_code != 200:
            return None, response.status_code, response.text[:400]
        return read(response, client), 200, ""

    def _over_socket(self, client: Client, sent: Json) -> tuple[Any, int, str]:
        if client not in self.sockets:
            url = str(self.http.base_url.copy_with(scheme="ws")).rstrip("/") + client.path
            headers = {**client.headers(), "authorization": self.http.headers["authorization"]}
            headers.pop("user-agent")
            self.sockets[client] = self.open.enter_context(connect(url, additional_headers=headers, max_size=None))
        self.sockets[client].send(json.dumps({"type": "response.create", **sent}))
        while True:
            event = json.loads(self.sockets[client].recv(60))
            if event["type"] == "response.completed":
                return event["response"], 200, ""
            if event["type"] in ("error", "response.failed", "response.incomplete"):
                return None, 400, json.dumps(event)[:400]


class FailedError(Exception):
    """A request of a session failed."""

    def __init__(self, exchange: Exchange) -> None:
        super().__init__(f"{exchange.status} {exchange.error}")
        self.exchange = exchange


def fresh_like(fresh: Client, old: Client) -> None:
    """Give a new client of a session what was decided for the old one."""
    if isinstance(fresh, ClaudeCode) and isinstance(old, ClaudeCode):
        fresh.mid_system = old.mid_system


def _reply(task: Task, step: int, calls: tuple[tuple[str, Json], ...] = ()) -> Reply:
    thought = words_of(task, f"thought {step}", 150) if task.thinks or step % 2 == 0 else ""
    return Reply(words_of(task, f"text {step}"), thought, calls)


def _result(task: Task, step: int, part: int, call: str) -> Result:
    failed = task.errors and (step + part) % 2 == 1
    image = task.images and step == 0 and part == 0
    return Result(call, words_of(task, f"result {step}.{part}", RESULT_TEXT), failed, image)


def read(response: httpx2.Response, client: Client) -> Any:
    """Return a whole response, also if it was streamed: for Chat, the message with the usage."""
    if not response.headers["content-type"].startswith("text/event-stream"):
        found = response.json()
        return {**found["choices"][0]["message"], "usage": found["usage"]} if "choices" in found else found
    events = [value for _, value in Answer(body=response.content).events if value is not None]
    return _COLLECT[client.protocol](events)


def _collect_messages(events: Sequence[Json]) -> Json:
    message: Json = {}
    pieces: dict[int, list[str]] = {}
    for event in events:
        if event["type"] == "message_start":
            message = event["message"]
        elif event["type"] == "content_block_start":
            message["content"].append(event["content_block"])
            pieces[event["index"]] = []
        elif event["type"] == "content_block_delta":
            block, delta = message["content"][event["index"]], event["delta"]
            if delta["type"] == "input_json_delta":
                pieces[event["index"]].append(delta["partial_json"])
            else:
                name = delta["type"].removesuffix("_delta")
                block[name] = (block.get(name) or "") + delta[name]
        elif event["type"] == "content_block_stop" and any(pieces[event["index"]]):
            message["content"][event["index"]]["input"] = json.loads("".join(pieces[event["index"]]))
        elif event["type"] == "message_delta":
            later = {name: value for name, value in event["usage"].items() if value is not None}
            message["usage"] = {**message["usage"], **later}
    return message


def _collect_chat(events: Sequence[Json]) -> Json:
    message: Json = {"content": "", "reasoning_content": ""}
    calls: dict[int, Json] = {}
    for event in events:
        if event.get("usage"):
            message["usage"] = event["usage"]
        for choice in event["choices"]:
            delta = choice["delta"]
            for name in ("content", "reasoning_content"):
                message[name] += delta.get(name) or ""
            for piece in delta.get("tool_calls") or []:
                empty: Json = {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
                call = calls.setdefault(piece["index"], empty)
                call["id"] = piece.get("id") or call["id"]
                for name, text in piece["function"].items():
                    call["function"][name] += text or ""
    return {**message, "tool_calls": list(calls.values())}


def _collect_responses(events: Sequence[Json]) -> Json:
    found: Json = events[-1]["response"]
    return found


_COLLECT = {
    Protocol.MESSAGES: _collect_messages,
    Protocol.CHAT: _collect_chat,
    Protocol.RESPONSES: _collect_responses,
}


@dataclass
class World:
    """The upstream, and HTTP clients for gateways with one and with three accounts, and for the vendors themselves."""

    up: CachingUpstream
    gateways: dict[int, httpx2.Client]
    direct: httpx2.Client

    def through(self, client: Client, session: Session, accounts: int = 1) -> list[Exchange]:
        """Play a session through a gateway, with empty caches. Raises FailedError."""
        self.up.forget(Luck())
        return Play(self.gateways[accounts], self.up, client).run(session)

    def ideal(self, client: Client, session: Session, luck: Luck) -> list[Exchange]:
        """Play a session at the client's own vendor."""
        self.up.forget(luck)
        return Play(self.direct, self.up, client, f"/{OWN_VENDORS[client.protocol][0]}").run(session)


@contextmanager
def world(folder: Path, accounts: Sequence[int] = (1, 3), up: CachingUpstream | None = None) -> Iterator[World]:
    """Run the upstream and the gateways."""
    with thread.running(up or CachingUpstream(ACCOUNTS)) as running:
        assert isinstance(running, CachingUpstream)
        yield from _with_gateways(folder, accounts, running)


def _with_gateways(folder: Path, accounts: Sequence[int], up: CachingUpstream) -> Iterator[World]:
    if not accounts:
        with _http(up.url, "up-key-canary-a") as direct:
            yield World(up, {}, direct)
        return
    place = folder / f"accounts{accounts[0]}"
    place.mkdir()
    with started(place, config(accounts[0]), up.url) as gateway, _http(gateway.url, CLIENT_KEY) as http:
        for found in _with_gateways(folder, accounts[1:], up):
            found.gateways[accounts[0]] = http
            yield found


def _http(url: str, key: str) -> httpx2.Client:
    return httpx2.Client(base_url=url, headers={"authorization": f"Bearer {key}"}, timeout=60)
