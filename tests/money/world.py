"""A gateway in this process with hostile servers, keys with budgets and limits, and what must hold for each key."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.sharedctypes import SynchronizedArray
from pathlib import Path
from random import Random
from typing import Any

from tests.money import hostile
from tests.money.upstream import (
    CACHED,
    CURRENT,
    INPUT,
    LONGEST,
    OUTPUT,
    SEARCH,
    WINDOW,
    WRITTEN,
    WRITTEN_LONG,
    Case,
    HostileServer,
)
from tests.timing import turns
from trilogue import Sealer
from trilogue.app.embed.asgi_http import serve_http
from trilogue.app.worker import Worker
from trilogue.config.config import Config
from trilogue.config.load import parse
from trilogue.gateway.endpoints.app import GatewayApp
from trilogue.gateway.features.usage.ledger.ledger import UsageLedger
from trilogue.gateway.features.usage.ledger.tables import LedgerTables, UsageQuery
from trilogue.gateway.features.usage.observer import UsageObserver
from trilogue.storage.locations import LIMITS_FILE, Locations
from trilogue.storage.sqlite import SqliteDatabase
from trilogue.upstreams.build import router_of
from trilogue.upstreams.settings import ProviderSettings

KEYS = 60
NANO = 10**9
DOLLARS = (0.05, 0.5, 5.0, 60.0, 400.0)
REQUESTS, AT_ONCE = 12, 3
FACTS = ("used", "sent", "running", "told", "most")
"""what is counted for each key over all processes; `most` is its budget"""
CLEAN = ("told",)
DECENT = ("told", "told", "told", "status429", "status500", "status400", "unreachable")
ANY = (
    *("told",) * 6,
    *(f"status{one}" for one in (400, 401, 404, 422, 429, 500, 503)),
    "unreachable",
    "reset",
    "silent",
    "broken",
    "nonsense",
    "untold",
    "garbage",
    "garbage",
    "refused first",
)
PRICE = {
    "input": INPUT / 1e3,
    "cached": CACHED / 1e3,
    "cache_write": WRITTEN / 1e3,
    "cache_write_long": WRITTEN_LONG / 1e3,
    "output": OUTPUT / 1e3,
    "searches": SEARCH / 1e6,
}
"""of a million tokens, and of a thousand searches, in dollars"""


@dataclass
class Kind:
    """What a key may do. `honest`: its servers and clients are decent, so it must be charged exactly what it used."""

    budget: float | None
    owner: bool = False
    requests: int | None = None
    at_once: int | None = None
    restricted: bool = False
    honest: bool = False
    judged: bool = False


def kinds(seed: int) -> list[Kind]:
    """Return what the keys of a world may do."""
    random = Random(f"kinds {seed}")
    found = []
    for number in range(KEYS):
        kind = Kind(random.choice(DOLLARS), honest=number % 5 == 0)
        if number % 5 == 1:
            kind.owner = True
        if number % 5 == 2:
            kind.requests, kind.budget = REQUESTS, random.choice((None, kind.budget))
        if number % 5 == 3:
            kind.at_once = AT_ONCE
        kind.restricted = random.random() < 0.3
        found.append(kind)
    return found


def config_of(seed: int, more: dict[str, Any]) -> Config:
    """Return the configuration of a world."""
    keys: list[dict[str, Any]] = []
    for number, kind in enumerate(kinds(seed)):
        one: dict[str, Any] = {"name": f"k{number}", "key": f"text-of-{number}"}
        if kind.budget is not None:
            one["budget"] = {"month" if number % 2 else "total": kind.budget, "unbounded": "refuse"}
        if kind.owner:
            one["owner"] = "team"
        limits = {"requests_per_day": kind.requests, "concurrency": kind.at_once}
        if any(limits.values()):
            one["limits"] = {name: value for name, value in limits.items() if value}
        if kind.restricted:
            one["models"] = ["*/m", "m"]
        keys.append(one)
    accounts = [{"name": "a", "key": "up-a"}, {"name": "b", "key": "up-b"}]
    common = {"accounts": accounts, "prices": {"*": PRICE}}
    limited = {"profile": {"context_window": WINDOW, "output_limit": LONGEST}}
    base = "http://127.0.0.1:9/v1"
    providers = {
        "chat": {"protocol": "openai_chat_completions", "base_url": base, **common},
        "messages": {"protocol": "anthropic_messages", "base_url": base, **common},
        "responses": {"protocol": "openai_responses", "base_url": base, **common},
        "limited": {"protocol": "openai_chat_completions", "base_url": base, **common, **limited},
    }
    settings = {
        "keys": keys,
        "owners": {"team": {"budget": {"total": TEAM}}},
        "providers": providers,
        "routes": [
            {"match": "both/*", "targets": [{"provider": "chat", "model": "m"}, {"provider": "limited", "model": "m"}]}
        ],
        "pool": {"persist": False, "retry_budget": {"floor": 100_000}, "rules": RULES},
        "state": {"store": "none"},
        **more,
    }
    return parse(json.dumps(settings).encode(), dict(os.environ), Path.cwd())


TEAM = 30.0
RULES = [{"status": one, "action": "next"} for one in (401, 402, 404, 429, 500, 502, 503, 529)]


@dataclass
class Book:
    """The truth about all keys, shared by processes: a row of `FACTS` for each key, and one for the team."""

    cells: SynchronizedArray[int]
    problems: list[str] = field(default_factory=list)

    def add(self, key: int, fact: str, amount: int) -> int:
        """Add to a fact and return the sum."""
        with self.cells.get_lock():
            at = key * len(FACTS) + FACTS.index(fact)
            self.cells[at] += amount
            return int(self.cells[at])

    def get(self, key: int, fact: str) -> int:
        return self.add(key, fact, 0)


class World:
    """One gateway process. `folder`: where its state is; several processes may share it, as workers do."""

    def __init__(self, seed: int, folder: Path, book: Book, more: dict[str, Any]) -> None:
        self.seed, self.book, self.kinds = seed, book, kinds(seed)
        config = config_of(seed, more)
        self._pool = folder / "pool.db"
        tables = LedgerTables(SqliteDatabase(folder / "usage.db"))
        self.usage = UsageObserver(UsageLedger(tables, folder / "usage.live", 400.0))
        books = {name: one.price_book() for name, one in config.providers.items()}
        self.usage.configure(router_of(config), books)
        servers = {name: HostileServer(name) for name in config.providers}
        self.state = Worker(self._pool, lambda: _transports(servers, config), Sealer([bytes(32)]), None, [self.usage])
        self.gateway = self.state.gateway(config)
        self.app = GatewayApp(self.gateway)
        self.statuses: dict[str, int] = {}

    @property
    def limits_file(self) -> Path:
        return Locations(self._pool).file(LIMITS_FILE)

    async def one(self, number: int) -> None:
        """Send one request, and note what must not have happened."""
        random = Random(f"{self.seed} {number}")
        key = random.randrange(KEYS)
        kind = self.kinds[key]
        method, path, form, body = (hostile.honest if kind.honest else hostile.hostile)(random)
        behaviours = DECENT if kind.honest else ANY
        case = Case(key, random.randrange(10**9), behaviours)
        case.on_sent, case.on_used, case.on_models = self._sent, self._used, self._models
        token = CURRENT.set(case)
        leaves = None if kind.honest or random.random() < 0.9 else random.randrange(4)
        client = _Client(method, f"/v1{path}", form, f"text-of-{key}", body, leaves)
        client.on_end = lambda: self._ended(case)
        try:
            await serve_http(self.app, client.scope, client.receive, client.send)
        finally:
            CURRENT.reset(token)
            self._ended(case)
        label = f"{path} {client.status}"
        self.statuses[label] = self.statuses.get(label, 0) + 1
        if case.told:
            self.book.add(key, "told", case.told)
        if client.status >= 500 and b"internal" in client.body:
            self._problem(case, f"an error of the gateway itself: {client.body[:200]!r}")

    def _sent(self, case: Case) -> None:
        kind = self.kinds[case.key]
        requests, running = self.book.add(case.key, "sent", 1), self.book.add(case.key, "running", 1)
        if kind.requests is not None and requests > kind.requests:
            self._problem(case, f"{requests} requests, and {kind.requests} are allowed")
        if kind.at_once is not None and running > kind.at_once:
            self._problem(case, f"{running} requests at once, and {kind.at_once} are allowed")

    def _ended(self, case: Case) -> None:
        """Note that the client has all of its response, or is gone: it may send the next request."""
        if case.sent and not case.ended:
            case.ended = True
            self.book.add(case.key, "running", -1)

    def _used(self, case: Case, cost: int) -> None:
        kind, used = self.kinds[case.key], self.book.add(case.key, "used", cost)
        if kind.budget is not None and used > kind.budget * NANO:
            self._problem(case, f"${used / NANO:.6f} are used, and ${kind.budget} are allowed")
        if kind.owner and self.book.add(KEYS, "used", cost) > TEAM * NANO:
            self._problem(case, f"the team has used more than ${TEAM}")

    def _models(self, case: Case, names: set[str]) -> None:
        if self.kinds[case.key].restricted and not names <= {"m", "chat/m", "messages/m", "responses/m", "limited/m"}:
            self._problem(case, f"a server was asked for {sorted(names)}")

    def _problem(self, case: Case, text: str) -> None:
        self.book.problems.append(f"world {self.seed}, key k{case.key}: {text}; {case.notes}")

    async def check(self) -> None:
        """Compare what the gateway says of each key with what its servers know. Call it when all is quiet.

        No other machine may have counted for these keys.
        """
        for number, kind in enumerate(self.kinds):
            key = self.gateway.access.keys.find([f"text-of-{number}"])
            if key is None or kind.budget is None:
                continue
            _, (budget,) = await self.gateway.limiter.standing(key)
            charged, used = round(budget.spent * NANO), self.book.get(number, "used")
            slack = 2 * self.book.get(number, "sent") + 2
            if budget.reserved:
                self.book.problems.append(f"world {self.seed}, key k{number}: {budget.reserved} is still reserved")
            lines = await asyncio.to_thread(self.usage.read, UsageQuery(only={"key": f"k{number}"}))
            ledger = sum(line.counts.cost + line.counts.reserved for line in lines) // 1000
            text = f"world {self.seed}, key k{number}: {used} used, {charged} charged, {ledger} in the ledger"
            is_charged_too_much = kind.honest and charged > used + slack
            if charged + slack < used or abs(ledger - charged) > slack or is_charged_too_much:
                self.book.problems.append(text)

    async def close(self) -> None:
        await self.gateway.upstreams.aclose()
        await self.state.aclose()
        self.usage.close()


def _transports(servers: dict[str, HostileServer], config: Config) -> Callable[[ProviderSettings, str | None], Any]:
    by_settings = {id(provider): servers[name] for name, provider in config.providers.items()}

    def transport(provider: ProviderSettings, proxy: str | None) -> Any:
        return by_settings[id(provider)]

    return transport


class _Client:
    """A client of an ASGI application. `leaves`: after how many messages of the response it disconnects."""

    def __init__(self, method: str, path: str, form: str, key: str, body: bytes, leaves: int | None) -> None:
        headers = [(b"authorization", f"Bearer {key}".encode()), (b"content-type", form.encode())]
        if "/messages" in path:
            headers.append((b"anthropic-version", b"2023-06-01"))
        headers.append((b"content-length", str(len(body)).encode()))
        self.scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": headers,
            "http_version": "1.1",
            "scheme": "http",
        }
        self.status = 0
        self.body = b""
        self.on_end: Callable[[], None] = lambda: None
        self._given: bytes | None = body
        self._leaves = leaves
        self._gone = asyncio.Event()
        if leaves == 0:
            self._gone.set()

    async def receive(self) -> dict[str, Any]:
        if self._given is not None:
            given, self._given = self._given, None
            return {"type": "http.request", "body": given, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self.body += message.get("body", b"")
            if not message.get("more_body"):
                self.on_end()
        if self._leaves is not None:
            self._leaves -= 1
            if self._leaves <= 0:
                self._gone.set()


async def run(world: World, numbers: Sequence[int]) -> None:
    """Send requests, some at a time."""
    random = Random(f"run {world.seed}")
    left = list(numbers)
    while left:
        burst = [left.pop() for _ in range(min(len(left), random.choice((1, 1, 4, 16))))]
        await asyncio.gather(*(world.one(number) for number in burst))
    await turns()
