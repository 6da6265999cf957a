"""What outlives a request: state over restarts and between workers, the admin interface, commands, records."""

from __future__ import annotations

import json
import signal
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests import forking
from tests.gateway.pooling import ADMIN, ADMIN_KEY, Pooled, accepting, account, config, pooled, ranked, secret
from tests.gateway.process import each_worker, environment, pool_file, started, until
from tests.gateway.running import CLIENT_KEY
from tests.gateway.wire import CASES
from tests.scripted import thread
from tests.scripted.server import ScriptedUpstream
from trilogue.app.worker import WorkerPools
from trilogue.base.clock import steady_time
from trilogue.config.load import parse
from trilogue.model import Failure, FailureKind, Protocol, Usage
from trilogue.storage.locations import ACCOUNTS_FILE, state_file

FREE = "pool: {sticky: false}"


@pytest.fixture(scope="module")
def up() -> Iterator[ScriptedUpstream]:
    with thread.running(accepting("a", "b")) as running:
        yield running


@pytest.fixture(autouse=True)
def _everybody_answers(up: ScriptedUpstream) -> None:
    up.by_key = {secret("a"): "text", secret("b"): "text"}
    up.requests.clear()


def test_a_restart_forgets_nothing(tmp_path: Path, up: ScriptedUpstream) -> None:
    """Who rests and who is disabled stays so, and a conversation finds its account again."""
    text = config(ranked("a", "b"))
    up.by_key[secret("a")] = "error-429"
    with pooled(tmp_path, text, up) as pool:
        pool.ask(Protocol.MESSAGES, "chat/text")
        up.by_key[secret("a")] = "error-401"
        pool.ask(Protocol.CHAT, "messages/text")
        up.by_key[secret("a")] = "text"
        pool.ask(Protocol.CHAT, "responses/text", user="ada")
        assert pool.asked() == ["a", "b", "a", "b", "a"]
        pool.gateway.signal(signal.SIGTERM)
        assert pool.gateway.process.wait(30) == 0
    up.requests.clear()
    with pooled(tmp_path, text.replace("priority: 2", "priority: 1"), up) as pool:
        found = pool.accounts()
        assert [found[f"{name}/a"]["state"] for name in ("chat", "messages")] == ["cooling", "refused"]
        assert found["messages/b"]["requests"] == 1
        for name in ("chat", "messages", "responses", "responses"):
            assert pool.ask(Protocol.CHAT, f"{name}/text", user="ada").status == 200
        assert pool.asked() == ["b", "b", "a", "a"]


def test_a_killed_gateway_forgets_nothing(tmp_path: Path, up: ScriptedUpstream) -> None:
    """What was learnt is written at once."""
    up.by_key[secret("a")] = "error-401"
    text = config(ranked("a", "b"), provider=FREE)
    with pooled(tmp_path, text, up) as pool:
        pool.ask(Protocol.CHAT, "chat/text")
        until(lambda: "key refused" in _command(tmp_path, "accounts"))
        pool.gateway.process.kill()
    up.requests.clear()
    with pooled(tmp_path, text, up) as pool:
        pool.ask(Protocol.CHAT, "chat/text")
        assert pool.asked() == ["b"]


def test_a_reload_forgets_nothing(tmp_path: Path, up: ScriptedUpstream) -> None:
    """Also where nothing is kept in a file."""
    for more in ("", "pool: {persist: false}\n"):
        up.by_key[secret("a")] = "error-401"
        folder = tmp_path / str(len(more))
        folder.mkdir()
        with pooled(folder, config(ranked("a", "b"), provider=FREE, more=more), up) as pool:
            pool.ask(Protocol.CHAT, "chat/text")
            pool.gateway.signal(signal.SIGHUP)
            pool.gateway.wait_for_log('"reloaded"')
            up.requests.clear()
            pool.ask(Protocol.CHAT, "chat/text")
            assert pool.asked() == ["b"]
            found = pool.accounts()
            assert [found[f"chat/{name}"]["requests"] for name in "ab"] == [1, 2]
            assert pool_file(folder).exists() != bool(more)


def test_gateways_with_different_files_do_not_share_state(tmp_path: Path, up: ScriptedUpstream) -> None:
    """Also if they run at the same time, with the same state folder and the same names of accounts."""
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
    shared = {"XDG_STATE_HOME": str(tmp_path)}
    text = config(ranked("a", "b"), provider=FREE)
    with pooled(tmp_path / "one", text, up, environ=shared) as one, pooled(tmp_path / "two", text, up, environ=shared):
        assert one.admin.post("/accounts/chat/a/disable").status_code == 200
        _written(state_file(shared, ACCOUNTS_FILE, one.gateway.config_file), "Switched")
    with pooled(tmp_path / "two", text, up, environ=shared) as two:
        assert two.accounts()["chat/a"]["state"] == "ready"
    with pooled(tmp_path / "one", text, up, environ=shared) as one:
        assert one.accounts()["chat/a"]["state"] == "disabled"


KEEPING_NOTHING = """
pool: {persist: false}
providers:
  p:
    protocol: openai_chat_completions
    base_url: http://127.0.0.1:9
    prices: {m: {input: 1}}
    accounts: [{name: a, key: key-a, balance: 10, limits: {concurrency: 2}}, {name: b, key: key-b, priority: 2}]
"""


def test_requests_under_way_are_counted_over_reloads_without_a_file(tmp_path: Path) -> None:
    """With a single worker too: what they hold, what they have cost, what they have found out."""
    settings = parse(KEEPING_NOTHING.encode(), {}, tmp_path)
    accounts = WorkerPools(tmp_path / "pool.db")
    pools = accounts.configure(settings)
    now = steady_time()
    running = [pools.begin(now, f"r{number}", [("p", "m")]) for number in range(2)]
    assert [step.account for journey in running if (step := journey.next(now))] == ["a", "a"]
    for _ in range(2):
        pools = accounts.configure(settings)
    assert [line["in_flight"] for line in pools.overview(now)] == [2, 0]
    running[0].finished(now, Usage(fresh=3_000_000))
    accounts.sync()
    running[1].failed(now, Failure(kind=FailureKind.AUTHENTICATION, message="no", status=401))
    accounts.sync()
    first = next(pools.overview(now))
    assert (first["in_flight"], first["requests"], first["balance"], first["state"]) == (0, 2, 7.0, "refused")
    assert not (tmp_path / "pool.db").exists()
    accounts.close()


def test_requests_under_way_are_counted_when_a_reload_begins_to_keep_state(tmp_path: Path) -> None:
    """They report to the pools of the new configuration, whichever store those have."""
    accounts = WorkerPools(tmp_path / "pool.db")
    pools = accounts.configure(parse(KEEPING_NOTHING.encode(), {}, tmp_path))
    now = steady_time()
    running = pools.begin(now, "r", [("p", "m")])
    assert running.next(now) is not None
    pools = accounts.configure(parse(KEEPING_NOTHING.replace("false", "true").encode(), {}, tmp_path))
    assert next(pools.overview(now))["in_flight"] == 1
    running.finished(now, Usage(fresh=3_000_000))
    accounts.sync()
    first = next(pools.overview(now))
    assert (first["in_flight"], first["requests"], first["balance"]) == (0, 1, 7.0)
    accounts.close()


def _written(path: Path, kind: str) -> None:
    """Wait until the file holds a note of this kind."""

    def written() -> bool:
        with closing(sqlite3.connect(path)) as file:
            return bool(file.execute("SELECT COUNT(*) FROM note WHERE kind = ?", (kind,)).fetchone()[0])

    until(written)


def _others_know(pool: Pooled, folder: Path, kind: str) -> None:
    """Wait until the file holds a note of this kind, and until every worker has read it."""
    _written(pool_file(folder), kind)
    for _ in each_worker(pool.gateway):
        for _ in range(3):  # a look finds nothing while the file is being written
            httpx2.get(pool.admin.base_url.join("accounts"), headers=pool.admin.headers).raise_for_status()


def test_two_workers_agree_on_cooldowns(tmp_path: Path, up: ScriptedUpstream) -> None:
    """Whoever of them answers: the account that one of them saw refuse is not asked again."""
    up.by_key[secret("a")] = "error-429"
    with pooled(tmp_path, config(ranked("a", "b"), workers=2), up) as pool:
        until(lambda: len(pool.gateway.children()) == 2)
        pool.ask(Protocol.CHAT, "chat/text")
        _others_know(pool, tmp_path, "Cooled")
        for number in range(20):
            assert pool.ask(Protocol.CHAT, "chat/text", user=str(number)).status == 200
        assert pool.asked() == ["a"] + ["b"] * 21


def test_two_workers_agree_on_a_conversation(tmp_path: Path, up: ScriptedUpstream) -> None:
    """It stays with its account, whoever of them answers."""
    with pooled(tmp_path, config([account("a"), account("b")], workers=2), up) as pool:
        until(lambda: len(pool.gateway.children()) == 2)
        pool.ask(Protocol.RESPONSES, "chat/text", prompt_cache_key="ada")
        _others_know(pool, tmp_path, "Bound")
        for _ in range(12):
            assert pool.ask(Protocol.RESPONSES, "chat/text", prompt_cache_key="ada").status == 200
        assert len(set(pool.asked())) == 1


@pytest.fixture(scope="module")
def pool(up: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pooled]:
    with pooled(tmp_path_factory.mktemp("admin"), config(ranked("a", "b"), provider=FREE), up) as running:
        yield running


def _status(url: str, key: str | None, path: str = "/accounts", method: str = "GET") -> int:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    return httpx2.request(method, url + path, headers=headers).status_code


def test_admin_key_and_client_keys_are_apart(pool: Pooled) -> None:
    """Neither opens the other's door; nor does no key at all."""
    admin, url = str(pool.admin.base_url).rstrip("/"), pool.gateway.url
    for key in (None, CLIENT_KEY, "", ADMIN_KEY[:-1], secret("a")):
        for method, path in (("GET", "/accounts"), ("GET", "/decisions"), ("POST", "/accounts/chat/a/disable")):
            assert _status(admin, key, path, method) == 401
    both = {"authorization": f"Bearer {ADMIN_KEY}", "x-api-key": CLIENT_KEY}
    assert httpx2.get(f"{admin}/accounts", headers=both).status_code == 401
    assert _status(admin, ADMIN_KEY) == 200
    assert _status(url, ADMIN_KEY, "/v1/models") == 401
    assert _status(url, CLIENT_KEY, "/accounts") == 404
    assert _status(url, ADMIN_KEY, "/accounts") == 401
    assert _status(admin, ADMIN_KEY, "/v1/chat/completions", "POST") == 404


def test_the_admin_interface_can_be_off(tmp_path: Path, up: ScriptedUpstream) -> None:
    """There is no second listener, and the first one does not do its work."""
    with started(tmp_path, config(ranked("a", "b")).replace(ADMIN, "admin: {enabled: false}\n"), up.url) as gateway:
        assert "admin interface" not in gateway.log
        assert _status(gateway.url, ADMIN_KEY) == 401


def test_admin_actions(pool: Pooled) -> None:
    """Disable, enable, reset and balance, for the very next request; nonsense is refused."""
    pool.renew()
    line = pool.admin.post("/accounts/chat/a/disable").json()
    assert (line["account"], line["state"], line["why"]) == ("a", "disabled", "by_hand")
    pool.ask(Protocol.CHAT, "chat/text")
    assert pool.admin.post("/accounts/chat/a/enable").json()["state"] == "ready"
    pool.ask(Protocol.CHAT, "chat/text")
    assert pool.asked() == ["b", "a"]
    assert pool.admin.post("/accounts/chat/a/balance", json={"balance": 0}).json()["state"] == "limited"
    assert pool.admin.post("/accounts/chat/a/balance", json={"balance": 9}).json()["balance"] == 9
    for body in (b"", b"[]", b"{}", b'{"balance":"x"}', b'{"balance":true}', b'{"balance":1e99}', b"{" * 9999):
        assert pool.admin.post("/accounts/chat/a/balance", content=body).status_code == 400
    for path in ("/accounts/chat/zz/enable", "/accounts/zz/a/enable", "/accounts/chat/a/explode", "/accounts/chat"):
        assert pool.admin.post(path).status_code == 404
    assert pool.admin.get("/decisions", params={"request_id": "req_none"}).status_code == 404


def _command(directory: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "trilogue", *arguments]
    command[4:4] = ["--config", str(directory / "trilogue.yaml")]
    environ = environment(directory, {"ADMIN_KEY": ADMIN_KEY})
    done = forking.run(command, environ=environ)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def test_commands_while_a_gateway_is_running(tmp_path: Path, up: ScriptedUpstream) -> None:
    """`trilogue accounts` shows the live pool, and what it changes holds at once."""
    up.by_key[secret("a")] = "error-429"
    with pooled(tmp_path, config(ranked("a", "b"), provider=FREE), up) as pool:
        pool.ask(Protocol.CHAT, "chat/text")
        until(lambda: "cooling (rate_limited)" in _command(tmp_path, "accounts"))
        up.by_key[secret("a")] = "text"
        assert _command(tmp_path, "accounts", "reset", "chat/a") == "chat/a is reset\n"
        until(lambda: pool.accounts()["chat/a"]["state"] == "ready")
        _command(tmp_path, "accounts", "disable", "chat/b")
        until(lambda: pool.accounts()["chat/b"]["state"] == "disabled")
        pool.ask(Protocol.CHAT, "chat/text")
        assert pool.asked() == ["a", "b", "a"]
        until(lambda: [line["requests"] for line in _lines(tmp_path) if line["provider"] == "chat"] == [2, 1])


def _lines(directory: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in _command(directory, "accounts", "--json").splitlines()]


def test_every_request_leaves_a_record_without_secrets(pool: Pooled) -> None:
    """In the log and over the admin interface: names, counts and times, no keys, no prompts, no texts of upstreams."""
    pool.renew(a="error-401")
    for client, upstream, stream in CASES:
        answer = pool.ask(client, f"{upstream.short}/text", stream=stream, **_prompt(client))
        asked = answer.headers["x-request-id"]
        until(lambda asked=asked: len(_records(pool, asked)) == 1)  # type: ignore[misc]
        record = _records(pool, asked)[0]
        assert record["attempts"] == pool.decision(answer)["attempts"]
        assert record["outcome"] == "answered"
    records = pool.gateway.log + pool.admin.get("/decisions").text
    assert "Incorrect API key provided." not in records
    everything = records + pool.admin.get("/accounts").text + "".join(_kept(pool))
    for canary in (secret("a"), secret("b"), ADMIN_KEY, CLIENT_KEY, "canary-prompt"):
        assert canary not in everything


def _records(pool: Pooled, request_id: str) -> list[dict[str, Any]]:
    """Written just after the answer."""
    whole = [json.loads(line) for line in pool.gateway.log.splitlines(keepends=True) if line.endswith("\n")]
    return [line["decision"] for line in whole if line["event"] == "request" and line["request_id"] == request_id]


def _prompt(client: Protocol) -> dict[str, object]:
    if client is Protocol.RESPONSES:
        return {"input": "canary-prompt"}
    return {"messages": [{"role": "user", "content": "canary-prompt"}]}


def _kept(pool: Pooled) -> Iterator[str]:
    """What is on disk beside the configuration and the log."""
    folder = pool.gateway.config_file.parent / "trilogue"
    for path in folder.rglob("*"):
        if path.is_file():
            yield path.read_bytes().decode("latin-1")
