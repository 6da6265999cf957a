"""Errors, as HTTP responses and inside streams (docs/mapping.md: Errors)."""

import json
from typing import Any

import pytest

import trilogue
from tests.judges import sdk, sse
from tests.mapping.cases import Body, C, M, R
from tests.mapping.streams import Habits, frame
from trilogue import Failure, Protocol, StreamTranslator
from trilogue.lint import lint_error, lint_stream


def openai(kind: str, code: str | None) -> Body:
    """An error body of Chat and Responses."""
    return {"error": {"message": "It broke", "type": kind, "param": None, "code": code}}


def anthropic(kind: str, **details: Any) -> Body:
    """An error body of Messages."""
    error = {"type": kind, "message": "It broke", **details}
    return {"type": "error", "error": error, "request_id": "req_upstream"}


OPENAI: tuple[tuple[int, Body, int, str], ...] = (
    (400, openai("invalid_request_error", "context_length_exceeded"), 400, "invalid_request_error"),
    (400, openai("invalid_request_error", "unsupported_parameter"), 400, "invalid_request_error"),
    (401, openai("invalid_request_error", "invalid_api_key"), 401, "authentication_error"),
    (402, openai("insufficient_quota", "billing_error"), 402, "billing_error"),
    (403, openai("permission_error", None), 403, "permission_error"),
    (404, openai("invalid_request_error", "model_not_found"), 404, "not_found_error"),
    (409, openai("conflict", None), 409, "conflict_error"),
    (413, openai("invalid_request_error", "request_too_large"), 413, "request_too_large"),
    (422, openai("invalid_request_error", None), 422, "invalid_request_error"),
    (429, openai("rate_limit_error", "rate_limit_exceeded"), 429, "rate_limit_error"),
    (429, openai("insufficient_quota", "insufficient_quota"), 429, "rate_limit_error"),
    (500, openai("server_error", None), 500, "api_error"),
    (502, openai("server_error", None), 502, "api_error"),
    (503, openai("server_error", "server_is_overloaded"), 529, "overloaded_error"),
    (504, openai("server_error", "timeout"), 504, "timeout_error"),
)
ANTHROPIC: tuple[tuple[int, Body, int, str, str | None], ...] = (
    (400, anthropic("invalid_request_error"), 400, "invalid_request_error", None),
    (401, anthropic("authentication_error"), 401, "invalid_request_error", "invalid_api_key"),
    (402, anthropic("billing_error"), 402, "insufficient_quota", None),
    (403, anthropic("permission_error"), 403, "permission_error", None),
    (404, anthropic("not_found_error"), 404, "invalid_request_error", None),
    (409, anthropic("conflict_error"), 409, "conflict", None),
    (413, anthropic("request_too_large"), 413, "invalid_request_error", "request_too_large"),
    (429, anthropic("rate_limit_error"), 429, "", "rate_limit_exceeded"),
    (
        429,
        anthropic("rate_limit_error", details={"error_code": "enforced_spend_limit_reached"}),
        429,
        "insufficient_quota",
        "insufficient_quota",
    ),
    (500, anthropic("api_error"), 500, "server_error", None),
    (504, anthropic("timeout_error"), 504, "server_error", None),
    (529, anthropic("overloaded_error"), 503, "server_error", "server_is_overloaded"),
)


def carried(
    source: Protocol, target: Protocol, status: int, body: Body, headers: dict[str, str]
) -> trilogue.ErrorReply:
    """An error answer of an upstream in the form of the client's protocol."""
    failure = trilogue.codec(source).decode_error(status, headers, json.dumps(body).encode())
    return trilogue.codec(target).encode_error(failure, "req_ours")


@pytest.mark.parametrize("source", [C, R], ids=["C", "R"])
@pytest.mark.parametrize(("status", "body", "wanted", "kind"), OPENAI)
def test_to_messages(source: Protocol, status: int, body: Body, wanted: int, kind: str) -> None:
    """The type is one of Anthropic's and the message stays."""
    reply = carried(source, M, status, body, {})
    assert reply.status in (wanted, 500 if wanted == 502 else wanted)
    assert reply.body["type"] == "error"
    assert reply.body["error"]["type"] == kind
    assert "It broke" in reply.body["error"]["message"]
    assert reply.body["request_id"] == "req_ours"
    assert not lint_error(M, reply.body)
    assert isinstance(sdk.raised(M, reply.status, reply.body, dict(reply.headers)), sdk.RAISED)


@pytest.mark.parametrize("target", [C, R], ids=["C", "R"])
@pytest.mark.parametrize(("status", "body", "wanted", "kind", "code"), ANTHROPIC)
def test_from_messages(  # the row of the table is the test
    target: Protocol, status: int, body: Body, wanted: int, kind: str, code: str | None
) -> None:
    """The type is one of OpenAI's, the code a string or null, and no upstream id leaks."""
    reply = carried(M, target, status, body, {})
    error = reply.body["error"]
    assert reply.status == wanted
    assert error["type"] == kind or (not kind and error["type"] in ("rate_limit_error", "requests", "tokens"))
    assert code is None or error["code"] == code
    assert set(error) >= {"message", "type", "param", "code"}
    assert "It broke" in error["message"]
    assert "req_upstream" not in json.dumps(reply.body) + json.dumps(dict(reply.headers))
    assert not lint_error(target, reply.body)
    assert isinstance(sdk.raised(target, reply.status, reply.body, dict(reply.headers)), sdk.RAISED)


@pytest.mark.parametrize(("source", "target"), [(C, M), (R, M), (M, C), (M, R)], ids=lambda p: p.short)
def test_when_to_come_back_is_kept(source: Protocol, target: Protocol) -> None:
    """A rate limit says when; an exhausted quota does not, since waiting does not help."""
    body = anthropic("rate_limit_error") if source is M else openai("rate_limit_error", "rate_limit_exceeded")
    assert dict(carried(source, target, 429, body, {"retry-after": "7"}).headers)["retry-after"] == "7"
    spent = (
        anthropic("rate_limit_error", details={"error_code": "enforced_spend_limit_reached"})
        if source is M
        else openai("insufficient_quota", "insufficient_quota")
    )
    assert "retry-after" not in {
        name.lower() for name, _ in dict(carried(source, target, 429, spent, {}).headers).items()
    }


def test_an_exhausted_quota_is_named_to_messages_clients() -> None:
    """They look at details.error_code to tell it from a rate limit."""
    error = carried(R, M, 429, openai("insufficient_quota", "insufficient_quota"), {}).body["error"]
    assert error["details"]["error_code"] == "enforced_spend_limit_reached"


ODD: tuple[tuple[Protocol, int, bytes], ...] = (
    (C, 400, b'{"error":{"message":"It broke","type":"BadRequestError","param":null,"code":400}}'),
    (C, 400, b'{"detail":"It broke"}'),
    (C, 400, b'{"detail":[{"msg":"It broke","loc":["body"]}]}'),
    (C, 400, b'{"object":"error","message":"It broke","type":"BadRequestError","code":400}'),
    (C, 400, b'"It broke"'),
    (C, 502, b"<html><body>It broke</body></html>"),
    (C, 500, b""),
    (
        M,
        400,
        b'{"error":{"code":400,"message":"{\\"error\\":{\\"message\\":\\"It broke\\"}}","status":"INVALID_ARGUMENT"}}',
    ),
    (M, 400, b'{"error":{"type":"request_fail","upstream_error":{"error":{"message":"It broke"}}}}'),
    (M, 500, b"\xff\xfe"),
    (R, 500, b"null"),
    (R, 400, b'{"error":"It broke"}'),
    (R, 400, b'{"error":{"message":null,"type":7,"code":{"a":1}}}'),
    (R, 400, b"[" * 100000),
)


@pytest.mark.parametrize("target", [C, M, R], ids=["C", "M", "R"])
@pytest.mark.parametrize(("source", "status", "body"), ODD, ids=range(len(ODD)))
def test_odd_error_bodies(source: Protocol, status: int, body: bytes, target: Protocol) -> None:
    """Compatible servers wrap errors in many ways; the client always gets its own."""
    failure = trilogue.codec(source).decode_error(status, {}, body)
    assert isinstance(failure, Failure)
    reply = trilogue.codec(target).encode_error(failure, "req_ours")
    assert 400 <= reply.status < 600
    assert not lint_error(target, reply.body)
    if b"It broke" in body and b"<html" not in body:
        assert "It broke" in json.dumps(reply.body)


START: Body = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [],
    "stop_reason": None,
    "stop_sequence": None,
    "usage": {
        "input_tokens": 1,
        "output_tokens": 1,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
    },
}
BEGUN: Body = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "status": "in_progress",
    "model": "m",
    "output": [],
}
BROKE = {"type": "server_error", "code": "server_is_overloaded", "message": "It broke", "param": None}
FAILED = {**BEGUN, "status": "failed", "error": {"code": "server_is_overloaded", "message": "It broke"}}
CHUNK: Body = {
    "id": "1",
    "object": "chat.completion.chunk",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hel"}, "finish_reason": None}],
}
STREAMS: dict[Protocol, bytes] = {
    C: frame([CHUNK, {"error": BROKE}], Habits(), named=False),
    M: frame(
        [
            {"type": "message_start", "message": START},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hel"}},
            {
                "type": "error",
                "error": {"type": "overloaded_error", "message": "It broke"},
                "request_id": "req_upstream",
            },
        ],
        Habits(),
        named=True,
    ),
    R: frame(
        [
            {"type": "response.created", "sequence_number": 0, "response": BEGUN},
            {"type": "error", "sequence_number": 1, "error": BROKE},
            {"type": "response.failed", "sequence_number": 2, "response": FAILED},
        ],
        Habits(),
        named=True,
    ),
}


@pytest.mark.parametrize("target", [C, M, R], ids=["C", "M", "R"])
@pytest.mark.parametrize("source", [C, M, R], ids=["C", "M", "R"])
def test_an_error_inside_a_stream(source: Protocol, target: Protocol) -> None:
    """The client's own form of an error is the last thing, and its SDK raises."""
    translator = StreamTranslator(source=source, target=target)
    out = translator.feed(STREAMS[source]) + translator.close()
    assert not lint_stream(target, out, own=True)
    assert translator.failed is not None
    assert b"It broke" in out
    assert b"req_upstream" not in out or source is target
    events = [event for event in sse.read(out) if not event.data.startswith("[DONE]")]
    last = json.loads(events[-1].data)
    if target is C:
        assert set(last["error"]) >= {"message", "type", "param", "code"}
    elif target is M:
        assert last["error"]["type"] == "overloaded_error"
    else:
        assert last["type"] == "response.failed"
        assert last["response"]["error"]["code"] == json.loads(events[-2].data)["error"]["code"]
    assert isinstance(sdk.accumulate(target, out).error, sdk.RAISED)


@pytest.mark.parametrize("target", [C, M, R], ids=["C", "M", "R"])
@pytest.mark.parametrize("source", [C, M, R], ids=["C", "M", "R"])
def test_a_stream_that_breaks_off(source: Protocol, target: Protocol) -> None:
    """No terminal event, no success."""
    whole = STREAMS[source]
    cut = whole[: whole.index(b"It broke")]
    cut = cut[: cut.rindex(b"\n\n") + 2]
    translator = StreamTranslator(source=source, target=target)
    out = translator.feed(cut) + translator.close()
    assert not lint_stream(target, out, own=True)
    assert translator.failed is not None
    assert isinstance(sdk.accumulate(target, out).error, sdk.RAISED)
