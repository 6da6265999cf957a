"""What fails in process raises the official SDK's own exceptions, and half a response never looks like a whole one."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from tests.gateway.conversations import CONVERSATIONS, Conversation
from tests.gateway.pairs import EVERY_CLIENT, EVERY_PAIR, Pair
from tests.inprocess.sdks import Sdks
from tests.scripted.server import ScriptedUpstream
from tests.timing import eventually
from trilogue.lint import lint_error
from trilogue.model import Protocol

BEFORE: dict[str, tuple[tuple[int, type[Exception]], tuple[int, type[Exception]]]] = {
    "error-400": ((400, openai.BadRequestError), (400, anthropic.BadRequestError)),
    "error-401": ((401, openai.AuthenticationError), (401, anthropic.AuthenticationError)),
    "error-404": ((404, openai.NotFoundError), (404, anthropic.NotFoundError)),
    "error-429": ((429, openai.RateLimitError), (429, anthropic.RateLimitError)),
    "error-500": ((500, openai.InternalServerError), (500, anthropic.InternalServerError)),
    "error-529": ((503, openai.InternalServerError), (529, anthropic.OverloadedError)),
    "stream-error-first": ((503, openai.InternalServerError), (529, anthropic.OverloadedError)),
}
"""scenario: status and exception of OpenAI's SDK, and of Anthropic's"""


def raised(talked: Conversation) -> Any:
    with pytest.raises((openai.APIError, anthropic.APIError, httpx2.TransportError)) as caught:
        talked.say()
    return caught.value


@EVERY_PAIR
@pytest.mark.parametrize("model", BEFORE)
def test_before_the_first_token(sdks: Sdks, up: ScriptedUpstream, pair: Pair, model: str) -> None:
    talked, clients = sdks.talk(pair, model)
    error = raised(talked)
    status, kind = BEFORE[model][pair.client is Protocol.MESSAGES]
    exchange = clients.recorder.last
    if pair.same and not (pair.stream and model == "stream-error-first"):
        status = 529 if status == 503 else status  # the upstream's own response
    assert (exchange.status, type(error)) == (status, kind)
    assert exchange.headers.get("retry-after") == ("7" if model == "error-429" else None)
    assert lint_error(pair.client, json.loads(exchange.body)) == []
    assert clients.tally.failures == 1
    assert len(up.requests) == 1


@EVERY_PAIR
@pytest.mark.parametrize("model", ["stream-error-mid", "truncate-clean", "malformed", "truncate-mid", "reset-mid"])
def test_after_the_first_token(sdks: Sdks, up: ScriptedUpstream, pair: Pair, model: str) -> None:
    talked, clients = sdks.talk(pair, model)
    raised(talked)
    report = clients.tally.last
    assert report is not None
    assert not report.complete
    assert report.failure is not None


@EVERY_PAIR
def test_an_upstream_that_does_not_exist(pair: Pair) -> None:
    gone = ScriptedUpstream()
    gone.url = "http://127.0.0.1:9"
    talked, clients = Sdks(gone, ExitStack()).talk(pair, "text")
    assert isinstance(raised(talked), openai.APIConnectionError | anthropic.APIConnectionError)
    assert clients.tally.failures == 1


@EVERY_CLIENT
def test_what_cannot_be_mapped_is_refused_before_anything_is_sent(
    sdks: Sdks, up: ScriptedUpstream, client: Protocol
) -> None:
    """Several choices, background work, message threads: no other protocol has them."""
    bodies: dict[Protocol, dict[str, Any]] = {
        Protocol.CHAT: {"messages": [{"role": "user", "content": "Hi"}], "n": 2},
        Protocol.MESSAGES: {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 9, "thread": {"id": "t"}},
        Protocol.RESPONSES: {"input": "Hi", "background": True},
    }
    upstream = Protocol.MESSAGES if client is Protocol.CHAT else Protocol.CHAT
    clients = sdks.of(Pair(client, upstream, False), "text")
    path = {Protocol.CHAT: "chat/completions", Protocol.MESSAGES: "messages", Protocol.RESPONSES: "responses"}[client]
    response = clients.http.post(f"http://unused/v1/{path}", json={"model": "m", **bodies[client]})
    assert response.status_code == 400, response.text
    assert lint_error(client, response.json()) == []
    assert up.requests == []


def test_the_sdk_retries_by_itself(sdks: Sdks, up: ScriptedUpstream) -> None:
    """A translated error keeps the status by which the SDK decides."""
    http = sdks.http("x/error-500", protocol="messages")
    client = openai.OpenAI(api_key="unused", http_client=http, max_retries=1)
    with pytest.raises(openai.InternalServerError):
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hi"}])
    assert len(up.requests) == 2


def test_the_time_limit_of_the_sdk_holds(sdks: Sdks, up: ScriptedUpstream) -> None:
    http = sdks.http("x/hang-before-headers", protocol="messages")
    client = openai.OpenAI(api_key="unused", http_client=http, max_retries=0, timeout=0.3)
    start = time.monotonic()
    with pytest.raises(openai.APITimeoutError):
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hi"}])
    assert time.monotonic() - start < 5


@EVERY_PAIR
def test_giving_up_closes_the_upstreams_response(sdks: Sdks, up: ScriptedUpstream, pair: Pair) -> None:
    clients = sdks.of(pair, "slow-200-20")
    if pair.client is Protocol.MESSAGES:
        with clients.anthropic.messages.create(
            model="m", max_tokens=2000, messages=[{"role": "user", "content": "Hi"}], stream=True
        ) as events:
            next(iter(events))
    elif pair.client is Protocol.CHAT:
        with clients.openai.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "Hi"}], stream=True
        ) as chunks:
            next(iter(chunks))
    else:
        with clients.openai.responses.create(model="m", input="Hi", stream=True) as items:
            next(iter(items))
    sent = up.last()
    eventually(lambda: sent.closed is not None)
    assert not sent.complete
    report = clients.tally.last
    assert report is not None
    assert (report.complete, report.failure) == (False, None)


@pytest.mark.parametrize("stream", [False, True])
def test_a_connection_is_used_again(sdks: Sdks, up: ScriptedUpstream, stream: bool) -> None:
    """Not with streams of OpenAI's SDK: it closes them at `[DONE]`, before they end, with or without us."""
    clients = sdks.of(Pair(Protocol.MESSAGES, Protocol.CHAT, stream), "text")
    for _ in range(3):
        CONVERSATIONS[Protocol.MESSAGES](clients, "text", stream=stream).say()
    assert len({request.connection for request in up.requests}) == 1


@EVERY_CLIENT
def test_one_object_instead_of_a_stream(sdks: Sdks, up: ScriptedUpstream, client: Protocol) -> None:
    """Some servers ignore `stream`. Their response is streamed all the same."""
    body = b'{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"finish_reason":"stop",'
    body += b'"message":{"role":"assistant","content":"Whole."}}]}'
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
    up.say(head + body)
    talked, _ = sdks.talk(Pair(client, Protocol.CHAT, True), "text")
    assert talked.say().text == "Whole."
