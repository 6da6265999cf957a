"""What storing a response and following it up cost (`make bench-state`), with a thousand and with a million of them.

Prints µs of CPU time, and of time in all, for a put alone, for a put that shares its commit with others, and for the
look-ups of a follow-up: the chain of its earlier responses, one response, one item. The aim is that a million rows cost
at most 1.2 times what a thousand cost. Both stores are measured in turn, so that a busy machine disturbs both alike.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from random import SystemRandom
from statistics import median

from benchmarks.paths import CACHE
from trilogue.gateway.conversations.store.service import StoreService
from trilogue.gateway.conversations.store.store import ResponseStore
from trilogue.gateway.conversations.store.types import StoredItem, StoredResponse, StoreLimits
from trilogue.storage.engines import database_of
from trilogue.storage.sqlite import SqliteDatabase

SIZES = (1_000, 1_000_000)
TURNS = 5
OWNERS = 50
FILL_GROUP = 2_000
GROUP = 50
ROUNDS = 15
CALLS = 200
KEY = b"a key for benchmarks, not secret"
_SECONDS = count(1_700_000_000)
UNLIMITED = StoreLimits(owner_bytes=None, total_bytes=None)


class Filled:
    """A store with so many responses, in chains of `TURNS`."""

    def __init__(self, store: ResponseStore, rows: int) -> None:
        self.store = store
        self.rng = SystemRandom()
        self.last: list[tuple[str, str]] = []
        """the last response of each chain, with its owner"""
        self._fill(rows)

    def _fill(self, rows: int) -> None:
        waiting: list[Callable[[], object]] = []
        for number in range(rows // TURNS):
            for response in self.chain(f"owner-{number % OWNERS}"):
                waiting.append(partial(self.store.responses.put, response))
            self.last.append((response.owner, response.id))
            if len(waiting) >= FILL_GROUP:
                self.store.together(waiting)
                waiting = []
        self.store.together(waiting)

    def chain(self, owner: str) -> Iterator[StoredResponse]:
        """Yield the responses of a new conversation."""
        previous = None
        for _ in range(TURNS):
            made = new_response(self.rng, owner, previous)
            yield made
            previous = made.id

    def chosen(self, recent: bool) -> tuple[str, str]:
        """Return an owner and the last response of one of its chains: any, or one of the newest hundred."""
        return self.rng.choice(self.last[-100:] if recent else self.last)


def new_response(rng: SystemRandom, owner: str, previous: str | None) -> StoredResponse:
    """Return a response of about 1 kB, with one item in and one item out.

    Ids begin with the time, as those of OpenAI and of the gateway do. Random ones would be spread over the whole index.
    """
    identifier = f"{next(_SECONDS):08x}{rng.getrandbits(160):040x}"
    item = f"msg_in_{identifier}"
    content = [{"type": "output_text", "text": "word " * 80}]
    output = [{"id": f"msg_{identifier}", "type": "message", "content": content}]
    return StoredResponse(
        owner=owner,
        id=f"resp_{identifier}",
        status="completed",
        body=json.dumps({"id": f"resp_{identifier}", "object": "response", "output": output}).encode(),
        input=(StoredItem(item, json.dumps({"id": item, "role": "user", "content": "ask " * 40}).encode()),),
        model="some-model",
        previous=previous,
    )


def put_alone(filled: Filled) -> Callable[[], int]:
    """Measure puts that each have a commit of their own."""
    responses = [new_response(filled.rng, "owner-1", None) for _ in range(CALLS)]

    def run() -> int:
        for response in responses:
            filled.store.responses.put(response)
        return CALLS

    return run


def put_grouped(filled: Filled) -> Callable[[], int]:
    """Measure puts that share a commit with others."""
    groups = [
        [partial(filled.store.responses.put, new_response(filled.rng, "owner-1", None)) for _ in range(GROUP)]
        for _ in range(CALLS // GROUP)
    ]

    def run() -> int:
        for group in groups:
            filled.store.together(group)
        return CALLS

    return run


def put_by_service(filled: Filled) -> Callable[[], int]:
    """Measure puts of concurrent requests of one event loop."""
    groups = [[new_response(filled.rng, "owner-1", None) for _ in range(GROUP)] for _ in range(CALLS // GROUP)]

    async def put_all() -> int:
        service = StoreService(filled.store)
        for group in groups:
            await asyncio.gather(*(service.write(filled.store.responses.put, response) for response in group))
        await service.stop()
        return CALLS

    return lambda: asyncio.run(put_all())


def look_up(filled: Filled, what: str, recent: bool) -> Callable[[], int]:
    """Measure one kind of look-up."""
    find: Callable[[str, str], object] = {
        "chain": filled.store.responses.chain,
        "get": filled.store.responses.get,
        "item": filled.store.responses.item,
    }[what]
    keys = [filled.chosen(recent) for _ in range(CALLS)]
    if what == "item":
        keys = [(owner, identifier.replace("resp_", "msg_")) for owner, identifier in keys]

    def run() -> int:
        for owner, identifier in keys:
            find(owner, identifier)
        return CALLS

    return run


ROWS: dict[str, Callable[[Filled], Callable[[], int]]] = {
    "put, alone": put_alone,
    f"put, {GROUP} together": put_grouped,
    f"put, {GROUP} requests at a time": put_by_service,
    f"follow-up, chain of {TURNS}, recent": partial(look_up, what="chain", recent=True),
    f"follow-up, chain of {TURNS}, any": partial(look_up, what="chain", recent=False),
    "get, any": partial(look_up, what="get", recent=False),
    "item, any": partial(look_up, what="item", recent=False),
}


def measure(make: Callable[[Filled], Callable[[], int]], stores: list[Filled]) -> list[tuple[float, float]]:
    """Return µs of CPU time and of time in all per call, for each store."""
    times: list[list[tuple[float, float]]] = [[] for _ in stores]
    for _ in range(ROUNDS):
        for filled, found in zip(stores, times, strict=True):
            run = make(filled)
            cpu, wall = time.process_time(), time.perf_counter()
            calls = run()
            found.append(((time.process_time() - cpu) / calls, (time.perf_counter() - wall) / calls))
    return [(median(cpu for cpu, _ in found) * 1e6, median(wall for _, wall in found) * 1e6) for found in times]


def main() -> None:
    """Fill a store of each size, run all benchmarks and print the results."""
    options = argparse.ArgumentParser(description="What the store of responses costs.")
    options.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="responses in each store")
    options.add_argument("--url", nargs="+", help="empty PostgreSQL databases, one for each size, instead of files")
    chosen = options.parse_args()
    CACHE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        stores = []
        for number, size in enumerate(chosen.sizes):
            database = database_of(chosen.url[number]) if chosen.url else SqliteDatabase(Path(folder) / f"{size}.db")
            start = time.perf_counter()
            stores.append(Filled(ResponseStore(database, [KEY], UNLIMITED), size))
            print(f"filled with {size:,} responses in {time.perf_counter() - start:.0f} s", flush=True)
        print(f"\nµs of CPU time (time in all) per call, with {' and '.join(f'{size:,}' for size in chosen.sizes)}")
        for name, make in ROWS.items():
            costs = measure(make, stores)
            listed = "".join(f"{cpu:>9.0f} ({wall:>6.0f})" for cpu, wall in costs)
            print(f"{name:>32}{listed}   ratio {costs[-1][0] / costs[0][0]:.2f} ({costs[-1][1] / costs[0][1]:.2f})")
        for filled in stores:
            filled.store.close()


if __name__ == "__main__":
    main()
