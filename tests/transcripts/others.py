"""Cases: endpoints that pass through, lists of models, counts of tokens, and requests that are none."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

from tests.scripted.ask import PATHS, body
from tests.scripted.http import Step, json_answer, sse_answer, whole
from tests.transcripts.gateway import Stage, request
from tests.transcripts.group import ADMIN, KEYS, Group, Run, ask, call, provider, providers, server
from trilogue import Protocol

C, M, R = Protocol.CHAT, Protocol.MESSAGES, Protocol.RESPONSES
EMBEDDED = {
    "object": "list",
    "model": "small",
    "data": [{"object": "embedding", "index": 0, "embedding": [0.25, -1.0]}],
    "usage": {"prompt_tokens": 7, "total_tokens": 7},
}
FILE = {"id": "file-1", "object": "file", "bytes": 3, "created_at": 1, "filename": "a", "purpose": "batch"}
BATCH = {
    "id": "msgbatch_1",
    "type": "message_batch",
    "processing_status": "ended",
    "created_at": "2026-01-01T00:00:00Z",
    "results_url": "https://api.anthropic.com/v1/messages/batches/msgbatch_1/results",
}
ANTHROPIC = {"anthropic-version": "2023-06-01"}
BOUNDARY = "end-of-a-part"
FORM = (
    f'--{BOUNDARY}\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nassistants\r\n'
    f'--{BOUNDARY}\r\ncontent-disposition: form-data; name="file"; filename="a.txt"\r\n\r\nabc\r\n--{BOUNDARY}--\r\n'
).encode()
CONFIG = (
    KEYS
    + "  - {key: key-of-another, name: another}\n"
    + ADMIN
    + server("max_body_bytes: 20000, max_upload_bytes: 40000")
    + providers()
    + provider("elsewhere", C, "accounts: [{name: e, key: up-key}], other_endpoints: [/rerank]")
    + "aliases: {small: chat/text-embedding-3-small}\n"
).replace("keys: [{key: env:TRILOGUE_KEY, name: laptop}]", "keys:\n  - {key: env:TRILOGUE_KEY, name: laptop}")


def _answered(step: Step | list[Step], method: str, path: str, value: Any = None, **more: Any) -> Run:
    """Return a case in which the upstream responds with this."""

    def run(stage: Stage) -> None:
        stage.up.say(*(step if isinstance(step, list) else [step]))
        stage.request(method, path, value, **more)

    return run


def _file(stage: Stage) -> None:
    """A file is made, looked at by its owner and by another key, listed and deleted."""
    stage.up.say(json_answer(200, [], FILE))
    headers = {"content-type": f"multipart/form-data; boundary={BOUNDARY}"}
    stage.request("POST", "/v1/files", FORM, headers)
    stage.up.say(whole(200, [], b"\x00\x01abc", "application/octet-stream"))
    stage.request("GET", "/v1/files/file-1/content")
    stage.request("GET", "/v1/files/file-1", key="key-of-another")
    stage.up.say(json_answer(200, [], {"object": "list", "data": [FILE], "has_more": False}))
    stage.request("GET", "/v1/files?limit=5")
    stage.up.say(json_answer(200, [], {"id": "file-1", "object": "file", "deleted": True}))
    stage.request("DELETE", "/v1/files/file-1")


def _message_batch(stage: Stage) -> None:
    stage.up.say(json_answer(200, [], BATCH))
    asked = {"custom_id": "a", "params": {"model": "claude", "max_tokens": 1, "messages": []}}
    stage.request("POST", "/v1/messages/batches", {"requests": [asked]}, ANTHROPIC)
    stage.up.say(json_answer(200, [], BATCH))
    stage.request("GET", "/v1/messages/batches/msgbatch_1", headers=ANTHROPIC)
    stage.up.say(whole(200, [], b'{"custom_id":"a"}\n', "application/x-jsonl"))
    stage.request("GET", "/v1/messages/batches/msgbatch_1/results", headers=ANTHROPIC)


def _passed_on() -> dict[str, Run]:
    embed = {"model": "small", "input": "Hi"}
    completion = {"id": "cmpl-1", "object": "text_completion", "choices": [{"index": 0, "text": "Hi"}]}
    pieces = [f"data: {json.dumps(completion)}\n\n".encode(), b"data: [DONE]\n\n"]
    prompt = {"model": "chat/davinci", "prompt": "Hi"}
    refused = {"error": {"message": "no", "type": "invalid_request_error", "param": None, "code": None}}
    chosen = {"trilogue-provider": "responses"}
    return {
        "embeddings": _answered(json_answer(200, [], EMBEDDED), "POST", "/v1/embeddings", embed),
        "embeddings refused": _answered(json_answer(400, [], refused), "POST", "/v1/embeddings", embed),
        "embeddings of a chosen provider": _answered(
            json_answer(200, [], EMBEDDED), "POST", "/embeddings", {"input": "Hi"}, headers=chosen
        ),
        "rerank": _answered(json_answer(200, [], {"results": []}), "POST", "/v1/rerank", {"query": "Hi"}),
        "completions": _answered(json_answer(200, [], completion), "POST", "/v1/completions", prompt),
        "completions stream": _answered(
            list(sse_answer(pieces)), "POST", "/v1/completions", {**prompt, "stream": True}
        ),
        "speech": _answered(whole(200, [], b"RIFF\xff\x00", "audio/mpeg"), "POST", "/v1/audio/speech", embed),
        "moderations": _answered(json_answer(200, [], {"results": []}), "POST", "/v1/moderations", {"input": "Hi"}),
        "files": _file,
        "batches": _answered(
            json_answer(200, [], {"id": "batch_1", "object": "batch"}),
            "POST",
            "/v1/batches",
            {"endpoint": "/v1/responses"},
        ),
        "batch of another": call("GET", "/v1/batches/batch_1", key="key-of-another"),
        "message batches": _message_batch,
        "realtime": call("POST", "/v1/realtime/sessions", {}),
    }


def _listed() -> dict[str, Run]:
    counters = {"messages": "/v1/messages/count_tokens", "responses": "/v1/responses/input_tokens"}
    cases: dict[str, Run] = {
        "models": call("GET", "/v1/models"),
        "models for Messages": call("GET", "/v1/models", headers=ANTHROPIC),
        "a model": call("GET", "/v1/models/small"),
        "a model for Messages": call("GET", "/v1/models/chat/text", headers=ANTHROPIC),
        "no such model": call("GET", "/v1/models/nowhere/text"),
    }
    for (client, path), upstream in product(counters.items(), Protocol):
        value = body(Protocol.MESSAGES if client == "messages" else R, f"{upstream.short}/text", stream=False)
        value = {name: one for name, one in value.items() if name not in ("stream", "store", "max_tokens", "include")}
        cases[f"count {client}-{upstream.short}"] = call("POST", path, value)
    cases["count of no model"] = call("POST", counters["messages"], {"messages": []})
    return cases


GOOD = {"model": "chat/text", "messages": [{"role": "user", "content": "Hi"}]}
EVIL, LOCAL = {"origin": "https://evil.example"}, {"origin": "http://localhost:3000"}
PREFLIGHT = {"access-control-request-method": "POST", "access-control-request-headers": "x-one, x-two"}


def _chunked(stage: Stage) -> None:
    """A body whose length nobody knows, after which a second request comes on the same connection."""
    data = request("POST", PATHS[C], None, {"transfer-encoding": "chunked", "content-length": ""})
    head = data.replace(b"content-length: \r\n", b"").replace(b"connection: close\r\n", b"")
    value = json.dumps(GOOD).encode()
    stage.send(head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(value), value))


def _edges() -> dict[str, Run]:
    cases: dict[str, Run] = {
        "unknown path": call("GET", "/v1/nothing"),
        "unknown path, Messages": call("POST", "/v1/messages/nothing", {}, headers=ANTHROPIC),
        "unknown path outside": call("GET", "/nothing"),
        "greeting": call("GET", "/", key=None, lines=0),
        "hello": call("GET", "/api/hello", key=None, lines=0),
        "health": call("GET", "/health", key=None, lines=0),
        "ready": call("GET", "/ready", key=None, lines=0),
        "head of the greeting": call("HEAD", "/", key=None, lines=0),
        "head of models": call("HEAD", "/v1/models"),
        "wrong method": call("GET", PATHS[C]),
        "without v1": call("POST", "/chat/completions", GOOD),
        "with a query": call("POST", f"{PATHS[M]}?beta=true", body(M, "messages/text", stream=False)),
        "key in x-api-key": call("POST", PATHS[C], GOOD, {"x-api-key": "client-key-canary-5f0c"}, key=None),
        "key of the gateway": call("POST", PATHS[C], GOOD, {"trilogue-key": "client-key-canary-5f0c"}, key="sk-other"),
        "options": call("OPTIONS", PATHS[C], headers={**EVIL, **PREFLIGHT}, key=None),
        "options without an origin": call("OPTIONS", PATHS[C], key=None),
        "origin": call("POST", PATHS[C], GOOD, EVIL),
        "local origin": call("GET", "/v1/models", headers=LOCAL),
        "origin without a key": call("GET", "/v1/models", headers=EVIL, key=None),
        "body in chunks": _chunked,
        "two lengths": lambda stage: stage.send(
            b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n{}"
        ),
        "not HTTP": lambda stage: stage.send(b"this is not HTTP\r\n\r\n"),
        "headers of the client": ask(
            M, "messages/text", headers={**ANTHROPIC, "anthropic-beta": "b", "cookie": "c=1", "x-mine": "1"}
        ),
        "request id of the client": ask(C, "chat/text", headers={"x-request-id": "mine-1", "x-client-request-id": "2"}),
    }
    for client in Protocol:
        path = PATHS[client]
        large = json.dumps({**body(client, "chat/text", stream=False), "pad": "x" * 20000}).encode()
        cases |= {
            f"no key {client.short}": call("POST", path, {}, key=None),
            f"bad JSON {client.short}": call("POST", path, b'{"model": "chat/text", "mess'),
            f"not an object {client.short}": call("POST", path, []),
            f"no model {client.short}": call("POST", path, {}),
            f"wrong type {client.short}": call("POST", path, {"model": 7}),
            f"no messages {client.short}": call("POST", path, {"model": f"{(M if client is C else C).short}/text"}),
            f"too large {client.short}": call("POST", path, large),
        }
    return cases


GROUPS = (
    Group("other endpoints", CONFIG, _passed_on()),
    Group("lists and counts", CONFIG, _listed()),
    Group("edges", CONFIG, _edges()),
)
