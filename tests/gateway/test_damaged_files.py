"""Any damage to any file of the state folder: the gateway starts, says which file, and loses nothing else."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import pytest
import structlog
from structlog.testing import capture_logs

from tests.gateway.process import started, until
from trilogue.cli.local_admin import with_admin_key
from trilogue.config import Config, ConfigError, load, state_file
from trilogue.embedded.asgi_http import serve_http
from trilogue.embedded.gateway import EmbeddedGateway
from trilogue.gateway.setup.managed_keys import FILE_NAME, key_store
from trilogue.gateway.setup.sealing import NoSealKey
from trilogue.keys import KeyOptions
from trilogue.state.keys import Actor

CONFIG = """\
keys: [{name: limited, key: text-of-limited, budget: {day: 1000, unknown_prices: allow}}]
providers:
  demo: {protocol: openai_responses, base_url: "demo:"}
  up: {protocol: openai_chat_completions, base_url: "http://127.0.0.1:9", accounts: [store:spare]}
"""
NOT_COPIED = (".yaml", ".id", ".dat", ".log")
"""the table of limits has hundreds of megabytes, nearly all of them holes; it has tests of its own"""
CASES = 6
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
    from_vault(folder)
    database = state_file({"XDG_STATE_HOME": str(folder)}, FILE_NAME, folder / "trilogue.yaml")
    with closing(key_store(Config(), database)) as store:
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


def from_vault(folder: Path) -> None:
    from trilogue.config import Vault

    Vault(folder / "trilogue").put("spare", "key-of-spare")


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
    used: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing raises, and every other file stays as it was until it is used."""
    good = files(used)
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
            try:
                config = with_admin_key(load(used / "trilogue.yaml", {"XDG_STATE_HOME": str(folder)}))
            except ConfigError as error:
                assert "vault" in str(error)
                assert "\n" not in str(error)
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
