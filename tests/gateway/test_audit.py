"""The audit log through the admin interface: every change is in it, with who made it, and nothing without it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.gateway.pooling import ADMIN, ADMIN_KEY, Pooled, accepting, config, pooled, ranked
from tests.gateway.running import CLIENT_KEY
from tests.scripted import thread

ON_CALL = "operator-key-canary-2"
SETTINGS = f"""\
admin:
  key: env:ADMIN_KEY
  port: 0
  keys: [{{name: on-call, key: {ON_CALL}, role: operator}}]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audit")


@pytest.fixture(scope="module")
def gateway(folder: Path) -> Iterator[Pooled]:
    text = config(ranked("one"), workers=2).replace(ADMIN, SETTINGS)
    with thread.running(accepting("one")) as up, pooled(folder, text, up) as pool:
        yield pool


def entries(gateway: Pooled, **query: str | int) -> list[dict[str, Any]]:
    reply = gateway.admin.get("/audit", params=query)
    assert reply.status_code == 200, reply.text
    return list(reply.json()["entries"])


def latest(gateway: Pooled) -> tuple[object, ...]:
    [entry] = entries(gateway, limit=1)
    return tuple(entry[name] for name in ("who", "via", "what", "subject", "before", "after"))


def test_changes_are_noted_with_who_made_them(gateway: Pooled) -> None:
    on_call = {"authorization": f"Bearer {ON_CALL}"}

    def change(action: str, body: dict[str, float] | None = None) -> None:
        url = gateway.admin.base_url.join(f"/accounts/chat/one/{action}")
        assert httpx2.post(url, headers=on_call, json=body).status_code == 200

    change("disable")
    ready = {"state": "ready", "why": None}
    disabled = {"state": "disabled", "why": "by_hand"}
    assert latest(gateway) == ("on-call", "key", "disable account", "chat/one", ready, disabled)
    change("enable")
    assert latest(gateway)[2:] == ("enable account", "chat/one", disabled, {"state": "enabled"})
    change("balance", {"balance": 12.5})
    assert latest(gateway)[2:] == ("balance account", "chat/one", {"balance": None}, {"balance": 12.5})
    change("reset")
    assert latest(gateway)[2] == "reset account"
    made = gateway.admin.post("/capture", json={"requests": 1, "model": "some-model"}).json()["session"]
    who, via, what, subject, before, after = latest(gateway)
    assert (who, via, what, subject, before) == ("admin", "key", "start capture", made["id"], None)
    assert isinstance(after, dict)
    assert after["model"] == "some-model"
    gateway.admin.delete(f"/capture/{made['id']}")
    stopped = {"state": "running"}, {"state": "stopped"}
    assert latest(gateway) == ("admin", "key", "stop capture", made["id"], *stopped)
    number = len(entries(gateway))
    gateway.admin.delete(f"/capture/{made['id']}")  # has ended: nothing changes
    assert gateway.admin.post("/accounts/chat/nobody/disable").status_code == 404
    assert gateway.admin.post("/accounts/chat/one/explode").status_code == 404
    assert len(entries(gateway)) == number


def test_keys_are_noted_without_their_texts(gateway: Pooled) -> None:
    text = str(gateway.admin.post("/keys", json={"name": "alice"}).json()["key"])
    rotated = str(gateway.admin.post("/keys/alice/rotate").json()["key"])
    gateway.admin.put("/keys/alice", json={"owner": "team-a"})
    gateway.admin.post("/keys/alice/revoke")
    found = entries(gateway, subject="alice")
    assert [one["what"] for one in found] == ["revoke key", "change key", "rotate key", "create key"]
    assert {one["who"] for one in found} == {"admin"}
    page = gateway.admin.get("/audit").text
    assert not any(secret in page for secret in (text, rotated, ADMIN_KEY, ON_CALL, CLIENT_KEY))


def test_sign_ins_are_noted(gateway: Pooled) -> None:
    url = str(gateway.admin.base_url).rstrip("/")
    headers = {"origin": url, "trilogue-console": "1"}
    httpx2.post(f"{url}/console/session", headers=headers, json={"key": ON_CALL})
    assert latest(gateway) == ("on-call", "console", "sign in", "on-call", None, {"role": "operator"})


def test_entries_can_be_selected_and_paged(gateway: Pooled) -> None:
    for number in range(5):
        gateway.admin.post("/keys", json={"name": f"key-{number}"})
    seen: list[int] = []
    page = gateway.admin.get("/audit", params={"what": "create key", "limit": 2}).json()
    while True:
        seen += [entry["number"] for entry in page["entries"]]
        if page["next"] is None:
            break
        query = {"what": "create key", "limit": 2, "before": page["next"]}
        page = gateway.admin.get("/audit", params=query).json()
    assert seen == sorted(seen, reverse=True) == [one["number"] for one in entries(gateway, what="create key")]
    assert len(seen) >= 5
    assert entries(gateway, since="1h") == entries(gateway)
    assert entries(gateway, until="1h") == []
    assert entries(gateway, who="nobody") == []
    for query, code in (
        ({"limit": "0"}, "bad_limit"),
        ({"limit": "1001"}, "bad_limit"),
        ({"before": "x"}, "bad_limit"),
        ({"since": "yesterday"}, "bad_query"),
        ({"color": "red"}, "bad_query"),
    ):
        assert gateway.admin.get("/audit", params=query).json()["error"]["code"] == code


def test_nothing_is_changed_that_cannot_be_noted(gateway: Pooled, folder: Path) -> None:
    [file] = folder.rglob("keys-*.db")
    with closing(sqlite3.connect(file, isolation_level=None)) as raw:
        raw.execute("CREATE TRIGGER full BEFORE INSERT ON trl_audit BEGIN SELECT RAISE(ABORT, 'full'); END")
    try:
        refused = gateway.admin.post("/accounts/chat/one/disable")
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "store_unavailable")
        assert gateway.accounts()["chat/one"]["state"] == "ready"
        assert gateway.admin.post("/capture", json={"requests": 1}).status_code == 503
        assert not gateway.admin.get("/capture").json()["active"]
        assert gateway.admin.post("/keys", json={"name": "unnoted"}).status_code == 503
        assert gateway.admin.get("/keys/unnoted").status_code == 404
        url = str(gateway.admin.base_url).rstrip("/")
        headers = {"origin": url, "trilogue-console": "1"}
        signed_in = httpx2.post(f"{url}/console/session", headers=headers, json={"key": ADMIN_KEY})
        assert signed_in.status_code == 200
        gateway.gateway.wait_for_log("a sign-in is not in the audit log")
    finally:
        with closing(sqlite3.connect(file, isolation_level=None)) as raw:
            raw.execute("DROP TRIGGER full")
