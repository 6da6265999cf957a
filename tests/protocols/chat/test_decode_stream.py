"""Streams, read: every known way of being different from OpenAI's own."""

import json
import random
from typing import Any

import pytest

from trilogue.errors import TrilogueError
from trilogue.model import (
    Audio,
    BlockStart,
    BlockStop,
    Collector,
    Event,
    Failed,
    FailureKind,
    Finish,
    OpaqueKind,
    Protocol,
    Reasoning,
    Refusal,
    Response,
    Sequencer,
    StopReason,
    Text,
    Tier,
    ToolCall,
)
from trilogue.protocols.chat import CODEC
from trilogue.protocols.stream.repeated_deltas import RepeatedText
from trilogue.protocols.stream.response_context import ResponseContext

DONE = b"data: [DONE]\n\n"


def chunk(delta: Any = None, finish: str | None = None, **fields: Any) -> bytes:
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish}
    body = {"id": "r1", "object": "chat.completion.chunk", "created": 7, "model": "m", "choices": [choice], **fields}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def calls(*entries: dict[str, Any]) -> bytes:
    return chunk({"tool_calls": list(entries)})


def fn(
    index: int | None = None, call_id: str | None = None, name: str | None = None, args: Any = None
) -> dict[str, Any]:
    return {"index": index, "id": call_id, "type": "function", "function": {"name": name, "arguments": args}}


def events(*parts: bytes) -> list[Event]:
    decoder = CODEC.decoder()
    return [event for part in parts for event in decoder.feed(part)] + decoder.close()


def answer(*parts: bytes) -> Response:
    collector = Collector()
    for event in Sequencer().feed(events(*parts)):
        collector.feed(event)
    return collector.response()


def prose(text: str) -> Text:
    """Text of an answer, with the place that losses name."""
    return Text(text=text, path="choices[0].message.content")


def made(*parts: bytes) -> list[tuple[str, str]]:
    """Names and arguments of the calls in an answer."""
    blocks = answer(*parts, chunk(finish="tool_calls"), DONE).blocks
    return [(block.name, block.arguments) for block in blocks if isinstance(block, ToolCall)]


def failure(*parts: bytes) -> Failed:
    last = events(*parts)[-1]
    assert isinstance(last, Failed)
    return last


def test_plain_text() -> None:
    """The common case, with usage after the finish."""
    usage = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
    response = answer(
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "Hel"}),
        chunk({"content": "lo"}),
        chunk(finish="stop"),
        chunk(choices=[], usage=usage, service_tier="flex"),
        DONE,
    )
    assert response.blocks == (prose("Hello"),)
    assert (response.id, response.model, response.created, response.tier) == ("r1", "m", 7, Tier.FLEX)
    assert response.stop.reason is StopReason.END
    assert response.usage is not None
    assert (response.usage.fresh, response.usage.output) == (5, 2)


def test_first_chunk_that_is_none() -> None:
    """Azure opens with empty names."""
    response = answer(chunk(choices=[], id="", model=""), chunk({"content": "a"}), chunk(finish="stop"), DONE)
    assert (response.id, response.model) == ("r1", "m")


@pytest.mark.parametrize(
    "parts",
    [
        (calls(fn(0, "a", "f", "")), calls(fn(0, None, None, '{"x"')), calls(fn(0, None, None, ":1}"))),
        (calls(fn(0, "a", "f", '{"x"')), calls(fn(0, "a", "f", ":1}"))),
        (calls(fn(0, "a", "f", '{"x"')), calls(fn(0, "", "", ":1}"))),
        (calls(fn(0, "a", "f", '{"x"')), calls(fn(0, "b", None, ":1}"))),
        (calls(fn(None, "a", "f", '{"x"')), calls(fn(None, None, None, ":1}"))),
        (calls(fn(0, "a", None, '{"x"')), calls(fn(0, None, "f", ":1}"))),
        (calls(fn(0, "a", "f", {"x": 1})),),
        (calls(fn(0, "a", "f", "{}")), calls(fn(0, None, None, '{"x":1}'))),
        (calls(fn(3, "a", "f", '{"x":1}')),),
        (calls(fn(0, None, "f", '{"x":1}')),),
        (calls(fn(0, "a", "f", '{"x":1}')), chunk({"content": "."}), calls(fn(0, "a", None, '{"x":1}'))),
        (calls(fn(0, "a", "f", '{"x"')), calls(fn(0, None, None, ":1}")), calls(fn(0, "a", "f", '{"x":1}'))),
        (calls(fn(0, "a", "f", '{"x":1}')), calls(fn(0, None, None, '{"x":1}'))),
        (calls(fn(0, "a", "f", "null")), calls(fn(0, None, None, '{"x":1}'))),
        (chunk({"function_call": {"name": "f", "arguments": '{"x"'}}), chunk({"function_call": {"arguments": ":1}"}})),
    ],
)
def test_one_call_however_it_is_cut(parts: tuple[bytes, ...]) -> None:
    """Ids and names missing, repeated or new in every fragment; index missing; placeholder; object; all of it twice."""
    assert made(*parts) == [("f", '{"x":1}')]


@pytest.mark.parametrize(
    "parts",
    [
        (calls(fn(0, "a", "f", '{"x":1}')), calls(fn(1, "b", "g", '{"y":2}'))),
        (calls(fn(0, "a", "f", '{"x":1}')), calls(fn(0, "b", "g", '{"y":2}'))),
        (calls(fn(0, "a", "f", '{"x":1}'), fn(0, "b", "g", '{"y":2}')),),
        (calls(fn(None, "a", "f", '{"x":1}'), fn(None, "b", "g", '{"y":2}')),),
        (calls(fn(0, None, "f", '{"x":1}')), calls(fn(0, None, "g", '{"y":2}'))),
        (
            calls(fn(0, "a", "f", '{"x"'), fn(1, "b", "g", '{"y"')),
            calls(fn(0, None, None, ":1}"), fn(1, None, None, ":2}")),
        ),
        (calls(fn(0, "a", "f", "")), calls(fn(1, "b", "g", '{"y":2}')), calls(fn(0, None, None, '{"x":1}'))),
        (
            calls(fn(0, "a", "f", '{"x"')),
            calls(fn(1, "b", "g", '{"y"')),
            calls(fn(0, "a", None, ":1}"), fn(1, "b", None, ":2}")),
        ),
        (calls(fn(0, "a", "f", '{"x":1}')), calls(fn(1, "a", "g", '{"y":2}'))),
        (calls(fn(None, "a", "f", '{"x":1}'), fn(None, "a", "g", '{"y":2}')),),
        (
            calls(fn(0, "a", "f", ""), fn(1, "a", "g", "")),
            calls(fn(0, "a", None, '{"x":1}')),
            calls(fn(1, "a", "g", '{"y":2}')),
        ),
    ],
)
def test_two_calls_however_they_are_numbered(parts: tuple[bytes, ...]) -> None:
    """Equal, reused or missing indices; fragments that alternate; one id for both."""
    assert made(*parts) == [("f", '{"x":1}'), ("g", '{"y":2}')]


def test_same_function_twice_on_one_index() -> None:
    """Only the new id, or a new name with a new object, tells."""
    assert made(calls(fn(0, "a", "f", '{"x":1}')), calls(fn(0, "b", "f", '{"x":1}'))) == [("f", '{"x":1}')] * 2


def test_complete_call_stops_when_another_block_begins() -> None:
    """Otherwise everything after it would have to wait for the end of the answer."""
    stops = [
        type(event)
        for event in events(calls(fn(0, "a", "f", '{"x":1}')), calls(fn(1, "b", "g", "")))
        if isinstance(event, BlockStart | BlockStop)
    ]
    assert stops == [BlockStart, BlockStop]


def test_the_name_of_a_call_may_be_cut() -> None:
    """It is complete when the arguments begin, or something else. Some servers repeat it in every fragment."""
    assert made(calls(fn(0, "a", "ba", "")), calls(fn(0, None, "sh", '{"x":1}'))) == [("bash", '{"x":1}')]
    assert made(calls(fn(0, "a", "ba", "")), calls(fn(0, None, "sh", ""))) == [("bash", "")]
    assert made(calls(fn(0, "a", "look", "")), calls(fn(0, "a", "look", "{}"))) == [("look", "{}")]
    changed = events(calls(fn(0, "a", "ba", '{"x":')), calls(fn(0, None, "sh", "1}")))
    assert isinstance(changed[-1], Failed)


@pytest.mark.parametrize(
    "entry",
    [fn(0, "a", "f", '{"x":1}'), fn(0, "a", "f", ""), {"index": 0, "id": "a", "custom": {"name": "f", "input": "x"}}],
)
def test_call_is_complete_at_the_finish_reason(entry: dict[str, Any]) -> None:
    """[DONE] may come a second later, and a policy or an agent need not wait for it."""
    decoder = CODEC.decoder()
    assert not [event for event in decoder.feed(calls(entry)) if type(event) is BlockStop]
    assert [type(event) for event in decoder.feed(chunk(finish="tool_calls"))][-1] is BlockStop
    assert [type(event) for event in decoder.feed(DONE)] == [Finish]


def test_text_is_complete_at_the_finish_reason() -> None:
    """Text that a server sends after it is a block of its own."""
    decoder = CODEC.decoder()
    decoder.feed(chunk({"content": "Hi"}))
    assert [type(event) for event in decoder.feed(chunk(finish="stop"))] == [BlockStop]
    assert answer(chunk({"content": "Hi"}), chunk(finish="stop"), chunk({"content": "!"}), DONE).blocks == (
        Text(text="Hi", path="choices[0].message.content"),
        Text(text="!", path="choices[0].message.content"),
    )


def test_incomplete_call_waits_for_the_end() -> None:
    """Only the end of the stream says that nothing more follows."""
    parts = (calls(fn(0, "a", "f", '{"x"')), chunk(finish="tool_calls"))
    assert BlockStop not in [type(event) for part in parts for event in CODEC.decoder().feed(part)]
    assert answer(*parts, calls(fn(0, None, None, ":1}")), DONE).blocks[0] == ToolCall(
        id="a", name="f", arguments='{"x":1}', path="choices[0].message.tool_calls[0]"
    )


def test_call_without_id_gets_one() -> None:
    """Ids are never empty, and always the same for the same answer."""
    first, second = (answer(calls(fn(0, "", "f", "{}")), chunk(finish="stop")).blocks[0] for _ in range(2))
    assert isinstance(first, ToolCall)
    assert first.id
    assert first == second


def test_two_calls_with_one_id_get_two() -> None:
    """Some servers use the function's name: the results of both calls would have the same address."""
    entries = [fn(0, "f", "f", '{"x":1}'), fn(1, "f", "f", '{"x":2}')]
    streamed = answer(calls(*entries), chunk(finish="tool_calls"), DONE).blocks
    message = {"role": "assistant", "tool_calls": entries}
    whole = CODEC.decode_response({"id": "r1", "choices": [{"message": message, "finish_reason": "tool_calls"}]}).blocks
    for blocks in (streamed, whole):
        ids = [block.id for block in blocks if isinstance(block, ToolCall)]
        assert ids[0] == "f"
        assert len(set(ids)) == 2


@pytest.mark.parametrize("nothing", ["", "{}", "null", None])
def test_call_without_arguments(nothing: str | None) -> None:
    """Tools are called with an object, also an empty one."""
    assert made(calls(fn(0, "a", "f", nothing))) in ([("f", "{}")], [("f", "")])


def test_custom_call() -> None:
    """Free text, by analogy with functions."""
    head = {"index": 0, "id": "c", "type": "custom", "custom": {"name": "g", "input": "a"}}
    response = answer(calls(head), calls({"index": 0, "custom": {"input": "b"}}), chunk(finish="tool_calls"), DONE)
    call = response.blocks[0]
    assert isinstance(call, ToolCall)
    assert (call.kind, call.arguments) == ("custom", "ab")


def test_interleaved_custom_calls() -> None:
    """Free text does not show where it ends: a piece that comes after another call has begun still belongs to it."""
    first = {"index": 0, "id": "c", "type": "custom", "custom": {"name": "g", "input": "a"}}
    second = {"index": 1, "id": "d", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    third = {"index": 2, "id": "e", "type": "custom", "custom": {"name": "g", "input": "x"}}
    late = [{"index": 0, "custom": {"input": "b"}}, {"index": 2, "custom": {"input": "y"}}]
    pieces = [first, second, *late[:1], third, *late]
    response = answer(*(calls(piece) for piece in pieces), chunk(finish="tool_calls"), DONE)
    assert [block.arguments for block in response.blocks if isinstance(block, ToolCall)] == ["abb", "{}", "xy"]


def test_empty_shells_are_no_calls() -> None:
    """Some servers always send one."""
    response = answer(calls(fn(0, "", "", "")), chunk({"content": "a"}), chunk(finish="stop"), DONE)
    assert response.blocks == (prose("a"),)


def test_nameless_call_is_an_error() -> None:
    """Nobody could run it."""
    failed = failure(calls(fn(0, "a", None, '{"x":1}')), chunk(finish="tool_calls"), DONE)
    assert failed.failure.kind is FailureKind.UPSTREAM_PROTOCOL


@pytest.mark.parametrize(
    "delta",
    [
        {"reasoning_content": "hm"},
        {"reasoning": "hm"},
        {"thinking": "hm"},
        {"reasoning": "hm", "reasoning_details": [{"type": "reasoning.text", "text": "hm", "index": 0}]},
        {"reasoning_details": [{"type": "reasoning.text", "text": "hm"}]},
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]},
    ],
)
def test_reasoning_in_every_spelling(delta: dict[str, Any]) -> None:
    """All of it is raw chain of thought, and text after it is a block of its own."""
    response = answer(chunk(delta), chunk({"content": "a"}), chunk(finish="stop"), DONE)
    detailed = "reasoning_details" in delta
    assert response.blocks == (Reasoning(raw=("hm",), path="choices[0].message", detailed=detailed), prose("a"))


def test_signed_reasoning_details() -> None:
    """Pieces of one entry are put together; signed, they must go back whole."""
    response = answer(
        chunk({"reasoning_details": [{"type": "reasoning.text", "text": "a", "index": 0, "format": "f"}]}),
        chunk({"reasoning_details": [{"type": "reasoning.text", "text": "b", "index": 0}]}),
        chunk({"reasoning_details": [{"type": "reasoning.text", "signature": "s", "index": 0}]}),
        chunk({"content": "x"}, "stop"),
        DONE,
    )
    reasoning = response.blocks[0]
    assert isinstance(reasoning, Reasoning)
    assert reasoning.raw == ("ab",)
    assert reasoning.opaque is not None
    assert reasoning.opaque.kind is OpaqueKind.SIGNATURE
    assert json.loads(reasoning.opaque.value) == [
        {"type": "reasoning.text", "text": "ab", "index": 0, "format": "f", "signature": "s"}
    ]


def test_encrypted_details_without_words() -> None:
    """A block of its own although there is nothing to read."""
    details = [{"type": "reasoning.encrypted", "data": "x", "index": 0}]
    response = answer(chunk({"reasoning_details": details}), calls(fn(0, "a", "f", "{}")), chunk(finish="stop"), DONE)
    assert isinstance(response.blocks[0], Reasoning)
    assert isinstance(response.blocks[1], ToolCall)


def test_text_resumes_in_a_new_block() -> None:
    """Order is kept: other protocols can say it."""
    response = answer(
        chunk({"content": "a"}), calls(fn(0, "c", "f", "{}")), chunk({"content": "b"}), chunk(finish="stop"), DONE
    )
    assert [type(block) for block in response.blocks] == [Text, ToolCall, Text]
    assert response.stop.reason is StopReason.TOOL_CALLS


def test_content_that_is_an_object() -> None:
    """JSON mode of Cloudflare."""
    assert answer(chunk({"content": {"a": 1}}, "stop"), DONE).blocks == (prose('{"a":1}'),)


def test_character_that_was_cut_in_half() -> None:
    """Servers that count as JavaScript does write half an emoji into each of two chunks."""
    first, second = (chunk({"content": text}) for text in ("a\ud83d", "\ude00b"))
    assert answer(first, second, chunk(finish="stop"), DONE).blocks == (prose("a\U0001f600b"),)


def test_refusal() -> None:
    """The model's own words."""
    assert answer(chunk({"refusal": "no"}), chunk(finish="stop"), DONE).blocks == (
        Refusal(text="no", path="choices[0].message.refusal"),
    )


def test_audio_is_one_block() -> None:
    """Padding between the pieces must not remain inside."""
    response = answer(
        chunk({"audio": {"id": "a", "transcript": "He"}}),
        chunk({"audio": {"data": "QQ==", "transcript": "y"}}),
        chunk({"audio": {"data": "Qg=="}}),
        chunk({"audio": {"expires_at": 9}}),
        DONE,
    )
    audio = response.blocks[0]
    assert isinstance(audio, Audio)
    assert audio.source is not None
    assert (audio.id, audio.transcript, audio.source.value, audio.extras) == ("a", "Hey", "QUI=", {"expires_at": 9})


def test_two_audio_parts_do_not_share_their_fields() -> None:
    """The second has its own fields only."""
    response = answer(
        chunk({"audio": {"id": "a", "data": "QQ==", "expires_at": 9}}),
        chunk({"content": "x"}),
        chunk({"audio": {"id": "b", "data": "Qg=="}}),
        chunk(finish="stop"),
        DONE,
    )
    sounds = [block for block in response.blocks if isinstance(block, Audio)]
    assert [(sound.id, sound.extras) for sound in sounds] == [("a", {"expires_at": 9}), ("b", None)]


def test_annotations_and_logprobs_belong_to_the_text() -> None:
    """Offsets count from the start of the block."""
    link = {"type": "url_citation", "url_citation": {"url": "u", "title": "t", "start_index": 0, "end_index": 2}}
    entry = {"token": "ab", "logprob": 0}
    response = answer(
        chunk(choices=[{"index": 0, "delta": {"content": "ab"}, "logprobs": {"content": [entry]}}]),
        chunk({"annotations": [link]}),
        chunk(finish="stop"),
        DONE,
    )
    text = response.blocks[0]
    assert isinstance(text, Text)
    assert text.logprobs == [entry]
    assert (text.citations[0].url, text.citations[0].start, text.citations[0].end) == ("u", 0, 2)


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ((chunk({"content": "a"}, "stop"),), StopReason.END),
        ((chunk({"content": "a"}, "length"), chunk({}, "stop")), StopReason.LENGTH),
        ((chunk({"content": "a"}, "stop"), chunk({}, "stop", usage={"prompt_tokens": 1})), StopReason.END),
        ((chunk({"content": "a"}, "eos"),), StopReason.END),
        ((chunk({"content": "a"}, "sensitive"),), StopReason.REFUSAL),
        ((calls(fn(0, "a", "f", "{}")), chunk({}, "stop")), StopReason.TOOL_CALLS),
        ((calls(fn(0, "a", "f", '{"x')), chunk({}, "length")), StopReason.LENGTH),
        ((chunk({"content": "a"}), DONE), StopReason.END),
    ],
)
def test_how_a_response_ends(parts: tuple[bytes, ...], reason: StopReason) -> None:
    """Without [DONE], with several or odd finish reasons, with none but [DONE]."""
    last = events(*parts)[-1]
    assert isinstance(last, Finish)
    assert last.stop.reason is reason


@pytest.mark.parametrize(
    "parts",
    [
        (),
        (DONE,),
        (chunk({"content": "a"}),),
        (calls(fn(0, "a", "f", '{"x')), DONE),
        (chunk({"content": "a"}), chunk({"content": "b"})[:-20]),
        (b"<html>bad gateway</html>",),
    ],
)
def test_cut_streams_are_failures(parts: tuple[bytes, ...]) -> None:
    """Never a made-up success."""
    assert failure(*parts).failure.kind is FailureKind.UPSTREAM_TRUNCATED


@pytest.mark.parametrize(
    ("part", "kind"),
    [
        (b'event: error\ndata: {"error": {"message": "bad call", "code": "tool_use_failed"}}\n\n', "invalid_request"),
        (chunk({"content": ""}, error={"code": 429, "message": "slow"}), "rate_limit"),
        (chunk(choices=[{"index": 0, "error": {"code": 502, "message": "x"}, "delta": {}}]), "server"),
        (b'error: {"error": {"code": 503, "message": "x"}}\n\n', "overloaded"),
        (b'data: {"error": "boom"}\n\n', "server"),
        (b'data: {"detail": "Not authenticated"}\n\n', "server"),
        (b'data: {"object": "error", "message": "x", "code": 400}\n\n', "invalid_request"),
        (b'{"error": {"message": "x", "type": "server_error"}}\n\n', "server"),
        (chunk({}, "insufficient_system_resource") + DONE, "overloaded"),
        (b'data: {"base_resp": {"status_code": 1008, "status_msg": "no balance"}, "choices": null}\n\n', "billing"),
        (b'data: {"errors": [{"message": "x"}], "success": false}\n\n', "server"),
        (b"event: error\ndata: boom\n\n", "server"),
        (b"data: {not json}\n\n", "upstream_protocol"),
        (b"data: [1]\n\n", "upstream_protocol"),
        (b'data: "\xff"\n\n', "upstream_protocol"),
    ],
)
def test_errors_inside_a_stream(part: bytes, kind: str) -> None:
    """After an error nothing else counts, not even [DONE]."""
    failed = failure(chunk({"content": "a"}), part, chunk(finish="stop"), DONE)
    assert failed.failure.kind is FailureKind(kind)


def test_whole_response_where_a_stream_was_asked_for() -> None:
    """Some servers ignore `stream`."""
    message = {"role": "assistant", "content": "a", "tool_calls": [fn(None, "c", "f", "{}")]}
    body = {"id": "r", "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    response = answer(json.dumps(body).encode())
    assert [type(block) for block in response.blocks] == [Text, ToolCall]


def test_message_next_to_delta_is_not_counted_twice() -> None:
    """Perplexity repeats everything so far in every chunk."""
    choices = [{"index": 0, "delta": {"content": "b"}, "message": {"content": "ab"}, "finish_reason": "stop"}]
    assert answer(chunk({"content": "a"}), chunk(choices=choices)).blocks == (prose("ab"),)


def test_further_choices_are_remembered_as_dropped() -> None:
    """Only the first has blocks."""
    other = {"index": 1, "delta": {"content": "z"}, "finish_reason": None}
    response = answer(chunk({"content": "a"}), chunk(choices=[other]), chunk(finish="stop"), DONE)
    assert response.blocks == (prose("a"),)
    assert response.extras == {"choices": True}


def test_unknown_fields_of_any_chunk_are_kept() -> None:
    """Also of one that is like all others but for them."""
    got = answer(
        *(chunk({"content": letter}) for letter in "ab"),
        chunk({"content": "c", "novel": 1}),
        chunk({"content": "d"}, new=2),
        chunk({"content": "e"}),
        chunk({}, "stop"),
        DONE,
    )
    assert got.blocks == (prose("abcde"),)
    assert got.extras == {"message": {"novel": 1}, "new": 2}


def test_unknown_fields_of_any_choice_are_kept() -> None:
    """Beside the delta, in the middle and at the end."""
    middle = {"index": 0, "delta": {"content": "b"}, "novel": 1}
    end = {"index": 0, "delta": {}, "finish_reason": "stop", "matched_stop": 7}
    got = answer(chunk({"content": "a"}), chunk(choices=[middle]), chunk(choices=[end]), DONE)
    assert got.blocks == (prose("ab"),)
    assert (got.stop.path, got.stop.extras) == ("choices[0]", {"novel": 1, "matched_stop": 7})


def test_unknown_fields_of_calls_are_kept() -> None:
    """Of the call itself if they come with its beginning; calls that have begun stay as they are."""
    first = {**fn(0, "a", "f", '{"x"'), "novel": 1}
    first["function"]["odd"] = 2
    parts = (calls(first), calls({**fn(0, None, None, ":"), "new": 3}), calls(fn(0, None, None, "1}")))
    whole = (*parts, chunk(finish="tool_calls"), DONE)
    got = answer(*whole)
    (call,) = got.blocks
    assert isinstance(call, ToolCall)
    assert (call.arguments, call.path) == ('{"x":1}', "choices[0].message.tool_calls[0]")
    assert call.extras == {"novel": 1, "function.odd": 2}
    assert got.extras is None
    last = events(*whole)[-1]
    assert isinstance(last, Finish)
    assert last.unknown_fields == {"choices[0].message.tool_calls": {"new": 3}}
    (written,) = CODEC.encode_response(got, ResponseContext(source=Protocol.CHAT))["choices"][0]["message"][
        "tool_calls"
    ]
    assert written == {
        "id": "a",
        "type": "function",
        "function": {"name": "f", "arguments": '{"x":1}', "odd": 2},
        "novel": 1,
    }


@pytest.mark.parametrize("name", ["flex", "novel"])
def test_a_tier_in_the_middle_of_a_stream(name: str) -> None:
    """It may come at any time; a name that nobody knows is kept as it is."""
    words = [chunk({"content": letter}) for letter in "ab"]
    told = [chunk({"content": letter}, service_tier=name) for letter in "cd"]
    got = answer(*words, *told, *words, chunk(finish="stop"), DONE)
    assert got.blocks == (prose("abcdab"),)
    expected = (None, {"service_tier": name}) if name == "novel" else (Tier.FLEX, None)
    assert (got.tier, got.extras) == expected


def test_texts_of_a_server_that_only_completes() -> None:
    """It has no delta. Beside a delta the same text is not counted twice."""
    bare = [chunk(choices=[{"index": 0, "text": word, "finish_reason": None}]) for word in ("He", "llo")]
    assert answer(*bare, chunk(finish="stop"), DONE).blocks == (prose("Hello"),)
    both = chunk(choices=[{"index": 0, "text": "Hello", "delta": {"content": "Hello"}}])
    assert answer(both, chunk(finish="stop"), DONE).blocks == (prose("Hello"),)


@pytest.mark.parametrize(
    ("logprobs", "kept"),
    [
        ({"content": [{"token": "a"}], "refusal": None}, {"content": [{"token": "a"}]}),
        ({"content": None, "refusal": [{"token": "b"}]}, {"content": None, "refusal": [{"token": "b"}]}),
        ({"tokens": ["c"]}, {"tokens": ["c"]}),
        ([1], [1]),
    ],
    ids=["no text", "refusal", "old form", "odd form"],
)
def test_probabilities_without_a_text_are_kept(logprobs: Any, kept: Any) -> None:
    """They stay beside the message."""
    choice = {"index": 0, "delta": {"refusal": "No."}, "logprobs": logprobs}
    response = answer(chunk(choices=[choice]), chunk(finish="stop"), DONE)
    assert response.stop.extras == {"logprobs": kept}


@pytest.mark.parametrize("beside", [{}, {"content_filter_results": {}}, {"novel": 1}], ids=["nothing", "Azure", "odd"])
def test_chunks_that_are_alike_are_recognised(beside: dict[str, Any]) -> None:
    """Whatever else every choice of a server has."""
    repeated = RepeatedText(CODEC.decoder())
    for word in ("Once", " upon", " a"):
        choice = {"index": 0, "delta": {"content": word}, "finish_reason": None, **beside}
        said = {"id": "r1", "object": "chat.completion.chunk", "created": 7, "model": "m", "choices": [choice]}
        data = b"data: " + json.dumps(said).encode() + b"\n\n"
        repeated.feed(data)
    assert repeated.form is not None
    assert repeated.form.take(data) == " a"


def test_usage_of_groq() -> None:
    """Only in an extension."""
    response = answer(chunk({"content": "a"}, "stop", x_groq={"usage": {"prompt_tokens": 3, "completion_tokens": 1}}))
    assert response.usage is not None
    assert response.usage.fresh == 3


MUTANTS: list[Any] = [None, 0, -1, 1e300, "", "x", [], [[]], [None], {}, {"a": None}, True, 2**70]


def test_only_failures_come_out_of_nonsense() -> None:
    """Whatever types a chunk has, the decoder answers with events."""
    rng = random.Random(7)
    names = ["content", "reasoning", "reasoning_details", "tool_calls", "audio", "refusal", "annotations", "role"]
    for _ in range(3000):
        delta = {rng.choice(names): rng.choice(MUTANTS) for _ in range(3)}
        delta["tool_calls"] = [
            {"index": rng.choice(MUTANTS), "id": rng.choice(MUTANTS), "function": rng.choice(MUTANTS)}
        ]
        choice = {"index": rng.choice(MUTANTS), "delta": delta, "finish_reason": rng.choice(MUTANTS)}
        body = {rng.choice(["usage", "logprobs", "error", "id", "created"]): rng.choice(MUTANTS)}
        choices = rng.choice([[choice], [choice, choice], rng.choice(MUTANTS)])
        try:
            found = events(
                chunk({"content": "a"}), chunk(choices=choices, **body), chunk({"content": "b"}, "stop"), DONE
            )
        except TrilogueError:
            pytest.fail("a decoder must not raise")
        assert isinstance(found[-1], Finish | Failed)


def test_deep_nesting_is_a_failure() -> None:
    """Not a RecursionError."""
    deep = b'data: {"choices": ' + b"[" * 200_000 + b"]" * 200_000 + b"}\n\n"
    assert failure(deep).failure.kind is FailureKind.UPSTREAM_PROTOCOL


@pytest.mark.parametrize("position", range(4))
def test_the_first_choice_that_says_something(position: int) -> None:
    """A server that leaves the first one empty has put the answer into another, whenever the empty one ends."""
    begun = {"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}
    empty = {"index": 0, "delta": {}, "finish_reason": "length"}
    choices: list[dict[str, Any]] = [
        {"index": 1, "delta": {"content": word}, "finish_reason": None} for word in ("Hel", "lo")
    ]
    choices.append({"index": 1, "delta": {}, "finish_reason": "stop"})
    choices.insert(position, empty)
    chunks = [{"id": "c1", "model": "m", "choices": [choice]} for choice in (begun, *choices)]
    data = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
    for size in (len(data), 1):
        decoder, collector = CODEC.decoder(), Collector()
        for at in range(0, len(data), size):
            for event in decoder.feed(data[at : at + size].encode()):
                collector.feed(event)
        response = collector.response()
        assert [block.text for block in response.blocks if isinstance(block, Text)] == ["Hello"]
        assert response.stop.reason is StopReason.END
        assert response.extras == {"choices": True}


def test_the_first_choice_counts_if_it_says_something() -> None:
    """Others are declared, even where they speak first."""
    begun = {"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}
    first, other = ({"index": n, "delta": {"content": word}, "finish_reason": "stop"} for n, word in enumerate("ab"))
    chunks = [{"id": "c1", "model": "m", "choices": [choice]} for choice in (begun, other, first)]
    data = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
    collector = Collector()
    for event in CODEC.decoder().feed(data.encode()):
        collector.feed(event)
    assert [block.text for block in collector.response().blocks if isinstance(block, Text)] == ["a"]
