"""Stream translation, event by event (docs/mapping.md: Streams)."""

import json
from random import Random
from typing import Any

import pytest

import trilogue
from tests.judges import sse
from tests.mapping.cases import ABSENT, Body, C, M, R, at, request
from tests.mapping.streams import Block, Habits, frame, write
from tests.mapping.test_tool_definitions import CUSTOM
from tests.mapping.test_turns import TOOLS
from trilogue import Exchange, Protocol, StreamTranslator, Target
from trilogue.lint import lint_stream

ALL = (C, M, R)
every_source = pytest.mark.parametrize("source", ALL, ids=lambda p: p.short)
every_target = pytest.mark.parametrize("target", ALL, ids=lambda p: p.short)
TEXT = Block("text", ("Hel", "lo"))
CALL = Block("call", ('{"n"', ": 1}"), "call_1", "look")
THOUGHT = Block("thought", ("Let me", " see"), opaque="SIGNED==")


def run(data: bytes, source: Protocol, target: Protocol, exchange: Exchange | None = None) -> list[Any]:
    """The events that a client gets; what is no JSON stays text."""
    translator = StreamTranslator(source=source, target=target, exchange=exchange)
    out = translator.feed(data) + translator.close()
    found = [f for f in lint_stream(target, out, own=source is not target) if f.severity == "error"]
    assert not [str(f) for f in found]
    return [event.data if event.data == "[DONE]" else json.loads(event.data) for event in sse.read(out)]


def stream(source: Protocol, *blocks: Block, stop: str = "end", habits: Habits | None = None) -> bytes:
    """An upstream's stream."""
    return write(source, list(blocks), stop, Random(1), habits or Habits())


def deltas(events: list[Any]) -> list[Body]:
    """The deltas of a Chat stream."""
    return [event["choices"][0]["delta"] for event in events if event != "[DONE]" and event["choices"]]


def kinds(events: list[Any]) -> list[str]:
    """The types of the events of a Messages or Responses stream, deltas of one kind once."""
    found: list[str] = []
    for event in events:
        name = event["type"]
        if name == "content_block_delta":
            name = event["delta"]["type"]
        if event["type"] != "ping" and not (found and found[-1] == name and "delta" in name):
            found.append(name)
    return found


def asked(target: Protocol, source: Protocol, **fields: Any) -> Exchange:
    """What the client asked for."""
    return trilogue.translate_request(request(target, stream=True, **fields), source=target, target=source).exchange


def test_text_to_chat() -> None:
    """Role first, then content, then the finish with an empty delta, then [DONE]."""
    for source in (M, R):
        events = run(stream(source, TEXT), source, C, asked(C, source))
        said = deltas(events)
        assert said[0]["role"] == "assistant"
        assert all("role" not in delta for delta in said[1:])
        assert [delta["content"] for delta in said if delta.get("content")] == ["Hel", "lo"]
        assert said[-1] == {}
        assert events[-2]["choices"][0]["finish_reason"] == "stop"
        assert events[-1] == "[DONE]"


@pytest.mark.parametrize("wanted", [True, False])
def test_usage_to_chat_only_if_asked(wanted: bool) -> None:
    """One chunk without choices before [DONE], or none at all."""
    exchange = asked(C, M, stream_options={"include_usage": wanted})
    events = run(stream(M, TEXT), M, C, exchange)
    usage = [event for event in events if event != "[DONE]" and event.get("usage")]
    assert len(usage) == int(wanted)
    if wanted:
        assert events[-2]["choices"] == []
        assert events[-2]["usage"]["prompt_tokens"] == 100


def test_text_to_messages() -> None:
    """Start, one block, message_delta with the real usage, message_stop."""
    for source in (C, R):
        events = run(stream(source, TEXT), source, M)
        assert kinds(events) == [
            "message_start",
            "content_block_start",
            "text_delta",
            "content_block_stop",
            "message_delta",
            "message_stop",
        ]
        assert events[0]["message"]["id"].startswith("msg_")
        assert events[-2]["usage"]["input_tokens"] == 30
        assert events[-2]["usage"]["cache_read_input_tokens"] == 60


def test_text_to_responses() -> None:
    """The full ladder of item and part events, numbered, with the whole answer in the last."""
    for source in (C, M):
        events = run(stream(source, TEXT), source, R)
        assert kinds(events) == [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.completed",
        ]
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        assert at(events[-1], "response.output[0].content[0].text") == "Hello"


def test_reasoning_to_chat() -> None:
    """In one extension field, before the content."""
    for source in (M, R):
        said = deltas(run(stream(source, THOUGHT, TEXT), source, C))
        assert "".join(delta.get("reasoning_content") or "" for delta in said) == "Let me see"
        assert "SIGNED==" not in str(said)


def test_reasoning_to_messages() -> None:
    """A thinking block with exactly one sealed signature before its stop."""
    for source in (C, R):
        events = run(stream(source, THOUGHT, TEXT), source, M, asked(M, source, thinking={"type": "adaptive"}))
        assert kinds(events)[1:5] == ["content_block_start", "thinking_delta", "signature_delta", "content_block_stop"]
        signature = next(e["delta"]["signature"] for e in events if at(e, "delta.type") == "signature_delta")
        assert signature.startswith("trl2.")


def test_reasoning_to_responses() -> None:
    """A summary stays a summary, with the sealed value in the done item; raw thoughts are reasoning_text."""
    events = run(stream(M, THOUGHT, TEXT), M, R)
    assert "response.reasoning_summary_text.delta" in kinds(events)
    done = next(event["item"] for event in events if event["type"] == "response.output_item.done")
    assert done["encrypted_content"].startswith("trl2.")
    events = run(stream(C, THOUGHT, TEXT), C, R)
    assert "response.reasoning_text.delta" in kinds(events)
    assert at(events[-1], "response.output[0].content[0].text") == "Let me see"


def test_hidden_reasoning() -> None:
    """Redacted data arrives whole and sealed in the client's own form."""
    hidden = Block("hidden", (), opaque="HIDDEN==")
    item = next(e for e in run(stream(M, hidden, TEXT), M, R) if e["type"] == "response.output_item.done")["item"]
    assert item["summary"] == []
    assert item["encrypted_content"].startswith("trl2.")
    events = run(stream(R, hidden, TEXT), R, M, asked(M, R, thinking={"type": "adaptive"}))
    assert kinds(events)[1:3] == ["content_block_start", "content_block_stop"]
    block = next(event["content_block"] for event in events if event["type"] == "content_block_start")
    assert block["type"] == "redacted_thinking"
    assert block["data"].startswith("trl2.")


def test_calls_to_chat() -> None:
    """Index, id, type and name once, then arguments alone."""
    for source in (M, R):
        said = [
            d["tool_calls"][0] for d in deltas(run(stream(source, CALL, stop="calls"), source, C)) if "tool_calls" in d
        ]
        assert said[0]["index"] == 0
        assert said[0]["id"] == "call_1"
        assert said[0]["type"] == "function"
        assert said[0]["function"]["name"] == "look"
        assert all("id" not in call and "name" not in call["function"] for call in said[1:])
        assert "".join(call["function"]["arguments"] for call in said) == '{"n": 1}'


def test_calls_to_messages() -> None:
    """A tool_use block with empty input, then fragments."""
    for source in (C, R):
        events = run(stream(source, CALL, stop="calls"), source, M)
        start = next(event for event in events if event["type"] == "content_block_start")
        assert start["content_block"] == {"type": "tool_use", "id": "call_1", "name": "look", "input": {}}
        parts = [e["delta"]["partial_json"] for e in events if at(e, "delta.type") == "input_json_delta"]
        assert "".join(parts) == '{"n": 1}'
        assert events[-2]["delta"]["stop_reason"] == "tool_use"


def test_calls_to_responses() -> None:
    """An item of its own, with the name in the done event too."""
    for source in (C, M):
        events = run(stream(source, CALL, stop="calls"), source, R)
        done = next(event for event in events if event["type"] == "response.function_call_arguments.done")
        assert done["arguments"] == '{"n": 1}'
        assert done["name"] == "look"
        item = at(events[-1], "response.output[0]")
        assert (item["call_id"], item["name"], item["status"]) == ("call_1", "look", "completed")


@pytest.mark.parametrize("client", [C, R], ids=["chat", "responses"])
def test_emulated_free_text_calls(client: Protocol) -> None:
    """The client that declared a free-text tool gets free text, cut wherever the upstream cut its JSON."""
    exchange = asked(client, M, tools=[CUSTOM["C" if client is C else "R"]])
    for size in (1, 2, 5, 100):
        text = json.dumps({"input": 'a\n"b" \\ é😀'})
        pieces = tuple(text[start : start + size] for start in range(0, len(text), size))
        events = run(stream(M, Block("call", pieces, "call_1", "patch"), stop="calls"), M, client, exchange)
        if client is R:
            item = at(events[-1], "response.output[0]")
            assert (item["type"], item["name"], item["input"]) == ("custom_tool_call", "patch", 'a\n"b" \\ é😀')
        else:
            calls = [delta["tool_calls"][0] for delta in deltas(events) if "tool_calls" in delta]
            assert calls[0]["type"] == "custom"
            assert (
                "".join(at(c, "custom.input") for c in calls if at(c, "custom.input") is not ABSENT) == 'a\n"b" \\ é😀'
            )


def test_refusals() -> None:
    """The model's own refusal: delta.refusal, a refusal part, or text with its stop reason."""
    no = Block("refusal", ("I will", " not."))
    assert "".join(d.get("refusal") or "" for d in deltas(run(stream(R, no), R, C))) == "I will not."
    assert at(run(stream(C, no), C, R)[-1], "response.output[0].content[0].refusal") == "I will not."
    for source in (C, R):
        events = run(stream(source, no), source, M)
        assert "".join(at(e, "delta.text") for e in events if at(e, "delta.type") == "text_delta") == "I will not."
        assert events[-2]["delta"]["stop_reason"] == "refusal"


@every_source
@every_target
def test_keepalive(source: Protocol, target: Protocol) -> None:
    """A comment, or a ping on Messages; never an event that an SDK would choke on."""
    translator = StreamTranslator(source=source, target=target)
    out = translator.keepalive() + translator.feed(stream(source, TEXT)) + translator.close()
    assert not [str(f) for f in lint_stream(target, out, own=source is not target) if f.severity == "error"]
    assert translator.done


def test_interleaved_calls_to_messages() -> None:
    """Blocks may not overlap: the first flows, the others wait, and no fragment is lost."""
    other = Block("call", ('{"m"', ": 2}"), "call_2", "find")
    for source in (C, R):
        for seed in range(20):
            data = write(source, [CALL, other], "calls", Random(seed), Habits(interleave=True))
            whole = trilogue.collect_stream(
                b"".join(_bytes(data, source)),
                protocol=M,
            )
            found = [(block["name"], block["input"]) for block in whole["content"]]
            assert found == [("look", {"n": 1}), ("find", {"m": 2})]


def _bytes(data: bytes, source: Protocol) -> list[bytes]:
    translator = StreamTranslator(source=source, target=M)
    return [translator.feed(data), translator.close()]


def test_text_while_a_call_is_open() -> None:
    """Text that comes between fragments of a call is a block of its own after it."""
    chunks: list[Body] = [
        {
            "tool_calls": [
                {"index": 0, "id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"n"'}}
            ]
        },
        {"content": "meanwhile"},
        {"tool_calls": [{"index": 0, "function": {"arguments": ": 1}"}}]},
    ]
    events = run(_chunks(chunks, "tool_calls"), C, M)
    blocks = [event["content_block"]["type"] for event in events if event["type"] == "content_block_start"]
    assert blocks == ["tool_use", "text"]
    said = deltas(run(_chunks(chunks, "tool_calls"), C, C))
    assert "".join(delta.get("content") or "" for delta in said) == "meanwhile"


def _chunks(found: list[Body], finish: str | None, **last: Any) -> bytes:
    base: Body = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    entries = [{**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in found]
    if finish:
        entries.append({**base, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}], **last})
    return frame([*entries, "data: [DONE]"], Habits(), named=False)


def test_text_after_calls_to_chat_is_declared() -> None:
    """It is still content, but its place is lost."""
    for source in (M, R):
        translator = StreamTranslator(source=source, target=C)
        translator.feed(stream(source, CALL, TEXT, stop="calls"))
        translator.close()
        assert "order.flattened" in {loss.code for loss in translator.losses}


@every_target
def test_first_chunk_with_content(target: Protocol) -> None:
    """What the first chunk carries is not discarded with the role."""
    events = run(_chunks([{"role": "assistant", "content": "Hel"}, {"content": "lo"}], "stop"), C, target)
    assert "Hel" in str(events)
    assert "lo" in str(events)


@every_target
@pytest.mark.parametrize("usage", ["with", "after", "every"])
def test_finish_with_the_last_delta(target: Protocol, usage: str) -> None:
    """Content, finish and usage in one chunk, or usage behind it."""
    habits = Habits(finish_with_last=True, usage=usage)
    exchange = asked(target, C, **({"stream_options": {"include_usage": True}} if target is C else {}))
    translator = StreamTranslator(source=C, target=target, exchange=exchange)
    translator.feed(stream(C, TEXT, habits=habits))
    translator.close()
    assert translator.failed is None
    assert translator.usage is not None
    assert (translator.usage.input, translator.usage.output) == (100, 50)


@every_target
def test_filled_message_start(target: Protocol) -> None:
    """A continued programmatic call: everything is in message_start and no deltas follow."""
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [
            {"type": "text", "text": "Hi"},
            {"type": "tool_use", "id": "call_1", "name": "look", "input": {"n": 1}},
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 5, "output_tokens": 7},
    }
    data = frame([{"type": "message_start", "message": message}, {"type": "message_stop"}], Habits(), named=True)
    translator = StreamTranslator(source=M, target=target)
    out = translator.feed(data) + translator.close()
    assert translator.failed is None
    whole = trilogue.collect_stream(out, protocol=target)
    assert "Hi" in json.dumps(whole)
    assert "look" in json.dumps(whole)


@every_target
def test_rotating_item_ids(target: Protocol) -> None:
    """GitHub Copilot: deltas are joined by output_index, not by item_id."""
    data = stream(R, TEXT, CALL, stop="calls", habits=Habits(rotate=True))
    translator = StreamTranslator(source=R, target=target)
    whole = trilogue.collect_stream(translator.feed(data) + translator.close(), protocol=target)
    assert "Hello" in json.dumps(whole)
    assert json.dumps(whole).count("call_1") == 1


@every_source
@every_target
def test_an_empty_response(source: Protocol, target: Protocol) -> None:
    """Zero blocks are legal in every protocol."""
    events = run(stream(source), source, target)
    if target is C:
        assert events[-1] == "[DONE]"
    elif target is M:
        assert events[-2]["delta"]["stop_reason"] == "end_turn"
    else:
        assert at(events[-1], "response.status") == "completed"


@every_source
@every_target
def test_empty_blocks(source: Protocol, target: Protocol) -> None:
    """A block with zero deltas is legal in every protocol."""
    call = Block("call", ("{}",) if source is R else (), "call_1", "look")
    events = run(stream(source, Block("text"), call, stop="calls"), source, target)
    assert "look" in str(events)


@every_target
def test_done_is_missing_but_finish_was_seen(target: Protocol) -> None:
    """A Chat stream without [DONE] is a success if it said why it ended."""
    translator = StreamTranslator(source=C, target=target)
    translator.feed(stream(C, TEXT, habits=Habits(done=False)))
    translator.close()
    assert translator.failed is None


@every_target
def test_no_finish_reason_and_no_done_is_an_error(target: Protocol) -> None:
    """Null at the end of the stream is an error, not an end of turn (docs/mapping.md: End of a stream)."""
    translator = StreamTranslator(source=C, target=target)
    translator.feed(_chunks([{"role": "assistant", "content": "Hi"}], None).removesuffix(b"data: [DONE]\n\n"))
    translator.close()
    assert translator.failed is not None


@every_target
def test_done_without_finish_reason_is_an_end(target: Protocol) -> None:
    """Snowflake and audio models never send a finish_reason; [DONE] says that the answer is complete."""
    translator = StreamTranslator(source=C, target=target)
    translator.feed(_chunks([{"role": "assistant", "content": "Hi"}], None))
    translator.close()
    assert translator.failed is None


@every_target
def test_done_inside_a_call_is_an_error(target: Protocol) -> None:
    """[DONE] without finish_reason does not make half a call whole."""
    call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"city": "Sp'}}
    translator = StreamTranslator(source=C, target=target)
    translator.feed(_chunks([{"role": "assistant", "tool_calls": [call]}], None))
    translator.close()
    assert translator.failed is not None


@every_target
def test_losses_and_finish_are_reported(target: Protocol) -> None:
    """A caller can see how it went."""
    translator = StreamTranslator(source=C, target=target, exchange=asked(target, C, tools=TOOLS[_LETTER[target]]))
    translator.feed(stream(C, TEXT))
    translator.close()
    assert translator.finish is not None
    assert translator.done


@pytest.mark.parametrize("target", [M, R], ids=["messages", "responses"])
def test_what_only_some_chunk_says_of_its_choice(target: Protocol) -> None:
    """It is declared with its path, wherever it comes; what nobody needs is not."""
    choices = [
        {"index": 0, "delta": {"role": "assistant", "content": "a"}},
        {"index": 0, "delta": {"content": "b"}, "native_finish_reason": None, "stop_reason": 3},
        {"index": 0, "delta": {"content": "c"}, "novel": {"x": 1}},
        {"index": 0, "delta": {}, "finish_reason": "stop", "matched_stop": 7},
    ]
    chunks = [{"id": "r", "object": "chat.completion.chunk", "choices": [choice]} for choice in choices]
    translator = StreamTranslator(source=C, target=target)
    translator.feed(frame([*chunks, "data: [DONE]"], Habits(), named=False))
    assert translator.finish is not None
    found = [(loss.code, loss.path) for loss in translator.losses if loss.path.startswith("choices")]
    assert found == [("resp.meta", "choices[0].novel")]


@pytest.mark.parametrize("target", [M, R], ids=["messages", "responses"])
def test_what_only_a_part_of_the_content_says(target: Protocol) -> None:
    """Mistral's content is a list, whole or in pieces. That thinking is complete is no loss."""
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}], "closed": True}
    content = [thinking, {"type": "text", "text": "a", "novel": 1}]
    choice = {"index": 0, "finish_reason": "stop"}
    body = {"id": "r", "choices": [{**choice, "message": {"role": "assistant", "content": content}}]}
    whole = trilogue.translate_response(body, source=C, target=target)
    translator = StreamTranslator(source=C, target=target)
    chunk = {"id": "r", "object": "chat.completion.chunk", "choices": [{**choice, "delta": {"content": content}}]}
    out = translator.feed(frame([chunk, "data: [DONE]"], Habits(), named=False))
    for losses, path in ((whole.losses, "[1].novel"), (translator.losses, ".novel")):
        found = [loss.path for loss in losses if loss.code == "resp.meta"]
        assert found == [f"choices[0].message.content{path}"]
    assert b"novel" not in out
    again = StreamTranslator(source=C, target=C)
    assert b"novel" not in again.feed(frame([chunk, "data: [DONE]"], Habits(), named=False))


@pytest.mark.parametrize("target", [M, R], ids=["messages", "responses"])
def test_what_only_some_fragment_says_of_its_call(target: Protocol) -> None:
    """It is declared wherever it comes, and the arguments are whole."""
    parts = [
        {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": "{", "odd": 1}, "novel": 2},
        {"index": 0, "function": {"arguments": '"a"'}},
        {"index": 0, "function": {"arguments": ":1}"}, "new": 3},
    ]
    translator = StreamTranslator(source=C, target=target)
    out = translator.feed(_chunks([{"tool_calls": [part]} for part in parts], "tool_calls"))
    out += translator.feed(b"data: [DONE]\n\n")
    found = [loss.path for loss in translator.losses if loss.code == "resp.meta"]
    call = "choices[0].message.tool_calls"
    assert found == [f"{call}[0].novel", f"{call}[0].function.odd", f"{call}.new"]
    whole = trilogue.collect_stream(out, protocol=target)
    (said,) = [
        item for item in whole.get("content") or whole["output"] if item["type"] in ("tool_use", "function_call")
    ]
    assert said.get("input", said.get("arguments")) in ({"a": 1}, '{"a":1}')


LAST = {M: "message_stop", R: "response.completed"}


@pytest.mark.parametrize(("source", "target"), [(M, C), (M, R), (R, C), (R, M)])
def test_what_only_the_frame_of_the_last_event_says(source: Protocol, target: Protocol) -> None:
    """Bedrock and Copilot tell there what an answer took or cost."""
    data = stream(source, TEXT)
    mark = f'"type": "{LAST[source]}"'.encode()
    if mark not in data:
        mark = mark.replace(b'": "', b'":"')
    assert data.count(mark) == 1
    told = data.replace(mark, mark + b', "metrics": {"latency": 7}, "nothing": null')
    translator = StreamTranslator(source=source, target=target)
    translator.feed(told)
    assert translator.finish is not None
    assert [loss.path for loss in translator.losses if loss.code == "resp.meta"] == [
        "message_stop.metrics" if source is M else "metrics"
    ]


READ = {
    M: {
        **dict.fromkeys(("message_start", "content_block_stop", "message_stop"), ("",)),
        "content_block_start": ("", "content_block"),
        "content_block_delta": ("", "delta"),
    },
    R: {
        **dict.fromkeys(("response.created", "response.in_progress", "response.content_part.done"), ("",)),
        **dict.fromkeys(("response.output_item.added", "response.output_item.done"), ("", "item")),
        "response.content_part.added": ("", "part"),
        **{
            f"response.{flow}.{step}": ("",)
            for flow in ("output_text", "reasoning_summary_text", "function_call_arguments")
            for step in ("delta", "done")
        },
    },
}
"""types of events, and the objects in them that are read"""


@pytest.mark.parametrize("named", [True, False], ids=["named", "bare"])
@pytest.mark.parametrize(
    ("source", "target", "kind", "inner"),
    [
        (source, target, kind, inner)
        for source, target in ((M, C), (M, R), (R, C), (R, M))
        for kind, places in READ[source].items()
        for inner in places
    ],
)
def test_unknown_fields_in_any_event(source: Protocol, target: Protocol, kind: str, inner: str, named: bool) -> None:
    """They change nothing for clients of other protocols and are declared, once however many events have them."""
    events = [json.loads(event.data) for event in sse.read(stream(source, THOUGHT, TEXT, CALL))]
    quiet, noisy = (StreamTranslator(source=source, target=target) for _ in range(2))
    before = b"".join(quiet.feed(frame([event], Habits(), named=named)) for event in events)
    told = [event for event in events if event["type"] == kind]
    assert told
    for event in told:
        (event[inner] if inner else event)["novel"] = 1
    assert b"".join(noisy.feed(frame([event], Habits(), named=named)) for event in events) == before
    assert noisy.finish is not None
    found = [loss for loss in noisy.losses if loss not in quiet.losses]
    assert {loss.code for loss in found} == {"resp.meta"}
    assert len({loss.path for loss in found}) == len(found)
    if not inner or inner == "delta":
        assert [loss.path for loss in found] == [".".join(filter(None, (kind, inner, "novel")))]


@pytest.mark.parametrize("target", [C, M], ids=["chat", "messages"])
def test_unknown_events(target: Protocol) -> None:
    """One that is not about an item may say anything; one about an item is repeated by it, and a ping says nothing."""
    events = [json.loads(event.data) for event in sse.read(stream(R, TEXT))]
    events[3:3] = [
        {"type": "response.novel", "text": "x"},
        {"type": "response.strange.delta", "output_index": 0},
        {"type": "keepalive"},
    ]
    translator = StreamTranslator(source=R, target=target)
    translator.feed(frame(events, Habits(), named=True))
    assert translator.finish is not None
    assert [loss.path for loss in translator.losses if loss.code == "resp.meta"] == ["response.novel"]


@pytest.mark.parametrize("target", [C, M], ids=["chat", "messages"])
@pytest.mark.parametrize("kind", ["function_call", "reasoning"])
def test_what_only_the_finished_item_says(target: Protocol, kind: str) -> None:
    """Responses repeats every item when it is done, perhaps with more."""
    items: dict[str, Body] = {
        "function_call": {"id": "fc_1", "type": kind, "call_id": "c", "name": "f", "arguments": "{}"},
        "reasoning": {"id": "rs_1", "type": kind, "summary": []},
    }
    item = items[kind]
    done = {**item, "novel": 1}
    events: list[Any] = [
        {"type": "response.created", "response": {"id": "resp_1", "status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": done},
        {"type": "response.completed", "response": {"id": "resp_1", "status": "completed", "output": [done]}},
    ]
    translator = StreamTranslator(source=R, target=target)
    translator.feed(frame(events, Habits(), named=True))
    assert translator.finish is not None
    assert ("resp.meta", "output[0].novel") in {(loss.code, loss.path) for loss in translator.losses}


@pytest.mark.parametrize(
    ("message", "beside"),
    [
        ({"content": "Hi", "reasoning_content": "hm"}, {"logprobs": {"content": [{"token": "Hi", "logprob": -1.0}]}}),
        (
            {"content": "Hi", "annotations": [{"type": "url_citation", "url_citation": {"url": "u", "content": "c"}}]},
            {},
        ),
        ({"content": [{"type": "text", "text": "Hi"}, {"type": "novel", "x": 1}]}, {}),
        ({"audio": {"id": "a", "data": "AAAA", "transcript": "Hi"}}, {}),
        ({"tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "f", "input": "x"}}]}, {}),
        ({"tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "[1]"}}]}, {}),
    ],
    ids=["logprobs", "citation", "novel", "sound", "free text", "no object"],
)
@pytest.mark.parametrize("target", [M, R], ids=["messages", "responses"])
def test_losses_of_a_chat_stream_have_the_paths_of_a_whole_response(
    target: Protocol, message: Body, beside: Body
) -> None:
    """A stream is the same answer in pieces."""
    choice = {"index": 0, "finish_reason": "stop", **beside}
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    translator = StreamTranslator(source=C, target=target)
    translator.feed(
        frame([{**chunk, "choices": [{**choice, "delta": message}]}, "data: [DONE]"], Habits(), named=False)
    )
    assert translator.finish is not None
    body = {**chunk, "object": "chat.completion", "choices": [{**choice, "message": message}]}
    whole = trilogue.translate_response(body, source=C, target=target).losses
    assert {(loss.code, loss.path) for loss in translator.losses} == {(loss.code, loss.path) for loss in whole}
    assert all(loss.path for loss in translator.losses)


_LETTER = {C: "C", M: "M", R: "R"}


@pytest.mark.parametrize("target", [C, M], ids=["chat", "messages"])
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_stop_sequences_cut_streams(target: Protocol, size: int) -> None:
    """Held back while it may still become a stop sequence, cut when it is one, given out when it is not."""
    name = "stop" if target is C else "stop_sequences"
    body = request(target, stream=True, **{name: ["END"]})
    exchange = trilogue.translate_request(body, source=target, target=Target.of(R, "gpt-5.6")).exchange
    for text, left in (("one END two", "one "), ("EN one E", "EN one E"), ("END", ""), ("aENENDb", "aEN")):
        pieces = tuple(text[start : start + size] for start in range(0, len(text), size))
        translator = StreamTranslator(source=R, target=target, exchange=exchange)
        out = translator.feed(stream(R, Block("text", pieces))) + translator.close()
        whole = trilogue.collect_stream(out, protocol=target)
        found = at(whole, "choices[0].message.content") if target is C else "".join(b["text"] for b in whole["content"])
        assert (found or "") == left
        if target is M:
            assert whole["stop_sequence"] == ("END" if "END" in text else None)
