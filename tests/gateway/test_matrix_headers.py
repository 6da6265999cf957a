"""Every client through the gateway to every upstream: credentials, ids, the access log, odd answers of upstreams."""

from __future__ import annotations

import json
import time
from email.utils import formatdate
from typing import Any

import pytest

from tests.gateway.pairs import EVERY_CLIENT, EVERY_PAIR, PATHS, Pair
from tests.gateway.running import CLIENT_KEY, Gateway
from tests.judges import meaning
from tests.scripted.ask import body
from tests.scripted.http import json_answer, whole
from tests.scripted.scenario import ANSWER_TEXT
from tests.scripted.server import KEY, ScriptedUpstream
from trilogue.lint import lint_error, lint_stream
from trilogue.model import Protocol

TEXT = "".join(ANSWER_TEXT)
SECRET = {Protocol.MESSAGES: {"x-api-key": KEY}}
CANARY = "sk-canary-of-the-upstream"


def ask(gateway: Gateway, pair: Pair, model: str = "text", **headers: str) -> Any:
    asked = body(pair.client, f"{pair.upstream.short}/{model}", stream=pair.stream, tools=False)
    return gateway.http.post(PATHS[pair.client], json=asked, headers=headers)


@EVERY_PAIR
def test_credentials(gateway: Gateway, up: ScriptedUpstream, pair: Pair) -> None:
    """The upstream sees its own key where it expects it and nothing of the client's, who sees nothing of ours."""
    answer = ask(gateway, pair, **{"x-api-key": CLIENT_KEY, "cookie": CLIENT_KEY})
    assert answer.status_code == 200
    sent = up.last()
    headers = dict(sent.headers)
    shown = {name: headers[name] for name in ("authorization", "x-api-key", "api-key") if name in headers}
    assert shown == SECRET.get(pair.upstream, {"authorization": f"Bearer {KEY}"})
    assert CLIENT_KEY not in f"{sent.headers}{sent.target}{sent.body!r}"
    assert KEY not in f"{answer.headers}{answer.text}"
    assert ("anthropic-version" in headers) is (pair.upstream is Protocol.MESSAGES)
    assert headers["content-type"] == "application/json"
    assert headers["accept"] == ("text/event-stream" if pair.stream else "application/json")


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/embeddings"], ids=["passed through", "another endpoint"])
def test_headers_of_the_connection_stay_on_it(gateway: Gateway, up: ScriptedUpstream, path: str) -> None:
    """Those that the client names, and those that the upstream names."""
    asked = body(Protocol.CHAT, f"{Protocol.CHAT.short}/text", stream=False, tools=False) | {"input": "x"}
    sent = {"connection": "keep-alive, X-Hop", "x-hop": "1", "x-stays": "2"}
    if path.endswith("embeddings"):
        up.say(json_answer(200, [], {"data": []}))
    answer = gateway.http.post(path, json=asked, headers=sent)
    assert answer.status_code == 200
    received = dict(up.last().headers)
    assert received["x-stays"] == "2"
    assert "x-hop" not in received
    named = [("connection", "x-ratelimit-hop"), ("x-ratelimit-hop", "1"), ("x-ratelimit-stays", "2")]
    up.say(json_answer(429, named, {"error": {"message": "slow down"}}))
    refused = gateway.http.post(path, json=asked)
    assert "x-ratelimit-hop" not in refused.headers


@EVERY_PAIR
def test_access_log(gateway: Gateway, up: ScriptedUpstream, pair: Pair) -> None:
    """One line per request with who, where, how long and how much; no word of what was said, no key."""
    answer = ask(gateway, pair)
    request_id = answer.headers["x-request-id"]
    line = gateway.record(request_id)
    expected = {
        "event": "request",
        "client": pair.client.short,
        "path": PATHS[pair.client].removeprefix("/v1"),
        "model": f"{pair.upstream.short}/text",
        "key": "key-1",
        "provider": pair.upstream.short,
        "upstream": pair.upstream.short,
        "upstream_model": "text",
        "account": f"{pair.upstream.short}-1",
        "stream": pair.stream,
        "status": 200,
        "error": None,
        "cached_tokens": 5,
        "output_tokens": 10,
    }
    assert {name: line.get(name) for name in expected} == expected
    assert line["input_tokens"] in (20, 25)
    assert 0 < line["duration_ms"] < 5000
    assert (line["ttft_ms"] is not None) is pair.stream
    log = gateway.log_file.read_text()
    assert KEY not in log
    assert CLIENT_KEY not in log
    assert "scripted upstream" not in log


@EVERY_PAIR
def test_request_ids(gateway: Gateway, up: ScriptedUpstream, pair: Pair) -> None:
    """Every answer has an id of ours, errors too; the SDKs show it."""
    first, second = ask(gateway, pair), ask(gateway, pair, "error-400")
    ids = {answer.headers["request-id"] for answer in (first, second)}
    assert len(ids) == 2
    assert all(one.startswith("req_") for one in ids)
    if pair.client is Protocol.MESSAGES:
        assert second.json()["request_id"] == second.headers["request-id"]
    assert gateway.record(second.headers["request-id"])["status"] == 400


@EVERY_PAIR
def test_errors_about_our_key_stay_with_us(gateway: Gateway, up: ScriptedUpstream, pair: Pair) -> None:
    """Upstreams quote the key that they refuse."""
    message = f"Incorrect API key provided: {CANARY}"
    up.say(json_answer(401, [], {"error": {"message": message, "type": "x", "code": "invalid_api_key"}}))
    answer = ask(gateway, pair)
    assert answer.status_code == 503
    assert CANARY not in answer.text
    assert CANARY not in gateway.log_file.read_text()
    assert lint_error(pair.client, answer.json()) == []


@EVERY_CLIENT
@pytest.mark.parametrize(
    ("said", "told"), [("7", "7"), ("0.2", "1"), ("100000", "60"), ("soon", None), ("-5", None), ("1e9", "60")]
)
def test_retry_after(gateway: Gateway, up: ScriptedUpstream, client: Protocol, said: str, told: str | None) -> None:
    """SDKs sleep what we say, so it stays within reason."""
    up.say(json_answer(429, [("retry-after", said)], {"error": {"message": "slow down", "type": "rate_limit_error"}}))
    answer = ask(gateway, Pair(client, Protocol.CHAT, False))
    assert answer.status_code == 429
    assert answer.headers.get("retry-after") == told
    assert answer.headers["x-should-retry"] == "true"


@EVERY_CLIENT
@pytest.mark.parametrize("date", [{}, {"date": "yesterday"}], ids=["none", "broken"])
def test_retry_after_a_date(gateway: Gateway, up: ScriptedUpstream, client: Protocol, date: dict[str, str]) -> None:
    """An answer that does not say when it was given was given now."""
    then = formatdate(time.time() + 30, usegmt=True)
    headers = [("retry-after", then), *date.items()]
    up.say(json_answer(429, headers, {"error": {"message": "slow down", "type": "rate_limit_error"}}))
    answer = ask(gateway, Pair(client, Protocol.CHAT, False))
    assert 25 <= int(answer.headers["retry-after"]) <= 31


@EVERY_PAIR
@pytest.mark.parametrize("model", ["empty", "text", "tools", "reasoning"])
def test_an_empty_response_shows_in_the_log(gateway: Gateway, pair: Pair, model: str) -> None:
    """It is no error, but someone will ask why the agent stopped."""
    answer = ask(gateway, pair, model)
    assert answer.status_code == 200
    assert gateway.record(answer.headers["x-request-id"])["empty"] is (model == "empty")


SPENT = {
    Protocol.CHAT: {"message": "You exceeded your current quota", "code": "insufficient_quota"},
    Protocol.MESSAGES: {
        "type": "rate_limit_error",
        "message": "The limit on spending is reached",
        "details": {"error_code": "enforced_spend_limit_reached"},
    },
    Protocol.RESPONSES: {"message": "You exceeded your current quota", "type": "insufficient_quota"},
}


@EVERY_CLIENT
@pytest.mark.parametrize("upstream", Protocol, ids=lambda protocol: f"to-{protocol.short}")
def test_our_bill_is_not_the_clients(
    gateway: Gateway, up: ScriptedUpstream, client: Protocol, upstream: Protocol
) -> None:
    """An account that is out of money is a matter of who runs the gateway."""
    up.say(json_answer(429, [], {"type": "error", "error": SPENT[upstream]}))
    answer = ask(gateway, Pair(client, upstream, False))
    assert (answer.status_code, answer.headers["x-should-retry"]) == (503, "false")
    # Claude Code tries again for minutes when it reads overloaded_error, whatever the headers say.
    assert answer.json()["error"]["type"] == ("api_error" if client is Protocol.MESSAGES else "server_error")


@EVERY_PAIR
def test_response_of_the_other_kind(gateway: Gateway, up: ScriptedUpstream, pair: Pair) -> None:
    """A whole answer to a stream request, or a stream to one that wanted none: the client gets what it asked for."""
    other = gateway.http.post(
        PATHS[pair.upstream],
        json=body(pair.upstream, f"{pair.upstream.short}/text", stream=not pair.stream, tools=False),
    )
    content_type = other.headers["content-type"]
    up.say(whole(200, [], other.content, content_type))
    answer = ask(gateway, pair)
    assert answer.status_code == 200
    if pair.stream:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert meaning.of_stream(pair.client, answer.content).text == TEXT
        asked = json.loads(answer.request.content)
        found = lint_stream(pair.client, answer.content, request=asked)
        assert [str(finding) for finding in found if finding.severity == "error"] == []
    else:
        assert answer.headers["content-type"] == "application/json"
        assert meaning.of_body(pair.client, answer.json()).text == TEXT
