"""Whole answers, both ways."""

from typing import Any

import pytest

from tests.protocols.responses.streams import collect, completed, created, events, sse
from trilogue.errors import UpstreamFailure, UpstreamProtocolError
from trilogue.lint import lint_response
from trilogue.model import Native, Protocol, Response, Stop, StopReason, Text, ToolCall, Usage
from trilogue.protocols.responses import CODEC
from trilogue.protocols.stream.response_context import ResponseContext

MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "x", "annotations": []}],
}


def body(*output: Any, **more: Any) -> dict[str, Any]:
    base = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "status": "completed"}
    return {**base, "output": list(output), **more}


def test_blocks_know_their_message() -> None:
    """Parts of one message must find together again, and two messages must stay two."""
    response = CODEC.decode_response(body({**MESSAGE, "phase": "commentary"}, {**MESSAGE, "id": "msg_2"}))
    assert [block.extras for block in response.blocks] == [
        {"item_id": "msg_1", "phase": "commentary"},
        {"item_id": "msg_2"},
    ]
    written = CODEC.encode_response(response, ResponseContext(source=Protocol.RESPONSES))
    assert [item["id"] for item in written["output"]] == ["msg_1", "msg_2"]


def test_calls_decide_the_stop_reason() -> None:
    """The protocol has no finish reason."""
    call = {"type": "function_call", "id": "fc", "call_id": "c", "name": "f", "arguments": {"a": 1}}
    response = CODEC.decode_response(body(call))
    assert response.stop.reason is StopReason.TOOL_CALLS
    (block,) = response.blocks
    assert isinstance(block, ToolCall)
    assert block.arguments == '{"a":1}'


def test_cut_response_with_a_call_stays_cut() -> None:
    """A call does not make half an answer whole."""
    call = {"type": "function_call", "id": "fc", "call_id": "c", "name": "f", "arguments": "{"}
    response = CODEC.decode_response(
        body(call, status="incomplete", incomplete_details={"reason": "max_output_tokens"})
    )
    assert response.stop.reason is StopReason.LENGTH


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_failed_response_raises(status: str) -> None:
    """There is no answer in it."""
    with pytest.raises(UpstreamFailure):
        CODEC.decode_response(body(status=status, error={"code": "server_error", "message": "m"}))


def test_response_without_output_raises() -> None:
    """An error body with status 200, or something that is no response at all."""
    with pytest.raises(UpstreamFailure):
        CODEC.decode_response({"error": {"message": "m"}})
    with pytest.raises(UpstreamProtocolError):
        CODEC.decode_response({"hello": "world"})


def test_background_response_is_a_pause() -> None:
    """It has not failed and is not complete; the status goes back as it came."""
    response = CODEC.decode_response(body(status="queued"))
    assert (response.stop.reason, response.stop.detail) == (StopReason.PAUSE, "queued")
    assert CODEC.encode_response(response, ResponseContext(source=Protocol.RESPONSES))["status"] == "queued"


def test_message_without_parts_is_kept() -> None:
    """No block says it, so its native form does."""
    response = CODEC.decode_response(body({**MESSAGE, "content": []}))
    (native,) = response.blocks
    assert isinstance(native, Native)
    written = CODEC.encode_response(response, ResponseContext(source=Protocol.RESPONSES))
    assert written["output"] == [{**MESSAGE, "content": []}]


@pytest.mark.parametrize("kind", ["function_call_output", "custom_tool_call_output"])
def test_results_in_a_response_are_kept(kind: str) -> None:
    """They are the client's words, which answers may list: whole and streamed they go back as they came."""
    item = {"type": kind, "id": "o_1", "call_id": "call_1", "output": [{"type": "input_text", "text": "x"}]}
    response = CODEC.decode_response(body(item))
    assert CODEC.encode_response(response, ResponseContext(source=Protocol.RESPONSES))["output"] == [item]
    found = collect(events(created(), sse("response.output_item.done", output_index=0, item=item), completed(item)))
    assert found.blocks == response.blocks


def test_foreign_response_is_valid() -> None:
    """The linter finds nothing."""
    response = Response(
        protocol=Protocol.CHAT,
        id="chatcmpl-1",
        model="up",
        blocks=(Text(text="x"), ToolCall(id="c", name="f", arguments="{}")),
        stop=Stop(reason=StopReason.TOOL_CALLS),
        usage=Usage(fresh=1, output=1, searches=2),
    )
    written = CODEC.encode_response(response, ResponseContext(model="alias", source=Protocol.CHAT))
    assert lint_response(Protocol.RESPONSES, written) == []
    assert written["id"].startswith("resp_")
    assert written["tool_usage"]["web_search"] == {"num_requests": 2}
