"""The gateway as an ASGI application: under uvicorn and hypercorn, mounted in FastAPI, with the official SDKs."""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest
import structlog
import websockets.sync.client as websockets
from fastapi import FastAPI
from openai.types.responses import responses_server_event as wire
from starlette.types import Message
from websockets.exceptions import InvalidStatus

import trilogue
from tests.embedded.servers import SERVERS, serving
from tests.gateway.process import until
from tests.scripted import thread
from tests.scripted.http import Do, json_answer, whole
from tests.scripted.scenario import ANSWER_TEXT
from tests.scripted.server import KEY as UPSTREAM_KEY
from tests.scripted.server import ScriptedUpstream
from tests.upstream.certificates import Authority
from trilogue.errors import ConfigError
from trilogue.model import Protocol

CLIENT_KEY = "client-key-canary-asgi"
ANSWER = "".join(ANSWER_TEXT)


def settings(up: ScriptedUpstream, **more: Any) -> dict[str, Any]:
    providers = {
        protocol.short: {"protocol": protocol.short, "base_url": f"{up.url}/v1", "accounts": [UPSTREAM_KEY]}
        for protocol in Protocol
    }
    rules = [{"status": status, "action": "next"} for status in (401, 429)]
    pool = {"persist": False, "rules": rules}
    return {"providers": providers, "state": "memory", "pool": pool, "keys": [CLIENT_KEY], **more}


@pytest.fixture(scope="module", autouse=True)
def _log() -> Iterator[None]:
    """Logging that no other test has set up."""
    structlog.reset_defaults()
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="module")
def _up() -> Iterator[ScriptedUpstream]:
    with thread.running() as upstream:
        yield upstream


@pytest.fixture
def up(_up: ScriptedUpstream) -> ScriptedUpstream:
    _up.requests.clear()
    return _up


@pytest.fixture(scope="module", params=SERVERS)
def url(_up: ScriptedUpstream, request: pytest.FixtureRequest) -> Iterator[str]:
    """A gateway under each of the servers."""
    with serving(request.param, trilogue.asgi(settings(_up))) as address:
        yield address


@pytest.fixture(scope="module")
def mounted(_up: ScriptedUpstream) -> Iterator[str]:
    """A gateway in an application that checks its callers itself."""
    gateway = trilogue.asgi(settings(_up), trust_callers=True)
    app = FastAPI(lifespan=gateway.lifespan)

    @app.get("/own")
    def own() -> str:
        return "mine"

    app.mount("/llm", gateway)
    with serving("uvicorn", app) as address:
        yield f"{address}/llm"


def openai_at(url: str, key: str = CLIENT_KEY) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0, timeout=20)


def anthropic_at(url: str) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=url, api_key=CLIENT_KEY, max_retries=0, timeout=20)


def test_all_protocols_with_the_sdks(url: str) -> None:
    hi: Any = [{"role": "user", "content": "Hi"}]
    with openai_at(url) as client:
        stream = client.chat.completions.create(model="messages/text", messages=hi, stream=True)
        assert "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices) == ANSWER
        whole = client.responses.create(model="chat/text", input="Hi")
        assert whole.output_text == ANSWER
        assert client.responses.retrieve(whole.id).output_text == ANSWER
    with (
        anthropic_at(url) as claude,
        claude.messages.stream(model="responses/text", max_tokens=99, messages=hi) as messages,
    ):
        assert messages.get_final_text() == ANSWER


def test_errors_and_headers(url: str) -> None:
    with openai_at(url, "wrong") as wrong, pytest.raises(openai.AuthenticationError):
        wrong.models.list()
    with openai_at(url) as client, pytest.raises(openai.RateLimitError) as limited:
        client.responses.create(model="messages/error-429", input="Hi")
    assert limited.value.response.headers["x-should-retry"] == "true"
    assert limited.value.request_id
    assert limited.value.response.headers["content-type"] == "application/json"
    with anthropic_at(url) as claude, pytest.raises(anthropic.NotFoundError):
        claude.messages.create(model="nobody", max_tokens=9, messages=[{"role": "user", "content": "Hi"}])
    assert httpx2.head(f"{url}/health").content == b""


def test_a_client_that_disconnects_cancels_the_upstream(url: str, up: ScriptedUpstream) -> None:
    hi: Any = [{"role": "user", "content": "Hi"}]
    with (
        openai_at(url) as client,
        client.chat.completions.create(model="messages/slow-200-50", messages=hi, stream=True) as stream,
    ):
        next(chunk for chunk in stream if chunk.choices and chunk.choices[0].delta.content)
    until(lambda: up.last().closed is not None)
    assert not up.last().complete


def test_uploads_are_sent_while_they_arrive(url: str, up: ScriptedUpstream) -> None:
    up.say(json_answer(200, [], {"id": "file-1"}))
    piece = bytes(range(256)) * 256
    headers = {"authorization": f"Bearer {CLIENT_KEY}", "content-type": "application/octet-stream"}
    sent = httpx2.post(f"{url}/v1/files", content=(piece for _ in range(30)), headers=headers)
    assert sent.json() == {"id": "file-1"}
    assert up.last().body == piece * 30


def test_a_response_that_breaks_off_looks_broken(url: str, up: ScriptedUpstream) -> None:
    up.say(whole(200, [], b"x" * 1000, "audio/mpeg")[:-500], 0.05, Do.RESET)
    headers = {"authorization": f"Bearer {CLIENT_KEY}"}
    with pytest.raises(httpx2.RemoteProtocolError):
        httpx2.post(f"{url}/v1/audio/speech", json={"model": "chat/tts-1", "input": "Hi"}, headers=headers)


def test_responses_over_websocket(url: str) -> None:
    with openai_at(url) as client, client.responses.connect() as connection:
        for turn in ("one", "two"):
            connection.response.create(model="messages/text", input=turn, store=False)
            event: Any = None
            for event in connection:
                if isinstance(event, wire.ResponseWsCompleted | wire.ResponseWsError):
                    break
            assert event.response.output[-1].content[0].text == ANSWER


def test_a_websocket_with_a_wrong_key_is_refused(url: str) -> None:
    with pytest.raises(InvalidStatus, match=r"40[13]"):
        websockets.connect(f"ws{url.removeprefix('http')}/v1/responses")


def test_http_2(up: ScriptedUpstream) -> None:
    headers = {"authorization": f"Bearer {CLIENT_KEY}"}
    ask = {"model": "messages/text", "stream": True, "messages": [{"role": "user", "content": "Hi"}]}
    with serving("hypercorn", trilogue.asgi(settings(up))) as url, httpx2.Client(http1=False, http2=True) as client:
        answers = [client.post(f"{url}/v1/chat/completions", json=ask, headers=headers) for _ in range(2)]
    assert [answer.http_version for answer in answers] == ["HTTP/2", "HTTP/2"]
    assert answers[0].text.endswith("data: [DONE]\n\n")


@pytest.mark.parametrize(("name", "version"), [("uvicorn", "HTTP/1.1"), ("hypercorn", "HTTP/2")])
def test_tls(up: ScriptedUpstream, tmp_path: Path, name: str, version: str) -> None:
    """With a certificate that clients verify: requests, streams and WebSockets; HTTP/2 where the server has it."""
    authority = Authority(tmp_path)
    # Two contexts: the client of HTTP/2 changes its own.
    trusted, for_socket = (ssl.create_default_context(cafile=authority.file) for _ in range(2))
    headers = {"authorization": f"Bearer {CLIENT_KEY}"}
    ask = {"model": "messages/text", "stream": True, "messages": [{"role": "user", "content": "Hi"}]}
    with (
        serving(name, trilogue.asgi(settings(up)), authority.leaf()) as url,
        httpx2.Client(verify=trusted, http2=True, timeout=20) as client,
    ):
        answer = client.post(f"{url}/v1/chat/completions", json=ask, headers=headers)
        assert (answer.status_code, answer.http_version) == (200, version)
        assert answer.text.endswith("data: [DONE]\n\n")
        with openai.OpenAI(base_url=f"{url}/v1", api_key=CLIENT_KEY, http_client=client, max_retries=0) as sdk:
            assert sdk.responses.create(model="chat/text", input="Hi").output_text == ANSWER
        address = f"wss{url.removeprefix('https')}/v1/responses"
        with websockets.connect(address, additional_headers=headers, ssl=for_socket) as socket:
            socket.send(json.dumps({"type": "response.create", "model": "chat/text", "input": "Hi"}))
            events = [json.loads(socket.recv(20))["type"]]
            while events[-1] != "response.completed":
                events.append(json.loads(socket.recv(20))["type"])
        assert events[0] == "response.created"


def test_mounted_in_an_application(mounted: str, up: ScriptedUpstream) -> None:
    root = mounted.removesuffix("/llm")
    assert httpx2.get(f"{root}/own").json() == "mine"
    with openai_at(mounted, "any") as client:
        assert client.responses.create(model="chat/text", input="Hi").output_text == ANSWER
    # A host name that is not of this machine: without `trust_callers`, this would be refused.
    there = {"host": "llm.example.com", "x-forwarded-proto": "https", "anthropic-version": "2023-06-01"}
    up.say(json_answer(200, [], {"results_url": "https://api.anthropic.com/v1/messages/batches/b/results"}))
    batch = httpx2.get(f"{mounted}/v1/messages/batches/b", headers=there)
    assert batch.json()["results_url"] == "https://llm.example.com/llm/v1/messages/batches/b/results"
    assert "there is no GET /v1/none here" in httpx2.get(f"{mounted}/v1/none").json()["error"]["message"]


def test_without_keys_only_local_callers(up: ScriptedUpstream) -> None:
    app = trilogue.asgi(settings(up, keys=[]))
    status, body = asyncio.run(_ask(app, "/v1/models", host=b"example.com"))
    assert (status, json.loads(body)["error"]["code"]) == (403, "forbidden_host")
    # Another event loop, as test clients use one per request.
    assert asyncio.run(_ask(app, "/v1/models", host=b"localhost"))[0] == 200
    assert asyncio.run(_ask(app, "/health", host=b"a\r\nb", twice=True))[0] == 400


async def _ask(app: trilogue.AsgiApp, path: str, host: bytes, *, twice: bool = False) -> tuple[int, bytes]:
    """Send a request without a server."""
    sent: list[Message] = []
    headers = [(b"host", host)] * (2 if twice else 1)
    scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": headers}
    waiting = [{"type": "http.request", "body": b""}]

    async def receive() -> Message:
        if not waiting:
            await asyncio.Event().wait()
        return waiting.pop()

    async def send(message: Message) -> None:
        sent.append(message)

    async with app.lifespan():
        await app(scope, receive, send)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent)


def test_log_lines_go_to_the_standard_library(url: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "trilogue"):
        answer = httpx2.get(f"{url}/v1/models", headers={"authorization": f"Bearer {CLIENT_KEY}"})
    lines = [json.loads(record.message) for record in caplog.records if record.name == "trilogue.access"]
    assert answer.headers["x-request-id"] in [line["request_id"] for line in lines]


def test_a_configuration_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        trilogue.asgi(tmp_path / "missing.yaml")
    with pytest.raises(ConfigError, match="prividers"):
        trilogue.asgi({"prividers": {}})
