"""Events that differ only in their text are recognised with the same result as decoding them; others are left."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks.core import STREAMS
from trilogue import Protocol, StreamTranslator, translate_request
from trilogue.model import Delta, ReasoningDelta
from trilogue.protocols.registry import codec
from trilogue.protocols.stream.repeated_deltas import RepeatedText, learn

CHAT = 'data: {"id":"a","choices":[{"index":0,"delta":{"content":%s},"finish_reason":null}]}\n\n'
PADDED = 'data: {"choices":[{"index":0,"delta":{"content":%s}}],"obfuscation":"%s"}\n\n'
NUMBERED = 'event: x\ndata: {"type":"x","sequence_number":%d,"delta":%s,"obfuscation":"%s"}\n\n'
BOTH = 'event: x\ndata: {"type":"x","delta":%s,"obfuscation":"%s","output_index":0,"sequence_number":%d}\n\n'
SPACED = 'event: x\ndata: {"type":"x","delta":{"text":%s}%s}\n\n'
TEXTS = ["a", " word", "naïve", "你好", "🦊", " '<>&", "[DONE]", "{}", ": ,", "\x7f", "\u2028", "\u200b"]
TEXTS += ['a "quoted" word', "back\\slash", "ends\\", 'ends"', "line\nbreak", "\t", '"}', '","obfuscation":"', "\0"]
LEFT = [
    '""',
    ' "a"',
    '"a" ',
    '\n"a"',
    '\r"a"',
    '"\\ud83d"',
    '"\\ude00"',
    '"\t"',
    '"\n"',
    '"\0"',
    '"\\x"',
    '"\\',
    '"a""b"',
    '"a","b"',
    "null",
    "1",
    "a",
    "",
]
"""as they stand in an event"""


def wire(form: str, text: str, *more: object) -> bytes:
    return (form % (*more[:1], json.dumps(text, ensure_ascii=False), *more[1:])).encode()


@pytest.mark.parametrize("text", TEXTS)
def test_the_text_is_found(text: str) -> None:
    """Also beside a padding and a number that change from event to event."""
    chat = learn(wire(CHAT, "first"), "first")
    assert chat is not None
    assert chat.take(wire(CHAT, text)) == text
    padded = learn((PADDED % ('"first"', "aB3")).encode(), "first")
    assert padded is not None
    assert padded.take((PADDED % (json.dumps(text, ensure_ascii=False), "xyz99")).encode()) == text
    numbered = learn(wire(NUMBERED, "first", 7, "ab"), "first")
    assert numbered is not None
    assert numbered.take(wire(NUMBERED, text, 12345, "q")) == text


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("escaped", [True, False])
def test_what_varies_after_the_text(text: str, escaped: bool) -> None:
    """A padding and a number, as OpenAI writes them now, and the spaces of Anthropic; there may also be none of it."""
    said = json.dumps(text, ensure_ascii=escaped)
    both = learn((BOTH % ('"first"', "aB3", 4)).encode(), "first")
    assert both is not None
    assert [both.take((BOTH % (said, *varies)).encode()) for varies in (("q", 5), ("", 12345))] == [text] * 2
    spaced = learn((SPACED % ('"first"', "   ")).encode(), "first")
    assert spaced is not None
    assert [spaced.take((SPACED % (said, " " * count)).encode()) for count in (0, 1, 20)] == [text] * 3
    bad = [spaced.take((SPACED % (said, space)).encode()) for space in ("\n", " \n ", "\t", ',"a":1', "}")]
    assert bad == [""] * 5


@pytest.mark.parametrize("said", LEFT)
def test_what_the_decoder_must_see_is_left_to_it(said: str) -> None:
    """Nothing at all, halves of characters, what must be escaped and is not, and what is no string."""
    for form, more in ((CHAT, ()), (PADDED, ("aB3",)), (BOTH, ("aB3", 4)), (SPACED, ("   ",))):
        shape = learn((form % ('"first"', *more)).encode(), "first")
        assert shape is not None
        assert shape.take((form % (said, *more)).encode()) == ""


def test_whatever_differs_is_left() -> None:
    """One more field, another index, a cut or a second event, bad UTF-8, a number that is none."""
    shape = learn(wire(CHAT, "first"), "first")
    assert shape is not None
    good = wire(CHAT, "more")
    assert shape.take(good) == "more"
    others = [
        good.replace(b'"index":0', b'"index":1'),
        good.replace(b'"finish_reason":null', b'"finish_reason":"stop"'),
        good.replace(b'"more"', b'"more","refusal":"x"'),
        good.replace(b'"more"', b"null"),
        good.replace(b'"more"', b'"mo\xffre"'),
        good.replace(b"\n\n", b"\r\n\r\n"),
        good[:-1],
        good[1:],
        good + good,
        b": comment\n\n" + good,
        b"",
    ]
    assert [shape.take(other) for other in others] == [""] * len(others)
    numbered = learn(wire(NUMBERED, "first", 7, "ab"), "first")
    assert numbered is not None
    bad = wire(NUMBERED, "more", 8, "ab")
    assert [numbered.take(bad.replace(b":8,", number)) for number in (b":-8,", b":,", b':8,"a":1,', b":8 ,")] == [
        ""
    ] * 4
    assert numbered.take(bad.replace(b'"ab"', b'"a","b":"c"')) == ""


def test_an_uncertain_place_is_not_learned() -> None:
    """The text also stands elsewhere, or it is not one whole event."""
    assert learn(wire(CHAT, "index"), "index") is None
    assert learn(wire(CHAT, 'a"b'), 'a"b') is None
    assert learn(wire(CHAT, "a") * 2, "a") is None
    assert learn(wire(CHAT, "a")[:-1], "a") is None
    assert learn(b'data: {"id":"b","choices":[{"index":0,"delta":{"content":"\\u0062"}}]}\n\n', "b") is None


@pytest.mark.parametrize("source", Protocol, ids=lambda protocol: protocol.short)
def test_a_form_is_learned_and_forgotten(source: Protocol) -> None:
    """From the second or third text on; any other event ends it, and so does half an event."""
    events = list(STREAMS[source](6))
    repeated = RepeatedText(codec(source).decoder())
    found = []
    for event in events:
        text = repeated.form.take(event) if repeated.form else ""
        if text:
            found.append(text)
        else:
            repeated.feed(event)
    assert found == [f" word{number}" for number in range(6 - len(found), 6)]
    assert len(found) >= 4
    assert repeated.form is None
    repeated = RepeatedText(codec(source).decoder())
    for event in events[:-5]:
        repeated.feed(event)
    assert repeated.form is not None
    repeated.feed(b"data: {")
    assert repeated.form is None


@pytest.mark.parametrize("target", Protocol, ids=lambda protocol: protocol.short)
@pytest.mark.parametrize("source", Protocol, ids=lambda protocol: protocol.short)
def test_how_it_is_cut_never_shows(source: Protocol, target: Protocol) -> None:
    """Whole events, which are recognised, give the same as single bytes, which never are."""
    data = b"".join(STREAMS[source](30))
    by_event, by_byte = (StreamTranslator(source=source, target=target) for _ in range(2))
    whole = b"".join(by_event.feed(event) for event in STREAMS[source](30)) + by_event.close()
    single = b"".join(by_byte.feed(data[at : at + 1]) for at in range(len(data))) + by_byte.close()
    assert whole == single
    assert by_event.usage == by_byte.usage


def thoughtful(arguments: str) -> list[bytes]:
    """A Messages stream that thinks and calls a tool, in many small events."""
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
    call = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**message, "usage": {"input_tokens": 1, "output_tokens": 1}}}
    ]
    blocks = [
        ({"type": "thinking", "thinking": "", "signature": ""}, "thinking_delta", "thinking", "All this is\nthought. "),
        (call, "input_json_delta", "partial_json", arguments),
    ]
    for index, (block, kind, field, text) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        for at in range(0, len(text), 3):
            delta = {"type": kind, field: text[at : at + 3]}
            events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})
    end = {"stop_reason": "tool_use", "stop_sequence": None}
    events += [{"type": "message_delta", "delta": end, "usage": {"output_tokens": 9}}, {"type": "message_stop"}]
    return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events]


def split(data: bytes) -> list[bytes]:
    return [event + b"\n\n" for event in data.split(b"\n\n") if event]


@pytest.mark.parametrize("target", Protocol, ids=lambda protocol: protocol.short)
@pytest.mark.parametrize("source", Protocol, ids=lambda protocol: protocol.short)
def test_reasoning_and_arguments_are_the_same_too(source: Protocol, target: Protocol) -> None:
    """They are recognised where the decoder has nothing to put together, and pass every step that they would."""
    events = thoughtful('{"a": "b\\n%s"}' % ("c" * 60))
    if source is not Protocol.MESSAGES:
        first = StreamTranslator(source=Protocol.MESSAGES, target=source)
        events = split(b"".join(map(first.feed, events)))
    by_event, by_byte = (StreamTranslator(source=source, target=target) for _ in range(2))
    whole = b"".join(by_event.feed(event) for event in events) + by_event.close()
    data = b"".join(events)
    single = b"".join(by_byte.feed(data[at : at + 1]) for at in range(len(data))) + by_byte.close()
    assert by_event.failed is by_byte.failed is None
    assert whole == single
    assert by_event.losses == by_byte.losses


def test_arguments_that_the_next_step_must_look_at() -> None:
    """A tool that takes free text was offered as a function: its input is taken out of the arguments."""
    body = {"model": "m", "input": "hi", "tools": [{"type": "custom", "name": "f"}]}
    exchange = translate_request(body, source=Protocol.RESPONSES, target=Protocol.MESSAGES).exchange
    events = thoughtful('{"input": "%s"}' % ("free text " * 9))
    translator = StreamTranslator(source=Protocol.MESSAGES, target=Protocol.RESPONSES, exchange=exchange)
    for event in events:
        translator.feed(event)
    (call,) = [item for item in translator.snapshot["output"] if item["type"] == "custom_tool_call"]
    assert call["input"] == "free text " * 9


@pytest.mark.parametrize("source", Protocol, ids=lambda protocol: protocol.short)
def test_what_else_is_learned(source: Protocol) -> None:
    """Reasoning, and arguments unless the decoder puts them together itself, as that of Chat does."""
    events = thoughtful('{"a": "%s"}' % ("c" * 60))
    if source is not Protocol.MESSAGES:
        first = StreamTranslator(source=Protocol.MESSAGES, target=source)
        events = split(b"".join(map(first.feed, events)))
    repeated = RepeatedText(codec(source).decoder())
    samples = []
    for event in events:
        repeated.feed(event)
        if repeated.form is not None:
            samples.append(type(repeated.event))
    assert ReasoningDelta in samples
    assert (Delta in samples) is (source is not Protocol.CHAT)


def test_another_form_of_the_same_is_learned_too() -> None:
    """Spaces that the first event did not have; but not again and again."""
    repeated = RepeatedText(codec(Protocol.MESSAGES).decoder())
    events = list(STREAMS[Protocol.MESSAGES](20))
    spaced = [event[:-3] + b"  }\n\n" for event in events]
    for event in events[:5] + spaced[5:6]:
        repeated.feed(event)
    assert repeated.form is not None
    assert repeated.form.take(spaced[6]) == " word3"
    for number in range(9):
        form = repeated.form
        repeated.feed(events[7].replace(b'"index":0', b'"index":0,"x":%d' % number))
    assert repeated.form is form


def chat(delta: dict[str, Any], finish: str | None = None, **beside: Any) -> bytes:
    return _data({"id": "a", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **beside})


def _data(event: dict[str, Any]) -> bytes:
    return b"data: %b\n\n" % json.dumps(event).encode()


def _usage(tokens: int) -> dict[str, int]:
    return {"prompt_tokens": 1, "completion_tokens": tokens, "total_tokens": 1 + tokens}


def _message(number: int) -> bytes:
    item = {"type": "message", "id": f"m{number}", "role": "assistant", "content": []}
    return _data({"type": "response.output_item.added", "output_index": number, "item": item})


def _text(text: str, **where: int) -> bytes:
    return _data({"type": "response.output_text.delta", **where, "content_index": 0, "delta": text})


CITED = [{"type": "url_citation", "url_citation": {"url": "http://x", "title": "t", "start_index": 0, "end_index": 1}}]
SIGNED = [{"type": "thinking", "thinking": "", "signature": "sig"}]
WORDS = [f"w{number}" for number in range(5)]
ODD: dict[str, tuple[Protocol, list[bytes]]] = {
    "citations beside every text": (Protocol.CHAT, [chat({"content": word, "annotations": CITED}) for word in WORDS]),
    "sound beside every text": (Protocol.CHAT, [chat({"content": word, "audio": {"data": "QUFB"}}) for word in WORDS]),
    "signatures beside every text": (
        Protocol.CHAT,
        [chat({"content": word, "thinking_blocks": SIGNED}) for word in WORDS],
    ),
    "usage that falls back": (
        Protocol.CHAT,
        [
            *(chat({"content": word}, usage=_usage(1)) for word in WORDS),
            chat({}, usage=_usage(9)),
            *(chat({"content": word}, usage=_usage(1)) for word in WORDS),
        ],
    ),
    "an end that is taken back": (
        Protocol.CHAT,
        [
            *(chat({"content": word}, "length") for word in WORDS),
            chat({}, "content_filter"),
            *(chat({"content": word}, "length") for word in WORDS),
        ],
    ),
    "places that are left out": (
        Protocol.RESPONSES,
        [
            _data({"type": "response.created", "response": {"id": "r", "model": "m", "output": []}}),
            _message(0),
            *(_text(word, output_index=0) for word in WORDS),
            *(_text(word) for word in WORDS),
            _message(1),
            *(_text(word) for word in WORDS),
        ],
    ),
}


@pytest.mark.parametrize("target", Protocol, ids=lambda protocol: protocol.short)
@pytest.mark.parametrize("case", ODD)
def test_events_that_say_more_than_their_text(case: str, target: Protocol) -> None:
    """They mean the same whether they come one by one, when they might be recognised, or byte by byte."""
    source, events = ODD[case]
    sent = []
    for pieces in (events, [bytes([byte]) for byte in b"".join(events)]):
        translator = StreamTranslator(source=source, target=target)
        out = b"".join(map(translator.feed, pieces)) + translator.feed(b"data: [DONE]\n\n") + translator.close()
        sent.append((out, translator.losses, translator.snapshot))
    assert sent[0] == sent[1]
