"""The policy `approve` in a running gateway: calls wait until somebody decides, in whichever worker they are."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest
from click.testing import CliRunner

from tests.each import each
from tests.gateway.pooling import ADMIN, ADMIN_KEY, Pooled, pooled
from tests.gateway.process import until
from tests.gateway.running import PROVIDERS
from tests.gateway.test_policies import ask, check, records
from tests.gateway.wire import CASES, Answer, Case, name
from tests.scripted import thread
from tests.scripted.ask import PATHS, body
from tests.scripted.server import ScriptedUpstream
from trilogue.app.cli.approvals import approvals
from trilogue.capture import read_capture
from trilogue.model import Protocol

C, M, R = Protocol.CHAT, Protocol.MESSAGES, Protocol.RESPONSES
WAIT = 20
HOOK_SECRET = "hook-secret-canary-93c1"
POLICIES = {
    "person": "{use: approve, timeout: 60}",
    "weather": "{use: approve, tools: ['get_w*'], timeout: 60}",
    "brief": "{use: approve, timeout: 0.4}",
    "brief-open": "{use: approve, timeout: 0.4, on_error: open}",
    "small": "{use: approve, characters: 5}",
    "hook": "{use: approve, timeout: 60, webhook: env:HOOK_URL, webhook_secret: env:HOOK_SECRET}",
}


class Hook:
    """A webhook on loopback: it keeps what it gets, and responds with what it is told to."""

    def __init__(self) -> None:
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.replies: list[tuple[int, bytes]] = []
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                data = self.rfile.read(int(self.headers["content-length"]))
                hook.got.append(({key.lower(): value for key, value in self.headers.items()}, data))
                status, reply = hook.replies.pop(0) if hook.replies else (202, b"")
                self.send_response(status)
                self.send_header("content-length", str(len(reply)))
                self.end_headers()
                self.wfile.write(reply)

            def log_message(self, *_: Any) -> None:
                """Print nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook?token=url-canary-5d2f"


def _config(workers: int = 1) -> str:
    keys = [f"  - {{key: key-of-{name}, name: {name}, policies: [{name}]}}" for name in POLICIES]
    return "\n".join(
        [
            PROVIDERS.replace("keys: [env:TRILOGUE_KEY]", "keys:\n" + "\n".join(keys)),
            f"server: {{keepalive_seconds: 0.1, workers: {workers}}}",
            ADMIN,
            "policies:",
            *(f"  {name}: {settings}" for name, settings in POLICIES.items()),
        ]
    )


@pytest.fixture(scope="module")
def up() -> Iterator[ScriptedUpstream]:
    with thread.running() as upstream:
        yield upstream


@pytest.fixture(scope="module")
def hook() -> Iterator[Hook]:
    found = Hook()
    serving = threading.Thread(target=found.server.serve_forever, daemon=True)
    serving.start()
    yield found
    found.server.shutdown()
    found.server.server_close()


@pytest.fixture(scope="module")
def served(up: ScriptedUpstream, hook: Hook, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pooled]:
    environ = {"HOOK_URL": hook.url, "HOOK_SECRET": HOOK_SECRET}
    with pooled(tmp_path_factory.mktemp("approve"), _config(), up, environ=environ) as gateway:
        yield gateway


def waiting(gateway: Pooled, number: int = 1, key: str = "") -> list[dict[str, Any]]:
    """Return the calls that wait, once there are this many."""
    found: list[dict[str, Any]] = []

    def there() -> bool:
        found[:] = gateway.admin.get("/approvals").json()["approvals"]
        found[:] = [one for one in found if key in ("", one["key"])]
        return len(found) == number

    until(there, WAIT)
    return found


def decide(gateway: Pooled, approval: dict[str, Any], decision: str, by: str = "zoe") -> httpx2.Response:
    """Decide on a call."""
    return gateway.admin.post(f"/approvals/{approval['id']}", json={"decision": decision, "by": by})


def held(gateway: Pooled, cases: list[Case], key: str, decision: str) -> dict[Case, Answer]:
    """Return the responses to requests whose calls were all decided on in this way."""

    async def run() -> list[Answer]:
        asking = [asyncio.create_task(ask(gateway, case, "tools", key)) for case in cases]
        found = await asyncio.to_thread(waiting, gateway, len(cases), key)
        for one in found:
            assert (await asyncio.to_thread(decide, gateway, one, decision)).status_code == 200
        return await asyncio.gather(*asking)

    return dict(zip(cases, asyncio.run(run()), strict=True))


def test_a_yes_on_every_pair(served: Pooled) -> None:
    """The call goes on, and the record says who said so."""
    for case, answer in held(served, CASES, "person", "yes").items():
        check(case, answer)
        assert b"get_weather" in answer.body, name(case)
    shown = served.admin.get(f"/requests/{answer.headers['x-request-id']}").json()["policies"]
    assert [(one["verdict"], one["reason"]) for one in shown] == [("pass", "approved by zoe")]


def test_a_no_on_every_pair(served: Pooled) -> None:
    """The client gets words in place of the call, and does not learn who said so."""
    for case, answer in held(served, CASES, "person", "no").items():
        check(case, answer)
        assert b"The call of get_weather was blocked by a policy: it was not approved." in answer.body, name(case)
        assert b"ris" not in answer.body, name(case)
        assert b"zoe" not in answer.body, name(case)
    (record,) = records(served, answer)
    assert (record["policy"], record["verdict"], record["reason"]) == ("person", "replace", "denied by zoe")


def test_what_is_shown_of_a_call(served: Pooled) -> None:
    """Everything that a person needs to decide; and its arguments are shown nowhere else."""

    async def run() -> tuple[dict[str, Any], Answer]:
        asking = asyncio.create_task(ask(served, (M, C, True), "tools", "weather"))
        (found,) = await asyncio.to_thread(waiting, served, 1, "weather")
        page = await asyncio.to_thread(served.admin.get, "/metrics")
        assert "trilogue_approvals_waiting 1" in page.text
        assert "Paris" not in page.text
        await asyncio.to_thread(decide, served, found, "yes")
        return found, await asking

    found, answer = asyncio.run(run())
    assert found["tool"] == "get_weather"
    assert json.loads(found["arguments"]) == {"city": "Paris"}
    assert (found["key"], found["model"], found["policy"]) == ("weather", "chat/tools", "weather")
    assert found["request_id"] == answer.headers["x-request-id"]
    assert 55 < found["until"] - found["asked_at"] < 61
    assert b": " in answer.body  # keep-alives, while it was held
    listed = served.admin.get("/approvals").json()
    assert (listed["decided"][0]["id"], listed["decided"][0]["by"]) == (found["id"], "zoe")
    assert "Paris" not in json.dumps(listed)
    records(served, answer)
    assert "Paris" not in served.gateway.log


def test_only_the_listed_tools_wait(served: Pooled) -> None:
    """Of two calls, one is asked about; the other goes on behind the words."""

    async def run() -> Answer:
        asking = asyncio.create_task(ask(served, (C, M, True), "parallel-tools", "weather"))
        (found,) = await asyncio.to_thread(waiting, served, 1, "weather")
        await asyncio.to_thread(decide, served, found, "no")
        return await asking

    answer = asyncio.run(run())
    check((C, M, True), answer)
    assert b"was not approved" in answer.body
    assert b"get_time" in answer.body


@each(("key", "words", "reason"), [("brief", b"could not decide", "stopped"), ("brief-open", b"get_weather", "passed")])
def test_without_a_decision_in_time(served: Pooled, key: str, words: bytes, reason: str) -> None:
    for case in ((C, M, True), (R, R, False)):
        answer = asyncio.run(ask(served, case, "tools", key))
        check(case, answer)
        assert words in answer.body
        (record,) = records(served, answer)
        assert (record["verdict"], record["reason"]) == ("error", f"did not decide in time; {reason}")
    assert waiting(served, 0, key) == []


def test_what_nobody_can_read_is_not_asked_about(served: Pooled) -> None:
    answer = asyncio.run(ask(served, (C, C, True), "tools", "small"))
    check((C, C, True), answer)
    assert b"it has more than 5 characters" in answer.body


def test_mistakes(served: Pooled) -> None:
    """Decisions that are none, and calls that do not wait."""
    for given in ({}, {"decision": "maybe"}, {"decision": True}, {"decision": "yes", "by": 3}):
        refused = served.admin.post("/approvals/apr_x", json=given)
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "bad_decision")
    gone = served.admin.post("/approvals/apr_x", json={"decision": "yes"})
    assert (gone.status_code, gone.json()["error"]["code"]) == (404, "no_such_approval")


def test_the_first_decision_counts(served: Pooled) -> None:
    async def run() -> Answer:
        asking = asyncio.create_task(ask(served, (C, C, True), "tools", "person"))
        (found,) = await asyncio.to_thread(waiting, served, 1, "person")
        assert decide(served, found, "no").status_code == 200
        assert decide(served, found, "yes").status_code == 404
        return await asking

    assert b"was not approved" in asyncio.run(run()).body


def test_a_call_whose_client_has_left_does_not_wait(served: Pooled) -> None:
    asked = json.dumps(body(C, "chat/tools", stream=True))
    headers = {"authorization": "Bearer key-of-person"}
    with httpx2.stream("POST", f"{served.gateway.url}{PATHS[C]}", headers=headers, content=asked, timeout=20):
        (found,) = waiting(served, 1, "person")
    assert waiting(served, 0, "person") == []
    assert decide(served, found, "yes").status_code == 404


def test_the_command_line(served: Pooled) -> None:
    """`trilogue approvals` lists, approves and denies."""

    def run(*arguments: str) -> str:
        given = [*arguments, "--url", str(served.admin.base_url)]
        return CliRunner().invoke(approvals, given, env={"TRILOGUE_ADMIN_KEY": ADMIN_KEY}).output

    async def decided(command: str, *more: str) -> Answer:
        asking = asyncio.create_task(ask(served, (C, C, True), "tools", "person"))
        (found,) = await asyncio.to_thread(waiting, served, 1, "person")
        shown = await asyncio.to_thread(run)
        assert found["id"] in shown
        assert '{"city": "Paris"}' in shown
        assert json.loads(await asyncio.to_thread(run, "list", "--json"))["tool"] == "get_weather"
        done = await asyncio.to_thread(run, command, found["id"], *more)
        assert done == {"approve": "approved\n", "deny": "denied\n"}[command]
        return await asking

    assert b"get_weather" in asyncio.run(decided("approve")).body
    answer = asyncio.run(decided("deny", "--by", "bob"))
    assert b"was not approved" in answer.body
    assert records(served, answer)[0]["reason"] == "denied by bob"
    assert run() == "No call waits for approval.\n"
    assert "does not wait any more" in run("approve", "apr_x")


def signed(headers: dict[str, str], data: bytes) -> str:
    """Return the signature that a message should have."""
    content = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + data
    return "v1," + base64.b64encode(hmac.new(HOOK_SECRET.encode(), content, sha256).digest()).decode()


def test_a_webhook_decides(served: Pooled, hook: Hook) -> None:
    """In its response, after it has failed twice; what it gets is signed."""
    hook.got.clear()
    hook.replies[:] = [(503, b""), (200, b'{"decision": "yes", "by": "carol"}')]
    answer = asyncio.run(ask(served, (M, M, True), "tools", "hook"))
    check((M, M, True), answer)
    assert b"get_weather" in answer.body
    shown = served.admin.get(f"/requests/{answer.headers['x-request-id']}").json()["policies"]
    assert shown[-1]["reason"] == "approved by carol"
    assert len(hook.got) == 2
    for headers, data in hook.got:
        assert headers["webhook-signature"] == signed(headers, data)
        assert abs(int(headers["webhook-timestamp"]) - time.time()) < 60
        message = json.loads(data)
        assert (message["type"], message["approval"]["tool"]) == ("approval", "get_weather")
        assert json.loads(message["approval"]["arguments"]) == {"city": "Paris"}
    hook.replies[:] = [(200, b'{"decision": "no"}')]
    answer = asyncio.run(ask(served, (C, R, False), "tools", "hook"))
    assert b"was not approved" in answer.body
    assert records(served, answer)[0]["reason"] == "denied by webhook"
    for canary in (HOOK_SECRET, "url-canary"):
        assert canary not in served.gateway.log


@each("reply", [(202, b""), (200, b"{}"), (200, b"nonsense"), (200, b'{"decision": "later"}'), (404, b""), (302, b"")])
def test_a_webhook_that_does_not_decide(served: Pooled, hook: Hook, reply: tuple[int, bytes]) -> None:
    """The call waits for the admin interface."""
    hook.replies[:] = [reply]

    async def run() -> Answer:
        asking = asyncio.create_task(ask(served, (C, C, True), "tools", "hook"))
        (found,) = await asyncio.to_thread(waiting, served, 1, "hook")
        await asyncio.to_thread(until, lambda: not hook.replies)
        assert (await asyncio.to_thread(decide, served, found, "yes")).status_code == 200
        return await asking

    assert b"get_weather" in asyncio.run(run()).body


def test_the_capture_has_the_decision(served: Pooled) -> None:
    folder = served.admin.post("/capture", json={"requests": 1, "lease_seconds": 60}).json()["folder"]
    answer = held(served, [(C, M, True)], "person", "no")[C, M, True]
    file = Path(folder, f"{answer.headers['x-request-id']}.jsonl")
    until(file.exists, 10)
    (decided,) = read_capture(file.read_bytes()).policies
    assert (decided.policy, decided.verdict, decided.reason) == ("person", "replace", "denied by zoe")


@contextmanager
def several(up: ScriptedUpstream, folder: Path) -> Iterator[Pooled]:
    """A gateway with two workers."""
    environ = {"HOOK_URL": "http://127.0.0.1:9/", "HOOK_SECRET": HOOK_SECRET}
    with pooled(folder, _config(workers=2), up, environ=environ) as gateway:
        yield gateway


def test_calls_of_all_workers_are_shown_and_decided(up: ScriptedUpstream, tmp_path: Path) -> None:
    """Calls wait in both workers, and one connection, which belongs to one of them, decides on all."""
    with several(up, tmp_path) as gateway:

        async def run() -> list[Answer]:
            asking: list[asyncio.Task[Answer]] = []
            found: list[dict[str, Any]] = []
            while len({one["worker"] for one in found}) < 2:
                assert len(asking) < 400, "one worker gets all connections"
                asking += [asyncio.create_task(ask(gateway, (C, C, True), "tools", "person")) for _ in range(8)]
                found = await asyncio.to_thread(waiting, gateway, len(asking))
            for number, one in enumerate(found):
                reply = await asyncio.to_thread(decide, gateway, one, "yes" if number % 2 else "no")
                assert reply.status_code == 200, reply.text
            return await asyncio.gather(*asking)

        answers = asyncio.run(run())
        denied = sum(b"was not approved" in answer.body for answer in answers)
        assert denied == len(answers) // 2
        decided = gateway.admin.get("/approvals").json()["decided"]
        assert len(decided) == min(50, len(answers))
