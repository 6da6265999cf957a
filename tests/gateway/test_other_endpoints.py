"""Endpoints that pass through: the official SDKs' embeddings, audio, files and batches, with accounts and retries."""

from __future__ import annotations

import io
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from tests.gateway.pooling import accepting, account, name_of
from tests.gateway.running import CLIENT_KEY, Gateway, running
from tests.scripted import thread
from tests.scripted.http import Do, Step, json_answer, sse_answer, whole
from tests.scripted.server import ScriptedUpstream
from trilogue.protocols.registry import CODECS

CONFIG = f"""\
keys: [env:TRILOGUE_KEY]
server: {{max_upload_bytes: 4000000, timeouts: {{first_byte: 5, total: 20}}}}
providers:
  other:
    protocol: openai_chat_completions
    base_url: UPSTREAM/other/v1
    accounts: [{account("x")}]
    other_endpoints: [/rerank]
  chat:
    protocol: openai_chat_completions
    base_url: UPSTREAM/v1
    accounts: [{account("a")}, {account("b")}]
    pool: {{strategy: lru}}
    prices: {{"text-*": {{input: 1000000, output: 0}}}}
  messages: {{protocol: anthropic_messages, base_url: UPSTREAM, accounts: [{account("m")}]}}
aliases: {{small: chat/text-embedding-3-small, hear: chat/whisper-1, thinker: messages/claude-sonnet-5}}
pool: {{retry_budget: {{floor: 1000}}, persist: false}}
admin: {{key: admin-key-canary-7d1e9a, port: 0}}
"""
EMBEDDED = {
    "object": "list",
    "model": "text-embedding-3-small",
    "data": [{"object": "embedding", "index": 0, "embedding": [0.25, -1.0]}],
    "usage": {"prompt_tokens": 7, "total_tokens": 7},
}
FILE = {"id": "file-1", "object": "file", "bytes": 3, "created_at": 1, "filename": "a", "purpose": "batch"}
BATCH = {
    "id": "msgbatch_1",
    "type": "message_batch",
    "processing_status": "ended",
    "request_counts": {"processing": 0, "succeeded": 1, "errored": 0, "canceled": 0, "expired": 0},
    "created_at": "2026-01-01T00:00:00Z",
    "expires_at": "2026-01-02T00:00:00Z",
    "ended_at": "2026-01-01T00:01:00Z",
}


@pytest.fixture(scope="module")
def _up() -> Iterator[ScriptedUpstream]:
    with thread.running(accepting("a", "b", "x", "m")) as upstream:
        yield upstream


@pytest.fixture(scope="module")
def _gateway(_up: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with running(tmp_path_factory.mktemp("others"), CONFIG, _up.url) as gateway:
        yield gateway


@pytest.fixture
def up(_up: ScriptedUpstream) -> ScriptedUpstream:
    _up.requests.clear()
    return _up


@pytest.fixture
def gateway(_gateway: Gateway, up: ScriptedUpstream) -> Gateway:
    _gateway.recorder.exchanges.clear()
    return _gateway


def says(up: ScriptedUpstream, body: Any, status: int = 200) -> None:
    up.say(json_answer(status, [("x-ratelimit-remaining-requests", "9")], body))


def test_embeddings_pass_through_with_alias_usage_and_log(gateway: Gateway, up: ScriptedUpstream) -> None:
    says(up, EMBEDDED)
    made = gateway.openai.embeddings.create(model="small", input=["Hi"], encoding_format="float")
    assert made.data[0].embedding == [0.25, -1.0]
    asked = up.last()
    assert asked.target == "/v1/embeddings"
    assert asked.json == {"input": ["Hi"], "model": "text-embedding-3-small", "encoding_format": "float"}
    exchange = gateway.recorder.last
    assert exchange.headers["x-ratelimit-remaining-requests"] == "9"
    line = gateway.record(exchange.headers["x-request-id"])
    assert (line["path"], line["model"], line["upstream_model"]) == ("/embeddings", "small", "text-embedding-3-small")
    assert (line["provider"], line["input_tokens"], line["output_tokens"]) == ("chat", 7, 0)


def test_clients_keys_never_reach_the_upstream(gateway: Gateway, up: ScriptedUpstream) -> None:
    says(up, EMBEDDED)
    gateway.http.post(
        f"/v1/embeddings?key={CLIENT_KEY}&trace=1",
        json={"model": "small", "input": "Hi"},
        headers={"x-api-key": CLIENT_KEY, "cookie": "c=1", "openai-organization": "org-1", "x-own": "kept"},
    )
    asked = up.last()
    sent = json.dumps([asked.target, *asked.headers])
    assert CLIENT_KEY not in sent
    assert name_of(asked) in ("a", "b")
    assert (asked.query, asked.header("x-own")) == ("trace=1", "kept")
    assert asked.header("cookie") is None
    assert asked.header("openai-organization") is None
    refused = httpx2.post(f"{gateway.url}/v1/embeddings", json={"model": "small", "input": "Hi"})
    assert refused.status_code == 401


def test_a_failed_attempt_goes_to_the_next_account(gateway: Gateway, up: ScriptedUpstream) -> None:
    says(up, {"error": {"message": "busy", "type": "server_error"}}, 500)
    says(up, EMBEDDED)
    gateway.openai.embeddings.create(model="small", input="Hi", encoding_format="float")
    assert sorted(name_of(request) for request in up.requests) == ["a", "b"]
    decision = gateway.record(gateway.recorder.last.headers["x-request-id"])["decision"]
    assert [attempt["action"] for attempt in decision["attempts"]] == ["next", "answered"]
    assert [attempt["protocol"] for attempt in decision["attempts"]] == ["chat", "chat"]
    assert all(attempt["started"] < attempt["first_byte"] <= attempt["ended"] for attempt in decision["attempts"])


def test_speech_streams_back_as_bytes(gateway: Gateway, up: ScriptedUpstream) -> None:
    sound = bytes(range(256)) * 2000
    up.say(whole(200, [], sound, "audio/mpeg"))
    with gateway.openai.audio.speech.with_streaming_response.create(
        model="chat/tts-1", voice="alloy", input="Hello"
    ) as response:
        assert response.headers["content-type"] == "audio/mpeg"
        assert b"".join(response.iter_bytes()) == sound
    assert up.last().json["model"] == "tts-1"


def test_a_response_that_breaks_off_looks_broken(gateway: Gateway, up: ScriptedUpstream) -> None:
    steps: list[Step] = [whole(200, [], b"x" * 1000, "audio/mpeg")[:-500], 0.05, Do.RESET]
    up.say(*steps)
    with pytest.raises(httpx2.RemoteProtocolError):
        gateway.http.post("/v1/audio/speech", json={"model": "chat/tts-1", "voice": "alloy", "input": "Hi"})
    assert len(up.requests) == 1


@pytest.mark.parametrize("file_first", [False, True])
def test_a_form_goes_where_its_model_leads(gateway: Gateway, up: ScriptedUpstream, file_first: bool) -> None:
    says(up, {"text": "Hello", "usage": {"type": "tokens", "input_tokens": 14, "output_tokens": 3, "total_tokens": 17}})
    sound = b"RIFF" + bytes(300_000)
    if file_first:
        form: Any = [("file", ("a.wav", sound)), ("model", (None, "hear")), ("language", (None, "en"))]
        sent = gateway.http.post("/v1/audio/transcriptions", files=form)
        assert sent.json()["text"] == "Hello"
    else:
        assert gateway.openai.audio.transcriptions.create(model="hear", file=("a.wav", sound)).text == "Hello"
    asked = up.last()
    assert b'name="model"\r\n\r\nwhisper-1\r\n--' in asked.body
    assert sound in asked.body
    assert asked.header("content-length") == str(len(asked.body))
    line = gateway.record(gateway.recorder.last.headers["x-request-id"])
    assert (line["model"], line["input_tokens"], line["output_tokens"]) == ("hear", 14, 3)


def test_a_form_is_sent_again_after_a_failure(gateway: Gateway, up: ScriptedUpstream) -> None:
    says(up, {"error": {"message": "busy", "type": "server_error"}}, 503)
    says(up, {"text": "Hello"})
    assert gateway.openai.audio.transcriptions.create(model="hear", file=("a.wav", b"RIFF1234")).text == "Hello"
    first, second = up.requests
    assert first.body == second.body


def test_files_and_batches_stay_at_one_account(gateway: Gateway, up: ScriptedUpstream) -> None:
    client = gateway.openai
    for _ in range(2):
        says(up, EMBEDDED)
        client.embeddings.create(model="small", input="Hi", encoding_format="float")
        says(up, FILE)
        client.files.create(file=("a.jsonl", b"{}\n"), purpose="batch")
    says(up, FILE)
    client.files.retrieve("file-1")
    up.say(whole(200, [("content-disposition", "attachment")], b"\x00\x01", "application/octet-stream"))
    content = client.files.content("file-1")
    assert (content.read(), content.response.headers["content-disposition"]) == (b"\x00\x01", "attachment")
    says(up, {"id": "file-1", "object": "file", "deleted": True})
    assert client.files.delete("file-1").deleted
    says(up, {"object": "list", "data": [FILE], "has_more": False})
    assert [file.id for file in client.files.list()] == ["file-1"]
    says(up, {"id": "batch_1", "object": "batch", "status": "validating"})
    client.batches.create(input_file_id="file-1", endpoint="/v1/embeddings", completion_window="24h")
    assert {name_of(one) for one in up.requests if one.path.startswith(("/v1/files", "/v1/batches"))} == {"a"}
    assert {name_of(one) for one in up.requests if one.path == "/v1/embeddings"} == {"b"}
    assert up.last().target == "/v1/batches"


def test_a_request_that_names_a_file_goes_where_the_file_is(gateway: Gateway, up: ScriptedUpstream) -> None:
    for number in range(4):
        content = [{"type": "file", "file": {"file_id": "file-1"}}, {"type": "text", "text": f"Read {number}"}]
        messages: Any = [{"role": "user", "content": content}]
        gateway.openai.chat.completions.create(model="chat/text", messages=messages)
    assert {name_of(request) for request in up.requests} == {"a"}


def test_a_failed_upload_is_not_sent_to_another_account(gateway: Gateway, up: ScriptedUpstream) -> None:
    says(up, {"error": {"message": "busy", "type": "server_error"}}, 500)
    with pytest.raises(openai.InternalServerError):
        gateway.openai.files.create(file=("a.jsonl", b"{}\n"), purpose="batch")
    assert [name_of(request) for request in up.requests] == ["a"]


def test_large_uploads_are_sent_while_they_arrive(gateway: Gateway, up: ScriptedUpstream) -> None:
    """The body is larger than what is held, and has no length: it comes in chunks and goes on in chunks."""
    says(up, FILE)
    piece = bytes(range(256)) * 256

    def pieces() -> Iterator[bytes]:
        for _ in range(40):
            yield piece

    headers = {"content-type": "application/octet-stream"}
    assert gateway.http.post("/v1/files", content=pieces(), headers=headers).json()["id"] == "file-1"
    asked = up.last()
    assert asked.body == piece * 40
    assert asked.header("transfer-encoding") == "chunked"


def test_uploads_have_a_limit_of_their_own(gateway: Gateway, up: ScriptedUpstream) -> None:
    headers = {"content-type": "application/octet-stream"}
    too_large = gateway.http.post("/v1/files", content=bytes(4_000_001), headers=headers)
    assert (too_large.status_code, too_large.json()["error"]["code"]) == (413, "request_too_large")
    assert "max_upload_bytes" in too_large.json()["error"]["message"]
    assert up.requests == []


def test_a_client_that_disconnects_ends_its_upload(gateway: Gateway, up: ScriptedUpstream) -> None:
    host, port = gateway.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as client:
        client.sendall(
            f"POST /v1/files HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {CLIENT_KEY}\r\n"
            "content-type: application/octet-stream\r\nx-marked: gone\r\ncontent-length: 3000000\r\n\r\n".encode()
        )
        client.sendall(bytes(100_000))
    says(up, EMBEDDED)
    gateway.openai.embeddings.create(model="small", input="Hi", encoding_format="float")
    assert [request.path for request in up.requests] == ["/v1/embeddings"]


@pytest.mark.parametrize("ends", [True, False])
def test_streams_of_legacy_completions_are_counted(gateway: Gateway, up: ScriptedUpstream, ends: bool) -> None:
    """The SDK closes the connection at `[DONE]`, whether or not the response has ended."""
    events = [
        b'data: {"id":"c","object":"text_completion","choices":[{"index":0,"text":"\\"usage\\":{}",'
        b'"finish_reason":null}],"created":1,"model":"m"}\n\n',
        b'data: {"id":"c","object":"text_completion","choices":[],"created":1,"model":"m",'
        b'"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7}}\n\n',
        b"data: [DONE]\n\n",
    ]
    steps = [*sse_answer(events)]
    up.say(*(steps if ends else [*steps[:-1], Do.HANG]))
    stream = gateway.openai.completions.create(model="chat/instruct", prompt="Hi", stream=True)
    assert [chunk.choices[0].text for chunk in stream if chunk.choices] == ['"usage":{}']
    if ends:
        assert gateway.recorder.last.body == b"".join(events)
    line = gateway.record(gateway.recorder.last.headers["x-request-id"])
    assert (line["stream"], line["input_tokens"], line["output_tokens"]) == (True, 5, 2)
    assert line["ttft_ms"] is not None


def test_the_provider_is_the_one_that_lists_the_path_or_is_named(gateway: Gateway, up: ScriptedUpstream) -> None:
    says(up, {"results": []})
    gateway.http.post("/v1/rerank", json={"query": "q", "documents": ["d"]})
    assert (up.last().target, name_of(up.last())) == ("/other/v1/rerank", "x")
    says(up, {"id": "modr-1", "model": "omni", "results": []})
    gateway.openai.moderations.create(input="Hi")
    assert up.last().target == "/v1/moderations"
    says(up, {"results": []})
    gateway.http.post("/v1/rerank", json={"query": "q"}, headers={"trilogue-provider": "chat"})
    assert up.last().target == "/v1/rerank"
    wrong = gateway.http.post("/v1/embeddings", json={"input": "q"}, headers={"trilogue-provider": "other"})
    assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, "trilogue-provider")


def test_errors_are_those_of_the_upstream(gateway: Gateway, up: ScriptedUpstream) -> None:
    says(up, {"error": {"message": "No such File object: file-9", "type": "invalid_request_error"}}, 404)
    with pytest.raises(openai.NotFoundError, match="No such File object"):
        gateway.openai.files.retrieve("file-9")
    says(up, {"error": {"message": "bad input", "type": "invalid_request_error", "param": "input"}}, 400)
    with pytest.raises(openai.BadRequestError, match="bad input"):
        gateway.openai.embeddings.create(model="small", input="")


@pytest.mark.parametrize(
    ("method", "path", "status", "words"),
    [
        ("POST", "/v1/embeddings", 404, "speaks chat or responses, such as openai: the model thinker goes to messages"),
        ("GET", "/v1/embeddings", 405, "use POST"),
        ("POST", "/v1/files/../admin", 404, "there is no POST"),
        ("POST", "/v1/files/%2e%2e/admin", 404, "there is no POST"),
        ("POST", "/v1/files/a%3Fb", 404, "there is no POST"),
        ("PUT", "/v1/files/a", 405, "use GET, POST, DELETE"),
        ("POST", "/v1/realtime/client_secrets", 404, "there is no POST"),
        ("GET", "/v1/organization/usage", 404, "there is no GET"),
    ],
)
def test_what_is_not_served(
    gateway: Gateway, up: ScriptedUpstream, method: str, path: str, status: int, words: str
) -> None:
    url = httpx2.URL(gateway.url).copy_with(raw_path=path.encode())
    answer = gateway.http.request(method, url, json={"model": "thinker"})
    assert (answer.status_code, up.requests) == (status, [])
    assert words in answer.json()["error"]["message"]


def test_message_batches_with_results(gateway: Gateway, up: ScriptedUpstream) -> None:
    """The SDK follows `results_url`, which must lead to the gateway: it shows the client's key there."""
    result = {"custom_id": "one", "result": {"type": "canceled"}}
    says(up, BATCH)
    params: Any = {"model": "claude-sonnet-5", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
    gateway.anthropic.messages.batches.create(requests=[{"custom_id": "one", "params": params}])
    assert up.last().target == "/v1/messages/batches"
    assert name_of(up.last()) == "m"
    assert up.last().header("anthropic-version")
    says(up, {**BATCH, "results_url": "https://api.anthropic.com/v1/messages/batches/msgbatch_1/results"})
    up.say(whole(200, [], json.dumps(result).encode() + b"\n", "application/x-jsonl"))
    results = list(gateway.anthropic.messages.batches.results("msgbatch_1"))
    assert [one.custom_id for one in results] == ["one"]
    assert up.last().target == "/v1/messages/batches/msgbatch_1/results"


def test_files_of_two_vendors_are_told_apart_by_the_client(gateway: Gateway, up: ScriptedUpstream) -> None:
    says(up, {"id": "file_1", "type": "file", "filename": "a.txt", "size_bytes": 3, "mime_type": "text/plain"})
    gateway.anthropic.beta.files.upload(
        file=("a.txt", io.BytesIO(b"abc"), "text/plain"), betas=["files-api-2025-04-14"]
    )
    asked = up.last()
    assert (asked.target.partition("?")[0], name_of(asked)) == ("/v1/files", "m")
    assert "files-api" in (asked.header("anthropic-beta") or "")


def test_no_provider_fits(tmp_path: Path) -> None:
    """Only Anthropic: there are no embeddings. Where owners cannot be remembered, nobody sees the list of all files."""
    config = """\
keys: [env:TRILOGUE_KEY, second-client-key]
providers: {claude: {protocol: anthropic_messages, base_url: "http://127.0.0.1:9", accounts: [up-key-canary]}}
state: none
"""
    with running(tmp_path, config, "") as gateway:
        with pytest.raises(openai.NotFoundError, match="such as openai: no provider here has it") as caught:
            gateway.openai.embeddings.create(model="text-embedding-3-small", input="Hi")
        assert caught.value.code == "no_provider"
        with pytest.raises(anthropic.BadRequestError, match="keeps nothing"):
            gateway.anthropic.beta.files.list()


def test_every_path_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "other-endpoints.md").read_text("utf-8")
    paths = {other.path for one in CODECS.values() for other in one.endpoint.others}
    assert {"/embeddings", "/messages/batches"} <= paths
    assert [path for path in paths if f"`/v1{path}`" not in page] == []
