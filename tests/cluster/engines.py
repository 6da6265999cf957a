"""PostgreSQL servers with a network: TLS and passwords, a standby that can be promoted, and a bad connection."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import trustme

from tests.cluster.nginx import free_port
from tests.state.responses.postgres import Server

PASSWORD = "db-password-canary-3c91"
USER = "gateway"


class NetworkServer(Server):
    """A server on a TCP port of loopback. With `tls` it accepts nothing else there, and wants a password."""

    def __init__(self, *, tls: bool = False) -> None:
        self.port = free_port()
        super().__init__()
        self.options = ["-h", "127.0.0.1", "-p", str(self.port), "-F"]
        if tls:
            self._add_tls()

    def url(self, database: str) -> str:
        """Return the URL of a database at its socket, for the superuser."""
        return f"{super().url(database)}&port={self.port}"

    def network_url(self, database: str, port: int | None = None) -> str:
        """Return the URL of a database at its TCP port, or at another one that leads to it."""
        name = database.rpartition("/")[2].partition("?")[0]
        return f"postgresql://postgres@127.0.0.1:{port or self.port}/{name}"

    def _add_tls(self) -> None:
        authority = trustme.CA()
        issued = authority.issue_cert("localhost")
        self.root = self.folder / "root.pem"
        authority.cert_pem.write_to_path(str(self.root))
        key, certificate = self._data / "server.key", self._data / "server.crt"
        issued.private_key_pem.write_to_path(str(key))
        issued.cert_chain_pems[0].write_to_path(str(certificate))
        key.chmod(0o600)
        if self._user:
            account = pwd.getpwnam(self._user)
            for path in (key, certificate):
                os.chown(path, account.pw_uid, account.pw_gid)
        self.options += ["-c", "ssl=on"]
        rules = "local all postgres trust\nhostssl all all all scram-sha-256\nhostnossl all all all reject\n"
        (self._data / "pg_hba.conf").write_text(rules)

    def new_user_database(self) -> str:
        """Create a database with an owner who has a password and nothing else, and return its URL without options."""
        name = self.new_database().rpartition("/")[2].partition("?")[0]
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE ROLE {USER} LOGIN PASSWORD '{PASSWORD}'".encode())
            connection.execute(f"ALTER DATABASE {name} OWNER TO {USER}".encode())
            connection.execute(f"REVOKE ALL ON DATABASE {name} FROM PUBLIC".encode())
        return f"postgresql://{USER}:{PASSWORD}@localhost:{self.port}/{name}"

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

    def promote(self) -> None:
        """Become the primary, and return when that is done."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute("SELECT pg_promote(true, 30)")


class BadLink:
    """A TCP port that leads to another one. `delay`: seconds before each piece. `cut`: nothing goes through."""

    def __init__(self, port: int) -> None:
        self.port = 0
        self.delay = 0.0
        self.cut = False
        self._target = port
        self._tasks: set[asyncio.Task[None]] = set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            other_reader, other_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.close()
            return
        await asyncio.gather(self._carry(reader, other_writer), self._carry(other_reader, writer))

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65_536):
                if self.delay:
                    await asyncio.sleep(self.delay)
                while self.cut:
                    await asyncio.sleep(0.05)
                writer.write(data)
                await writer.drain()
        writer.close()


@contextmanager
def bad_link(port: int) -> Iterator[BadLink]:
    """Run a link to a port in a thread."""
    link, loop = BadLink(port), asyncio.new_event_loop()
    ready, stop = threading.Event(), asyncio.Event()

    async def serve() -> None:
        server = await asyncio.start_server(link._serve, "127.0.0.1", 0)
        link.port = server.sockets[0].getsockname()[1]
        ready.set()
        await stop.wait()
        server.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    try:
        assert ready.wait(5)
        yield link
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(5)
        loop.run_until_complete(asyncio.sleep(0.05))
        loop.close()


def copy_for_user(path: Path, folder: Path) -> Path:
    """Return a copy of a file that this process may read, whoever owns the original."""
    return Path(shutil.copy(path, folder / path.name))
