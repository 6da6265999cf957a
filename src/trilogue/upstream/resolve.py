"""Name lookup that never blocks other lookups.

In: a host and a port. Out: its addresses, as the system's resolver sorts them. The module knows nothing of connections.

The system's resolver cannot be cancelled and may take half a minute to give up. In asyncio's thread pool, fifty names
whose server does not answer delay the fifty-first by minutes, and the end of the process too. uvloop's pool has four
threads. So every name is looked up in its own daemon thread, at most once at a time.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import suppress
from copy import copy

from aiohappyeyeballs import AddrInfoType

Outcome = list[AddrInfoType] | OSError

_under_way: dict[tuple[asyncio.AbstractEventLoop, str, int], asyncio.Future[Outcome]] = {}


async def resolve(host: str, port: int) -> list[AddrInfoType]:
    """Return the addresses of a host, the preferred one first. Raise OSError if it has none.

    An IP address needs neither a thread nor a name server.
    """
    with suppress(OSError):
        return _look_up(host, port, socket.AI_NUMERICHOST)
    loop = asyncio.get_running_loop()
    key = (loop, host, port)
    if key not in _under_way:
        _under_way[key] = loop.create_future()
        threading.Thread(target=_run, args=key, name="trilogue-name", daemon=True).start()
    # Other callers may wait for the same lookup: it goes on if this one is cancelled.
    found = await asyncio.shield(_under_way[key])
    if isinstance(found, OSError):
        raise copy(found)  # a raised error holds its frames, and several callers get this one
    return found


def _run(loop: asyncio.AbstractEventLoop, host: str, port: int) -> None:
    try:
        found: Outcome = _look_up(host, port)
    except OSError as error:
        found = error
    with suppress(RuntimeError):  # the loop is closed, and the process about to end
        loop.call_soon_threadsafe(_finish, (loop, host, port), found)


def _finish(key: tuple[asyncio.AbstractEventLoop, str, int], found: Outcome) -> None:
    _under_way.pop(key).set_result(found)


def _look_up(host: str, port: int, flags: int = 0) -> list[AddrInfoType]:
    try:
        return list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags))
    except UnicodeError:
        # A label of more than 63 characters, for example.
        raise socket.gaierror(socket.EAI_NONAME, "not a name") from None
