"""Hostile requests against budgets, limits and models, over workers and machines: `python -m tests.money`.

A case is one request of a client. Cases run in worlds of some thousands, each with its own keys, state folder and
servers; a third of the worlds have two workers, and some have two machines with a Redis server. Ends with status 1 if a
key got more than it may, or an honest one was charged more than it used. `--seed` and `--cases` repeat some of them.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import tempfile
import time
from collections import Counter
from ctypes import c_int64
from multiprocessing import get_context
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Any, NamedTuple

import structlog

from tests.cluster.redis import Server
from tests.money.world import FACTS, KEYS, Book, World, run
from tests.timing import eventually_async, pause_for

CASES = 100_000
PER_WORLD = 2_000
FORK = get_context("fork")
Result = tuple[list[str], dict[str, int]]


class Part(NamedTuple):
    """What one process does of a world. `alone`: no other one does anything."""

    seed: int
    folder: Path
    numbers: range
    more: dict[str, Any]
    alone: bool


def world_of(seed: int, cases: int, redis: str = "") -> Result:
    """Run the cases of a world. Return what must not have happened, and how often each response was given."""
    book = Book(FORK.Array(c_int64, (KEYS + 1) * len(FACTS)))
    processes = 1 if seed % 3 else 2
    with tempfile.TemporaryDirectory(prefix="trilogue-money-") as folder:
        places = [Path(folder)] * processes
        more: dict[str, Any] = {}
        if processes == 2 and redis:
            places = [Path(folder) / name for name in ("one", "two")]
            more = {"cluster": {"redis": redis}}
        results: Queue[Result] = FORK.Queue()
        started = []
        for number, place in enumerate(places):
            place.mkdir(exist_ok=True)
            numbers = range(number, cases, processes)
            part = Part(seed, place, numbers, more, processes == 1)
            started.append(FORK.Process(target=_process, args=(part, book, results)))
            started[-1].start()
        found = [results.get(timeout=600) for _ in started]
        for one in started:
            one.join()
        if processes == 2 and not redis:
            found.append(_checked_alone(seed, Path(folder), book))
    statuses: Counter[str] = Counter()
    for _, counted in found:
        statuses.update(counted)
    return [problem for problems, _ in found for problem in problems], dict(statuses)


def _process(part: Part, book: Book, results: Queue[Result]) -> None:
    quiet()

    async def all_of_them() -> Result:
        world = World(part.seed, part.folder, book, part.more)
        ticking = asyncio.create_task(_tick(world))
        if part.more:
            await eventually_async(lambda: world.state.cluster.nodes >= 2)
        await run(world, part.numbers)
        if part.alone:
            await world.check()
        ticking.cancel()
        await world.close()
        return book.problems, world.statuses

    results.put(asyncio.run(all_of_them()))


def _checked_alone(seed: int, folder: Path, book: Book) -> Result:
    """Check a world of several workers, after all of them have ended."""

    async def check() -> Result:
        world = World(seed, folder, book, {})
        world.state.limits.reclaim()
        await world.check()
        await world.close()
        return book.problems, {}

    return asyncio.run(check())


async def _tick(world: World) -> None:
    while True:
        world.state.tick()
        await pause_for(0.1)


def quiet() -> None:
    """Log nothing: thousands of requests fail, as they should."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


def main() -> int:
    """Run the worlds that the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=CASES)
    parser.add_argument("--seed", type=int, default=0, help="the number of the first world")
    parser.add_argument("--without-redis", action="store_true", help="no worlds with two machines")
    asked = parser.parse_args()
    quiet()
    server = None if asked.without_redis else Server()
    if server is not None:
        server.start()
    began, done, problems, statuses = time.monotonic(), 0, list[str](), Counter[str]()
    try:
        seed = asked.seed
        while done < asked.cases:
            # Every sixth world has two machines, every other third one two workers.
            redis = f"redis://127.0.0.1:{server.port}/0" if server is not None and seed % 6 == 3 else ""
            if redis and server is not None:
                server.client.flushall()
            cases = min(PER_WORLD, asked.cases - done)
            found, counted = world_of(seed, cases, redis)
            done, seed = done + cases, seed + 1
            problems += found
            statuses.update(counted)
            seconds = time.monotonic() - began
            print(f"{done:,} cases, {seconds:.0f} s, {len(problems)} problems", file=sys.stderr, flush=True)
            for one in found[:5]:
                print(f"  {one[:500]}", file=sys.stderr, flush=True)
    finally:
        if server is not None:
            server.remove()
    print(_table(statuses))
    print(f"{done:,} cases, {len(problems)} problems")
    return 1 if problems else 0


def _table(statuses: Counter[str]) -> str:
    """Return how often each endpoint has given each status, as a table."""
    paths = sorted({label.split()[0] for label in statuses})
    kinds = sorted({label.split()[1] for label in statuses})
    rows = [["endpoint", *kinds]]
    rows += [[path, *(str(statuses.get(f"{path} {kind}", "")) for kind in kinds)] for path in paths]
    widths = [max(len(row[at]) for row in rows) for at in range(len(kinds) + 1)]
    return "\n".join("  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows)


if __name__ == "__main__":
    sys.exit(main())
