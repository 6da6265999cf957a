from typing import Any

import pytest

from tests.protocols.messages.official import accumulated
from tests.protocols.messages.wire_samples import answer, parse, sse, without_nulls
from trilogue import StreamTranslator
from trilogue.errors import InternalError, UpstreamProtocolError
from trilogue.model import (
    Audio,
    Block,
    BlockStart,
    BlockStop,
    CallKind,
    Citation,
    CitationDelta,
    CitationKind,
    Delta,
    Event,
    Failed,
    Failure,
    FailureKind,
    Finish,
    HostedCall,
    HostedKind,
    HostedResult,
    LogprobsDelta,
    Native,
    Opaque,
    OpaqueKind,
    Protocol,
    Reasoning,
    ReasoningDelta,
    Refusal,
    Response,
    ResponseStart,
    SearchHit,
    Stop,
    StopReason,
    Text,
    Tier,
    ToolCall,
    Usage,
    events_of,
)
from trilogue.protocols.messages import CODEC
from trilogue.protocols.stream.response_context import ResponseContext

START = ResponseStart(protocol=Protocol.CHAT, id="x", model="gpt")
FINISH = Finish(stop=Stop(reason=StopReason.END), usage=Usage(fresh=3, output=2))
SEALED = Opaque(kind=OpaqueKind.ENCRYPTED, value="trl1.s")


def encode(*events: Event, **fields: Any) -> tuple[list[dict[str, Any]], list[str]]:
    context = ResponseContext(source=Protocol.CHAT, **fields)
    data = CODEC.encoder(context).encode(events)
    return parse(data), [loss.code for loss in context.ledger.losses]


def blocks(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The events without the frame that every answer has."""
    return [event for event in events if event["type"].startswith("content_block")]


def names(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


def test_plain_text() -> None:
    """The bytes that a client sees, in order."""
    events, losses = encode(
        START, BlockStart(0, Text(text="")), Delta(0, "a"), Delta(0, ""), Delta(0, "\u2028b"), BlockStop(0), FINISH
    )
    assert names(events) == [
        "message_start",
        "ping",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    message = events[0]["message"]
    assert message["id"].startswith("msg_")
    assert (message["content"], message["stop_reason"], message["stop_sequence"]) == ([], None, None)
    assert message["usage"]["input_tokens"] == 0
    assert events[3] == {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a"}}
    assert events[4]["delta"]["text"] == "\u2028b"
    assert events[6] == {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn", "stop_sequence": None, "stop_details": None},
        "usage": {
            "input_tokens": 3,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": 2,
        },
    }
    assert not losses


def test_the_signature_comes_last() -> None:
    """One signature, after all thinking and just before the stop; parts are told apart by an empty line."""
    events, _ = encode(
        START,
        BlockStart(0, Reasoning()),
        ReasoningDelta(0, "a"),
        ReasoningDelta(0, "b", 1),
        BlockStop(0, SEALED),
        FINISH,
    )
    first, *deltas, last = blocks(events)[:6]
    assert first["content_block"] == {"type": "thinking", "thinking": "", "signature": ""}
    assert [event["delta"] for event in deltas] == [
        {"type": "thinking_delta", "thinking": "a"},
        {"type": "thinking_delta", "thinking": "\n\n"},
        {"type": "thinking_delta", "thinking": "b"},
        {"type": "signature_delta", "signature": "trl1.s"},
    ]
    assert last["type"] == "content_block_stop"


def test_reasoning_without_words() -> None:
    """It is redacted unless its value is a signature."""
    events, _ = encode(START, BlockStart(0, Reasoning()), BlockStop(0, SEALED), FINISH)
    assert blocks(events)[0]["content_block"] == {"type": "redacted_thinking", "data": "trl1.s"}
    signature = Opaque(kind=OpaqueKind.SIGNATURE, value="S")
    events, _ = encode(START, BlockStart(0, Reasoning()), BlockStop(0, signature), FINISH)
    assert names(blocks(events)[:3]) == ["content_block_start", "content_block_delta", "content_block_stop"]
    assert blocks(events)[1]["delta"] == {"type": "signature_delta", "signature": "S"}


def test_hidden_thinking_leaves_no_gap_in_the_indices() -> None:
    """A client that did not enable thinking must not see it, nor that it was there."""
    events, losses = encode(
        START,
        BlockStart(0, Reasoning(path="p")),
        ReasoningDelta(0, "a"),
        BlockStop(0, SEALED),
        BlockStart(1, Text(text="")),
        Delta(1, "x"),
        BlockStop(1),
        FINISH,
        body={"model": "m", "thinking": {"type": "disabled"}},
    )
    assert [event["index"] for event in blocks(events)] == [0, 0, 0]
    assert losses == ["reasoning.visibility"]


def test_thinking_that_cannot_be_signed_is_declared() -> None:
    """It is out already when that shows; a signature is not made up."""
    events, losses = encode(START, BlockStart(0, Reasoning(path="p")), ReasoningDelta(0, "a"), BlockStop(0), FINISH)
    assert "signature_delta" not in [event["delta"]["type"] for event in blocks(events) if "delta" in event]
    assert losses == ["reasoning.foreign_dropped"]


def test_tool_calls() -> None:
    """Arguments flow as they come; none means an empty object and no delta."""
    events, _ = encode(
        START,
        BlockStart(0, ToolCall(id="call:1", name="f")),
        Delta(0, '{"a'),
        Delta(0, '":1}'),
        BlockStop(0),
        BlockStart(1, ToolCall(id="c2", name="g")),
        BlockStop(1),
        FINISH,
    )
    first, one, two, _, second, _ = blocks(events)
    assert first["content_block"]["input"] == {}
    assert ":" not in first["content_block"]["id"]
    assert [event["delta"] for event in (one, two)] == [
        {"type": "input_json_delta", "partial_json": '{"a'},
        {"type": "input_json_delta", "partial_json": '":1}'},
    ]
    assert second["content_block"]["name"] == "g"
    assert events[-2]["delta"]["stop_reason"] == "tool_use"


def test_free_text_calls_are_wrapped_while_they_flow() -> None:
    """The pieces together are one JSON object with one string."""
    text = ['say "hi"\n', "\\o/", ""]
    events, losses = encode(
        START,
        BlockStart(0, ToolCall(id="c", name="f", kind=CallKind.CUSTOM)),
        *(Delta(0, piece) for piece in text),
        BlockStop(0),
        FINISH,
    )
    pieces = [event["delta"]["partial_json"] for event in blocks(events) if "delta" in event]
    assert "".join(pieces) == '{"input":"say \\"hi\\"\\n\\\\o/"}'
    assert losses == ["tool.custom_emulated"]


@pytest.mark.parametrize("pieces", [["[1,", '"a"]'], ['"wo', 'rds"'], ["no", ' "JSON" \\'], ["\n tr", "ue"]])
def test_arguments_that_are_no_object_are_kept_in_one(pieces: list[str]) -> None:
    """The SDK ends with an error where the input of a tool is no JSON."""
    call = ToolCall(id="c1", name="f", path="call")
    deltas = [Delta(0, piece) for piece in pieces]
    fine = (BlockStart(1, ToolCall(id="c2", name="g")), Delta(1, ' {"a":'), Delta(1, "1}"), BlockStop(1))
    context = ResponseContext(source=Protocol.CHAT)
    data = CODEC.encoder(context).encode((START, BlockStart(0, call), *deltas, BlockStop(0), *fine, FINISH))
    assert [block["input"] for block in accumulated(data)["content"]] == [{"_raw": "".join(pieces)}, {"a": 1}]
    assert [str(loss) for loss in context.ledger.losses] == ["arguments.invalid_json at call"]


NO_OBJECTS = [(['{"a": 1, "b', '": "x'], True), (["{'a'", ": 1}"], False), (['{"a": 1}', "}"], True)]
"""arguments in pieces, and whether they were cut"""


@pytest.mark.parametrize("pieces", [pieces for pieces, _ in NO_OBJECTS])
def test_a_response_with_invalid_arguments_is_an_error(pieces: list[str]) -> None:
    """The SDK would call the tool with the part that it can read. What went out before stays, and the error follows."""
    call = ToolCall(id="c1", name="f", path="call")
    encoder = CODEC.encoder(ResponseContext(source=Protocol.CHAT))
    with pytest.raises(UpstreamProtocolError):
        encoder.encode((START, BlockStart(0, call), *(Delta(0, piece) for piece in pieces), BlockStop(0), FINISH))
    failure = Failure(kind=FailureKind.UPSTREAM_PROTOCOL, message="no", protocol=Protocol.CHAT)
    names = [line for line in encoder.encode([Failed(failure)]).decode().splitlines() if line.startswith("event: ")]
    assert names[-2:] == ["event: content_block_stop", "event: error"]
    assert "event: message_stop" not in names


def test_brackets_that_are_left_out_are_added() -> None:
    """A server that forgets the last ones has said all of the arguments."""
    call = ToolCall(id="c1", name="f", path="call")
    deltas = (Delta(0, '{"a": {"b": '), Delta(0, '["x"'))
    context = ResponseContext(source=Protocol.CHAT)
    data = CODEC.encoder(context).encode((START, BlockStart(0, call), *deltas, BlockStop(0), FINISH))
    assert accumulated(data)["content"][0]["input"] == {"a": {"b": ["x"]}}
    assert context.ledger.losses == []


@pytest.mark.parametrize(("pieces", "cut"), NO_OBJECTS)
def test_arguments_that_began_as_an_object_and_were_cut_short(pieces: list[str], cut: bool) -> None:
    """They are with the client before that shows, as the model wrote them, and declared as for whole answers, in which
    what the limit has cut is completed."""
    call, stop = ToolCall(id="c1", name="f", path="call"), Stop(reason=StopReason.LENGTH)
    finish = Finish(stop=stop, usage=FINISH.usage)
    events, losses = encode(START, BlockStart(0, call), *(Delta(0, piece) for piece in pieces), BlockStop(0), finish)
    assert [event["delta"]["partial_json"] for event in blocks(events) if "delta" in event] == pieces
    said = ToolCall(id="c1", name="f", path="call", arguments="".join(pieces))
    whole = ResponseContext(source=Protocol.CHAT)
    answered = Response(protocol=Protocol.CHAT, id="x", model="gpt", blocks=(said,), stop=stop, usage=FINISH.usage)
    CODEC.encode_response(answered, whole)
    expected = [] if cut else ["arguments.invalid_json"]
    assert losses == [loss.code for loss in whole.ledger.losses] == expected


def test_an_empty_response_has_one_empty_text() -> None:
    """Many clients read the first block without looking."""
    events, _ = encode(START, FINISH)
    assert blocks(events) == [
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_stop", "index": 0},
    ]


def test_fields_inside_the_delta_do_not_replace_those_of_the_event() -> None:
    """Whatever their names are, they go back to where they came from."""
    given: dict[str, Any] = {
        "type": "message_delta",
        "delta": {"type": "odd", "usage": 1, "delta": {"x": 2}, "container": {"id": "c"}, "stop_reason": "end_turn"},
        "usage": {"output_tokens": 7},
        "novel": 3,
    }
    through = StreamTranslator(source=Protocol.MESSAGES, target=Protocol.MESSAGES)
    message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": {}}
    sent: list[dict[str, Any]] = [{"type": "message_start", "message": message}, given, {"type": "message_stop"}]
    last = parse(b"".join(through.feed(sse(event)) for event in sent))[-2]
    assert {name: last[name] for name in given if name != "usage"} == {
        "type": "message_delta",
        "delta": {**given["delta"], "stop_sequence": None, "stop_details": None},
        "novel": 3,
    }
    assert last["usage"]["output_tokens"] == 7


def test_failures_end_the_stream() -> None:
    """One error event; nothing is closed and nothing follows."""
    failure = Failure(kind=FailureKind.OVERLOADED, message="Overloaded")
    events, _ = encode(START, BlockStart(0, Text(text="")), Failed(failure), request_id="req_1")
    assert events[-1] == {
        "type": "error",
        "error": {"type": "overloaded_error", "message": "Overloaded"},
        "request_id": "req_1",
    }
    assert names(encode(Failed(failure))[0]) == ["error"]


def test_keepalive() -> None:
    """A ping belongs to a message; before there is one, a comment does."""
    encoder = CODEC.encoder(ResponseContext())
    assert encoder.keepalive().startswith(b":")
    encoder.encode([START])
    assert encoder.keepalive() == b'event: ping\ndata: {"type":"ping"}\n\n'


def test_what_cannot_be_said_is_declared() -> None:
    """Token probabilities, natives, a tier that is known too late, missing figures."""
    _, losses = encode(
        START,
        BlockStart(0, Text(text="", path="a")),
        LogprobsDelta(0, [{}]),
        CitationDelta(0, Citation(kind=CitationKind.WEB, native={}, url="u")),
        BlockStop(0),
        BlockStart(1, Native(type="shell_call", data={}, path="b")),
        BlockStop(1),
        Finish(stop=Stop(reason=StopReason.END), tier=Tier.PRIORITY),
    )
    assert losses == ["logprobs.dropped", "citation.dropped", "native.dropped", "usage.estimated", "tier"]


@pytest.mark.parametrize(
    "events",
    [
        [BlockStart(0, Text(text=""))],
        [START, START],
        [START, Delta(0, "x")],
        [START, BlockStart(0, Text(text="")), BlockStart(1, Text(text=""))],
        [START, BlockStart(0, Text(text="")), FINISH],
        [START, FINISH, FINISH],
    ],
)
def test_events_out_of_order_are_our_own_bug(events: list[Event]) -> None:
    """The table of legal orders has no row for them."""
    with pytest.raises(InternalError):
        CODEC.encoder(ResponseContext()).encode(events)


LINK = Citation(
    kind=CitationKind.WEB, native={}, url="u", title="t", token=Opaque(kind=OpaqueKind.CITATION, value="trl1.c")
)
HIT = SearchHit(url="u", title="t", content=Opaque(kind=OpaqueKind.SEARCH, value="trl1.h"))

ANSWERS: dict[str, tuple[Block, ...]] = {
    "text": (Text(text="hi", citations=(LINK,)),),
    "nothing": (),
    "reasoning": (Reasoning(summary=("a", "b"), raw=("c",), opaque=SEALED), Reasoning(opaque=SEALED), Text(text="x")),
    "calls": (
        Text(text="x"),
        ToolCall(id="a", name="f", arguments='{"a":[1,{"b":null}]}'),
        ToolCall(id="b", name="g", arguments=""),
        ToolCall(id="c", name="h", arguments='quote " and \\', kind=CallKind.CUSTOM),
    ),
    "refusal": (Refusal(text="no"),),
    "sound": (Audio(transcript="said"),),
    "hosted": (
        HostedCall(id="ws_1", tool=HostedKind.WEB_SEARCH, input='{"query":"q"}'),
        HostedResult(call_id="ws_1", tool=HostedKind.WEB_SEARCH, hits=(HIT,)),
        HostedCall(id="mcp_1", tool=HostedKind.MCP, name="f", server="s", input='{"a":1}'),
        HostedResult(call_id="mcp_1", tool=HostedKind.MCP, text="ok"),
        HostedCall(id="ig_1", tool=HostedKind.IMAGE),
        Text(text="done"),
    ),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_streamed_and_whole_responses_are_the_same(name: str) -> None:
    """The official SDK collects a stream to the object that the whole answer is."""
    response = answer(*ANSWERS[name])
    whole = CODEC.encode_response(response, ResponseContext(source=Protocol.CHAT))
    data = CODEC.encoder(ResponseContext(source=Protocol.CHAT)).encode(events_of(response))
    assert accumulated(data) == without_nulls(whole)
