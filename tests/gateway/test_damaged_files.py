"""Any damage to any file of the state folder: the gateway starts, says which file, and loses nothing else."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import pytest
from structlog.testing import capture_logs

from tests.gateway.process import started, until
from trilogue.app.cli.local_admin import with_admin_key
from trilogue.app.embed.asgi_http import serve_http
from trilogue.app.embed.gateway import EmbeddedGateway
from trilogue.app.stores import key_store
from trilogue.config.config import Config
from trilogue.config.load import load
from trilogue.errors import ConfigError
from trilogue.gateway.access.audit_log import Actor
from trilogue.gateway.access.settings import KeyOptions
from trilogue.storage.locations import ACCOUNTS_FILE, Locations, state_file
from trilogue.storage.vault import Vault

CONFIG = """\
keys: [{name: limited, key: text-of-limited}]
providers:
  demo: {protocol: openai_responses, base_url: "demo:"}
  up: {protocol: openai_chat_completions, base_url: "http://127.0.0.1:9", accounts: [store:spare]}
"""
NOT_COPIED = (".yaml", ".id", ".dat", ".log")
"""The table of limits has tests of its own."""
CASES = 2
"""of each kind of damage, for each file"""
OWN = ("keys-",)
"""files that are never set aside"""
KEY = {"authorization": "Bearer text-of-limited"}


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a gateway that was used for everything, and then killed."""
    folder = tmp_path_factory.mktemp("used")
    os.environ["XDG_STATE_HOME"], before = str(folder), os.environ.get("XDG_STATE_HOME")
    (folder / "trilogue.yaml").write_text(CONFIG)
    Vault(folder / "trilogue").put("spare", "key-of-spare")
    places = Locations(state_file({"XDG_STATE_HOME": str(folder)}, ACCOUNTS_FILE, folder / "trilogue.yaml"))
    with closing(key_store(places)) as store:
        store.create("made", KeyOptions(), None, Actor("tests"))
    with started(folder, CONFIG) as gateway, httpx2.Client(base_url=gateway.url, headers=KEY, timeout=20) as client:
        gateway.wait_for_log("admin interface")
        port = next(line["port"] for line in gateway.lines if line["event"] == "admin interface")
        key = (folder / "trilogue" / "admin.key").read_text().strip()
        admin = httpx2.Client(base_url=f"http://127.0.0.1:{port}", headers={"authorization": f"Bearer {key}"})
        with admin:
            assert admin.post("/capture", json={"requests": 50}).status_code == 200
            conversation = client.post("/v1/conversations", json={}).json()["id"]
            for number in range(8):
                body = {"model": "demo", "input": f"hello {number}", "conversation": conversation}
                answer = client.post("/v1/responses", json=body)
                assert answer.status_code == 200
            assert client.post("/v1/messages", json=MESSAGE).status_code == 200
            (folder / "response.id").write_text(answer.json()["id"])
            until(lambda: list((folder / "trilogue").glob("usage-*.db")) != [])
    if before is None:
        del os.environ["XDG_STATE_HOME"]
    else:
        os.environ["XDG_STATE_HOME"] = before
    return folder


MESSAGE = {"model": "demo", "max_tokens": 10, "messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture(scope="module")
def settled(used: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, as if the gateway had been stopped: everything is in the files themselves."""
    folder = tmp_path_factory.mktemp("settled")
    for path, data in files(used).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    for database in folder.rglob("*.db"):
        with closing(sqlite3.connect(database)) as raw:
            raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return folder


def flip(chance: random.Random, data: bytes) -> bytes:
    wrong = bytearray(data)
    for _ in range(chance.choice([1, 1, 8, 200])):
        wrong[chance.randrange(len(wrong))] ^= chance.randrange(1, 256)
    return bytes(wrong)


def head(chance: random.Random, data: bytes) -> bytes:
    wrong = bytearray(data)
    wrong[chance.randrange(min(120, len(wrong)))] ^= chance.randrange(1, 256)
    return bytes(wrong)


def overwrite(chance: random.Random, data: bytes) -> bytes:
    at, size = chance.randrange(len(data)), chance.choice([10, 500, 5_000])
    return data[:at] + chance.randbytes(min(size, len(data) - at)) + data[at + size :]


DAMAGE: dict[str, Callable[[random.Random, bytes], bytes]] = {
    "flipped": flip,
    "in the head": head,
    "overwritten": overwrite,
    "cut": lambda chance, data: data[: chance.randrange(len(data))],
    "empty": lambda chance, data: b"",
    "random": lambda chance, data: chance.randbytes(max(40, len(data) // 2)),
    "longer": lambda chance, data: data + chance.randbytes(100),
}


def files(folder: Path) -> dict[str, bytes]:
    found = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix not in NOT_COPIED)
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def loaded(file: Path, folder: Path) -> tuple[str, Config | None]:
    """Return the configuration as `trilogue serve` loads it, or why it does not start."""
    try:
        return "", with_admin_key(load(file, {"XDG_STATE_HOME": str(folder)}))
    except ConfigError as error:
        return str(error), None


async def use(config: Config, file: Path, response: str) -> list[int]:
    """Start a gateway inside of this process, use what it has stored, and stop it. Return the statuses."""
    gateway = EmbeddedGateway(config, file)
    await gateway.start()
    try:
        return [
            await asked(gateway, "GET", "/v1/models"),
            await asked(gateway, "GET", f"/v1/responses/{response}"),
            await asked(gateway, "POST", "/v1/responses", {"model": "demo", "input": "hi"}),
            await asked(
                gateway, "POST", "/v1/responses", {"model": "demo", "input": "hi", "previous_response_id": response}
            ),
            await asked(gateway, "GET", "/v1/usage"),
            await asked(gateway, "POST", "/v1/messages", MESSAGE, key=b"Bearer sk-trl-unknown"),
        ]
    finally:
        await gateway.stop(0)


async def asked(
    gateway: EmbeddedGateway, method: str, path: str, body: Any = None, key: bytes = b"Bearer text-of-limited"
) -> int:
    headers = [(b"host", b"localhost"), (b"authorization", key), (b"content-type", b"application/json")]
    data = b"" if body is None else json.dumps(body).encode()
    headers.append((b"content-length", str(len(data)).encode()))
    scope = {"type": "http", "method": method, "path": path, "query_string": b"", "headers": headers}
    bodies = [{"type": "http.request", "body": data}]
    sent: list[Any] = []

    async def receive() -> Any:
        return bodies.pop() if bodies else await asyncio.Future()

    async def send(message: Any) -> None:
        sent.append(message)

    await serve_http(gateway.app, scope, receive, send)
    return int(sent[0]["status"])


def names() -> list[str]:
    return [
        "responses-",
        "keys-",
        "usage-",
        "pool-",
        "seal.key",
        "admin.key",
        "accounts.vault",
        ".counts",
        "-wal",
    ]


@pytest.mark.parametrize("name", names())
def test_a_gateway_starts_with_any_damage(
    used: Path, settled: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing raises, and every other file stays as it was until it is used."""
    good = files(used if name == "-wal" else settled)
    response = (used / "response.id").read_text()
    wanted = [
        one for one in good if name in one and good[one] and (name == "-wal" or not one.endswith(("-wal", "-shm")))
    ]
    assert wanted, sorted(good)
    aside = 0
    for number, kind in enumerate([kind for kind in DAMAGE for _ in range(CASES)]):
        chance = random.Random(f"{name} {kind} {number}")
        damaged = chance.choice(wanted)
        folder = tmp_path / str(number)
        for path, data in good.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(DAMAGE[kind](chance, data) if path == damaged else data)
            (folder / path).chmod(0o600)
        monkeypatch.setenv("XDG_STATE_HOME", str(folder))
        # The configuration keeps its path, by which the files are named.
        with capture_logs() as lines:
            refusal, config = loaded(used / "trilogue.yaml", folder)
            if config is None:
                # The key of an account is lost: one line says so.
                assert "store" in refusal or "vault" in refusal
                assert name == "accounts.vault"
                assert "\n" not in refusal
                continue
            statuses = asyncio.run(use(config, used / "trilogue.yaml", response))
        bugs = [line for line in lines if line["event"] == "bug" or "exc_info" in line]
        assert bugs == [], (kind, number, bugs)
        assert statuses[0] in (200, 503), (kind, number, statuses)
        assert set(statuses) <= {200, 400, 401, 404, 429, 500, 503}, (kind, number, statuses)
        assert 500 not in statuses, (kind, number, statuses)
        assert statuses[-1] in (401, 503)
        said = [line for line in lines if line["event"] == "a damaged file was set aside"]
        assert len(said) <= 1
        for line in said:
            aside += 1
            assert damaged.split("-wal")[0] in line["file"]
            kept = Path(line["file"]).with_name(line["kept_as"])
            assert kept.exists()
            assert not any(part in damaged for part in OWN)
        for path in good:
            if path != damaged and path.endswith((".key", ".vault", ".made")):
                assert (folder / path).read_bytes() == good[path]
        shutil.rmtree(folder)
    if name in ("responses-", "usage-", "pool-", "seal.key", "admin.key"):
        assert aside >= CASES
    if name == ".counts":
        assert aside


def test_damage_that_is_found_later(settled: Path, used: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a clear error of the request, and one line in the log."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    shutil.copytree(settled / "trilogue", tmp_path / "trilogue")
    refusal, config = loaded(used / "trilogue.yaml", tmp_path)
    assert config is not None, refusal
    [database] = (tmp_path / "trilogue").glob("responses-*.db")

    async def main() -> set[int]:
        gateway = EmbeddedGateway(config, used / "trilogue.yaml")
        await gateway.start()
        size = database.stat().st_size
        with database.open("r+b") as raw:
            raw.seek(4_096)
            raw.write(random.Random(4).randbytes(size - 4_096))
        found = {await asked(gateway, "GET", f"/v1/responses/{number}") for number in range(3)}
        await gateway.stop(0)
        return found

    with capture_logs() as lines:
        assert asyncio.run(main()) == {503}
    assert [line["event"] for line in lines].count("the store of responses is damaged") == 1
    assert not any(line["event"] == "bug" for line in lines)


def test_a_process_starts_with_damaged_files(used: Path, tmp_path: Path) -> None:
    """As `trilogue serve`: one line for each file, and no traceback."""
    good = files(used)
    damaged = [path for path in good if any(name in path for name in ("responses-", "usage-", "seal.key", "admin.key"))]
    damaged = [path for path in damaged if path.endswith((".db", ".key"))]
    for path, data in good.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        if not path.endswith(("-wal", "-shm")):
            (tmp_path / path).write_bytes(b"damaged \0" * 1_000 if path in damaged else data)
    # The files are named by the path of the configuration.
    for path in damaged:
        if path.endswith(".db"):
            kind = Path(path).name.partition("-")[0]
            name = state_file({"XDG_STATE_HOME": str(tmp_path)}, f"{kind}.db", tmp_path / "trilogue.yaml").name
            (tmp_path / path).rename((tmp_path / path).with_name(name))
    text = CONFIG.replace("accounts: [store:spare]", "accounts: [spare-key]")
    with started(tmp_path, text) as gateway:
        assert httpx2.get(f"{gateway.url}/v1/models", headers=KEY, timeout=20).status_code == 200
        body = {"model": "demo", "input": "hi"}
        assert httpx2.post(f"{gateway.url}/v1/responses", headers=KEY, json=body, timeout=20).status_code == 200
        log = gateway.log
    said = [line for line in log.splitlines() if "a damaged file was set aside" in line]
    assert len(said) == len(damaged) == 4
    assert "Traceback" not in log
    assert len(list((tmp_path / "trilogue").glob("*.broken-*"))) == 4
