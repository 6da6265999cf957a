"""PostgreSQL servers with a network: TLS and passwords, a standby that can be promoted, and a bad connection."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from math import inf
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

from tests.machines.nginx import free_port
from tests.state.responses.postgres import Server
from tests.timing import eventually_async, pause_for, turns
from tests.upstream.certificates import Authority

PASSWORD = "db-password-canary-3c91"
SSL_REQUEST = bytes((0, 0, 0, 8, 4, 210, 22, 47))
"""what a client of PostgreSQL sends before it begins TLS"""


def name_in(url: str) -> str:
    """Return the name of the database in a URL."""
    return urlsplit(url).path.removeprefix("/")


class NetworkServer(Server):
    """A server on a TCP port of loopback. With `password` it wants one there."""

    def __init__(self, *, password: bool = False) -> None:
        self.port = free_port()
        super().__init__()
        self.options = ["-h", "127.0.0.1", "-p", str(self.port), "-F"]
        if password:
            (self._data / "pg_hba.conf").write_text("local all postgres trust\nhost all all all scram-sha-256\n")

    def url(self, database: str) -> str:
        """Return the URL of a database at its socket, for the superuser."""
        return f"{super().url(database)}&port={self.port}"

    def network_url(self, database: str, port: int | None = None) -> str:
        """Return the URL of a database at its TCP port, or at another one that leads to it."""
        return f"postgresql://postgres@127.0.0.1:{port or self.port}/{name_in(database)}"

    def new_user_database(self, port: int | None = None) -> str:
        """Create a database with an owner who has a password and no other rights, and return its URL."""
        name = name_in(self.new_database())
        user = f"user_{name}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE ROLE {user} LOGIN PASSWORD '{PASSWORD}'".encode())
            connection.execute(f"ALTER DATABASE {name} OWNER TO {user}".encode())
            connection.execute(f"REVOKE ALL ON DATABASE {name} FROM PUBLIC".encode())
        return f"postgresql://{user}:{PASSWORD}@127.0.0.1:{port or self.port}/{name}"

    def set_read_only(self, on: bool) -> None:
        """Refuse to write, as a server that was demoted does, or write again."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute("SET default_transaction_read_only = off")
            connection.execute(f"ALTER SYSTEM SET default_transaction_read_only = {'on' if on else 'off'}".encode())
            connection.execute("SELECT pg_reload_conf()")


class Standby(NetworkServer):
    """A copy of another server that follows it, until it is promoted."""

    def __init__(self, primary: NetworkServer) -> None:
        self._primary = primary
        super().__init__()

    def _prepare(self) -> None:
        source = ("-h", str(self._primary.folder), "-p", str(self._primary.port), "-U", "postgres")
        self._run("pg_basebackup", *source, "-D", str(self._data), "-R", "-X", "stream", "-c", "fast")
        self._data.chmod(0o700)

    def has_caught_up(self) -> bool:
        """Return whether it has everything that the primary has written."""
        with psycopg.connect(self._primary.url("postgres")) as connection:
            row = connection.execute("SELECT pg_current_wal_lsn() <= replay_lsn FROM pg_stat_replication").fetchone()
        return row is not None and bool(row[0])

    def promote(self) -> None:
        """Become the primary, and return when that is done."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute("SELECT pg_promote(true, 30)")


class BadLink:
    """A TCP port that leads to another one. `delay`: seconds before each piece. `cut`: nothing goes through."""

    def __init__(self, port: int) -> None:
        self.delay = 0.0
        self.cut = False
        self._target = port

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Connect a client to the target."""
        try:
            other_reader, other_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.close()
            return
        await asyncio.gather(self._carry(reader, other_writer), self._carry(other_reader, writer))

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError):
                while data := await reader.read(65_536):
                    if self.delay:
                        await pause_for(self.delay)
                    await eventually_async(lambda: not self.cut, inf)
                    writer.write(data)
                    await writer.drain()
        finally:
            writer.close()


@contextmanager
def bad_link(port: int) -> Iterator[tuple[BadLink, int]]:
    """Run a link to a port, and yield it with its own port."""
    link = BadLink(port)
    with _served(link.serve) as own:
        yield link, own


@contextmanager
def tls_link(port: int, folder: Path) -> Iterator[tuple[int, Path]]:
    """Run what speaks TLS with clients and not with the server: the server of the wheel cannot.

    Yield its port, and the file with the root certificate.
    """
    authority = Authority(folder)
    context = authority.server()
    link = BadLink(port)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            if await reader.readexactly(8) == SSL_REQUEST:
                writer.write(b"S")
                await writer.start_tls(context)
                await link.serve(reader, writer)
        writer.close()

    with _served(serve) as own:
        yield own, authority.file


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[None, None, None]]


@contextmanager
def _served(serve: Serve) -> Iterator[int]:
    """Serve connections to a free port in a thread, and yield the port."""
    loop, ready, stop = asyncio.new_event_loop(), threading.Event(), asyncio.Event()
    ports: list[int] = []

    open_writers: set[asyncio.StreamWriter] = set()

    async def serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_writers.add(writer)
        await serve(reader, writer)

    async def main() -> None:
        server = await asyncio.start_server(serve_one, "127.0.0.1", 0)
        ports.append(server.sockets[0].getsockname()[1])
        ready.set()
        await stop.wait()
        server.close()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        for writer in open_writers:
            writer.transport.abort()
        await turns(5)

    thread = threading.Thread(target=loop.run_until_complete, args=(main(),), daemon=True)
    thread.start()
    try:
        assert ready.wait(5)
        yield ports[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(5)
        loop.close()
