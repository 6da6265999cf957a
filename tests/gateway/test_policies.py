"""Policies in a running gateway: every pair, streamed and not, and policies that fail."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.gateway.pooling import ADMIN, Pooled, pooled
from tests.gateway.process import until
from tests.gateway.running import PROVIDERS
from tests.gateway.sockets import socket_to
from tests.gateway.wire import CASES, Answer, Case, exchange, name, outcome, post, reached
from tests.judges import sdk
from tests.scripted import thread
from tests.scripted.ask import PATHS, body
from tests.scripted.server import ScriptedUpstream
from tests.timing import check_within, eventually, with_tries
from trilogue.lint import lint_response, lint_stream
from trilogue.model import Protocol

C, M, R = Protocol.CHAT, Protocol.MESSAGES, Protocol.RESPONSES
FILE = Path(__file__).with_name("policy_file.py")
COUNTS = "/v1/messages/count_tokens"
MAIL = "jane@example.org"
VARIES = re.compile(rb'[-_][0-9a-f]{4,}|"created(_at)?": ?\d+|"(signature|encrypted_content|obfuscation)": ?"[^"]*"')
KEEP_ALIVE = re.compile(rb"^(:[^\n]*|event: ping\n[^\n]*)\n\n", re.MULTILINE)
BROKEN = ("Hanging", "Raising", "Leaving", "Flooding", "Nonsense")
OWN = ("Slow", "Blocking", "NoWeather")


def _keys() -> dict[str, list[str]]:
    """Return the keys of the gateway, and the policies of each."""
    keys = {
        "none": [],
        "passing": ["allow-all", "secrets", "no-phrase"],
        "tools": ["no-weather-tool"],
        "stopping": ["stop-weather-tool"],
        "secrets": ["secrets"],
        "word7": ["no-word7"],
        "forced": ["forced"],
        "forced-responses": ["forced-responses"],
    }
    keys |= {name.lower(): [name.lower()] for name in OWN}
    keys |= {f"{name.lower()}-{way}": [f"{name.lower()}-{way}"] for name in BROKEN for way in ("closed", "open")}
    return keys


def _config() -> str:
    lines = [f"  - {{key: key-of-{name}, name: {name}, policies: {json.dumps(own)}}}" for name, own in _keys().items()]
    own = [f"  {name.lower()}: {{use: '{FILE}:{name}'}}" for name in OWN]
    broken = [
        f"  {name.lower()}-{way}: {{use: '{FILE}:{name}', on_error: {way}, timeout: 0.2}}"
        for name in BROKEN
        for way in ("closed", "open")
    ]
    return "\n".join(
        [
            PROVIDERS.replace("keys: [env:TRILOGUE_KEY]", "keys:\n" + "\n".join(lines)),
            "server: {keepalive_seconds: 0.1}",
            ADMIN,
            "aliases: {house: chat/text, state-house: responses/text}",
            "policies:",
            "  allow-all: {use: tools, deny: [never]}",
            "  secrets: redact",
            "  no-phrase: {use: block_phrases, phrases: [never said]}",
            "  no-weather-tool: {use: tools, deny: [get_weather]}",
            "  stop-weather-tool: {use: tools, deny: [get_weather], instead: stop, words: Stopped.}",
            "  no-word7: {use: block_phrases, phrases: [word7], words: Stopped.}",
            "  forced: {use: force_model, model: house}",
            "  forced-responses: {use: force_model, model: state-house}",
            "  joined: {use: inject_system, text: Be kind.}",
            *own,
            *broken,
            "model_policies: {house: [joined]}",
        ]
    )


@pytest.fixture(scope="module")
def up() -> Iterator[ScriptedUpstream]:
    with thread.running() as upstream:
        yield upstream


@pytest.fixture(scope="module")
def served(up: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pooled]:
    with pooled(tmp_path_factory.mktemp("policies"), _config(), up) as gateway:
        yield gateway


async def ask(gateway: Pooled, case: Case, scenario: str, key: str, **more: Any) -> Answer:
    """Return the response to a small request with two tools."""
    client, upstream, stream = case
    asked = body(client, f"{upstream.short}/{scenario}", stream=stream) | more
    data = json.dumps(asked).encode()
    return await exchange(
        gateway.gateway.url, post(PATHS[client], data, {"connection": "close"}, key=f"key-of-{key}"), seconds=20
    )


def asked_all(gateway: Pooled, scenario: str, key: str, **more: Any) -> dict[Case, Answer]:
    """Return the responses to the same request on all pairs, streamed and not."""

    async def ask_all() -> list[Answer]:
        return await asyncio.gather(*[ask(gateway, case, scenario, key, **more) for case in CASES])

    return dict(zip(CASES, asyncio.run(ask_all()), strict=True))


def client_of(gateway: Pooled, key: str = "tools") -> httpx2.Client:
    """Return a client that shows a key."""
    return httpx2.Client(base_url=gateway.gateway.url, headers={"authorization": f"Bearer key-of-{key}"}, timeout=20)


def records(gateway: Pooled, answer: Answer) -> list[dict[str, Any]]:
    """Return what the log says about the policies of a request."""
    request_id = answer.headers["x-request-id"]
    lines: list[dict[str, Any]] = []

    def logged() -> bool:
        lines[:] = [
            line for line in gateway.gateway.lines if line["event"] == "request" and line["request_id"] == request_id
        ]
        return bool(lines)

    until(logged)
    return lines[-1]["policies"] or []


def check(case: Case, answer: Answer, *, changed: bool = True) -> None:
    """Check that the client got a valid response, which official clients read."""
    client, upstream, stream = case
    assert outcome(answer, client).how == "complete", name(case)
    own = client is not upstream
    if stream:
        found = lint_stream(client, answer.body, own=own)
        assert sdk.accumulate(client, answer.body).error is None, name(case)
    else:
        found = lint_response(client, answer.json, own=own)
    assert [str(finding) for finding in found if finding.severity == "error"] == [], name(case)


def test_a_denied_call_on_every_pair(served: Pooled) -> None:
    """The client gets words in its place, and a response without fault."""
    for case, answer in asked_all(served, "tools", "tools").items():
        check(case, answer)
        assert b"The call of get_weather was blocked by a policy" in answer.body, name(case)
        assert b"Paris" not in answer.body, name(case)
    (record,) = records(served, answer)
    assert (record["policy"], record["verdict"], record["stage"]) == ("no-weather-tool", "replace", "block")
    assert record["reason"] == "the tool is denied"


def test_one_of_two_calls_on_every_pair(served: Pooled) -> None:
    """The other call goes on, behind the words."""
    for case, answer in asked_all(served, "parallel-tools", "tools").items():
        check(case, answer)
        assert b"was blocked by a policy" in answer.body, name(case)
        assert b"Paris" not in answer.body, name(case)
        assert answer.body.index(b"was blocked") < answer.body.index(b"get_time", answer.body.index(b"was blocked"))


def test_a_stopped_response_on_every_pair(served: Pooled) -> None:
    """It ends with the words as a refusal."""
    for case, answer in asked_all(served, "tools", "stopping").items():
        check(case, answer)
        assert b"Stopped." in answer.body, name(case)
        assert b"Paris" not in answer.body, name(case)
        assert b"refusal" in answer.body, name(case)


def test_what_policies_let_pass_keeps_its_bytes(served: Pooled) -> None:
    """On pass-through, apart from ids that the upstream counts."""
    for scenario in ("tools", "text", "reasoning-tools", "interleaved-tools", "search"):
        for case, answer in asked_all(served, scenario, "passing").items():
            if case[0] is case[1]:
                plain = asyncio.run(ask(served, case, scenario, "none"))
                assert same(answer.body) == same(plain.body), (scenario, name(case))
                assert records(served, answer) == []


def same(data: bytes) -> bytes:
    """Return bytes without keep-alives, and without what is different in each response of the scripted upstream."""
    return VARIES.sub(b"", KEEP_ALIVE.sub(b"", data))


def test_redacted_values_do_not_reach_the_upstream(served: Pooled, up: ScriptedUpstream) -> None:
    """The upstream sees a placeholder, and what it says with the placeholder comes back with the value."""
    for client in Protocol:
        for upstream in Protocol:
            message = {"role": "user", "content": f"Write to {MAIL}."}
            more = {"input": [message]} if client is R else {"messages": [message]}
            answer = asyncio.run(ask(served, (client, upstream, True), "text", "secrets", **more))
            check((client, upstream, True), answer)
            sent = up.last(PATHS[upstream]).body.decode()
            assert MAIL not in sent
            assert "<<EMAIL_1>>" in sent


def test_of_a_field_that_comes_twice_only_what_was_judged_goes_out(served: Pooled, up: ScriptedUpstream) -> None:
    """A policy has seen the last value, and an upstream might read the first."""
    data = f'{{"model": "chat/text", "user": "{MAIL}", "user": "x", "messages": [{{"role": "user", "content": "Hi"}}]}}'
    asked = post(PATHS[C], data.encode(), {"connection": "close"}, key="key-of-secrets")
    assert asyncio.run(exchange(served.gateway.url, asked)).status == 200
    assert MAIL not in up.last(PATHS[C]).body.decode()
    assert up.last(PATHS[C]).json["user"] == "x"


def counted(gateway: Pooled, asked: dict[str, Any], key: str) -> Answer:
    """Return the response to a request for a token count."""
    data = post(COUNTS, json.dumps(asked).encode(), {"connection": "close"}, key=f"key-of-{key}")
    return asyncio.run(exchange(gateway.gateway.url, data))


def test_token_counts_are_redacted_too(served: Pooled, up: ScriptedUpstream) -> None:
    asked = {"model": "messages/text", "messages": [{"role": "user", "content": MAIL}]}
    answer = counted(served, asked, "secrets")
    assert answer.status == 200
    sent = up.last(COUNTS).json
    assert sent == {"model": "text", "messages": [{"role": "user", "content": "<<EMAIL_1>>"}]}
    asked["messages"] = [{"role": "user", "content": "the weather"}]
    data = post(
        "/v1/messages/count_tokens", json.dumps(asked).encode(), {"connection": "close"}, key="key-of-noweather"
    )
    answer = asyncio.run(exchange(served.gateway.url, data))
    assert (answer.status, answer.json["error"]["message"]) == (403, "No weather here.")


def test_a_stopped_request_on_every_pair(served: Pooled, up: ScriptedUpstream) -> None:
    """No upstream is asked, and the client gets the words."""
    before = len(up.requests)
    for client in Protocol:
        message = {"role": "user", "content": "How is the weather?"}
        more = {"input": [message]} if client is R else {"messages": [message]}
        for stream in (False, True):
            answer = asyncio.run(ask(served, (client, C, stream), "text", "noweather", **more))
            check((client, C, stream), answer)
            assert b"No weather here." in answer.body
    assert len(up.requests) == before
    assert records(served, answer)[0]["verdict"] == "stop"


def test_a_policy_of_the_new_model_joins(served: Pooled, up: ScriptedUpstream) -> None:
    """A changed model brings its own policies along, and the client sees the model that it asked for."""
    for stream in (False, True):
        answer = asyncio.run(ask(served, (M, M, stream), "text", "forced"))
        check((M, C, stream), answer)
        sent = up.last(PATHS[C]).json
        assert sent["model"] == "text"
        assert "Be kind." in json.dumps(sent["messages"][0])
        assert b'"model":"messages/text"' in answer.body
        assert [one["policy"] for one in records(served, answer)] == ["forced", "joined"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("client", [C, R])
def test_a_forced_model_is_hidden_where_nothing_else_is_judged(
    served: Pooled, up: ScriptedUpstream, client: Protocol, stream: bool
) -> None:
    """The response of an upstream of the client's own protocol also has the name that the client asked for."""
    key = "forced" if client is C else "forced-responses"
    answer = asyncio.run(ask(served, (client, M, stream), "text", key))
    check((client, client, stream), answer)
    assert up.last(PATHS[client]).json["model"] == "text"
    assert set(re.findall(rb'"model": ?"([^"]*)"', answer.body)) == {b"messages/text"}


def test_a_forced_model_is_hidden_in_stored_responses_and_on_sockets(served: Pooled) -> None:
    """What is stored is what the client got."""
    asked = body(R, "messages/text", stream=False) | {"store": True}
    with client_of(served, "forced-responses") as http:
        made = http.post(PATHS[R], json=asked).json()
        assert made["model"] == http.get(f"{PATHS[R]}/{made['id']}").json()["model"] == "messages/text"
    with socket_to(served.gateway.url, (("authorization", "Bearer key-of-forced-responses"),)) as socket:
        socket.send({**body(R, "messages/text", stream=True), "type": "response.create"})
        events = socket.events()
    assert {event["response"]["model"] for event in events if "response" in event} == {"messages/text"}


def test_a_slow_verdict_is_waited_for(served: Pooled) -> None:
    """Keep-alives go out meanwhile, also if nothing else has."""
    for case, answer in asked_all(served, "tools", "slow").items():
        check(case, answer)
        assert b"Paris" in answer.body.replace(b'"}}', b"") or b"ris" in answer.body
        if case[2]:
            assert len(re.findall(rb"^(: |:|event: ping)", answer.body, re.MULTILINE)) >= 2, name(case)


def test_a_blocking_hook_runs_in_a_thread(served: Pooled) -> None:
    """Several requests at once do not wait for each other."""
    for case, answer in asked_all(served, "tools", "blocking").items():
        check(case, answer)
        assert b"ris" not in answer.body, name(case)


@pytest.mark.parametrize("policy", BROKEN)
def test_policies_that_fail(served: Pooled, policy: str) -> None:
    """They end in the stated way within their time limit, and their exceptions show no content."""
    for case, answer in asked_all(served, "tools", f"{policy.lower()}-closed").items():
        check(case, answer)
        assert b"could not decide" in answer.body, name(case)
        assert b'ris"}' not in answer.body
        assert b'get_weather",' not in answer.body or case[0] is R, name(case)
    (record,) = records(served, answer)
    assert record["verdict"] == "error"
    assert record["reason"].endswith("; stopped")
    check_within(record["duration_ms"] / 1000, 1.0)
    answer = asyncio.run(ask(served, (C, M, True), "tools", f"{policy.lower()}-open"))
    check((C, M, True), answer)
    assert b"get_weather" in answer.body
    assert records(served, answer)[0]["reason"].endswith("; passed")
    assert "Paris" not in served.gateway.log


@with_tries
def test_a_stop_cancels_the_upstream(served: Pooled, up: ScriptedUpstream) -> None:
    """The client has its end at once, and the upstream is not read any further: it would take four seconds."""
    for client in Protocol:
        began = time.monotonic()
        answer = asyncio.run(ask(served, (client, C, True), "slow-200-20", "word7"))
        check((client, C, True), answer)
        assert b"word6" in answer.body
        assert b"Stopped." in answer.body
        assert b"word8" not in answer.body
        asked = up.last(PATHS[C])
        eventually(lambda asked=asked: asked.closed is not None)  # type: ignore[misc]
        check_within(time.monotonic() - began, 1.5)
        assert not asked.complete


def test_stored_responses_are_what_the_client_got(served: Pooled) -> None:
    """Streamed or not, translated or not; and the next request continues them."""
    with httpx2.Client(
        base_url=served.gateway.url, headers={"authorization": "Bearer key-of-tools"}, timeout=20
    ) as client:
        for upstream, stream in product((C, R), (False, True)):
            asked = body(R, f"{upstream.short}/tools", stream=stream) | {"store": True}
            got = client.post("/v1/responses", json=asked)
            shown = last_event(got.content)["response"] if stream else got.json()
            assert "was blocked by a policy" in json.dumps(shown["output"])
            stored = client.get(f"/v1/responses/{shown['id']}").json()
            assert stored["output"] == shown["output"]
            then = {"model": "chat/text", "input": "Go on.", "previous_response_id": shown["id"]}
            assert client.post("/v1/responses", json=then).status_code == 200


def test_background_responses_are_judged(served: Pooled) -> None:
    """By the gateway itself: what an upstream keeps would not be."""
    with httpx2.Client(
        base_url=served.gateway.url, headers={"authorization": "Bearer key-of-tools"}, timeout=20
    ) as client:
        asked = body(R, "responses/tools", stream=False) | {"store": True, "background": True}
        begun = client.post("/v1/responses", json=asked).json()

        def ended() -> dict[str, Any] | None:
            found: dict[str, Any] = client.get(f"/v1/responses/{begun['id']}").json()
            return None if found["status"] in ("queued", "in_progress") else found

        shown = eventually(ended)
        assert shown is not None
        assert shown["status"] == "completed"
        assert "was blocked by a policy" in json.dumps(shown["output"])
        assert "Paris" not in json.dumps(shown)


def test_responses_over_a_websocket_are_judged(served: Pooled) -> None:
    """With words in place of the call, and an end that fits."""
    with socket_to(served.gateway.url, (("authorization", "Bearer key-of-tools"),)) as socket:
        for upstream in (C, R):
            asked = body(R, f"{upstream.short}/tools", stream=True)
            socket.send({**asked, "type": "response.create"})
            end = socket.events()[-1]
            assert end["type"] == "response.completed"
            assert "was blocked by a policy" in json.dumps(end["response"]["output"])


def last_event(data: bytes) -> dict[str, Any]:
    """Return the last event of a stream."""
    found: dict[str, Any] = json.loads(data.decode().strip().rpartition("data: ")[2])
    return found


def test_explain_and_metrics_show_the_verdicts(served: Pooled) -> None:
    """The admin interface has both."""
    answer = asyncio.run(ask(served, (C, M, True), "tools", "tools"))
    records(served, answer)
    request_id = answer.headers["x-request-id"]
    verdict = served.admin.get(f"/requests/{request_id}").json()["policies"][-1]
    assert (verdict["policy"], verdict["verdict"], verdict["kind"]) == ("no-weather-tool", "replace", "ToolCall")
    assert 0 <= verdict["duration_ms"] <= verdict["at_ms"]
    page = served.admin.get("/metrics").text
    assert 'trilogue_policy_verdicts_total{policy="no-weather-tool",stage="block",verdict="replace"}' in page
    assert 'trilogue_policy_duration_seconds_count{policy="no-weather-tool"}' in page


def test_other_paths_are_untouched(served: Pooled) -> None:
    """Lists of models need no policies."""
    with client_of(served) as client:
        assert client.get("/v1/models").status_code == 200


def test_reload(served: Pooled) -> None:
    """A policy that cannot be loaded changes nothing, and a running response keeps the policies that it began with."""
    file = served.gateway.config_file
    text = file.read_text()
    file.write_text(text.replace("use: tools, deny: [never]", "use: tools, denny: [never]"))
    served.gateway.signal(signal.SIGHUP)
    served.gateway.wait_for_log("unknown setting denny (did you mean deny?)")

    async def meanwhile() -> tuple[Answer, Answer]:
        before = len(served.up.requests)
        running = asyncio.create_task(ask(served, (M, C, True), "tools", "slow"))
        await reached(served.up, before + 1)
        file.write_text(text.replace('name: slow, policies: ["slow"]', 'name: slow, policies: ["no-weather-tool"]'))
        served.gateway.signal(signal.SIGHUP)
        await asyncio.to_thread(served.gateway.wait_for_log, '"reloaded"')
        return await ask(served, (M, C, True), "tools", "slow"), await running

    after, before = asyncio.run(meanwhile())
    assert b"was blocked" not in before.body
    assert b"was blocked" in after.body
