from typing import Any

import pytest
from msgspec.structs import replace

from tests.protocols.messages.wire_samples import decode, kinds, sse
from trilogue.model import (
    BlockStart,
    BlockStop,
    CitationDelta,
    Collector,
    Delta,
    Event,
    Failed,
    FailureKind,
    Finish,
    HostedCall,
    HostedResult,
    Native,
    OpaqueKind,
    Reasoning,
    ReasoningDelta,
    Response,
    ResponseStart,
    Sequencer,
    StopReason,
    Text,
    ToolCall,
)
from trilogue.protocols.messages import CODEC

Wire = dict[str, Any]


def start(**fields: Any) -> Wire:
    usage = {"input_tokens": 9, "output_tokens": 1, "service_tier": "standard"}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
    return {"type": "message_start", "message": {**message, **fields}}


def begin(index: int, **block: Any) -> Wire:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, kind: str, **fields: Any) -> Wire:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def stop(index: int) -> Wire:
    return {"type": "content_block_stop", "index": index}


def end(reason: str | None = "end_turn", **fields: Any) -> Wire:
    event = {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 7}}
    return {**event, **fields}


DONE = {"type": "message_stop"}
PING = {"type": "ping"}
TEXT = (begin(0, type="text", text=""), delta(0, "text_delta", text="Hel"), delta(0, "text_delta", text="lo"), stop(0))


def collect(events: list[Event]) -> Response:
    collector = Collector()
    for event in Sequencer().feed(events):
        collector.feed(event)
    return collector.response()


def test_plain_text() -> None:
    """The events of the most usual answer, one by one."""
    events = decode(sse(start(), *TEXT, end(), DONE))
    assert kinds(events) == ["ResponseStart", "BlockStart", "Delta", "Delta", "BlockStop", "Finish"]
    assert isinstance(events[0], ResponseStart)
    assert (events[0].id, events[0].model) == ("msg_1", "m")
    assert events[1] == BlockStart(0, Text(text="", path="content[0]"))
    assert events[2:5] == [Delta(0, "Hel"), Delta(0, "lo"), BlockStop(0)]
    finish = events[-1]
    assert isinstance(finish, Finish)
    assert finish.stop.reason is StopReason.END
    assert finish.usage is not None
    assert (finish.usage.fresh, finish.usage.output) == (9, 7)


def test_every_cut_gives_the_same_events() -> None:
    """How the network cuts the bytes must not show."""
    data = sse(start(), PING, *TEXT, end(), DONE)
    expected = decode(data)
    decoder = CODEC.decoder()
    events = [event for index in range(len(data)) for event in decoder.feed(data[index : index + 1])]
    assert [*events, *decoder.close()] == expected


def test_pings_unknown_events_and_missing_names() -> None:
    """None of them changes the answer; that there was one that nobody knows is noted."""
    plain = decode(sse(start(), *TEXT, end(), DONE))
    odd = {"type": "confetti", "index": 0}
    noisy = sse(PING, start(), PING, TEXT[0], odd, *TEXT[1:], PING, end(), DONE, PING)
    *same, last = decode(noisy)
    assert isinstance(last, Finish)
    assert last.unknown_fields == {"": {"confetti": True}}
    assert [*same, replace(last, unknown_fields=None)] == plain
    assert decode(sse(start(), *TEXT, end(), DONE, named=False)) == plain


@pytest.mark.parametrize("empty", [b"event: ping\ndata: \n\n", b"event: ping\ndata: 1 s\n\n", b"data:\n\n"])
def test_events_without_data_say_nothing(empty: bytes) -> None:
    """The official client skips them before it parses anything."""
    data = sse(start(), TEXT[0]) + empty + sse(*TEXT[1:], end(), DONE)
    assert decode(data) == decode(sse(start(), *TEXT, end(), DONE))


def test_a_message_that_is_complete_from_the_start() -> None:
    """The API continues programmatic tool calls with a filled message_start and no message_delta."""
    call = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}}
    response = collect(decode(sse(start(content=[call], stop_reason="tool_use"), DONE)))
    (block,) = response.blocks
    assert isinstance(block, ToolCall)
    assert block.arguments == '{"a":1}'
    assert response.stop.reason is StopReason.TOOL_CALLS


def test_message_start_twice() -> None:
    """The same message again is a proxy's quirk, another one is not."""
    assert kinds(decode(sse(start(), start(), *TEXT, end(), DONE)))[-1] == "Finish"
    failed = decode(sse(start(), start(id="msg_2"), *TEXT, end(), DONE))[-1]
    assert isinstance(failed, Failed)
    assert failed.failure.kind is FailureKind.UPSTREAM_PROTOCOL


def test_several_message_deltas_are_merged() -> None:
    """A later one without stop reason or figures takes nothing back."""
    later = {"type": "message_delta", "delta": {"stop_reason": None}}
    detail = end(None, usage={"output_tokens": 8, "input_tokens": None}, context_management={"applied_edits": []})
    finish = decode(sse(start(), *TEXT, end("max_tokens"), later, detail, DONE))[-1]
    assert isinstance(finish, Finish)
    assert finish.stop.reason is StopReason.LENGTH
    assert finish.usage is not None
    assert (finish.usage.fresh, finish.usage.output) == (9, 8)
    assert finish.extras == {"context_management": {"applied_edits": []}}


def test_zeros_take_no_figure_back() -> None:
    """Servers that counted the input at the start send zeros at the end."""
    usage = {"input_tokens": 9, "cache_read_input_tokens": 5, "output_tokens": 1}
    zeros = {"input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 7}
    finish = decode(sse(start(usage=usage), *TEXT, end(usage=zeros), DONE))[-1]
    assert isinstance(finish, Finish)
    assert finish.usage is not None
    assert (finish.usage.fresh, finish.usage.cache_read, finish.usage.output) == (9, 5, 7)


def test_the_end() -> None:
    """With a stop reason a missing message_stop is a quirk; without, the answer was cut."""
    assert kinds(decode(sse(start(), *TEXT, end())))[-1] == "Finish"
    assert kinds(decode(sse(start(), *TEXT, end()) + b"data: [DONE]\n\n"))[-1] == "Finish"
    assert kinds(decode(sse(start(), *TEXT, DONE)))[-1] == "Finish"
    for cut in (sse(start(), *TEXT), sse(start(), *TEXT[:2]), sse(start()), b"", sse(start()) + b"data: [DONE]\n\n"):
        failed = decode(cut)[-1]
        assert isinstance(failed, Failed)
        assert failed.failure.kind is FailureKind.UPSTREAM_TRUNCATED


def test_open_blocks_are_closed_by_the_end() -> None:
    """A block that nobody stopped is complete when the answer is."""
    events = decode(sse(start(), *TEXT[:3], end(), DONE))
    assert kinds(events)[-2:] == ["BlockStop", "Finish"]


def test_thinking_with_and_without_signature() -> None:
    """The last signature counts; text in the start of a block is part of it."""
    thinking = begin(0, type="thinking", thinking="a", signature="")
    events = decode(
        sse(
            start(),
            thinking,
            delta(0, "thinking_delta", thinking="b"),
            delta(0, "signature_delta", signature="S"),
            delta(0, "signature_delta", signature=""),
            stop(0),
            begin(1, type="thinking", thinking=""),
            stop(1),
            begin(2, type="thinking", thinking="", signature=""),
            delta(2, "signature_delta", signature="T"),
            stop(2),
            end(),
            DONE,
        )
    )
    assert events[2:4] == [ReasoningDelta(0, "a"), ReasoningDelta(0, "b")]
    found = [block.opaque for block in collect(events).blocks if isinstance(block, Reasoning)]
    assert [opaque and opaque.value for opaque in found] == ["S", None, "T"]


@pytest.mark.parametrize(
    ("given", "pieces", "arguments"),
    [
        ({}, ["", '{"a"', ":1}"], '{"a":1}'),
        ({}, [""], "{}"),
        ({}, [], "{}"),
        ({"a": 1}, [], '{"a":1}'),
        ({"a": 1}, ['{"b":2}'], '{"b":2}'),
    ],
)
def test_arguments(given: Wire, pieces: list[str], arguments: str) -> None:
    """Deltas win over the start; a tool without parameters has an empty object."""
    deltas = [delta(0, "input_json_delta", partial_json=piece) for piece in pieces]
    block = begin(0, type="tool_use", id="toolu_1", name="f", input=given, caller={"type": "direct"})
    response = collect(decode(sse(start(), block, *deltas, stop(0), end("tool_use"), DONE)))
    (call,) = response.blocks
    assert isinstance(call, ToolCall)
    assert (call.id, call.name, call.arguments) == ("toolu_1", "f", arguments)
    assert call.extras == {"caller": {"type": "direct"}}


@pytest.mark.parametrize(
    "block",
    [{"type": "text", "text": ""}, {"type": "tool_use", "id": "t", "name": "f", "input": {}}],
    ids=lambda b: b["type"],
)
def test_only_thinking_is_signed(block: Wire) -> None:
    """A field `signature` of another block is one that nobody knows, as in a whole answer."""
    found = decode(sse(start(), begin(0, **block, signature="s"), stop(0), end(), DONE))
    assert [event.block.extras for event in found if isinstance(event, BlockStart)] == [{"signature": "s"}]
    assert [event.opaque for event in found if isinstance(event, BlockStop)] == [None]


def test_deltas_without_a_start() -> None:
    """Words are words; arguments without a tool are nothing anyone can run."""
    orphans = (delta(3, "text_delta", text="x"), delta(4, "thinking_delta", thinking="y"))
    events = decode(sse(start(), *orphans, end(), DONE))
    assert kinds(events).count("BlockStart") == 2
    failed = decode(sse(start(), delta(0, "input_json_delta", partial_json="{}"), end(), DONE))[-1]
    assert isinstance(failed, Failed)


def test_citations_before_their_text() -> None:
    """The API sends the evidence first."""
    location = {"type": "web_search_result_location", "url": "u", "title": "t", "encrypted_index": "E"}
    events = decode(
        sse(
            start(),
            begin(0, type="text", text="", citations=[]),
            delta(0, "citations_delta", citation=location),
            *TEXT[1:],
            end(),
            DONE,
        )
    )
    assert isinstance(events[2], CitationDelta)
    (block,) = collect(events).blocks
    assert isinstance(block, Text)
    assert [citation.native for citation in block.citations] == [location]


def test_hosted_tools_come_whole() -> None:
    """Their input is given in neutral form once it is complete."""
    search = begin(0, type="server_tool_use", id="srvtoolu_1", name="bash_code_execution", input={})
    result = {"type": "bash_code_execution_tool_result", "tool_use_id": "srvtoolu_1", "content": {"stdout": "x"}}
    response = collect(
        decode(
            sse(
                start(),
                search,
                delta(0, "input_json_delta", partial_json='{"command"'),
                delta(0, "input_json_delta", partial_json=':"ls"}'),
                stop(0),
                begin(1, **result),
                stop(1),
                end(),
                DONE,
            )
        )
    )
    call, found = response.blocks
    assert isinstance(call, HostedCall)
    assert call.input == '{"code":"ls"}'
    assert call.native is not None
    assert call.native["input"] == {"command": "ls"}
    assert isinstance(found, HostedResult)
    assert found.native == result


def test_blocks_that_only_this_protocol_has() -> None:
    """Compaction comes in a delta of its own kind; a block of a new kind is kept as it came."""
    response = collect(
        decode(
            sse(
                start(),
                begin(0, type="compaction", content=None),
                delta(0, "compaction_delta", content="summary", encrypted_content="E"),
                stop(0),
                begin(1, type="fallback", to={"model": "x"}),
                stop(1),
                begin(2, type="redacted_thinking", data="R"),
                stop(2),
                end(),
                DONE,
            )
        )
    )
    compaction, fallback, redacted = response.blocks
    assert isinstance(compaction, Native)
    assert (compaction.data["content"], compaction.data["encrypted_content"]) == ("summary", "E")
    assert isinstance(fallback, Native)
    assert isinstance(redacted, Reasoning)
    assert redacted.opaque is not None
    assert redacted.opaque.kind is OpaqueKind.REDACTED


def test_text_inside_a_block_of_a_new_kind_is_not_response_text() -> None:
    """It stays in its block, whatever kinds of deltas that takes; the official client does not show it either."""
    citation = {"type": "char_location", "cited_text": "x", "document_index": 0}
    response = collect(
        decode(
            sse(
                start(),
                begin(0, type="aside", mood="dry"),
                delta(0, "text_delta", text="not "),
                delta(0, "citations_delta", citation=citation),
                delta(0, "thinking_delta", thinking="said"),
                delta(0, "signature_delta", signature="S"),
                stop(0),
                *({**event, "index": 1} for event in TEXT),
                end(),
                DONE,
            )
        )
    )
    aside, text = response.blocks
    assert isinstance(aside, Native)
    assert aside.data == {"type": "aside", "mood": "dry", "text": "not said"}
    assert isinstance(text, Text)
    assert (text.text, text.citations) == ("Hello", ())


def test_interleaved_blocks() -> None:
    """No official stream does it, but nothing may get into the wrong block."""
    call = {"type": "tool_use", "name": "f", "input": {}}
    response = collect(
        decode(
            sse(
                start(),
                begin(0, **call, id="a"),
                begin(1, **call, id="b"),
                delta(1, "input_json_delta", partial_json='{"b":1}'),
                delta(0, "input_json_delta", partial_json='{"a":1}'),
                stop(1),
                stop(0),
                end("tool_use"),
                DONE,
            )
        )
    )
    assert [(block.id, block.arguments) for block in response.blocks if isinstance(block, ToolCall)] == [
        ("a", '{"a":1}'),
        ("b", '{"b":1}'),
    ]


@pytest.mark.parametrize(
    "data",
    [
        sse({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}),
        b'data: {"error":{"type":"overloaded_error","message":"busy"}}\n\n',
        b'event: error\ndata: {"error":{"type":"overloaded_error","message":"busy"}}\n\n',
        b'error: {"type":"error","error":{"type":"overloaded_error","message":"busy"}}\n\n',
        b'{"type":"error","error":{"type":"overloaded_error","message":"busy"}}',
    ],
)
@pytest.mark.parametrize("before", [b"", sse(start(), *TEXT[:2])])
def test_errors_in_all_forms(data: bytes, before: bytes) -> None:
    """An error is an error, at any point and in any wrapping."""
    failed = decode(before + data)[-1]
    assert isinstance(failed, Failed)
    assert (failed.failure.kind, failed.failure.message) == (FailureKind.OVERLOADED, "busy")


def test_an_error_in_plain_words() -> None:
    """Proxies do not always speak JSON."""
    failed = decode(b"event: error\ndata: upstream gone\n\n")[-1]
    assert isinstance(failed, Failed)
    assert failed.failure.message == "upstream gone"


@pytest.mark.parametrize(
    "data",
    [
        b"data: {nonsense\n\n",
        b"data: []\n\n",
        sse(TEXT[0]),
        sse(TEXT[1]),
        sse(end()),
        sse(DONE),
        sse(start(), TEXT[0], TEXT[0]),
        b'data: {"type":"message_start","message":"\xff"}\n\n',
        b"data: " + b"[" * 5000 + b"\n\n",
    ],
)
def test_broken_streams_fail_as_the_upstreams_fault(data: bytes) -> None:
    """A decoder never raises because of what an upstream sent."""
    failed = decode(data)[-1]
    assert isinstance(failed, Failed)
    assert failed.failure.kind is FailureKind.UPSTREAM_PROTOCOL
