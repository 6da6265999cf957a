"""Once a client key was made, requests need one, whatever becomes of the database of keys: no damage opens the door."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.forking import run_text
from tests.gateway.process import Started, started, until
from tests.state.responses.postgres import Server
from tests.timing import PATIENCE, turns
from trilogue.app.embed.asgi_http import serve_http
from trilogue.app.embed.gateway import EmbeddedGateway
from trilogue.app.stores import key_store, locations_at
from trilogue.config.load import load
from trilogue.gateway.access import managed_keys
from trilogue.gateway.access.audit_log import Actor
from trilogue.gateway.access.key_store import KeyStore
from trilogue.gateway.access.managed_keys import mark_file
from trilogue.gateway.access.settings import KeyOptions
from trilogue.storage.database import StoreDamaged, StoreError
from trilogue.storage.locations import ACCOUNTS_FILE, KEYS_FILE, Locations, state_file

CONFIG = 'providers: {demo: {protocol: openai_responses, base_url: "demo:"}}\n'
ADMIN = "admin: {key: admin-key-canary-7d1e9a, port: 0}\n"
ACTOR = Actor("tests")
FLIPS = 150


class Kept:
    """The state folder of a gateway whose keys are: `works`, and `revoked`."""

    def __init__(self, folder: Path, more: str = "") -> None:
        self.folder = folder
        self.file = folder / "trilogue.yaml"
        self.file.write_text(CONFIG + more)
        self.database = folder / "trilogue" / "keys.db"
        with closing(key_store(locations_at(load(self.file, {}), self.database.with_name(ACCOUNTS_FILE)))) as store:
            self.works, self.revoked = make_keys(store)

    def copied(self, folder: Path) -> Path:
        """Copy everything, and return the file of the copy's keys."""
        shutil.copytree(self.folder, folder)
        return folder / "trilogue" / "keys.db"


def make_keys(store: KeyStore) -> tuple[str, str]:
    works, revoked = (store.create(name, KeyOptions(), None, ACTOR)[1] for name in ("works", "revoked"))
    for number in range(40):
        store.create(f"other-{number}", KeyOptions(owner="somebody"), None, ACTOR)
    store.revoke("revoked", ACTOR)
    return works, revoked


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    return Kept(tmp_path_factory.mktemp("kept"))


def answers(folder: Path, *keys: str) -> list[int]:
    """Return what a gateway inside of this process, started in the folder, responds to a request with each key."""

    async def main() -> list[int]:
        gateway = EmbeddedGateway(load(folder / "trilogue.yaml", {}), None)
        await gateway.start()
        try:
            return [await asked(gateway, key) for key in keys]
        finally:
            await gateway.stop(0)

    return asyncio.run(main())


async def asked(gateway: EmbeddedGateway, key: str) -> int:
    """Return the status of a request for the list of models."""
    headers = [(b"host", b"localhost")] + ([(b"authorization", f"Bearer {key}".encode())] if key else [])
    scope = {"type": "http", "method": "GET", "path": "/v1/models", "query_string": b"", "headers": headers}
    sent: list[Any] = []

    bodies = [{"type": "http.request", "body": b""}]

    async def receive() -> Any:
        return bodies.pop() if bodies else await asyncio.Future()

    async def send(message: Any) -> None:
        sent.append(message)

    await serve_http(gateway.app, scope, receive, send)
    return int(sent[0]["status"])


def emptied(file: Path) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as raw:
        raw.execute("PRAGMA journal_mode = DELETE")
        for table in ("trl_key", "trl_key_revision", "trl_key_migration"):
            raw.execute(f"DROP TABLE {table}")


def replaced_by_a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def link_to_itself(file: Path) -> None:
    file.unlink()
    file.symlink_to(file)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "random": lambda file: file.write_bytes(random.Random(1).randbytes(50_000)),
    "text": lambda file: file.write_text("this is no database\n" * 100),
    "cut": lambda file: os.truncate(file, 5_000),
    "cut in a page": lambda file: os.truncate(file, file.stat().st_size - 700),
    "empty": lambda file: os.truncate(file, 0),
    "deleted": lambda file: file.unlink(),
    "a folder": replaced_by_a_folder,
    "a link to itself": link_to_itself,
    "without its tables": emptied,
    "zeros in the middle": lambda file: overwrite(file, 8_192, bytes(4_096)),
}


def overwrite(file: Path, at: int, data: bytes) -> None:
    with file.open("r+b") as raw:
        raw.seek(at)
        raw.write(data)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown key need not wait long for a store that will not come back."""
    monkeypatch.setattr(managed_keys, "WAIT_SECONDS", 0.02)


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_database_opens_no_door(
    kept: Kept, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "copy"))
    DAMAGE[kind](kept.copied(tmp_path / "copy"))
    without, revoked, invented = answers(tmp_path / "copy", "", kept.revoked, "sk-trl-invented")
    assert {without, revoked, invented} <= {401, 503}
    assert mark_file(tmp_path / "copy" / "trilogue" / "keys.db").exists()


def test_flipped_bytes_open_no_door(kept: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever they are, also without the mark: an earlier version has written none."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "copy"))
    file = kept.copied(tmp_path / "copy")
    content, chance = file.read_bytes(), random.Random(27)
    places = [chance.randrange(100) for _ in range(20)] + [chance.randrange(len(content)) for _ in range(FLIPS)]
    seen = set()
    for number, at in enumerate(places):
        for path in file.parent.glob("keys*"):
            path.unlink()
        if number % 2:
            mark_file(file).write_text("")
        file.write_bytes(content)
        overwrite(file, at, bytes([content[at] ^ chance.randrange(1, 256)]))
        without, revoked, works = answers(tmp_path / "copy", "", kept.revoked, kept.works)
        assert without in (401, 503), at
        assert revoked in (401, 503), at
        assert works in (200, 401, 503), at
        seen.add(works)
    assert {200, 503} <= seen


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_opens_no_door(kept: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "copy"))
    file = kept.copied(tmp_path / "copy")
    for path in (file, file.parent):
        path.chmod(0)
        try:
            assert answers(tmp_path / "copy", "", kept.works) == [503, 503]
        finally:
            path.chmod(0o700)


def test_a_folder_without_keys_needs_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "trilogue.yaml").write_text(CONFIG)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert answers(tmp_path, "", "whatever") == [200, 200]


def test_damage_of_a_row_is_told(tmp_path: Path) -> None:
    """A sound file may have what no gateway has written."""
    with closing(key_store(Locations(tmp_path / ACCOUNTS_FILE))) as store:
        store.create("one", KeyOptions(), None, ACTOR)
        for column, value in [("digests", "{"), ("options", "[]"), ("created", "x"), ("stop_streams", 9)]:
            with closing(sqlite3.connect(tmp_path / "keys.db", isolation_level=None)) as raw:
                (before,) = raw.execute("SELECT COLUMN FROM trl_key".replace("COLUMN", column)).fetchone()
                update = "UPDATE trl_key SET COLUMN = ?".replace("COLUMN", column)
                raw.execute(update, (value,))
                with pytest.raises(StoreDamaged):
                    store.all()
                raw.execute(update, (before,))
        with closing(sqlite3.connect(tmp_path / "keys.db", isolation_level=None)) as raw:
            raw.execute("DELETE FROM trl_key_revision")
        for work in (store.revision, lambda: store.revoke("one", ACTOR)):
            with pytest.raises(StoreDamaged):
                work()


def test_no_key_works_that_is_not_remembered(tmp_path: Path) -> None:
    file = tmp_path / "state" / "keys.db"
    file.parent.mkdir()
    mark_file(file).symlink_to(tmp_path / "not here" / "mark")
    with closing(key_store(Locations(file.with_name(ACCOUNTS_FILE)))) as store:
        with pytest.raises(StoreError, match="cannot write"):
            store.create("one", KeyOptions(), None, ACTOR)
        assert store.all() == []
        mark_file(file).unlink()
        store.create("one", KeyOptions(), None, ACTOR)
    assert mark_file(file).stat().st_mode & 0o077 == 0


def test_commands_take_no_changes_away(tmp_path: Path) -> None:
    """Several threads of a gateway read the keys, and a command that ends is not the last one that has them open."""
    (tmp_path / "trilogue.yaml").write_text(CONFIG)
    environ = {"XDG_STATE_HOME": str(tmp_path)}
    places = Locations(state_file(environ, ACCOUNTS_FILE, tmp_path / "trilogue.yaml"))
    file = places.file(KEYS_FILE)
    with closing(key_store(places)) as store:
        names = ("one", "two", "three")
        for name in names:
            store.create(name, KeyOptions(), None, ACTOR)
        for _ in range(2):
            other = threading.Thread(target=store.revision)
            other.start()
            other.join()
        for name in names:
            command = ["keys", "revoke", name, "--config", str(tmp_path / "trilogue.yaml")]
            done = run_text([sys.executable, "-m", "trilogue", *command], environ={**os.environ, **environ})
            assert done.returncode == 0, done.stderr
            assert store.find(name).revoked is not None
            assert file.with_name(f"{file.name}-wal").exists()


@pytest.fixture(scope="module")
def postgres() -> Iterator[Server]:
    """A server of these tests alone, because they stop it."""
    server = Server()
    server.start()
    yield server
    server.remove()


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Started, Kept, Path]]:
    """A gateway process with two workers that was started with a damaged database."""
    folder = tmp_path_factory.mktemp("damaged")
    database = state_file({"XDG_STATE_HOME": str(folder)}, KEYS_FILE, folder / "trilogue.yaml")
    kept = Kept(folder)
    shutil.move(kept.database, database)
    shutil.move(mark_file(kept.database), mark_file(database))
    database.write_bytes(random.Random(3).randbytes(50_000))
    with started(folder, CONFIG + ADMIN, options=("--workers", "2")) as gateway:
        yield gateway, kept, database


def ask(url: str, key: str = "", path: str = "/v1/models") -> httpx2.Response:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    return httpx2.get(f"{url}{path}", headers={**headers, "connection": "close"}, timeout=20)


def test_a_gateway_says_what_is_wrong_and_can_be_mended_while_it_runs(damaged: tuple[Started, Kept, Path]) -> None:
    gateway, kept, database = damaged
    for key in ("", kept.works, kept.revoked):
        refused = ask(gateway.url, key)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "keys_unavailable")
    lines = [line for line in gateway.lines if "client keys cannot be read" in line["event"]]
    assert len(lines) == 2  # one of each worker
    assert lines[0]["store"] == str(database)
    assert "Traceback" not in gateway.log
    port = next(line["port"] for line in gateway.lines if line["event"] == "admin interface")
    admin = f"http://127.0.0.1:{port}"
    assert ask(admin, "admin-key-canary-7d1e9a", "/accounts").status_code == 200
    told = ask(admin, "admin-key-canary-7d1e9a", "/keys")
    assert (told.status_code, told.json()["error"]["code"]) == (503, "store_unavailable")
    # Moved away, all keys are lost, and new ones can be made.
    shutil.move(database, database.with_suffix(".bad"))
    until(lambda: {ask(gateway.url).status_code for _ in range(6)} == {401})
    until(lambda: {ask(gateway.url, kept.works).status_code for _ in range(6)} == {401})
    made = httpx2.post(
        f"{admin}/keys", headers={"authorization": "Bearer admin-key-canary-7d1e9a"}, json={"name": "new"}, timeout=20
    )
    assert made.status_code == 200
    until(lambda: {ask(gateway.url, made.json()["key"]).status_code for _ in range(6)} == {200})


def test_postgresql_that_is_away_at_the_start(tmp_path: Path, postgres: Server) -> None:
    """Nobody gets in, and the gateway recovers by itself when the server is back."""
    url = postgres.new_database()
    text = f"{CONFIG}state: {{store: '{url}'}}\nseal_keys: [a-seal-key-that-is-long-enough-for-all]\n"
    (tmp_path / "trilogue.yaml").write_text(text)
    with closing(key_store(locations_at(load(tmp_path / "trilogue.yaml", {}), tmp_path / "elsewhere.db"))) as store:
        works, revoked = make_keys(store)
    postgres.stop()
    try:
        with started(tmp_path, text) as gateway:
            for key in ("", works, revoked):
                assert ask(gateway.url, key).status_code == 503
            postgres.start()
            until(lambda: ask(gateway.url, works).status_code == 200)
            assert [ask(gateway.url, key).status_code for key in ("", revoked)] == [401, 401]
            # Once they are known, they go on working.
            postgres.stop()
            assert [ask(gateway.url, key).status_code for key in (works, "", revoked)] == [200, 401, 401]
            gateway.signal(signal.SIGTERM)
    finally:
        postgres.start()


def test_an_emptied_postgresql_opens_no_door(tmp_path: Path, postgres: Server) -> None:
    url = postgres.new_database()
    text = f"{CONFIG}state: {{store: '{url}'}}\n"
    (tmp_path / "trilogue.yaml").write_text(text)
    with started(tmp_path, text) as gateway:
        assert ask(gateway.url).status_code == 200
        with closing(key_store(locations_at(load(gateway.config_file, {}), tmp_path / "elsewhere.db"))) as store:
            store.create("one", KeyOptions(), None, ACTOR)
        until(lambda: ask(gateway.url).status_code == 401)
    other = postgres.new_database()
    with started(tmp_path, text.replace(url, other)) as gateway:
        assert ask(gateway.url).status_code == 401
        assert "none is left" in gateway.log


def test_keys_that_cannot_be_read_again_do_not_work_for_ever(
    kept: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another machine may have revoked them."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "copy"))
    file = kept.copied(tmp_path / "copy")
    good = file.read_bytes()

    async def wait_for(gateway: EmbeddedGateway, *wanted: int) -> None:
        async with asyncio.timeout(PATIENCE):
            while (await asked(gateway, kept.works), await asked(gateway, "")) != wanted:
                await turns()

    async def main() -> None:
        gateway = EmbeddedGateway(load(tmp_path / "copy" / "trilogue.yaml", {}), None)
        await gateway.start()
        assert (await asked(gateway, kept.works), await asked(gateway, "")) == (200, 401)
        file.unlink()
        file.write_bytes(b"no database" * 1_000)
        assert await asked(gateway, kept.works) == 200
        monkeypatch.setattr(managed_keys, "KNOWN_SECONDS", 0.0)
        await wait_for(gateway, 503, 503)
        file.unlink()
        file.write_bytes(good)
        await wait_for(gateway, 200, 401)
        await gateway.stop(0)

    asyncio.run(main())
