"""The stream encoder: what it sends is what the official API would, judged by the linter and by the SDK."""

import json
from typing import Any

import pytest

from tests.judges import sdk
from tests.protocols.responses.streams import parse
from trilogue.lint import lint_stream
from trilogue.model import (
    Audio,
    Block,
    BlockStart,
    BlockStop,
    CallKind,
    Citation,
    CitationKind,
    Delta,
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
from trilogue.protocols.responses import CODEC
from trilogue.protocols.stream.response_context import ResponseContext

USAGE = Usage(fresh=5, cache_read=2, cache_write=1, output=4, reasoning=1)
BODY: dict[str, Any] = {
    "model": "alias",
    "input": "x",
    "instructions": "be kind",
    "tools": [{"type": "function", "name": "f", "parameters": {}, "strict": False}],
    "tool_choice": "required",
    "metadata": {"a": "b"},
    "store": True,
    "reasoning": {"effort": "low"},
    "max_output_tokens": 50,
}


def answer(*blocks: Block, reason: StopReason = StopReason.END, **more: Any) -> Response:
    stop = Stop(reason=reason, **{name: more.pop(name) for name in ("category", "explanation") if name in more})
    return Response(protocol=Protocol.MESSAGES, id="msg_up", model="up", blocks=blocks, stop=stop, usage=USAGE, **more)


def stream(response: Response, **more: Any) -> tuple[list[dict[str, Any]], ResponseContext]:
    """The events sent for an answer, after the linter and the SDK have agreed with them."""
    context = ResponseContext(body=BODY, model="alias", created=9, source=Protocol.MESSAGES, **more)
    sent = CODEC.encoder(context).encode(events_of(response))
    findings = [finding for finding in lint_stream(Protocol.RESPONSES, sent) if finding.severity == "error"]
    assert findings == []
    assert sdk.event_problems(Protocol.RESPONSES, sent) == []
    assert sdk.accumulate(Protocol.RESPONSES, sent).error is None
    return parse(sent), context


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


def items(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    output: list[dict[str, Any]] = events[-1]["response"]["output"]
    return output


def codes(context: ResponseContext) -> list[str]:
    return [loss.code for loss in context.ledger.losses]


def test_text() -> None:
    """The official order, and every event numbered."""
    events, context = stream(answer(Text(text="Hello")))
    assert kinds(events) == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    assert [event["sequence_number"] for event in events] == list(range(9))
    assert events[4]["logprobs"] == []
    assert codes(context) == []


def test_echo_is_what_the_client_sent() -> None:
    """Clients rebuild their request from the snapshot; only keeping is never claimed."""
    events, _ = stream(answer(Text(text="x"), tier=Tier.PRIORITY))
    for snapshot in (events[0]["response"], events[-1]["response"]):
        assert snapshot["tools"] == [{"description": None, **tool} for tool in BODY["tools"]]
        for name in ("instructions", "tool_choice", "metadata", "max_output_tokens"):
            assert snapshot[name] == BODY[name]
        assert snapshot["reasoning"] == {"effort": "low", "summary": None}
        assert (snapshot["store"], snapshot["model"], snapshot["created_at"]) == (False, "alias", 9)
    assert events[-1]["response"]["service_tier"] == "priority"
    assert events[-1]["response"]["usage"] == {
        "input_tokens": 8,
        "input_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 1},
        "output_tokens": 4,
        "output_tokens_details": {"reasoning_tokens": 1},
        "total_tokens": 12,
    }


def test_run_of_text_and_refusal_is_one_message() -> None:
    """One part per block; a call between them starts another message."""
    call = ToolCall(id="c", name="f", arguments="{}")
    events, _ = stream(answer(Text(text="a"), Refusal(text="b"), call, Text(text="c")))
    first, _, last = items(events)
    assert [part["type"] for part in first["content"]] == ["output_text", "refusal"]
    assert [part["type"] for part in last["content"]] == ["output_text"]
    assert [event["content_index"] for event in events if event["type"] == "response.content_part.added"] == [0, 1, 0]


def test_annotations_come_at_the_end_with_spans_inside_the_text() -> None:
    """Without a span the whole part is meant; what another provider quotes cannot be carried."""
    web = Citation(kind=CitationKind.WEB, native={}, url="https://a", title="A", cited_text="q")
    far = Citation(kind=CitationKind.WEB, native={}, url="https://b", start=3, end=99)
    page = Citation(kind=CitationKind.DOCUMENT, native={})
    events, context = stream(answer(Text(text="Hello", citations=(web, far, page))))
    annotations = items(events)[0]["content"][0]["annotations"]
    assert [(a["start_index"], a["end_index"]) for a in annotations] == [(0, 5), (3, 5)]
    assert kinds(events).index("output_text.annotation.added") > kinds(events).index("output_text.delta")
    assert codes(context) == ["citation.source_span", "citation.document"]


def test_reasoning_summary_and_sealed_value() -> None:
    """The value is in the finished item only."""
    sealed = Opaque(kind=OpaqueKind.SIGNATURE, value="trl1.abc")
    events, _ = stream(answer(Reasoning(summary=("one", "two"), opaque=sealed), Text(text="x")))
    item = items(events)[0]
    assert item["encrypted_content"] == "trl1.abc"
    assert [part["text"] for part in item["summary"]] == ["one", "two"]
    before = [event for event in events[:-1] if event["type"] != "response.output_item.done"]
    assert "trl1.abc" not in json.dumps(before)
    added = [event["summary_index"] for event in events if event["type"] == "response.reasoning_summary_part.added"]
    assert added == [0, 1]


def test_raw_reasoning_is_content() -> None:
    """It is the chain of thought itself, not a summary."""
    events, _ = stream(answer(Reasoning(raw=("because",)), Text(text="x")))
    assert items(events)[0]["content"] == [{"type": "reasoning_text", "text": "because"}]
    assert "reasoning_text.delta" in kinds(events)


def test_foreign_value_is_never_sent() -> None:
    """A provider's own signature must not reach a client of another protocol."""
    opaque = Opaque(kind=OpaqueKind.SIGNATURE, value="secret")
    events, context = stream(answer(Reasoning(summary=("s",), opaque=opaque), Text(text="x")))
    assert "secret" not in json.dumps(events)
    assert codes(context) == ["reasoning.foreign_dropped"]


def test_calls() -> None:
    """Functions, namespaces and free text each have their own form; ids are unique."""
    blocks = (
        ToolCall(id="c.1", name="f", arguments='{"a":1}', namespace="crm"),
        ToolCall(id="c.1", name="f"),
        ToolCall(id="p", name="patch", arguments="*** Begin", kind=CallKind.CUSTOM),
    )
    events, _ = stream(answer(*blocks, reason=StopReason.TOOL_CALLS))
    first, empty, custom = items(events)
    assert (first["namespace"], first["name"], first["arguments"]) == ("crm", "f", '{"a":1}')
    assert "." not in first["call_id"]
    assert empty["arguments"] == "{}"
    assert empty["call_id"] != first["call_id"]
    assert (custom["type"], custom["input"]) == ("custom_tool_call", "*** Begin")
    done = next(event for event in events if event["type"] == "response.function_call_arguments.done")
    assert done["name"] == "f"


def test_search_call_and_result_are_one_item() -> None:
    """With progress events, and the sources in the finished item."""
    call = HostedCall(id="s", tool=HostedKind.WEB_SEARCH, input='{"query":"q"}')
    result = HostedResult(call_id="s", tool=HostedKind.WEB_SEARCH, hits=(SearchHit(url="https://a"),))
    events, context = stream(answer(call, result, Text(text="x")))
    assert items(events)[0]["action"] == {
        "type": "search",
        "query": "q",
        "queries": ["q"],
        "sources": [{"type": "url", "url": "https://a"}],
    }
    names = [kind for kind in kinds(events) if kind.startswith("web_search_call")]
    assert names == ["web_search_call.in_progress", "web_search_call.searching", "web_search_call.completed"]
    assert codes(context) == []


def test_code_and_mcp_calls() -> None:
    """Both have items here; containers cannot be carried."""
    code = HostedCall(id="a", tool=HostedKind.CODE, input='{"code":"1+1"}')
    logs = HostedResult(call_id="a", tool=HostedKind.CODE, text="2")
    mcp = HostedCall(id="b", tool=HostedKind.MCP, name="t", server="s", input='{"x":1}')
    failed = HostedResult(call_id="b", tool=HostedKind.MCP, error="no")
    events, context = stream(answer(code, logs, mcp, failed))
    first, second = items(events)
    assert (first["code"], first["outputs"]) == ("1+1", [{"type": "logs", "logs": "2"}])
    assert (second["server_label"], second["status"]) == ("s", "failed")
    assert "mcp_call.failed" in kinds(events)
    assert codes(context) == ["code_exec.container"]


def test_what_the_protocol_cannot_say_is_declared() -> None:
    """Left out, but never in silence, and the indices stay contiguous."""
    native = Native(type="compaction", data={}, path="content[0]")
    hosted = HostedCall(id="m", tool=HostedKind.MEMORY, path="content[1]")
    orphan = HostedResult(call_id="z", tool=HostedKind.WEB_SEARCH, path="content[2]")
    events, context = stream(answer(native, hosted, orphan, Text(text="x")))
    assert [event["output_index"] for event in events if event["type"] == "response.output_item.added"] == [0]
    assert codes(context) == ["native.dropped", "native.dropped", "hosted.result_dropped"]


def test_sound_is_said_in_words() -> None:
    """The transcript is all that this protocol can give."""
    events, context = stream(answer(Audio(id="a", transcript="Hello")))
    assert items(events)[0]["content"][0]["text"] == "Hello"
    assert codes(context) == ["audio.dropped"]


@pytest.mark.parametrize(
    ("reason", "status", "details", "losses"),
    [
        (StopReason.LENGTH, "incomplete", "max_output_tokens", []),
        (StopReason.CONTEXT_WINDOW, "incomplete", "max_output_tokens", ["stop.detail"]),
        (StopReason.REFUSAL, "incomplete", "content_filter", []),
        (StopReason.STOP_SEQUENCE, "completed", None, ["stop.which"]),
        (StopReason.PAUSE, "incomplete", "max_output_tokens", ["stop.pause_turn"]),
    ],
)
def test_stop_reasons(reason: StopReason, status: str, details: str | None, losses: list[str]) -> None:
    """The terminal event says what the status says; the last item of a cut answer is incomplete."""
    events, context = stream(answer(Text(text="x"), reason=reason))
    final = events[-1]["response"]
    assert events[-1]["type"] == f"response.{status}"
    assert final["incomplete_details"] == (None if details is None else {"reason": details})
    assert final["output"][0]["status"] == status
    assert codes(context) == losses


def test_cut_call_keeps_its_arguments_as_they_are() -> None:
    """Half an object must not be made whole."""
    events, _ = stream(answer(ToolCall(id="c", name="f", arguments='{"a'), reason=StopReason.LENGTH))
    (item,) = items(events)
    assert (item["arguments"], item["status"]) == ('{"a', "incomplete")


def test_call_is_done_when_its_block_stops() -> None:
    """Clients run it then; told at the end of the answer, they would wait for nothing."""
    encoder = CODEC.encoder(ResponseContext(source=Protocol.MESSAGES))
    encoder.encode([ResponseStart(protocol=Protocol.MESSAGES, id="msg_1", model="m")])
    encoder.encode([BlockStart(0, ToolCall(id="toolu_1", name="f")), Delta(0, "{}")])
    sent = parse(encoder.encode([BlockStop(0)]))
    assert kinds(sent) == ["function_call_arguments.done", "output_item.done"]
    assert sent[-1]["item"]["status"] == "completed"


def test_explanation_of_a_classifier_is_a_refusal() -> None:
    """Otherwise the client would see nothing at all."""
    events, context = stream(answer(reason=StopReason.REFUSAL, category="bio", explanation="Not this."))
    assert items(events)[0]["content"] == [{"type": "refusal", "refusal": "Not this."}]
    assert codes(context) == ["refusal.category"]


def test_failure_in_mid_stream() -> None:
    """Nested, so that the SDK raises, then the failed response for those that wait for it."""
    encoder = CODEC.encoder(ResponseContext(body=BODY, model="alias"))
    start = ResponseStart(protocol=Protocol.CHAT, id="x", model="up")
    error = Failure(kind=FailureKind.OVERLOADED, message="busy", protocol=Protocol.MESSAGES, type="overloaded_error")
    sent = encoder.encode([start, BlockStart(0, Text(text="")), Delta(0, "Hel"), Failed(error)])
    *_, nested, failed = parse(sent)
    # Codex gives up at server_is_overloaded, and tries again at server_error.
    assert nested["error"]["code"] == failed["response"]["error"]["code"] == "server_error"
    assert nested["error"]["type"] == "server_error"
    flat = ("code", "message", "param")
    assert {name: nested[name] for name in flat} == {name: nested["error"][name] for name in flat}
    assert (failed["type"], failed["response"]["status"]) == ("response.failed", "failed")
    assert sdk.accumulate(Protocol.RESPONSES, sent).error is not None


def test_failure_before_the_start() -> None:
    """A response begins with it: Codex does not read the error event, only the failed response."""
    encoder = CODEC.encoder(ResponseContext(body=BODY, model=str(BODY["model"]), seed="s"))
    sent = encoder.encode([Failed(Failure(kind=FailureKind.SERVER, message="m"))])
    events = parse(sent)
    assert [event["type"] for event in events] == [
        "response.created",
        "response.in_progress",
        "error",
        "response.failed",
    ]
    assert [event["sequence_number"] for event in events] == [0, 1, 2, 3]
    assert lint_stream(Protocol.RESPONSES, sent, request=BODY) == []
    assert sdk.accumulate(Protocol.RESPONSES, sent).error is not None


def test_failure_behind_events_that_the_upstream_wrote() -> None:
    """Nothing is announced twice: the numbers go on where they were."""
    encoder = CODEC.encoder(ResponseContext(body=BODY))
    encoder.resume(7)
    events = parse(encoder.encode([Failed(Failure(kind=FailureKind.SERVER, message="m"))]))
    assert [(event["type"], event["sequence_number"]) for event in events] == [("error", 7), ("response.failed", 8)]


@pytest.mark.parametrize("entry", [7, {"token": "a", "top_logprobs": 7}, {"token": "a", "top_logprobs": [7]}])
def test_odd_logprobs_break_nothing(entry: Any) -> None:
    """They are told as they are, with the lists that this protocol demands."""
    text = Text(text="a", logprobs=[entry])
    response = Response(protocol=Protocol.CHAT, id="x", model="up", blocks=(text,), stop=Stop(reason=StopReason.END))
    body = CODEC.encode_response(response, ResponseContext())
    [told] = body["output"][0]["content"][0]["logprobs"]
    assert told == entry or (told["bytes"] == [] and isinstance(told["top_logprobs"], list))


@pytest.mark.parametrize("together", [True, False])
def test_logprobs_ride_on_their_delta(together: bool) -> None:
    """Or on an empty one, if the delta has left already."""
    entry = {"token": "Hi", "logprob": -0.5, "bytes": None, "top_logprobs": []}
    encoder = CODEC.encoder(ResponseContext(body=BODY, model="alias"))
    parts = [
        ResponseStart(protocol=Protocol.CHAT, id="x", model="up"),
        BlockStart(0, Text(text="")),
        Delta(0, "Hi"),
        LogprobsDelta(0, [entry]),
        BlockStop(0),
        Finish(stop=Stop(reason=StopReason.END), usage=USAGE),
    ]
    sent = encoder.encode(parts) if together else b"".join(encoder.encode([part]) for part in parts)
    events = parse(sent)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    deltas = [(e["delta"], e["logprobs"]) for e in events if e["type"] == "response.output_text.delta"]
    assert deltas == ([("Hi", [entry])] if together else [("Hi", []), ("", [entry])])
    # The finished part must have the bytes, of which Chat may say that there are none.
    assert items(events)[0]["content"][0]["logprobs"] == [{**entry, "bytes": []}]


def test_logprobs_without_a_text_of_their_own() -> None:
    """An empty chunk that comes together with the one before has probabilities too: they do not take its text away."""
    first: Any = {"token": "Hi", "logprob": -0.5, "bytes": None, "top_logprobs": []}
    second = {**first, "token": "x"}
    encoder = CODEC.encoder(ResponseContext(body=BODY, model="alias"))
    sent = encoder.encode(
        [
            ResponseStart(protocol=Protocol.CHAT, id="x", model="up"),
            BlockStart(0, Text(text="")),
            Delta(0, "Hi"),
            LogprobsDelta(0, [first]),
            LogprobsDelta(0, [second]),
            BlockStop(0),
            Finish(stop=Stop(reason=StopReason.END), usage=USAGE),
        ]
    )
    events = parse(sent)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    deltas = [(e["delta"], e["logprobs"]) for e in events if e["type"] == "response.output_text.delta"]
    assert deltas == [("Hi", [first]), ("", [second])]


def test_no_snapshot_per_delta() -> None:
    """The cost of a delta must not grow with the answer."""
    encoder = CODEC.encoder(ResponseContext(body=BODY, model="alias"))
    encoder.encode([ResponseStart(protocol=Protocol.CHAT, id="x", model="up"), BlockStart(0, Text(text=""))])
    sizes = {len(encoder.encode([Delta(0, "word")])) for _ in range(9)}
    assert max(sizes) - min(sizes) <= 1


def test_own_ids_extras_and_natives_are_kept() -> None:
    """An answer of the same protocol goes through unchanged."""
    item = {"id": "cmp_1", "type": "compaction", "encrypted_content": "z"}
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "phase": "final_answer",
        "status": "completed",
        "content": [{"type": "output_text", "text": "x", "annotations": [], "logprobs": []}],
    }
    body = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": "m",
        "output": [item, message],
        "usage": None,
        "billing": {"payer": "developer"},
    }
    sent = CODEC.encoder(ResponseContext(source=Protocol.RESPONSES)).encode(events_of(CODEC.decode_response(body)))
    final = parse(sent)[-1]["response"]
    assert {name: final[name] for name in body} == body
