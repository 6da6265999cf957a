"""The policy `judge` in a running gateway: its questions are requests of their own, with all that belongs to them."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.each import each
from tests.gateway.pooling import ADMIN, Pooled, pooled
from tests.gateway.process import until
from tests.gateway.running import PROVIDERS
from tests.gateway.test_policies import ask, asked_all, check, records, same
from tests.gateway.wire import CASES, Answer, Case, name, post
from tests.scripted import thread
from tests.scripted.ask import PATHS, body
from tests.scripted.server import ScriptedUpstream
from trilogue.capture import read_capture, replay
from trilogue.model import Protocol

C, M, R = Protocol.CHAT, Protocol.MESSAGES, Protocol.RESPONSES
FILE = Path(__file__).with_name("policy_file.py")
FAILING = {
    "nonsense": ("chat/text", "got no score from the judge"),
    "error": ("messages/error-500", "failed with status 500, server"),
    "limited": ("chat/error-429", "failed with status 429, rate_limit"),
    "never": ("chat/hang-before-headers", "did not decide in time"),
    "broken": ("responses/reset-before-headers", "failed with status 502"),
    "unknown": ("nowhere/judge", "failed with status 404"),
}
"""judges that give no verdict, and what the record says about each"""
JUDGES = {
    "strict": "{use: judge, model: messages/score-0.9}",
    "lenient": "{use: judge, model: responses/score-0.1}",
    "spare": "{use: judge, model: spare-judge, cache: 0}",
    "slow": "{use: judge, model: chat/score-0.1-700, cache: 0}",
    "hanging": "{use: judge, model: chat/hang-before-headers, timeout: 30, cache: 0}",
    "curious": f"{{use: '{FILE}:Curious', on_error: open}}",
    "mentioning": f"{{use: '{FILE}:Mentioning'}}",
    "uncached": "{use: judge, model: messages/score-0.1, cache: 0}",
}
KEYS: dict[str, tuple[list[str], str]] = {
    **{name: ([name], "") for name in ("strict", "lenient", "spare", "slow", "hanging", "uncached")},
    **{f"{name}-{way}": ([f"{name}-{way}"], "") for name in FAILING for way in ("closed", "open")},
    "curious": (["curious", "uncached"], ""),
    "mentioning": (["mentioning", "uncached"], ""),
    "limited": (["uncached"], "models: ['chat/*'], providers: [chat], limits: {tokens_per_minute: 100000}"),
    "none": ([], ""),
}
PRICES = "prices: {tools: {input: 1, output: 2}, score-0.1: {input: 10, output: 20}}"


def _config() -> str:
    keys = [
        f"  - {{key: key-of-{name}, name: {name}, policies: {json.dumps(own)}{', ' + more if more else ''}}}"
        for name, (own, more) in KEYS.items()
    ]
    failing = [
        f"  {name}-{way}: {{use: judge, model: {model}, timeout: {0.4 if name == 'never' else 10}, on_error: {way}}}"
        for name, (model, _) in FAILING.items()
        for way in ("closed", "open")
    ]
    providers = PROVIDERS.replace("keys: [env:TRILOGUE_KEY]", "keys:\n" + "\n".join(keys))
    providers = providers.replace("accounts: [{key: env:UP_KEY}]}", f"accounts: [{{key: env:UP_KEY}}], {PRICES}}}")
    return "\n".join(
        [
            providers,
            "server: {keepalive_seconds: 0.1}",
            ADMIN,
            "pool: {rules: [{status: 429, action: next}, {status: 500, action: next}, {status: 502, action: next}]}",
            "routes: [{match: spare-judge, targets: [{provider: chat, model: error-500}, "
            "{provider: messages, model: score-0.9}]}]",
            "policies:",
            *(f"  {name}: {settings}" for name, settings in JUDGES.items()),
            *failing,
        ]
    )


@pytest.fixture(scope="module")
def up() -> Iterator[ScriptedUpstream]:
    with thread.running() as upstream:
        yield upstream


@pytest.fixture(scope="module")
def served(up: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pooled]:
    with pooled(tmp_path_factory.mktemp("judge"), _config(), up) as gateway:
        yield gateway


def questions(gateway: Pooled, answer: Answer, number: int = 1) -> list[dict[str, Any]]:
    """Return the log's lines about the requests that the policies of a request have made."""
    parent = answer.headers["x-request-id"]
    lines: list[dict[str, Any]] = []

    def logged() -> bool:
        lines[:] = [line for line in gateway.gateway.lines if line.get("parent") == parent]
        return len(lines) >= number

    until(logged)
    return lines


def test_a_judge_forbids_on_every_pair(served: Pooled, up: ScriptedUpstream) -> None:
    """The judge is asked in its own protocol, and what it forbids does not reach the client."""
    for case, answer in asked_all(served, "tools", "strict").items():
        check(case, answer)
        assert b"The call of get_weather was blocked by a policy: its risk score 0.90" in answer.body, name(case)
        assert b"ris" not in answer.body.replace(b"risk", b""), name(case)
    (record,) = records(served, answer)
    assert (record["policy"], record["verdict"]) == ("strict", "replace")
    asked = next(one for one in reversed(up.requests) if b"score-0.9" in one.body).json
    assert asked["messages"][0]["role"] == "user"
    assert asked["max_tokens"] == 256


def test_what_a_judge_lets_pass_keeps_its_bytes(served: Pooled) -> None:
    """On pass-through; and the score is in the record."""
    for case, answer in asked_all(served, "tools", "lenient").items():
        check(case, answer)
        assert b"get_weather" in answer.body, name(case)
        if case[0] is case[1]:
            plain = asyncio.run(ask(served, case, "tools", "none"))
            assert same(answer.body) == same(plain.body), name(case)
    shown = served.admin.get(f"/requests/{answer.headers['x-request-id']}").json()["policies"]
    assert [(one["verdict"], one["reason"]) for one in shown] == [("pass", "its risk score is 0.10")]


@each("failure", FAILING)
def test_a_judge_without_a_verdict(served: Pooled, failure: str) -> None:
    """The response ends in the stated way, and the record says why."""
    for client, stream in ((C, True), (M, False), (R, True)):
        case = (client, M, stream)
        answer = asyncio.run(ask(served, case, "tools", f"{failure}-closed"))
        check(case, answer)
        assert b"could not decide" in answer.body
        assert b"ris" not in answer.body
        (record,) = records(served, answer)
        assert record["verdict"] == "error"
        assert FAILING[failure][1] in record["reason"]
        assert record["reason"].endswith("; stopped")
    answer = asyncio.run(ask(served, case, "tools", f"{failure}-open"))
    check(case, answer)
    assert b"get_weather" in answer.body
    assert records(served, answer)[0]["reason"].endswith("; passed")


def test_fallbacks_apply_to_the_judge(served: Pooled) -> None:
    for account in served.accounts():
        served.admin.post(f"/accounts/{account}/reset")
    answer = asyncio.run(ask(served, (C, C, True), "tools", "spare"))
    assert b"was blocked by a policy" in answer.body
    (line,) = questions(served, answer)
    assert [one["provider"] for one in line["decision"]["attempts"]] == ["chat", "messages"]
    assert (line["client"], line["upstream"], line["status"]) == ("chat", "messages", 200)


def test_a_question_is_a_request_of_its_own(served: Pooled) -> None:
    """It shows in the log, in the list of requests, in explain and in metrics, with the request that it belongs to."""
    answer = asyncio.run(ask(served, (M, C, True), "tools", "uncached"))
    parent = answer.headers["x-request-id"]
    (line,) = questions(served, answer)
    assert line["request_id"] == f"{parent}-1"
    assert (line["path"], line["key"], line["model"]) == (
        "/chat/completions (internal)",
        "uncached",
        "messages/score-0.1",
    )
    shown = served.admin.get(f"/requests/{parent}").json()
    (asked,) = shown["asked"]
    assert (asked["id"], asked["status"], asked["model"]) == (f"{parent}-1", 200, "messages/score-0.1")
    assert asked["cost"] == pytest.approx((25 * 10 + 10 * 20) / 1e6)
    assert served.admin.get("/requests/last").json()["id"] == parent
    question = served.admin.get(f"/requests/{parent}-1").json()
    assert (question["parent"], question["upstream"]) == (parent, "messages")
    assert (
        'endpoint="internal",client_protocol="chat",upstream_protocol="messages"' in served.admin.get("/metrics").text
    )


def test_the_cost_counts_for_the_key_that_caused_it(served: Pooled) -> None:
    """In its usage, and in its limits; but what the key may use is not about the judge."""
    first = asyncio.run(ask(served, (C, C, False), "tools", "limited"))
    assert first.status == 200
    questions(served, first)
    second = asyncio.run(ask(served, (C, C, False), "tools", "limited"))
    left = [int(one.headers["x-ratelimit-remaining-tokens"]) for one in (first, second)]
    # Each request takes 35 tokens, and so does each question.
    assert left[0] - left[1] == 70
    questions(served, second)
    rows = served.admin.get("/usage", params={"by": "model", "key": "limited"}).json()["usage"]
    found = {row["model"]: (row["requests"], row["cost"]) for row in rows}
    assert found["messages/score-0.1"] == (2, pytest.approx(2 * 0.00045))
    assert found["chat/tools"][0] == 2


def test_questions_lead_to_no_further_questions(served: Pooled, up: ScriptedUpstream) -> None:
    """A policy that wants to judge the judge's request gets no answer."""
    up.requests.clear()
    answer = asyncio.run(ask(served, (C, C, True), "tools", "curious"))
    assert b"get_weather" in answer.body
    (line,) = questions(served, answer)
    assert line["policies"][0]["reason"] == (
        "got no answer (a request of a policy may not ask further questions); passed"
    )
    assert len(up.requests) == 2


def test_policies_that_want_to_see_internal_requests(served: Pooled, up: ScriptedUpstream) -> None:
    answer = asyncio.run(ask(served, (C, C, True), "tools", "mentioning"))
    questions(served, answer)
    judged, asked = [one.body for one in up.requests[-2:]]
    assert b"internal: False" in judged
    assert b"internal: True" in asked


def test_verdicts_are_remembered(served: Pooled) -> None:
    """The same call for the same message is asked about once."""
    more = {"messages": [{"role": "user", "content": "A message of its own"}]}
    first = asyncio.run(ask(served, (C, C, True), "tools", "lenient", **more))
    questions(served, first)
    again = asyncio.run(ask(served, (C, C, True), "tools", "lenient", **more))
    records(served, again)
    assert served.admin.get(f"/requests/{again.headers['x-request-id']}").json()["asked"] == []


def test_the_question_is_cancelled_if_the_client_disconnects(served: Pooled, up: ScriptedUpstream) -> None:
    """While the response is held, and in the middle of a stream."""
    up.requests.clear()
    asked = json.dumps(body(C, "chat/tools", stream=True))
    headers = {"authorization": "Bearer key-of-hanging"}
    with httpx2.stream(
        "POST", f"{served.gateway.url}{PATHS[C]}", headers=headers, content=asked, timeout=20
    ) as response:
        parent = response.headers["x-request-id"]
        until(lambda: any(b"hang-before-headers" in one.body for one in up.requests))
    judge = next(one for one in up.requests if b"hang-before-headers" in one.body)
    until(lambda: judge.closed is not None)
    until(lambda: any(line.get("parent") == parent for line in served.gateway.lines))
    line = next(line for line in served.gateway.lines if line.get("parent") == parent)
    assert (line["error"], line["status"]) == ("cancelled", 499)


async def first_seen(gateway: Pooled, client: Protocol, key: str, mark: bytes) -> tuple[float | None, bytes]:
    """Return when a text first reached the client, after the start of its response, and all that it got."""
    address = gateway.gateway.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(address[0], int(address[1]))
    data = json.dumps(body(client, "chat/tools", stream=True)).encode()
    writer.write(post(PATHS[client], data, {"connection": "close"}, key=f"key-of-{key}"))
    got, seen, began = b"", None, 0.0
    while piece := await reader.read(65536):
        began = began or time.monotonic()
        got += piece
        if seen is None and mark in got:
            seen = time.monotonic() - began
    writer.close()
    return seen, got


def test_nothing_of_a_call_is_sent_before_the_verdict(served: Pooled) -> None:
    """The judge takes 0.7 seconds. Until then the client gets keep-alives, and not even the name of the tool."""
    for client in Protocol:
        seen, got = asyncio.run(first_seen(served, client, "slow", b"get_weather" if client is not R else b"call_"))
        assert seen is not None
        assert seen > 0.5, client
        before, _, _ = got.partition(b"Pa")
        assert before.count(b": ") + before.count(b"event: ping") >= 2
    # The same client, unjudged: the check above can fail.
    seen, _ = asyncio.run(first_seen(served, C, "none", b"get_weather"))
    assert seen is not None
    assert seen < 0.5


NO_HOLD = """
import trilogue.policies.machine as machine
real = machine.interest_of
machine.interest_of = lambda policy, block: None if policy.calls else real(policy, block)
"""
"""takes the hold away: policies are not asked before a call goes on"""


def leaks(gateway: Pooled) -> list[Case]:
    """Return the pairs on which any byte of the arguments reached the client although the judge forbids the call."""
    answers = asked_all(gateway, "tools", "strict")
    return [case for case, answer in answers.items() if b"ris" in answer.body.replace(b"risk", b"")]


def test_the_canary_finds_a_missing_hold(served: Pooled, up: ScriptedUpstream, tmp_path: Path) -> None:
    """Without the hold, what is forbidden reaches the client on every pair; with it, on none."""
    assert leaks(served) == []
    with pooled(tmp_path, _config(), up, patch=NO_HOLD) as broken:
        assert leaks(broken) == CASES


def test_the_capture_has_the_verdicts(served: Pooled) -> None:
    """Those of both requests; and both can be replayed."""
    folder = served.admin.post("/capture", json={"requests": 2, "lease_seconds": 60}).json()["folder"]
    answer = asyncio.run(ask(served, (M, C, True), "tools", "uncached"))
    parent = answer.headers["x-request-id"]
    files = [Path(folder, f"{one}.jsonl") for one in (parent, f"{parent}-1")]
    until(lambda: all(file.exists() for file in files), 10)
    judged, asked = [read_capture(file.read_bytes()) for file in files]
    assert judged.head.version == 2
    (decided,) = judged.policies
    assert (decided.policy, decided.verdict, decided.reason) == ("uncached", "pass", "its risk score is 0.10")
    assert 0 < decided.seconds <= decided.at
    assert (asked.head.version, asked.policies) == (1, [])
    assert isinstance(asked.record, dict)
    assert asked.record["parent"] == parent
    for capture in (judged, asked):
        steps = replay(capture).steps
        assert [(step.skipped, step.differences) for step in steps] == [("", [])] * 2
