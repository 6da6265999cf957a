"""Name lookup: a name server that is down does not delay lookups of other names."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from aiohappyeyeballs import AddrInfoType

from tests.timing import turns
from tests.upstream.raw import LOOPS, run
from trilogue.net.client.dial import resolve

pytestmark = pytest.mark.parametrize("loop", LOOPS)

FOUND: list[AddrInfoType] = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", 80))]


class Resolver:
    """A resolver in the place of the system's. Lookups of names that begin with `dead` hang until they are released."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.go = threading.Event()

    def __call__(self, host: str, port: int, *, flags: int, **_: Any) -> list[tuple[Any, ...]]:
        if flags & socket.AI_NUMERICHOST:
            raise socket.gaierror(socket.EAI_NONAME, "not an address")
        self.asked.append(host)
        if host.startswith("dead"):
            self.go.wait(10)
            raise socket.gaierror(socket.EAI_AGAIN, "no answer")
        return list(FOUND)


@contextmanager
def resolving(monkeypatch: pytest.MonkeyPatch) -> Iterator[Resolver]:
    resolver = Resolver()
    monkeypatch.setattr(socket, "getaddrinfo", resolver)
    try:
        yield resolver
    finally:
        resolver.go.set()


def test_dead_names_delay_no_other_lookup(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other lookups are not delayed, however many hang and however often each is asked for."""

    async def test() -> None:
        with resolving(monkeypatch) as resolver:
            names = [f"dead-{number}.example" for number in range(50)] * 3
            waiting = [asyncio.create_task(resolve(name, 80)) for name in names]
            await turns()
            assert await asyncio.wait_for(resolve("good.example", 80), 5) == FOUND
            resolver.go.set()
            outcomes = await asyncio.gather(*waiting, return_exceptions=True)
            assert [type(outcome) for outcome in outcomes] == [socket.gaierror] * len(names)
            assert sorted(resolver.asked) == sorted([*set(names), "good.example"])

    run(loop, test)


def test_a_cancelled_lookup_leaves_it_to_the_others(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two tasks wait for one name and one is cancelled; the next lookup starts anew."""

    async def test() -> None:
        with resolving(monkeypatch) as resolver:
            patient = asyncio.create_task(resolve("dead.example", 80))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(resolve("dead.example", 80), 0.05)
            assert not patient.done()
            resolver.go.set()
            for asking in (patient, resolve("dead.example", 80)):
                with pytest.raises(socket.gaierror):
                    await asking
            assert resolver.asked == ["dead.example"] * 2

    run(loop, test)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_an_address_needs_no_lookup(loop: str, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An address needs neither a thread nor a name server."""

    async def test() -> None:
        monkeypatch.setattr(threading, "Thread", None)
        assert [found[4][:2] for found in await resolve(address, 80)] == [(address, 80)]

    run(loop, test)


def test_what_can_be_no_name(loop: str) -> None:
    """A label that is too long is an error of the name, not ours."""

    async def test() -> None:
        with pytest.raises(socket.gaierror):
            await resolve("ä" * 80 + ".example", 80)

    run(loop, test)
