"""Whole answers, both ways."""

import json
from typing import Any

import pytest

from trilogue.errors import UpstreamFailure, UpstreamProtocolError
from trilogue.model import (
    Audio,
    Block,
    CallKind,
    Citation,
    CitationKind,
    HostedCall,
    HostedKind,
    Native,
    Opaque,
    OpaqueKind,
    Protocol,
    Reasoning,
    Refusal,
    Response,
    Stop,
    StopReason,
    Text,
    Tier,
    ToolCall,
    Usage,
)
from trilogue.protocols.chat import CODEC
from trilogue.protocols.stream.response_context import ResponseContext


def body(message: dict[str, Any], finish: str | None = "stop", **fields: Any) -> dict[str, Any]:
    return {"id": "r1", "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": finish}], **fields}


def foreign(*blocks: Block, stop: StopReason = StopReason.END, **fields: Any) -> Response:
    return Response(protocol=Protocol.MESSAGES, id="msg_1", model="m", blocks=blocks, stop=Stop(reason=stop), **fields)


def write(response: Response, **fields: Any) -> tuple[dict[str, Any], list[str]]:
    context = ResponseContext(source=Protocol.MESSAGES, created=5, **fields)
    written = CODEC.encode_response(response, context)
    return written, [loss.code for loss in context.ledger.losses]


def message_of(*blocks: Block, **fields: Any) -> tuple[dict[str, Any], list[str]]:
    written, losses = write(foreign(*blocks), **fields)
    message: dict[str, Any] = written["choices"][0]["message"]
    return message, losses


def test_read_order() -> None:
    """Reasoning, words, refusal, calls."""
    message = {
        "role": "assistant",
        "content": "a",
        "refusal": "no",
        "reasoning": "hm",
        "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1}}}],
        "function_call": {"name": "", "arguments": ""},
        "audio": {"id": "", "data": "", "transcript": ""},
    }
    blocks = CODEC.decode_response(body(message)).blocks
    assert [type(block) for block in blocks] == [Reasoning, Text, Refusal, ToolCall]
    call = blocks[3]
    assert isinstance(call, ToolCall)
    assert call.id
    assert call.arguments == '{"x":1}'


def test_calls_turn_stop_into_tool_calls() -> None:
    """OpenAI itself says stop when the choice named a function."""
    message = {"tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]}
    assert CODEC.decode_response(body(message)).stop.reason is StopReason.TOOL_CALLS
    assert CODEC.decode_response(body(message, "length")).stop.reason is StopReason.LENGTH


@pytest.mark.parametrize(
    "wire",
    [
        {"error": {"message": "x", "code": 502}},
        {"error": "x", "choices": None},
        {"object": "error", "message": "x"},
        {"detail": "x"},
        {"code": 400, "message": "x"},
        body({"content": ""}, "error"),
        {"choices": [{"index": 0, "error": {"code": 502, "message": "x"}, "message": {"content": ""}}]},
    ],
)
def test_errors_with_status_200(wire: dict[str, Any]) -> None:
    """They are failures, not empty answers."""
    with pytest.raises(UpstreamFailure):
        CODEC.decode_response(wire)


@pytest.mark.parametrize("wire", [{}, {"choices": []}, {"choices": [None]}, {"choices": 5}])
def test_no_choices(wire: dict[str, Any]) -> None:
    """Nothing to answer with."""
    with pytest.raises(UpstreamProtocolError):
        CODEC.decode_response(wire)


def test_further_choices_come_back_in_chat() -> None:
    """Only the first has blocks; the others stay as they are."""
    other = {"index": 1, "message": {"content": "b"}, "finish_reason": "stop"}
    wire = body({"content": "a"})
    wire["choices"].append(other)
    response = CODEC.decode_response(wire)
    assert response.blocks[0].path == "choices[0].message.content"
    assert CODEC.encode_response(response, ResponseContext(source=Protocol.CHAT))["choices"][1] == other


def test_a_stray_message_next_to_the_choices_comes_back() -> None:
    """A server that adds a remark of its own to the answer."""
    wire = {**body({"content": "a"}), "message": "success"}
    written = CODEC.encode_response(CODEC.decode_response(wire), ResponseContext(source=Protocol.CHAT))
    assert written["message"] == "success"
    assert written["choices"][0]["message"]["content"] == "a"


def test_written_response() -> None:
    """All that the official type demands."""
    written, losses = write(foreign(Text(text="a"), usage=Usage(fresh=2, output=1), tier=Tier.PRIORITY), model="mine")
    choice = written["choices"][0]
    assert written["object"] == "chat.completion"
    assert written["id"].startswith("chatcmpl-")
    assert (written["created"], written["model"], written["service_tier"]) == (5, "mine", "priority")
    assert choice["message"] == {"role": "assistant", "content": "a", "refusal": None}
    assert choice["finish_reason"] == "stop"
    assert written["usage"]["total_tokens"] == 3
    assert losses == []


def test_empty_response_has_empty_content() -> None:
    """Null is only for answers that say something else."""
    assert message_of()[0]["content"] == ""
    assert message_of(ToolCall(id="c", name="f"))[0]["content"] is None


def test_written_calls() -> None:
    """Arguments are never empty, ids legal, free text as the client declared it."""
    custom = ToolCall(id="toolu:1", name="g", arguments="free", kind=CallKind.CUSTOM)
    declared = {"tools": [{"type": "custom", "custom": {"name": "g"}}]}
    calls = message_of(ToolCall(id="c", name="f"), custom, body=declared)[0]["tool_calls"]
    assert calls[0] == {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    assert calls[1]["custom"] == {"name": "g", "input": "free"}
    assert ":" not in calls[1]["id"]
    message, losses = message_of(custom, body={"model": "m"})
    assert json.loads(message["tool_calls"][0]["function"]["arguments"]) == {"input": "free"}
    assert losses == ["tool.custom_emulated"]


def test_free_text_without_a_request_to_look_at() -> None:
    """Nothing says that the client does not know such calls, so nothing is lost."""
    message, losses = message_of(ToolCall(id="c", name="g", arguments="free", kind=CallKind.CUSTOM))
    assert message["tool_calls"] == [{"id": "c", "type": "custom", "custom": {"name": "g", "input": "free"}}]
    assert not losses


def test_written_order_is_declared() -> None:
    """Chat has one text before all calls."""
    message, losses = message_of(Text(text="a"), ToolCall(id="c", name="f"), Text(text="b"))
    assert message["content"] == "ab"
    assert losses == ["order.flattened", "text.blocks_joined"]


def test_written_citations() -> None:
    """Offsets count in the joined content; documents have no form."""
    web = Citation(kind=CitationKind.WEB, native={}, url="u", title="t", cited_text="quoted")
    page = Citation(kind=CitationKind.DOCUMENT, native={})
    message, losses = message_of(Text(text="abc"), Text(text="de", citations=(web, page)))
    link = {"start_index": 3, "end_index": 5, "title": "t", "url": "u"}
    assert message["annotations"] == [{"type": "url_citation", "url_citation": link}]
    assert losses == ["text.blocks_joined", "citation.source_span", "citation.document"]


def test_written_reasoning_comes_back() -> None:
    """The words and the sealed values, each with its piece of the words."""
    blocks = [
        Reasoning(summary=("one", "two"), opaque=Opaque(kind=OpaqueKind.SIGNATURE, value="trl1.a")),
        Reasoning(opaque=Opaque(kind=OpaqueKind.REDACTED, value="trl1.b")),
        Reasoning(raw=("three",), opaque=Opaque(kind=OpaqueKind.ENCRYPTED, value="trl1.c")),
    ]
    message, losses = message_of(*blocks, Text(text="a"))
    assert message["reasoning_content"] == "one\n\ntwo\n\nthree"
    assert losses == ["reasoning.nonstandard"]
    first = message["reasoning_details"][0]
    assert (first["type"], first["data"], first["format"]) == ("reasoning.encrypted", "trl1.a", "trilogue")
    read = CODEC.decode_request({"model": "m", "messages": [message]}).turns[0].blocks
    seen = [(b.summary, b.raw, b.opaque and b.opaque.value) for b in read if isinstance(b, Reasoning)]
    assert seen == [(("one\n\ntwo",), (), "trl1.a"), ((), (), "trl1.b"), ((), ("three",), "trl1.c")]


def test_foreign_values_are_never_shown() -> None:
    """A value that nobody sealed would be read by the wrong provider."""
    message, losses = message_of(Reasoning(opaque=Opaque(kind=OpaqueKind.SIGNATURE, value="secret")), Text(text="a"))
    assert "secret" not in json.dumps(message)
    assert losses == ["reasoning.foreign_dropped"]


def test_classifier_refusal() -> None:
    """Its explanation is all that there is to say."""
    stop = Stop(reason=StopReason.REFUSAL, explanation="not this")
    response = Response(protocol=Protocol.MESSAGES, id="m", model="m", blocks=(), stop=stop)
    choice = write(response)[0]["choices"][0]
    assert (choice["finish_reason"], choice["message"]["refusal"]) == ("content_filter", "not this")


@pytest.mark.parametrize(
    ("block", "loss"),
    [
        (HostedCall(id="h", tool=HostedKind.WEB_SEARCH), "hosted.result_dropped"),
        (Native(type="compaction", data={}), "native.dropped"),
    ],
)
def test_blocks_without_a_form(block: Block, loss: str) -> None:
    """Left out and declared."""
    message, losses = message_of(block, Text(text="a"))
    assert message["content"] == "a"
    assert losses == [loss]


def test_audio_round_trip() -> None:
    """Only Chat has it; Chat gets it back."""
    audio = {"id": "a", "data": "QUJD", "transcript": "hi", "expires_at": 9}
    response = CODEC.decode_response(body({"content": None, "audio": audio}))
    assert isinstance(response.blocks[0], Audio)
    assert (
        CODEC.encode_response(response, ResponseContext(source=Protocol.CHAT))["choices"][0]["message"]["audio"]
        == audio
    )


def test_metadata_is_echoed() -> None:
    """It was kept rather than sent."""
    assert write(foreign(Text(text="a")), body={"metadata": {"k": "v"}})[0]["metadata"] == {"k": "v"}


def test_text_of_a_server_that_completes() -> None:
    """It has no message, and is no empty answer."""
    response = CODEC.decode_response({"choices": [{"index": 0, "text": "Hello", "finish_reason": "stop"}]})
    assert [block.text for block in response.blocks if isinstance(block, Text)] == ["Hello"]


def test_the_first_choice_that_says_something() -> None:
    """A server that leaves the first one empty has put the answer into another."""
    empty, words = ({"role": "assistant", "content": text} for text in ("", "Hello"))
    choices = [
        {"index": 0, "message": empty, "finish_reason": "length"},
        {"index": 1, "message": words, "finish_reason": "stop"},
    ]
    response = CODEC.decode_response({"id": "c1", "model": "m", "choices": choices})
    assert [block.text for block in response.blocks if isinstance(block, Text)] == ["Hello"]
    assert response.stop.reason is StopReason.END
    assert response.extras == {"choices": choices[:1]}
