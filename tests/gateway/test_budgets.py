"""Budgets against hostile clients and upstreams: what is reserved, what is charged, and what outlives damaged files."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.gateway.pooling import account
from tests.gateway.process import Started, started, until
from tests.gateway.running import LENIENT
from tests.scripted import thread
from tests.scripted.http import json_answer, sse_answer
from tests.scripted.server import ScriptedUpstream
from tests.timing import eventually

PRICE = 1000.0
"""dollars per million tokens, so that a token costs a tenth of a cent"""
SMALL = "profile: {output_limit: 50}"
DOLLAR = 1000
"""tokens"""
NAMES = (
    "negative",
    "many",
    "legacy",
    "refused",
    "odd",
    "unsaid-chat",
    "unsaid-messages",
    "unsaid-responses",
    "compacted-compaction",
    "compacted-end_turn",
    "unbounded",
    "doubled",
    "hosted",
    "broken",
    "background",
)
HTTP = httpx2.Client(timeout=20, limits=httpx2.Limits(max_keepalive_connections=0))
"""keeps no connection, because nobody closes it"""
PATHS = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}


def config(names: tuple[str, ...], budget: str = "{total: 20}", more: str = "") -> str:
    """Providers of all protocols, with the same prices, and keys with the same budget."""
    price = f"prices: {{'*': {{input: {PRICE}, output: {PRICE}}}}}"
    keys = "".join(f"  - {{name: {name}, key: text-of-{name}, budget: {budget}}}\n" for name in names)
    return f"""\
server: {{workers: 1}}
keys:
{keys}providers:
  chat: {{protocol: openai_chat_completions, base_url: UPSTREAM/v1, accounts: [{account("a")}], {price}}}
  messages: {{protocol: anthropic_messages, base_url: UPSTREAM, accounts: [{account("a")}], {price}}}
  small: {{protocol: anthropic_messages, base_url: UPSTREAM, accounts: [{account("a")}], {price}, {SMALL}}}
  responses: {{protocol: openai_responses, base_url: UPSTREAM/v1, accounts: [{account("a")}], {price}}}
{LENIENT}  retry_budget: {{floor: 1000}}
  persist: false
admin: {{key: admin-key-canary-7d1e9a, port: 0}}
{more}"""


@pytest.fixture(scope="module")
def up() -> Iterator[ScriptedUpstream]:
    with thread.running(ScriptedUpstream(keys=())) as upstream:
        yield upstream


@pytest.fixture(scope="module")
def gateway(up: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    with started(tmp_path_factory.mktemp("budgets"), config(NAMES), up.url) as running:
        yield running


def send(gateway: Started, key: str, path: str, body: dict[str, Any] | bytes) -> httpx2.Response:
    headers = {"authorization": f"Bearer text-of-{key}", "content-type": "application/json"}
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return HTTP.post(f"{gateway.url}{path}", headers=headers, content=content)


def asked(protocol: str, **more: Any) -> dict[str, Any]:
    """A request for a few words, in one protocol."""
    text = [{"role": "user", "content": "hi"}]
    own = {"input": "hi"} if protocol == "responses" else {"messages": text}
    return {"model": f"{protocol}/m", **own, **more}


def spent(gateway: Started, key: str) -> float:
    headers = {"authorization": f"Bearer text-of-{key}"}
    found = HTTP.get(f"{gateway.url}/v1/usage", headers=headers).json()
    (budget,) = found["budgets"]
    assert budget["reserved"] == 0
    return float(budget["spent"])


def counted(gateway: Started, key: str, name: str) -> float:
    headers = {"authorization": f"Bearer text-of-{key}"}
    return float(HTTP.get(f"{gateway.url}/v1/usage", headers=headers).json()["usage"]["total"][name])


def refusal(response: httpx2.Response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["code"]


LIMIT = {"chat": "max_tokens", "messages": "max_tokens", "responses": "max_output_tokens"}


@pytest.mark.parametrize("protocol", LIMIT)
@pytest.mark.parametrize("value", [-1, -(10**9), 0, 10**30, 1e30, "100000", None, [], True, 2.5e9])
def test_no_number_makes_a_reservation_small(
    gateway: Started, up: ScriptedUpstream, protocol: str, value: object
) -> None:
    """Without a limit that counts, a response may be as long as the model can make it."""
    before = len(up.requests)
    found = send(gateway, "negative", PATHS[protocol], asked(protocol, **{LIMIT[protocol]: value}))
    if value is True:
        assert found.status_code != 429
    else:
        assert (found.status_code, len(up.requests)) == (429, before)
        assert "budget_exceeded" in found.text or "budget" in found.json()["error"]["message"]
    assert spent(gateway, "negative") < 20


@pytest.mark.parametrize("name", ["n", "best_of"])
@pytest.mark.parametrize("value", [100, "100", 99.5, 10**40, "many", [1]])
def test_every_choice_is_reserved(gateway: Started, up: ScriptedUpstream, name: str, value: object) -> None:
    before = len(up.requests)
    more = {"max_tokens": 1000, name: value}
    assert refusal(send(gateway, "many", PATHS["chat"], asked("chat", **more))) == (429, "budget_exceeded")
    legacy = {"model": "chat/m", "prompt": "hi", **more}
    assert refusal(send(gateway, "many", "/v1/completions", legacy)) == (429, "budget_exceeded")
    assert len(up.requests) == before


def test_legacy_completions_reserve_their_output(gateway: Started, up: ScriptedUpstream) -> None:
    found = send(gateway, "legacy", "/v1/completions", {"model": "chat/m", "prompt": "hi", "max_tokens": 30_000})
    assert refusal(found) == (429, "budget_exceeded")
    several = {"model": "chat/m", "prompt": ["a"] * 30, "max_tokens": 1000}
    assert refusal(send(gateway, "legacy", "/v1/completions", several)) == (429, "budget_exceeded")
    usage = {"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5}
    up.say(json_answer(200, [], {"object": "text_completion", "choices": [], "usage": usage}))
    one = {"model": "chat/m", "prompt": "hi", "max_tokens": 1000}
    assert send(gateway, "legacy", "/v1/completions", one).status_code == 200
    assert spent(gateway, "legacy") == pytest.approx(5 / DOLLAR)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422, 429, 500, 503])
def test_refusals_cost_nothing(gateway: Started, up: ScriptedUpstream, status: int) -> None:
    for protocol, path in PATHS.items():
        up.say(json_answer(status, [], {"error": {"type": "x", "message": "no", "code": "no"}}))
        assert send(gateway, "refused", path, asked(protocol, **{LIMIT[protocol]: 1000})).status_code >= 400
    assert up.waiting == 0
    assert spent(gateway, "refused") == 0


@pytest.mark.parametrize("value", [1.5, "7", None, 1e30, 10**30, -7, [], {}, True])
def test_usage_that_is_none_counts_as_much_as_was_reserved(
    gateway: Started, up: ScriptedUpstream, value: object
) -> None:
    """It is known that something was used, and not how much."""
    before, flagged = spent(gateway, "odd"), counted(gateway, "odd", "unmetered_requests")
    usage = {"prompt_tokens": 4, "completion_tokens": value}
    choice = {"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}
    up.say(json_answer(200, [], {"id": "c", "object": "chat.completion", "choices": [choice], "usage": usage}))
    assert send(gateway, "odd", PATHS["chat"], asked("chat", max_tokens=7)).status_code == 200
    assert 7 / DOLLAR < spent(gateway, "odd") - before < 3
    assert counted(gateway, "odd", "unmetered_requests") == flagged + 1
    assert counted(gateway, "odd", "reserved") == pytest.approx(spent(gateway, "odd"))


@pytest.mark.parametrize("reason", ["compaction", "end_turn"])
def test_what_the_figures_leave_out_is_charged_as_well(gateway: Started, up: ScriptedUpstream, reason: str) -> None:
    """A server of Messages summarizes a long conversation, and may stop behind that: then its other figures are 0."""
    step = {"type": "compaction", "input_tokens": 900, "output_tokens": 100}
    usage = {"input_tokens": 0, "output_tokens": 0, "iterations": [step]}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": reason}
    body = {**asked("messages", max_tokens=7), "context_management": {"edits": [{"type": "compact_20260112"}]}}
    key = f"compacted-{reason}"
    assert send(gateway, key, PATHS["messages"], body).status_code == 429, "the summary may be very long"
    up.say(json_answer(200, [], {**message, "content": [{"type": "compaction", "content": "hi"}], "usage": usage}))
    assert send(gateway, key, PATHS["messages"], {**body, "model": "small/m"}).status_code == 200
    assert spent(gateway, key) == 1
    assert (counted(gateway, key, "input_tokens"), counted(gateway, key, "cost")) == (900, 1)


STREAM: tuple[dict[str, Any], ...] = (
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hi"}},
    {"type": "content_block_stop", "index": 0},
)


@pytest.mark.parametrize("client", PATHS)
@pytest.mark.parametrize(
    "last", [{"usage": {"output_tokens": None}}, {"usage": {"input_tokens": 4}}, {"usage": []}, {}]
)
def test_the_beginning_of_a_stream_does_not_tell_its_output(
    gateway: Started, up: ScriptedUpstream, client: str, last: dict[str, Any]
) -> None:
    """Servers of Messages say at the beginning that a token was written; what counts is what the end says."""
    key = f"unsaid-{client}"
    before, flagged = spent(gateway, key), counted(gateway, key, "unmetered_requests")
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []}
    begun = {"type": "message_start", "message": {**message, "usage": {"input_tokens": 4, "output_tokens": 1}}}
    ended = {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, **last}
    events = (begun, *STREAM, ended, {"type": "message_stop"})
    up.say(*sse_answer(b"event: %b\ndata: %b\n\n" % (one["type"].encode(), json.dumps(one).encode()) for one in events))
    body = {**asked(client, **{LIMIT[client]: 7}), "model": "messages/m", "stream": True}
    assert send(gateway, key, PATHS[client], body).status_code == 200
    assert 7 / DOLLAR < spent(gateway, key) - before < 3
    assert counted(gateway, key, "unmetered_requests") == flagged + 1


def test_a_response_that_breaks_off_counts_as_much_as_was_reserved(gateway: Started, up: ScriptedUpstream) -> None:
    found = send(gateway, "broken", PATHS["chat"], asked("chat", model="chat/reset-mid", max_tokens=7))
    assert found.status_code >= 500
    tries = len([one for one in up.requests if b"reset-mid" in one.body])
    assert spent(gateway, "broken") == pytest.approx(
        tries * (7 + 2000 + len(json.dumps(asked("chat")))) / DOLLAR, abs=0.1
    )


def test_a_background_response_is_charged_its_usage(gateway: Started, up: ScriptedUpstream) -> None:
    """The gateway runs it, although the upstream could: nobody would tell its usage."""
    up.requests.clear()
    body = asked("responses", background=True, max_output_tokens=10_000) | {"model": "responses/text"}
    made = send(gateway, "background", PATHS["responses"], body)
    assert made.status_code == 200, made.text
    address = f"{gateway.url}{PATHS['responses']}/{made.json()['id']}"
    headers = {"authorization": "Bearer text-of-background"}

    def ended() -> dict[str, Any]:
        found: dict[str, Any] = HTTP.get(address, headers=headers).json()
        return found if found["status"] == "completed" else {}

    usage = eventually(ended)["usage"]
    assert "background" not in up.last().json
    eventually(lambda: counted(gateway, "background", "requests") == 1)
    assert spent(gateway, "background") == pytest.approx(usage["total_tokens"] / DOLLAR)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/images/generations", {"model": "chat/m", "prompt": "a cat", "n": 1}),
        ("/v1/audio/speech", {"model": "chat/m", "input": "hi", "voice": "alloy"}),
        ("/v1/batches", {"model": "chat/m", "input_file_id": "file-1", "endpoint": "/v1/chat/completions"}),
        ("/v1/messages/batches", {"model": "messages/m", "requests": []}),
        ("/v1/fine_tuning/jobs", {"model": "chat/m", "training_file": "file-1"}),
        ("/v1/videos", {"model": "chat/m", "prompt": "a cat"}),
        ("/v1/responses", {"model": "responses/m", "input": "hi", "max_output_tokens": 9, "tools": [{"type": "mcp"}]}),
        ("/v1/chat/completions", {**asked("chat"), "max_tokens": 9, "web_search_options": {}}),
    ],
)
def test_what_has_no_bound_is_refused(gateway: Started, up: ScriptedUpstream, path: str, body: dict[str, Any]) -> None:
    before = len(up.requests)
    found = send(gateway, "unbounded", path, body)
    assert (found.status_code, "what this request costs at most is unknown" in found.text) == (403, True)
    assert len(up.requests) == before


def test_fields_that_decide_must_be_there_once(gateway: Started, up: ScriptedUpstream) -> None:
    before = len(up.requests)
    for text in (
        b'{"model": "chat/m", "messages": [], "max_tokens": 99999, "max_tokens": 1}',
        b'{"model": "chat/m", "messages": [], "max_tokens": 99999, "max\\u005ftokens": 1}',
        b'{"model": "chat/m", "messages": [], "max_tokens": 1, "tools": [{"type": "web_search", "type": "function"}]}',
    ):
        found = send(gateway, "doubled", PATHS["chat"], text)
        assert (found.status_code, "is there twice" in found.text) == (400, True)
    assert len(up.requests) == before


FIRST = "first"
ANSWER = {
    "id": "c",
    "object": "chat.completion",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 1000, "completion_tokens": 15_000, "total_tokens": 16_000},
}


@pytest.mark.parametrize("damage", ["cut", "emptied", "nonsense", "rows", "deleted"])
def test_what_is_spent_is_what_the_ledger_says(tmp_path: Path, up: ScriptedUpstream, damage: str) -> None:
    text = config((FIRST,))
    body = asked("chat", max_tokens=10)
    with started(tmp_path, text, up.url) as gateway:
        up.say(json_answer(200, [], ANSWER))
        assert send(gateway, FIRST, PATHS["chat"], body).status_code == 200
        assert spent(gateway, FIRST) == 16
    (file,) = tmp_path.rglob("limits*.dat")
    _damage(file, damage)
    with started(tmp_path, text, up.url) as gateway:
        assert spent(gateway, FIRST) == 16
        large = asked("chat", max_tokens=5000)
        assert refusal(send(gateway, FIRST, PATHS["chat"], large)) == (429, "budget_exceeded")


def test_without_ledger_a_damaged_file_closes_budgets(tmp_path: Path, up: ScriptedUpstream) -> None:
    """The log says what to do; requests without a budget go on."""
    text = config((FIRST,), more="usage: {store: none}\n").replace("keys:\n", "keys:\n  - {name: x, key: text-of-x}\n")
    body = asked("chat", max_tokens=10)
    with started(tmp_path, text, up.url) as gateway:
        up.say(json_answer(200, [], ANSWER))
        assert send(gateway, FIRST, PATHS["chat"], body).status_code == 200
    (file,) = tmp_path.rglob("limits*.dat")
    _damage(file, "cut")
    for _ in range(2):
        with started(tmp_path, text, up.url) as gateway:
            assert refusal(send(gateway, FIRST, PATHS["chat"], body)) == (429, "budget_unavailable")
            up.say(json_answer(200, [], ANSWER))
            assert send(gateway, "x", PATHS["chat"], body).status_code == 200
            assert "delete this file to begin all budgets" in gateway.log_file.read_text()
    file.unlink()
    with started(tmp_path, text, up.url) as gateway:
        up.say(json_answer(200, [], ANSWER))
        assert send(gateway, FIRST, PATHS["chat"], body).status_code == 200


@pytest.mark.parametrize("ledger", ["nonsense", "deleted"])
def test_a_ledger_that_begins_anew_does_not_say_what_was_spent(
    tmp_path: Path, up: ScriptedUpstream, ledger: str
) -> None:
    """It is damaged together with the counts, as after a failure of the disk, and other keys go on."""
    text = config((FIRST,)).replace("keys:\n", "keys:\n  - {name: x, key: text-of-x}\n")
    body = asked("chat", max_tokens=10)
    with started(tmp_path, text, up.url) as gateway:
        up.say(json_answer(200, [], ANSWER))
        assert send(gateway, FIRST, PATHS["chat"], body).status_code == 200
        gateway.signal(signal.SIGTERM)
        assert gateway.process.wait(30) == 0  # so that the ledger is complete
    _damage(next(tmp_path.rglob("limits*.dat")), "cut")
    file = next(tmp_path.rglob("usage*.db"))
    file.unlink()
    if ledger == "nonsense":
        file.write_bytes(b"nonsense" * 1_000)
    with started(tmp_path, text, up.url) as gateway:
        if ledger == "nonsense":  # then the order does not matter
            up.say(json_answer(200, [], ANSWER))
            assert send(gateway, "x", PATHS["chat"], body).status_code == 200
            until(lambda: _counts_any(tmp_path))
        assert refusal(send(gateway, FIRST, PATHS["chat"], body)) == (429, "budget_unavailable")
        up.say(json_answer(200, [], ANSWER))
        assert send(gateway, "x", PATHS["chat"], body).status_code == 200
        until(lambda: _counts_any(tmp_path))
        assert refusal(send(gateway, FIRST, PATHS["chat"], body)) == (429, "budget_unavailable")
    with started(tmp_path, text, up.url) as gateway:
        assert refusal(send(gateway, FIRST, PATHS["chat"], body)) == (429, "budget_unavailable")


def _counts_any(folder: Path) -> bool:
    """Return whether the ledger has a request."""
    file = next((one for one in folder.rglob("usage*.db")), None)
    if file is None:
        return False
    with closing(sqlite3.connect(file)) as raw:
        found = raw.execute("SELECT 1 FROM sqlite_master WHERE name = 'trl_ledger'").fetchone()
        return found is not None and raw.execute("SELECT sum(requests) FROM trl_ledger").fetchone()[0] is not None


def _damage(file: Path, how: str) -> None:
    if how == "deleted":
        file.unlink()
    elif how == "cut":
        os.truncate(file, file.stat().st_size // 2)
    elif how == "emptied":
        file.write_bytes(b"")
    elif how == "nonsense":
        file.write_bytes(b"nonsense")
    else:
        with file.open("r+b") as opened:
            for start, data in _written(file):
                opened.seek(start)
                opened.write(bytes([byte ^ 0x5A for byte in data]))


def _written(file: Path) -> Iterator[tuple[int, bytes]]:
    """Return what is in the file behind its header, which is sparse."""
    step = 4096
    with file.open("rb") as opened:
        start = step
        while start < file.stat().st_size:
            try:
                start = os.lseek(opened.fileno(), start, os.SEEK_DATA) // step * step
            except OSError:  # only a hole is left
                return
            data = os.pread(opened.fileno(), step, start)
            if data.strip(b"\0"):
                yield start, data
            start += step
