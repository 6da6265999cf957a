"""The stream decoder: the official order, and every way in which servers leave it."""

from typing import Any

import pytest

from tests.protocols.responses.streams import collect, completed, created, events, failure, sse
from trilogue.model import (
    BlockStart,
    BlockStop,
    CitationDelta,
    Delta,
    FailureKind,
    Finish,
    HostedCall,
    HostedResult,
    LogprobsDelta,
    Native,
    Reasoning,
    ReasoningDelta,
    Refusal,
    ResponseStart,
    StopReason,
    Text,
    ToolCall,
)
from trilogue.protocols.responses import CODEC

MESSAGE: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "status": "in_progress",
    "content": [],
}
PART: dict[str, Any] = {"type": "output_text", "text": "", "annotations": []}
DONE: dict[str, Any] = {
    **MESSAGE,
    "status": "completed",
    "content": [{"type": "output_text", "text": "Hello", "annotations": []}],
}
CALL: dict[str, Any] = {"id": "fc_1", "type": "function_call", "call_id": "c1", "name": "f", "arguments": ""}


def text_delta(text: Any, output: int = 0, part: int = 0, **more: Any) -> bytes:
    return sse("response.output_text.delta", item_id="x", output_index=output, content_index=part, delta=text, **more)


def added(item: Any, output: int = 0) -> bytes:
    return sse("response.output_item.added", output_index=output, item=item)


def done(item: Any, output: int = 0) -> bytes:
    return sse("response.output_item.done", output_index=output, item=item)


def part_added(part: Any = PART, output: int = 0, index: int = 0) -> bytes:
    return sse("response.content_part.added", output_index=output, content_index=index, part=part)


def test_official_order() -> None:
    """The usual stream, event by event."""
    found = events(
        created(),
        added(MESSAGE),
        part_added(),
        text_delta("Hel"),
        text_delta("lo"),
        sse("response.output_text.done", output_index=0, content_index=0, text="Hello"),
        done(DONE),
        completed(DONE, usage={"input_tokens": 3, "output_tokens": 2}),
    )
    kinds = [ResponseStart, BlockStart, Delta, Delta, BlockStop, Finish]
    assert [type(event) for event in found] == kinds
    response = collect(found)
    assert (response.id, response.created, response.model) == ("resp_1", 7, "m")
    (text,) = response.blocks
    assert isinstance(text, Text)
    assert (text.text, text.extras) == ("Hello", {"item_id": "msg_1"})
    assert response.usage is not None
    assert (response.usage.fresh, response.usage.output) == (3, 2)


@pytest.mark.parametrize(
    "chunks",
    [
        [added(MESSAGE), part_added(), text_delta("Hello"), done(DONE), completed()],
        [added(MESSAGE), part_added(), text_delta("Hel"), done(DONE), completed(DONE)],
        [added(MESSAGE), done(DONE), completed(DONE)],
        [done(DONE), completed(DONE)],
        [completed(DONE)],
        [text_delta("Hello"), completed(DONE)],
        [text_delta("Hello"), completed()],
        [text_delta("Hel"), sse("response.output_text.done", output_index=0, text="Hello"), completed(output=None)],
        [added(MESSAGE), text_delta(None), text_delta("Hello"), done({**MESSAGE, "content": None}), completed()],
        [added(MESSAGE), part_added(index=1), text_delta("Hello", part=1), done(DONE), completed(DONE)],
        [added(None), added(MESSAGE), text_delta("Hello"), done(DONE), completed(DONE)],
        [sse("keepalive", sequence_number=2), sse("ping"), sse("response.new_thing", x=1), completed(DONE)],
        [b"event: ping\ndata:\n\n", b"data: \n\n", completed(DONE)],
    ],
    ids=[
        "output-empty",
        "delta-lost",
        "no-deltas",
        "no-added",
        "only-terminal",
        "deltas-first",
        "deltas-only",
        "text-done",
        "nulls",
        "parts-from-one",
        "added-null",
        "unknown-events",
        "empty-events",
    ],
)
def test_missing_events_are_made_up_for(chunks: list[bytes]) -> None:
    """However little of the protocol a server sends, the answer is said once and whole."""
    response = collect(events(created(), *chunks))
    assert [block.text for block in response.blocks if isinstance(block, Text)] == ["Hello"]
    assert response.stop.reason is StopReason.END


def test_without_created_and_without_event_lines() -> None:
    """Some servers send neither."""
    stripped = [chunk.partition(b"\n")[2] for chunk in (text_delta("Hello"), completed(DONE))]
    assert collect(events(*stripped)).blocks[0] == Text(
        text="Hello", path="output[0].content[0]", extras={"item_id": "x"}
    )


def test_rotating_ids_are_joined_by_index() -> None:
    """GitHub Copilot changes the ids with every event."""
    found = events(
        created(),
        added({**MESSAGE, "id": "a"}),
        text_delta("Hel"),
        text_delta("lo"),
        done({**DONE, "id": "b"}),
        completed({**DONE, "id": "c"}),
    )
    (text,) = collect(found).blocks
    assert text.extras == {"item_id": "a"}


def test_overlapping_items() -> None:
    """xAI opens several at once; each delta must find its own block."""
    other = {**CALL, "id": "fc_2", "call_id": "c2"}
    found = events(
        created(),
        added(CALL, 0),
        added(other, 1),
        sse("response.function_call_arguments.delta", output_index=1, delta='{"b":2}'),
        sse("response.function_call_arguments.delta", output_index=0, delta='{"a":1}'),
        done({**other, "arguments": '{"b":2}'}, 1),
        done({**CALL, "arguments": '{"a":1}'}, 0),
        completed(),
    )
    calls = [block for block in collect(found).blocks if isinstance(block, ToolCall)]
    assert [(call.id, call.arguments) for call in calls] == [("c1", '{"a":1}'), ("c2", '{"b":2}')]


def test_arguments_only_when_done() -> None:
    """LM Studio sends no argument deltas."""
    found = events(
        created(),
        added(CALL),
        sse("response.function_call_arguments.done", output_index=0, arguments='{"a":1}'),
        done({**CALL, "arguments": '{"a":1}', "status": "completed"}),
        completed(),
    )
    (call,) = collect(found).blocks
    assert isinstance(call, ToolCall)
    assert (call.arguments, call.status) == ('{"a":1}', "completed")
    assert isinstance(found[-1], Finish)
    assert found[-1].stop.reason is StopReason.TOOL_CALLS


def test_name_that_comes_late() -> None:
    """A call cannot start without its name, but its arguments must not get lost meanwhile."""
    found = events(
        created(),
        added({**CALL, "name": ""}),
        sse("response.function_call_arguments.delta", output_index=0, delta="{}"),
        done({**CALL, "arguments": "{}"}),
        completed(),
    )
    (call,) = collect(found).blocks
    assert isinstance(call, ToolCall)
    assert (call.name, call.arguments) == ("f", "{}")


def test_custom_input_and_missing_call_id() -> None:
    """Free text has events of its own; an id is never empty."""
    item = {"id": "ctc_1", "type": "custom_tool_call", "name": "p", "input": ""}
    found = events(
        created(),
        added(item),
        sse("response.custom_tool_call_input.delta", output_index=0, delta="ab"),
        sse("response.custom_tool_call_input.done", output_index=0, input="abc"),
        done({**item, "input": "abc"}),
        completed(),
    )
    (call,) = collect(found).blocks
    assert isinstance(call, ToolCall)
    assert (call.kind.value, call.arguments, call.id) == ("custom", "abc", "ctc_1")


def test_refusal() -> None:
    """The model's own words for declining are not text."""
    found = events(
        created(),
        added(MESSAGE),
        part_added({"type": "refusal", "refusal": ""}),
        sse("response.refusal.delta", output_index=0, content_index=0, delta="No"),
        sse("response.refusal.done", output_index=0, content_index=0, refusal="No."),
        completed(),
    )
    (refusal,) = collect(found).blocks
    assert isinstance(refusal, Refusal)
    assert refusal.text == "No."


@pytest.mark.parametrize("spelling", ["response.output_text.annotation.added", "response.output_text_annotation.added"])
def test_annotations_in_both_spellings_and_late(spelling: str) -> None:
    """Some come while the text runs, some with the finished item only; none twice."""
    first, second = ({"type": "url_citation", "url": url, "title": "t"} for url in ("https://a", "https://b"))
    text = {"type": "output_text", "text": "Hello", "annotations": [first, second]}
    found = events(
        created(),
        added(MESSAGE),
        text_delta("Hello"),
        sse(spelling, output_index=0, content_index=0, annotation_index=0, annotation=first),
        sse("response.content_part.done", output_index=0, content_index=0, part=text),
        done({**DONE, "content": [text]}),
        completed(),
    )
    cited = [event.citation.url for event in found if isinstance(event, CitationDelta)]
    assert cited == ["https://a", "https://b"]


def test_logprobs() -> None:
    """Token entries follow the text they belong to, and are not repeated from the done events."""
    entry = {"token": "Hello", "logprob": -0.1}
    found = events(
        created(),
        text_delta("Hello", logprobs=[entry]),
        sse("response.output_text.done", output_index=0, content_index=0, text="Hello", logprobs=[entry]),
        completed(),
    )
    assert [event.logprobs for event in found if isinstance(event, LogprobsDelta)] == [[entry]]


def test_reasoning_summary_raw_and_encrypted() -> None:
    """Parts by index; the blob of `added` is incomplete, the one of `done` counts."""
    item = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "short"}
    final = {
        **item,
        "encrypted_content": "long",
        "summary": [{"type": "summary_text", "text": "ab"}, {"type": "summary_text", "text": "c"}],
        "content": [{"type": "reasoning_text", "text": "raw"}],
    }
    found = events(
        created(),
        added(item),
        sse("response.reasoning_summary_text.delta", output_index=0, summary_index=0, delta="a"),
        sse("response.reasoning_summary_text.done", output_index=0, summary_index=0, text="ab"),
        sse("response.reasoning_text.delta", output_index=0, content_index=0, delta="raw"),
        done(final),
        completed(),
    )
    deltas = [(event.raw, event.part, event.text) for event in found if isinstance(event, ReasoningDelta)]
    assert deltas == [(False, 0, "a"), (False, 0, "b"), (True, 0, "raw"), (False, 1, "c")]
    (reasoning,) = collect(found).blocks
    assert isinstance(reasoning, Reasoning)
    assert reasoning.summary == ("ab", "c")
    assert reasoning.opaque is not None
    assert reasoning.opaque.value == "long"


@pytest.mark.parametrize(
    ("first", "streamed", "expected"),
    [
        (1, "b", [(1, "b"), (0, "a")]),
        (1, "a", [(1, "a"), (2, "b")]),
        (5, "a", [(5, "a"), (6, "b")]),
        (0, "", [(0, "a"), (1, "b")]),
    ],
    ids=["the second", "the first, counted from one", "the first, counted from five", "neither"],
)
def test_summary_of_which_a_part_was_streamed(first: int, streamed: str, expected: list[tuple[int, str]]) -> None:
    """What the finished item says beyond it is added to a part of its own."""
    texts = [{"type": "summary_text", "text": text} for text in "ab"]
    item = {"id": "rs_1", "type": "reasoning", "summary": []}
    found = events(
        created(),
        added(item),
        sse("response.reasoning_summary_text.delta", output_index=0, summary_index=first, delta=streamed),
        done({**item, "summary": texts}),
        completed(),
    )
    assert [(event.part, event.text) for event in found if isinstance(event, ReasoningDelta)] == expected
    (reasoning,) = collect(found).blocks
    assert isinstance(reasoning, Reasoning)
    assert reasoning.summary == ("a", "b")


def test_hosted_items_come_when_done() -> None:
    """A search is a call and its result, in one go."""
    item = {"id": "ws_1", "type": "web_search_call", "status": "in_progress"}
    action = {"type": "search", "query": "q", "sources": [{"type": "url", "url": "https://a"}]}
    found = events(
        created(),
        added(item),
        sse("response.web_search_call.searching", output_index=0, item_id="ws_1"),
        done({**item, "status": "completed", "action": action}),
        completed(),
    )
    call, result = collect(found).blocks
    assert isinstance(call, HostedCall)
    assert isinstance(result, HostedResult)
    assert (call.input, result.hits[0].url) == ('{"query":"q"}', "https://a")


def test_natives_that_await_the_client() -> None:
    """A local shell call ends the turn like a tool call."""
    item = {"id": "sh_1", "type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}}
    response = collect(events(created(), added(item), done(item), completed()))
    (native,) = response.blocks
    assert isinstance(native, Native)
    assert native.awaits_client
    assert response.stop.reason is StopReason.TOOL_CALLS


@pytest.mark.parametrize(
    ("details", "reason", "detail"),
    [
        ({"reason": "max_output_tokens"}, StopReason.LENGTH, None),
        ({"reason": "content_filter"}, StopReason.REFUSAL, None),
        ({"reason": "steered"}, StopReason.END, "steered"),
        (None, StopReason.LENGTH, None),
    ],
)
def test_incomplete(details: Any, reason: StopReason, detail: str | None) -> None:
    """The status counts, whatever the event is called: vLLM says completed every time."""
    stop = collect(events(created(), completed(DONE, status="incomplete", incomplete_details=details))).stop
    assert (stop.reason, stop.detail) == (reason, detail)


@pytest.mark.parametrize(
    ("chunk", "kind", "code"),
    [
        (sse("error", code="server_error", message="m", param=None), FailureKind.SERVER, "server_error"),
        (sse("error", error={"code": "insufficient_quota", "message": "m"}), FailureKind.QUOTA, "insufficient_quota"),
        (
            completed(status="failed", name="response.failed", error={"code": "rate_limit_exceeded", "message": "m"}),
            FailureKind.RATE_LIMIT,
            "rate_limit_exceeded",
        ),
        (
            completed(status="failed", error={"code": "server_error", "message": "m"}),
            FailureKind.SERVER,
            "server_error",
        ),
        (completed(status="cancelled"), FailureKind.SERVER, "cancelled"),
        (b'data: {"error": {"message": "m", "code": 500}}\n\n', FailureKind.SERVER, None),
        (b'data: {"detail": "m"}\n\n', FailureKind.SERVER, None),
        (b'data: {"message": "m", "code": 429}\n\n', FailureKind.RATE_LIMIT, None),
        (b"event: error\ndata: m\n\n", FailureKind.SERVER, None),
    ],
    ids=["flat", "nested", "failed", "status-beats-name", "cancelled", "bare", "detail", "message", "text"],
)
def test_failures(chunk: bytes, kind: FailureKind, code: str | None) -> None:
    """Every shape in which a server has been seen to fail inside a stream."""
    found = failure(events(created(), text_delta("He"), chunk, completed(DONE)))
    assert (found.kind, found.code) == (kind, code)


@pytest.mark.parametrize(
    "tail", [b"", b"data: [DONE]\n\n", b'data: {"type": "response.comp'], ids=["eof", "done", "cut"]
)
def test_end_without_terminal_event(tail: bytes) -> None:
    """A cut stream is never a success."""
    assert failure(events(created(), text_delta("He"), tail)).kind is FailureKind.UPSTREAM_TRUNCATED


def test_nothing_after_the_end() -> None:
    """A [DONE] after the terminal event, as OpenRouter sends it, changes nothing."""
    found = events(created(), completed(DONE), b"data: [DONE]\n\n", sse("error", message="late"))
    assert isinstance(found[-1], Finish)


def test_response_fields_not_nested() -> None:
    """Hand-made servers put the response beside the type."""
    flat = sse("response.completed", id="resp_9", status="completed", model="m", output=[DONE])
    assert collect(events(flat)).id == "resp_9"


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
def test_chunk_boundaries_do_not_matter(size: int) -> None:
    """Networks cut where they like, also inside a character."""
    stream = b"".join([created(), added(MESSAGE), part_added(), text_delta("Hé"), text_delta("llo\u2028"), completed()])
    decoder = CODEC.decoder()
    cut = [event for n in range(0, len(stream), size) for event in decoder.feed(stream[n : n + size])]
    assert cut + decoder.close() == events(stream)


@pytest.mark.parametrize("wrong", ["added", "done"])
def test_a_call_at_a_wrong_index_is_one_call(wrong: str) -> None:
    """Joined by its id where the index leads nowhere: an agent must not run it twice."""
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": ""}
    whole = {**call, "arguments": '{"a":1}', "status": "completed"}
    indices = {"added": 0, "done": 0, wrong: 7}
    found = events(
        created(),
        sse("response.output_item.added", output_index=indices["added"], item=call),
        sse("response.function_call_arguments.delta", output_index=0, item_id="fc_1", delta='{"a":1}'),
        sse("response.output_item.done", output_index=indices["done"], item=whole),
        completed(whole),
    )
    blocks = collect(found).blocks
    assert [(block.id, block.arguments) for block in blocks if isinstance(block, ToolCall)] == [("call_1", '{"a":1}')]
    assert len(blocks) == 1


def test_names_that_a_server_makes_up_do_not_pile_up() -> None:
    """Some of them are told at the end; the memory for all of them would have no limit."""
    found = events(created(), *(sse(f"response.novel_{number}") for number in range(1_000)), completed(DONE))
    (finish,) = [event for event in found if isinstance(event, Finish)]
    assert finish.unknown_fields is not None
    assert len(finish.unknown_fields[""]) == 100
