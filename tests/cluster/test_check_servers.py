"""`trilogue check` with real servers: it fails where the start would, and changes nothing in them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner

from tests.cluster.redis import Server as Redis
from tests.cluster.redis import free_port
from tests.state.responses.postgres import Server as Postgres
from trilogue.app.cli.check import check

SEAL_KEYS = "seal_keys: [a-seal-key-for-tests-0123456789abcdef]\n"
AWAY = "the server does not respond"


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    server = Postgres()
    server.start()
    yield server
    server.remove()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("TRILOGUE_LOCAL_SERVERS", "none")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def checked(folder: Path, text: str, *options: str) -> tuple[int, list[str]]:
    """Return the exit code, and the problems or the warnings about servers."""
    (folder / "trilogue.yaml").write_text(text)
    result = CliRunner().invoke(check, ["trilogue.yaml", *options])
    lines = result.stderr.splitlines() if result.exit_code == 0 else result.stdout.splitlines()
    return result.exit_code, [line for line in lines if "written in the file" not in line and "seal_keys:" not in line]


def starts(folder: Path) -> bool:
    """Return whether a gateway starts with the file that was checked last."""
    command = [sys.executable, "-m", "trilogue", "serve", "--port", "0", "--config", "trilogue.yaml"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        started = process.stdout.readline().startswith("Trilogue listens on")
        if started:
            process.kill()
        process.communicate(timeout=60)
        assert started or process.returncode == 2
    return started


def test_servers_that_respond(home: Path, postgres: Postgres, redis_server: Redis) -> None:
    url = postgres.new_database()
    text = f"cluster: {{redis: '{redis_server.url}', postgresql: '{url}'}}\n"
    assert checked(home, text) == (0, [])
    with closing(psycopg.connect(url)) as connection:
        tables = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone()
    assert tables == (0,), "it creates no tables"
    assert not (home / "state").exists()


def test_a_database_that_is_not_there(home: Path, postgres: Postgres) -> None:
    text = f"state: '{postgres.url('no_such_database')}'\n{SEAL_KEYS}"
    line = "state.store: postgresql:///no_such_database cannot be used: the database does not exist"
    assert checked(home, text) == (2, [line])
    assert not starts(home)
    assert checked(home, text, "--offline") == (0, [])


def test_a_file_that_cannot_be_written(home: Path) -> None:
    (home / "file").touch()
    for setting in ("state", "usage"):
        line = f"{setting}.store: cannot write {home}/file/x.db: {home}/file is not a folder"
        assert checked(home, f"{setting}: {home}/file/x.db\n") == (2, [line])
        assert not starts(home)


def test_a_database_that_is_away(home: Path) -> None:
    """The gateway starts without it, unless the key that gateways share is in it."""
    text = f"state: 'postgresql://user@127.0.0.1:{free_port()}/db'\n"
    line = f"state.store: cannot connect to postgresql://127.0.0.1/db: {AWAY}"
    assert checked(home, text) == (2, [line])
    assert not starts(home)
    assert checked(home, text + SEAL_KEYS) == (0, [f"warning: {line}; the gateway would start without it"])
    assert starts(home)


def test_redis_that_is_away(home: Path) -> None:
    port = free_port()
    code, warnings = checked(home, f"cluster: {{redis: 'redis://127.0.0.1:{port}/0'}}\n{SEAL_KEYS}")
    line = f"cannot use redis://127.0.0.1:{port}/0: it cannot be reached; the gateway would start without it"
    assert (code, warnings[-1]) == (0, f"warning: cluster.redis: {line}")
    assert starts(home)


MISSING = {
    "cluster: {redis: 'redis://127.0.0.1:9/0'}": ("redis", "cluster.redis", "cluster"),
    "cluster: {postgresql: 'postgresql://127.0.0.1:9/x'}": ("psycopg", "cluster.postgresql", "cluster"),
    "state: 'postgresql://127.0.0.1:9/x'": ("psycopg", "state.store", "postgresql"),
    "usage: 'postgresql://127.0.0.1:9/x'": ("psycopg", "usage.store", "postgresql"),
}


@pytest.mark.parametrize("text", MISSING)
def test_a_package_that_is_missing(home: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Also with --offline: the gateway would not start."""
    package, setting, extra = MISSING[text]
    monkeypatch.setattr("trilogue.config.checks.find_spec", lambda name: None if name == package else object())
    line = f"{setting}: needs {package}, which is not installed: pip install 'trilogue[{extra}]'"
    assert checked(home, text) == checked(home, text, "--offline") == (2, [line])
