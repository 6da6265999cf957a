"""Client keys that are made while the gateway runs, with two workers: limits are exact, and changes count at once."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator

import httpx2
import pytest

from tests.gateway.pooling import Pooled, accepting, config, pooled, ranked
from tests.gateway.sockets import socket_to
from tests.scripted import thread

CHAT = {"model": "chat/some-model", "messages": [{"role": "user", "content": "hi"}]}
MESSAGES = {"model": "chat/some-model", "max_tokens": 50, "messages": [{"role": "user", "content": "hi"}]}
KEYS: dict[str, dict[str, object]] = {
    "storm": {"limits": {"requests_per_day": 20}},
    "told": {"limits": {"requests_per_minute": 100, "tokens_per_day": 1_000_000}},
    "narrow": {"limits": {"requests_per_day": 1}},
    "a": {"owner": "team"},
    "b": {"owner": "team"},
    "chat-only": {"models": ["chat/*"]},
    "no-chat": {"providers": ["responses"]},
    "rotated": {},
    "streaming": {},
    "changed": {},
    "on-a-socket": {},
}
HTTP = httpx2.Client(timeout=20, limits=httpx2.Limits(max_keepalive_connections=0))
"""keeps no connection, because nobody closes it"""
TEAM = "owners: {team: {limits: {requests_per_day: 30}}}\n"


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pooled]:
    folder = tmp_path_factory.mktemp("keys")
    text = config(ranked("one"), workers=2, more=TEAM)
    with thread.running(accepting("one")) as up, pooled(folder, text, up) as running:
        yield running


@pytest.fixture(scope="module")
def keys(pool: Pooled) -> dict[str, str]:
    return make(pool)


def wait_for(pool: Pooled, key: str, wanted: int) -> None:
    """Wait until both workers respond to a key with this status. A connection may reach either."""
    deadline = time.monotonic() + 20
    while set(statuses(pool, key, 20)) != {wanted}:
        assert time.monotonic() < deadline


def statuses(pool: Pooled, key: str, count: int) -> list[int]:
    """Ask for the models several times at once, with a connection for each request."""

    async def ask() -> list[int]:
        headers = {"authorization": f"Bearer {key}", "connection": "close"}
        async with httpx2.AsyncClient(headers=headers, timeout=30) as client:
            replies = await asyncio.gather(*(client.get(f"{pool.gateway.url}/v1/models") for _ in range(count)))
        return [reply.status_code for reply in replies]

    return asyncio.run(ask())


def make(pool: Pooled) -> dict[str, str]:
    """Make all keys at once. Return their texts by name."""
    texts = {}
    for name, options in KEYS.items():
        made = pool.admin.post("/keys", json={"name": name, **options})
        assert made.status_code == 200, made.text
        texts[name] = str(made.json()["key"])
    return texts


def status(pool: Pooled, key: str, path: str = "/v1/chat/completions", body: object = CHAT) -> int:
    return send(pool, key, path, body).status_code


def send(pool: Pooled, key: str, path: str = "/v1/chat/completions", body: object = CHAT) -> httpx2.Response:
    headers = {"authorization": f"Bearer {key}", "connection": "close"}
    url = f"{pool.gateway.url}{path}"
    return HTTP.get(url, headers=headers) if body is None else HTTP.post(url, headers=headers, json=body)


def test_a_new_key_works_at_once_on_every_worker(pool: Pooled, keys: dict[str, str]) -> None:
    """Each request opens a connection of its own, which either worker may accept."""
    found = []
    for number in range(12):
        key = str(pool.admin.post("/keys", json={"name": f"new-{number}"}).json()["key"])
        found += [status(pool, key, "/v1/models", None) for _ in range(4)]
        key = str(pool.admin.post(f"/keys/new-{number}/rotate").json()["key"])
        found.append(status(pool, key, "/v1/models", None))
    assert found == [200] * 60


def test_wrong_keys_share_looks_at_the_store(pool: Pooled, keys: dict[str, str]) -> None:
    """However many requests with a wrong key there are, they wait together, and all are refused."""
    began = time.monotonic()
    assert statuses(pool, "sk-trl-wrong", 60) == [401] * 60
    # One look after the other would take 60 pauses of 0.2 seconds.
    assert time.monotonic() - began < 10


def test_a_revoked_key_cannot_go_on_over_its_websocket(pool: Pooled, keys: dict[str, str]) -> None:
    bearer = (("authorization", f"Bearer {keys['on-a-socket']}"),)
    with socket_to(pool.gateway.url, bearer) as socket:
        assert socket.ask("chat/some-model", "hi")["type"] == "response.completed"
        pool.admin.post("/keys/on-a-socket/revoke")
        wait_for(pool, keys["on-a-socket"], 401)
        refused = socket.ask("chat/some-model", "hi")
    assert (refused["status"], refused["error"]["code"]) == (401, "invalid_api_key")


def test_a_limit_is_exact_over_workers(pool: Pooled, keys: dict[str, str]) -> None:
    key = keys["storm"]

    async def storm() -> list[int]:
        async with httpx2.AsyncClient(headers={"authorization": f"Bearer {key}"}, timeout=30) as client:
            url = f"{pool.gateway.url}/v1/chat/completions"
            replies = await asyncio.gather(*(client.post(url, json=CHAT) for _ in range(60)))
        return [reply.status_code for reply in replies]

    found = asyncio.run(storm())
    assert (found.count(200), found.count(429)) == (20, 40)


def test_each_protocol_tells_its_limits(pool: Pooled, keys: dict[str, str]) -> None:
    key = keys["told"]
    chat, messages = send(pool, key).headers, send(pool, key, "/v1/messages", MESSAGES).headers
    assert (chat["x-ratelimit-limit-requests"], chat["x-ratelimit-limit-tokens"]) == ("100", "1000000")
    assert re.fullmatch(r"(\d+h)?(\d+m)?(\d+s)?", chat["x-ratelimit-reset-tokens"])
    assert int(messages["anthropic-ratelimit-requests-remaining"]) < 100
    assert messages["anthropic-ratelimit-requests-reset"].endswith("Z")
    narrow = keys["narrow"]
    send(pool, narrow)
    refused = send(pool, narrow, "/v1/messages", MESSAGES)
    assert refused.status_code == 429
    assert refused.json()["error"]["type"] == "rate_limit_error"
    assert 0 < int(refused.headers["retry-after"]) <= 60


def test_keys_of_an_owner_count_together(pool: Pooled, keys: dict[str, str]) -> None:
    first, second = keys["a"], keys["b"]
    found = [status(pool, key) for key in (first, second) * 16]
    assert found == [200] * 30 + [429] * 2


def test_models_and_providers_can_be_restricted(pool: Pooled, keys: dict[str, str]) -> None:
    key = keys["chat-only"]
    assert status(pool, key) == 200
    refused = send(pool, key, body={**CHAT, "model": "messages/some-model"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "model_not_allowed")
    other = keys["no-chat"]
    assert status(pool, other) == 403


def test_rotation_and_revocation(pool: Pooled, keys: dict[str, str]) -> None:
    old = keys["rotated"]
    new = str(pool.admin.post("/keys/rotated/rotate", json={"overlap_seconds": 3600}).json()["key"])
    assert [status(pool, key) for key in (new, old) * 4] == [200] * 8
    began = time.monotonic()
    assert pool.admin.post("/keys/rotated/revoke").json()["status"] == "revoked"
    for key in (old, new):
        wait_for(pool, key, 401)
    assert time.monotonic() - began < 5


def test_revoking_can_end_running_streams(pool: Pooled, keys: dict[str, str]) -> None:
    key = keys["streaming"]
    pool.up.by_key["up-key-canary-one"] = "hang-mid"
    try:
        headers = {"authorization": f"Bearer {key}"}
        url = f"{pool.gateway.url}/v1/chat/completions"
        with HTTP.stream("POST", url, headers=headers, json={**CHAT, "stream": True}) as stream:
            pieces = stream.iter_bytes()
            received = next(pieces)
            pool.admin.post("/keys/streaming/revoke", json={"stop_streams": True})
            received += b"".join(pieces)
        assert b"key_revoked" in received
    finally:
        pool.up.by_key["up-key-canary-one"] = "text"


def test_bad_keys_are_explained_and_changes_are_audited(pool: Pooled, keys: dict[str, str]) -> None:
    for body, code, status_code in (
        ({"name": ""}, "bad_key", 400),
        ({"name": "x", "limits": {"requests_per_second": 1}}, "bad_key", 400),
        ({"name": "x", "expires": "tomorrow"}, "bad_key", 400),
    ):
        refused = pool.admin.post("/keys", json=body)
        assert (refused.status_code, refused.json()["error"]["code"]) == (status_code, code)
    text = keys["changed"]
    assert pool.admin.post("/keys", json={"name": "changed"}).status_code == 409
    assert pool.admin.put("/keys/changed", json={"tags": ["x"], "expires": "2001-01-01"}).json()["status"] == "expired"
    wait_for(pool, text, 401)
    assert pool.admin.get("/keys/nobody").status_code == 404
    entries = pool.admin.get("/audit", params={"limit": "1"}).json()["entries"]
    assert [(entry["what"], entry["subject"]) for entry in entries] == [("change key", "changed")]
    assert (entries[0]["before"]["expires"], entries[0]["after"]["options"]["tags"]) == (None, ["x"])
    assert text not in pool.admin.get("/audit").text + pool.admin.get("/keys").text
