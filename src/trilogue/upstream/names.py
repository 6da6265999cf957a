"""Names to addresses. The system's resolver can only be waited for, and may take half a minute to give up.

Each name is looked up in a thread of its own, once at a time, whoever asks: a name server that does not answer holds up
nobody who wants another name, and no shutdown. An address needs no name server, and no thread.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import suppress
from copy import copy

Address = tuple[int, int, int, tuple[object, ...]]
"""family, kind, protocol and socket address, as `getaddrinfo` gives them"""
Outcome = list[Address] | OSError

_under_way: dict[tuple[asyncio.AbstractEventLoop, str, int], asyncio.Future[Outcome]] = {}


async def resolve(host: str, port: int) -> list[Address]:
    """The addresses of a host, the preferred one first. Raises OSError."""
    with suppress(OSError):
        return _look_up(host, port, socket.AI_NUMERICHOST)
    loop = asyncio.get_running_loop()
    key = (loop, host, port)
    if key not in _under_way:
        _under_way[key] = loop.create_future()
        threading.Thread(target=_run, args=key, name="trilogue-name", daemon=True).start()
    # Whoever has waited long enough leaves the others to it.
    found = await asyncio.shield(_under_way[key])
    if isinstance(found, OSError):
        raise copy(found)  # what is raised holds its frames, and others wait for the same
    return found


def _run(loop: asyncio.AbstractEventLoop, host: str, port: int) -> None:
    try:
        found: Outcome = _look_up(host, port)
    except OSError as error:
        found = error
    with suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(_tell, (loop, host, port), found)


def _tell(key: tuple[asyncio.AbstractEventLoop, str, int], found: Outcome) -> None:
    _under_way.pop(key).set_result(found)


def _look_up(host: str, port: int, flags: int = 0) -> list[Address]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    except UnicodeError:
        raise socket.gaierror(socket.EAI_NONAME, "not a name") from None
    return [(family, kind, proto, address) for family, kind, proto, _, address in found]
