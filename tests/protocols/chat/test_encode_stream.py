"""Streams, written as the official API would."""

import json
from collections.abc import Iterable
from typing import Any

import pytest
from msgspec.structs import replace
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk

from trilogue.base.sse import SseParser, frame_data
from trilogue.errors import InternalError
from trilogue.lint import lint_stream
from trilogue.model import (
    Block,
    BlockStart,
    BlockStop,
    CallKind,
    Citation,
    CitationDelta,
    CitationKind,
    Collector,
    Delta,
    Event,
    Failed,
    Failure,
    FailureKind,
    Finish,
    HostedCall,
    HostedKind,
    Opaque,
    OpaqueKind,
    Protocol,
    Reasoning,
    ReasoningDelta,
    Refusal,
    Response,
    ResponseStart,
    Stop,
    StopReason,
    Text,
    Tier,
    ToolCall,
    Usage,
    events_of,
)
from trilogue.protocols.chat import CODEC
from trilogue.protocols.stream.response_context import ResponseContext

START = ResponseStart(protocol=Protocol.MESSAGES, id="msg_1", model="m")
END = Finish(stop=Stop(reason=StopReason.END), usage=Usage(fresh=2, output=1))


def write(*events: Event, context: ResponseContext | None = None) -> list[Any]:
    """The data of all events; `[DONE]` as text."""
    data = CODEC.encoder(context or ResponseContext(source=Protocol.MESSAGES)).encode(events)
    assert data.endswith(b"\n\n")
    assert b"\r" not in data
    return ["[DONE]" if event.data == b"[DONE]" else json.loads(event.data) for event in SseParser().feed(data)]


def deltas(chunks: Iterable[Any]) -> list[Any]:
    return [chunk["choices"][0]["delta"] for chunk in chunks if isinstance(chunk, dict) and chunk["choices"]]


def stream(*blocks: Block, stop: StopReason = StopReason.END) -> list[Event]:
    response = Response(protocol=Protocol.MESSAGES, id="msg_1", model="m", blocks=blocks, stop=Stop(reason=stop))
    return list(events_of(response))


def test_the_tier_is_sent_as_soon_as_it_is_known() -> None:
    """The SDK's accumulator keeps what the first chunk says of it."""
    started = replace(START, tier=Tier.DEFAULT)
    chunks = write(started, BlockStart(0, Text(text="")), Delta(0, "a"), BlockStop(0), replace(END, tier=Tier.DEFAULT))
    assert [chunk.get("service_tier") for chunk in chunks[:-1]] == ["default", None, "default", "default"]


def test_text() -> None:
    """One role, one finish, then usage, then the end."""
    chunks = write(START, BlockStart(0, Text(text="")), Delta(0, 'a"'), Delta(0, "é"), BlockStop(0), END)
    assert chunks[-1] == "[DONE]"
    *rest, usage = chunks[:-1]
    assert len({(c["id"], c["created"], c["model"], c["object"]) for c in chunks[:-1]}) == 1
    assert rest[0]["choices"][0]["delta"] == {"role": "assistant", "content": "", "refusal": None}
    assert deltas(rest)[1:] == [{"content": 'a"'}, {"content": "é"}, {}]
    assert [c["choices"][0]["finish_reason"] for c in rest] == [None, None, None, "stop"]
    assert all(c["usage"] is None for c in rest)
    assert usage["choices"] == []
    assert usage["usage"]["total_tokens"] == 3


@pytest.mark.parametrize("options", [None, {}, {"include_usage": False}])
def test_usage_only_if_asked_for(options: Any) -> None:
    """Clients that did not ask take the chunk without choices for an error."""
    chunks = write(START, END, context=ResponseContext(body={"stream": True, "stream_options": options}))
    assert not any("usage" in chunk for chunk in chunks[:-1])
    assert all(chunk["choices"] for chunk in chunks[:-1])


def test_no_usage_is_made_up() -> None:
    """Asked for, but the upstream gave none: OpenAI's client ends without figures, and the linter notes it."""
    body = {"model": "m", "stream": True, "stream_options": {"include_usage": True}}
    chunks = write(START, replace(END, usage=None), context=ResponseContext(source=Protocol.MESSAGES, body=body))
    assert all(chunk["usage"] is None and chunk["choices"] for chunk in chunks[:-1])
    state = ChatCompletionStreamState()
    for chunk in chunks[:-1]:
        state.handle_chunk(ChatCompletionChunk.model_validate(chunk))
    assert state.get_final_completion().usage is None
    data = b"".join(frame_data(json.dumps(chunk).encode()) for chunk in chunks[:-1]) + b"data: [DONE]\n\n"
    assert [(f.rule, f.severity) for f in lint_stream(Protocol.CHAT, data, request=body)] == [("B29", "note")]


def test_usage_if_asked_for() -> None:
    """Exactly one chunk, the last."""
    body = {"stream": True, "stream_options": {"include_usage": True}}
    assert write(START, END, context=ResponseContext(body=body))[-2]["usage"]["prompt_tokens"] == 2


def test_calls() -> None:
    """Id and name once, indices in order, arguments never empty."""
    chunks = write(*stream(ToolCall(id="c1", name="f", arguments='{"a":1}'), ToolCall(id="c2", name="g")))
    entries = [delta["tool_calls"][0] for delta in deltas(chunks) if "tool_calls" in delta]
    assert entries == [
        {"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": ""}},
        {"index": 0, "function": {"arguments": '{"a":1}'}},
        {"index": 1, "id": "c2", "type": "function", "function": {"name": "g", "arguments": ""}},
        {"index": 1, "function": {"arguments": "{}"}},
    ]
    assert chunks[-2]["choices"][0]["finish_reason"] == "tool_calls"


CUSTOM = [
    BlockStart(0, ToolCall(id="c", name="g", kind=CallKind.CUSTOM)),
    Delta(0, 'say "a"'),
    Delta(0, "\n"),
    BlockStop(0),
]


def test_free_text_for_clients_that_declared_it() -> None:
    """As free text."""
    body = {"tools": [{"type": "custom", "custom": {"name": "g"}}]}
    entries = [
        delta["tool_calls"][0] for delta in deltas(write(START, *CUSTOM, END, context=ResponseContext(body=body)))[1:-1]
    ]
    assert entries[0]["type"] == "custom"
    assert "".join(entry["custom"]["input"] for entry in entries) == 'say "a"\n'


def test_free_text_for_other_clients() -> None:
    """As a function with one string, built piece by piece."""
    context = ResponseContext(body={"model": "m", "stream_options": {"include_usage": True}})
    entries = [delta["tool_calls"][0] for delta in deltas(write(START, *CUSTOM, END, context=context))[1:-1]]
    assert [loss.code for loss in context.ledger.losses] == ["tool.custom_emulated"]
    arguments = "".join(entry["function"]["arguments"] for entry in entries)
    assert json.loads(arguments) == {"input": 'say "a"\n'}


def test_reasoning() -> None:
    """Words as they come, parts apart, the sealed value at the end of its block."""
    context = ResponseContext(source=Protocol.RESPONSES)
    chunks = write(
        START,
        BlockStart(0, Reasoning()),
        ReasoningDelta(0, "a", 0),
        ReasoningDelta(0, "b", 1),
        BlockStop(0, Opaque(kind=OpaqueKind.ENCRYPTED, value="trl1.x")),
        END,
        context=context,
    )
    first, second, details = deltas(chunks)[1:-1]
    assert (first["reasoning_content"], second["reasoning_content"]) == ("a", "\n\nb")
    assert details["reasoning_details"][0]["data"] == "trl1.x"
    assert [loss.code for loss in context.ledger.losses] == ["reasoning.nonstandard"]


def test_citations_come_once_before_the_finish() -> None:
    """The official accumulator takes one list of them."""
    cite = Citation(kind=CitationKind.WEB, native={}, url="u")
    chunks = write(START, BlockStart(0, Text(text="")), CitationDelta(0, cite), Delta(0, "abc"), BlockStop(0), END)
    link = {"start_index": 0, "end_index": 3, "title": "", "url": "u"}
    assert deltas(chunks)[-2] == {"annotations": [{"type": "url_citation", "url_citation": link}]}


def test_refusal() -> None:
    """A delta of its own."""
    assert deltas(write(*stream(Refusal(text="no"))))[1] == {"refusal": "no"}


def test_text_known_only_at_the_end_of_a_block() -> None:
    """Some Responses upstreams send no deltas."""
    chunks = write(START, BlockStart(0, Text(text="")), BlockStop(0, None, Text(text="late")), END)
    assert deltas(chunks)[1] == {"content": "late"}


def test_hosted_calls_are_dropped_and_declared() -> None:
    """Also what flows into them."""
    context = ResponseContext(source=Protocol.MESSAGES)
    call = HostedCall(id="h", tool=HostedKind.WEB_SEARCH, path="p")
    chunks = write(START, BlockStart(0, call), Delta(0, "{}"), BlockStop(0), END, context=context)
    assert deltas(chunks)[1:] == [{}]
    assert [loss.code for loss in context.ledger.losses] == ["hosted.result_dropped"]


@pytest.mark.parametrize("before", [(), (START,), (START, BlockStart(0, Text(text="")), Delta(0, "a"))])
def test_failure(before: tuple[Event, ...]) -> None:
    """The error is the last that the client gets, in words at which agents try again."""
    failure = Failure(kind=FailureKind.UPSTREAM_TRUNCATED, message="cut", code="upstream_truncated")
    last = write(*before, Failed(failure))[-1]
    said = "Provider returned error: cut"
    assert last == {"error": {"message": said, "type": "server_error", "param": None, "code": "upstream_truncated"}}


def test_what_only_chat_knows_comes_with_the_finish() -> None:
    """Of a whole answer that is given out as a stream, for clients of the same protocol only."""
    said = {"role": "assistant", "content": "a", "novel": 1}
    body = {
        "id": "r",
        "choices": [{"index": 0, "message": said, "finish_reason": "stop", "seed": 2}],
        "citations": ["https://example.com"],
    }
    events = list(events_of(CODEC.decode_response(body)))
    before, last, _ = write(*events, context=ResponseContext(source=Protocol.CHAT))[-3:]
    assert before["choices"] == [{"index": 0, "delta": {"novel": 1}, "finish_reason": None}]
    assert last["choices"] == [{"index": 0, "delta": {}, "finish_reason": "stop", "seed": 2}]
    assert last["citations"] == ["https://example.com"]
    foreign = write(*events, context=ResponseContext(source=Protocol.MESSAGES))[-2]
    assert foreign["choices"] == [{"index": 0, "delta": {}, "finish_reason": "stop"}]
    assert "citations" not in foreign


def test_illegal_order() -> None:
    """A bug of the caller, not a stream."""
    with pytest.raises(InternalError):
        write(Delta(0, "a"))


def test_official_accumulator() -> None:
    """The SDK puts together what a client that does not stream gets."""
    cite = Citation(kind=CitationKind.WEB, native={}, url="u", title="t")
    blocks = (
        Reasoning(summary=("hm",), opaque=Opaque(kind=OpaqueKind.SIGNATURE, value="trl1.a")),
        Text(text="see ", citations=(cite,)),
        Reasoning(summary=("so",), opaque=Opaque(kind=OpaqueKind.SIGNATURE, value="trl1.b")),
        Text(text="this", citations=(cite,)),
        ToolCall(id="c1", name="f", arguments='{"a":1}'),
        ToolCall(id="c2", name="g", arguments="x", kind=CallKind.CUSTOM),
    )
    context = ResponseContext(source=Protocol.MESSAGES, body={"tools": [{"type": "custom", "custom": {"name": "g"}}]})
    events = stream(*blocks, stop=StopReason.TOOL_CALLS)
    state: ChatCompletionStreamState[Any] = ChatCompletionStreamState()
    for event in SseParser().feed(CODEC.encoder(context).encode(events))[:-1]:
        # As the SDK reads streams: its type has no custom calls, but it does not check.
        list(state.handle_chunk(ChatCompletionChunk.construct(**json.loads(event.data))))
    message = state.current_completion_snapshot.choices[0].message.to_dict()
    response = Response(
        protocol=Protocol.MESSAGES, id="msg_1", model="m", blocks=blocks, stop=Stop(reason=StopReason.TOOL_CALLS)
    )
    whole = CODEC.encode_response(response, context)["choices"][0]["message"]
    for field in ("content", "reasoning_content", "reasoning_details", "annotations", "tool_calls"):
        assert bare(message[field]) == bare(whole[field])


def bare(value: Any) -> Any:
    """Without what the SDK adds to calls."""
    if isinstance(value, list):
        return [bare(item) for item in value]
    if not isinstance(value, dict):
        return value
    added = {"parsed_arguments", "index"}
    return {name: bare(item) for name, item in value.items() if item is not None and name not in added}


def chunk_of(delta: Any, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return frame_data(json.dumps({"id": "c", "created": 1, "model": "m", "choices": [choice]}).encode())


@pytest.mark.parametrize("signature", ["S==", None], ids=["signed", "only text"])
def test_reasoning_of_a_chat_upstream_is_not_repeated(signature: str | None) -> None:
    """OpenRouter has the text in two fields of each chunk. Clients read either of them, and keep the details."""
    pieces: list[Any] = [{"type": "reasoning.text", "text": text, "index": 0} for text in ("Let ", "me")]
    given: list[Any] = [{"content": "", "reasoning": piece["text"], "reasoning_details": [piece]} for piece in pieces]
    if signature:
        signed = {"type": "reasoning.text", "signature": signature, "index": 0}
        given.append({"content": "", "reasoning": None, "reasoning_details": [signed]})
    data = b"".join([*map(chunk_of, [*given, {"content": "Hi"}]), chunk_of({}, "stop"), b"data: [DONE]\n\n"])
    events = CODEC.decoder().feed(data)
    encoded = CODEC.encoder(ResponseContext(source=Protocol.CHAT)).encode(events)
    written = deltas(write(*events, context=ResponseContext(source=Protocol.CHAT)))
    assert [delta["reasoning_content"] for delta in written if "reasoning_content" in delta] == ["Let ", "me"]
    details = [entry for delta in written for entry in delta.get("reasoning_details", [])]
    assert details == pieces + ([{"type": "reasoning.text", "signature": signature, "index": 0}] if signature else [])
    # A gateway behind this one reads both.
    again, collector = CODEC.decoder().feed(encoded), Collector()
    for event in again:
        collector.feed(event)
    assert [block.raw for block in collector.blocks if isinstance(block, Reasoning)] == [("Let me",)]
    whole = CODEC.encode_response(collector.response(), ResponseContext(source=Protocol.CHAT))["choices"][0]["message"]
    assert whole["reasoning_content"] == whole["reasoning_details"][0]["text"] == "Let me"
