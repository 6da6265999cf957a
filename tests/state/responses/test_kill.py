"""`kill -9` at any moment loses nothing that was acknowledged, on SQLite and PostgreSQL."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.state.responses.making import KEY, A
from tests.state.responses.postgres import Server
from tests.timing import pass_time
from trilogue.gateway.conversations.store.store import ResponseStore
from trilogue.gateway.conversations.store.types import NotFound
from trilogue.storage.engines import database_of

WRITER = """
    import asyncio, sys
    from tests.state.responses.making import A, KEY, conversation, item, response
    from trilogue.gateway.conversations.store.types import Append
    from trilogue.gateway.conversations.store.store import ResponseStore
    from trilogue.gateway.conversations.store.service import StoreService
    from trilogue.storage.engines import database_of
    from trilogue.gateway.conversations.store.types import Append
    from trilogue.gateway.conversations.store.service import StoreService
    from trilogue.gateway.conversations.store.store import ResponseStore
    from trilogue.storage.engines import database_of

    async def turns(service, name):
        store = service.store
        await service.write(store.conversations.create, conversation(f"conv_{name}"))
        previous = None
        for number in range(10_000):
            one = f"r{name}_{number}"
            lease = await service.lock(A, f"conv_{name}")
            made = response(one, previous=previous)
            await service.write(store.responses.put, made, Append(lease, (item(f"m{name}_{number}"),)))
            print(one, flush=True)
            previous = one

    async def main():
        service = StoreService(ResponseStore(database_of(sys.argv[1]), [KEY]))
        await asyncio.gather(*(turns(service, name) for name in range(8)))

    asyncio.run(main())
"""


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "responses.db")
    server: Server = request.getfixturevalue("postgres")
    return server.new_database()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [pytest.param(0, marks=pytest.mark.smoke), 1, 2])
def test_what_was_acknowledged_is_there(url: str, seed: int) -> None:
    """Each response comes with its item in the conversation, and each chain is whole."""
    command = [sys.executable, "-c", textwrap.dedent(WRITER), url]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    printed = [process.stdout.readline()]
    pass_time(random.Random(seed).uniform(0.05, 0.6))
    process.send_signal(signal.SIGKILL)
    printed += process.stdout.read().splitlines()
    process.stdout.close()
    process.wait(30)
    acknowledged = [line.strip() for line in printed if line.strip()]
    assert acknowledged
    store = ResponseStore(database_of(url), [KEY])
    for name in range(8):
        check(store, name, [one for one in acknowledged if one.startswith(f"r{name}_")])
    store.close()


def check(store: ResponseStore, name: int, acknowledged: list[str]) -> None:
    if not acknowledged:
        return
    chain = [one.id for one in store.responses.chain(A, acknowledged[-1])]
    assert chain == [f"r{name}_{number}" for number in range(len(chain))]
    assert set(acknowledged) <= set(chain)
    items = [one.id for one in store.conversations.all_items(A, f"conv_{name}")]
    assert items[: len(chain)] == [f"m{name}_{number}" for number in range(len(chain))]
    for number in range(len(chain), len(items)):  # committed, but not acknowledged any more
        assert store.responses.get(A, f"r{name}_{number}").previous == f"r{name}_{number - 1}"
    with pytest.raises(NotFound):
        store.responses.get(A, f"r{name}_{len(items)}")
