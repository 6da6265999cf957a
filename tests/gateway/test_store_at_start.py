"""The store of responses when the gateway starts: one that cannot be used, one that is away, and one by default."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import httpx2

from tests.gateway.process import command, environment, started
from tests.gateway.running import running
from tests.scripted.server import ScriptedUpstream
from trilogue.storage.locations import state_file

PASSWORD = "fake-canary-pw"
DEMO = 'providers: {demo: {protocol: openai_responses, base_url: "demo:"}}\n'


def refused(directory: Path, config: str, **environ: str) -> str:
    """Return what the gateway printed instead of starting."""
    (directory / "trilogue.yaml").write_text(config + DEMO)
    clean = environment(directory, {"HOME": str(directory), **environ})
    result = subprocess.run(
        command("--config", str(directory / "trilogue.yaml"), "--port", "0"),
        env=clean,
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert (result.returncode, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    return line


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    line = refused(tmp_path, f"state: {tmp_path}/file/responses.db\n")
    assert line.startswith(f"trilogue: state: cannot open {tmp_path}/file/responses.db: ")


def test_a_file_that_is_not_a_database(tmp_path: Path) -> None:
    (tmp_path / "other.db").write_text("This is a text, and longer than the head of a database. " * 40)
    line = refused(tmp_path, f"state: {tmp_path}/other.db\n")
    assert line == f"trilogue: state: {tmp_path}/other.db is damaged"


def test_a_database_of_a_newer_version(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "newer.db") as connection:
        connection.execute("CREATE TABLE trl_migration (number INTEGER PRIMARY KEY, needs INTEGER NOT NULL)")
        connection.execute("INSERT INTO trl_migration VALUES (900, 900)")
    connection.close()
    assert "newer version" in refused(tmp_path, f"state: {tmp_path}/newer.db\n")


def test_the_driver_is_missing(tmp_path: Path) -> None:
    """The line has the command that installs it."""
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "psycopg.py").write_text("raise ImportError\n")
    found = environment(tmp_path, {}).get("PYTHONPATH", "")
    line = refused(
        tmp_path,
        f"state: postgresql://user:{PASSWORD}@127.0.0.1:9/db\n",
        PYTHONPATH=f"{tmp_path / 'hidden'}:{found}" if found else f"{tmp_path / 'hidden'}:{':'.join(sys.path)}",
    )
    assert line.endswith("pip install 'trilogue[postgresql]'")
    assert PASSWORD not in line


def test_a_url_that_no_server_can_have(tmp_path: Path) -> None:
    line = refused(tmp_path, f"state: postgresql://user:{PASSWORD}@127.0.0.1:port/db\n")
    assert line.endswith("the URL is not valid")
    assert PASSWORD not in line


def test_a_server_that_is_away(tmp_path: Path, up: ScriptedUpstream) -> None:
    """The gateway starts, serves what needs no store, and says once what is away. The password is nowhere."""
    config = (
        f"state: postgresql://user:{PASSWORD}@127.0.0.1:9/db\nkeys: [env:TRILOGUE_KEY]\nseal_keys: [{'s' * 32}]\n{DEMO}"
    )
    with running(tmp_path, config, up.url) as gateway:
        body = {"model": "demo", "input": "Hello", "store": False}
        assert gateway.http.post("/v1/responses", json=body).status_code == 200
        log = gateway.log_file.read_text()
    warnings = [json.loads(line) for line in log.splitlines() if '"warning"' in line]
    assert {line["reason"] for line in warnings} == {
        "cannot connect to postgresql://127.0.0.1/db: the server does not respond"
    }
    assert len({line["event"] for line in warnings}) == len(warnings)
    assert PASSWORD not in log


def test_a_server_that_is_away_and_has_the_key(tmp_path: Path) -> None:
    """Nothing is sealed or stored with a key that no other gateway has."""
    line = refused(tmp_path, f"state: postgresql://user:{PASSWORD}@127.0.0.1:9/db\n")
    assert line.endswith("Start again when it is reachable, or set seal_keys")
    assert PASSWORD not in line


def test_the_default_file_cannot_be_written(tmp_path: Path) -> None:
    """One warning, and then it is as with `state: none`, also after a reload."""
    (tmp_path / "home").write_text("a file, where nothing can be created")
    state = {"XDG_STATE_HOME": str(tmp_path / "home"), "HOME": str(tmp_path / "home")}
    with started(tmp_path, DEMO, environ=state) as gateway, httpx2.Client(base_url=gateway.url) as http:
        for number in range(2):
            created = http.post("/v1/responses", json={"model": "demo", "input": "Hello"})
            assert created.status_code == 200
            assert created.json()["store"] is False
            fetched = http.get(f"/v1/responses/{created.json()['id']}")
            assert (fetched.status_code, fetched.json()["error"]["code"]) == (400, "state_disabled")
            if not number:
                gateway.signal(signal.SIGHUP)
                gateway.wait_for_log("reloaded")
        warnings = [line for line in gateway.log.splitlines() if "the state folder cannot be written" in line]
    assert len(warnings) == 1


def test_the_default_file_is_created_on_first_use(tmp_path: Path, up: ScriptedUpstream) -> None:
    with running(tmp_path, f"keys: [env:TRILOGUE_KEY]\n{DEMO}", up.url) as gateway:
        file = state_file({"XDG_STATE_HOME": str(tmp_path)}, "responses.db", tmp_path / "trilogue.yaml")
        assert not file.exists()
        gateway.http.post("/v1/responses", json={"model": "demo", "input": "Hello", "store": False})
        assert not file.exists()
        assert gateway.http.post("/v1/responses", json={"model": "demo", "input": "Hello"}).json()["store"] is True
        assert file.exists()
