"""The shape of ordinary events: what is recognised says the same as the decoder would, and everything else is left."""

from __future__ import annotations

import json

import pytest

from benchmarks.core import STREAMS
from trilogue import Protocol, StreamTranslator
from trilogue.model import Delta
from trilogue.protocols.registry import codec
from trilogue.protocols.shape import learn

CHAT = 'data: {"id":"a","choices":[{"index":0,"delta":{"content":%s},"finish_reason":null}]}\n\n'
PADDED = 'data: {"choices":[{"index":0,"delta":{"content":%s}}],"obfuscation":"%s"}\n\n'
NUMBERED = 'event: x\ndata: {"type":"x","sequence_number":%d,"delta":%s,"obfuscation":"%s"}\n\n'
TEXTS = ["a", " word", "naïve", "你好", "🦊", " '<>&", "[DONE]", "{}", ": ,"]
LEFT = ["", 'a "quoted" word', "back\\slash", "line\nbreak", "\t", "\x7f", "\u2028", "\u200b"]


def wire(form: str, text: str, *more: object) -> bytes:
    return (form % (*more[:1], json.dumps(text, ensure_ascii=False), *more[1:])).encode()


@pytest.mark.parametrize("text", TEXTS)
def test_the_text_is_found(text: str) -> None:
    """Also beside a padding and a number that change from event to event."""
    chat = learn(wire(CHAT, "first"), "first")
    assert chat is not None
    assert chat.text(wire(CHAT, text)) == text
    padded = learn((PADDED % ('"first"', "aB3")).encode(), "first")
    assert padded is not None
    assert padded.text((PADDED % (json.dumps(text, ensure_ascii=False), "xyz99")).encode()) == text
    numbered = learn(wire(NUMBERED, "first", 7, "ab"), "first")
    assert numbered is not None
    assert numbered.text(wire(NUMBERED, text, 12345, "q")) == text


@pytest.mark.parametrize("text", LEFT)
def test_what_needs_a_parser_is_left_to_it(text: str) -> None:
    """Escapes, control characters, and nothing at all."""
    shape = learn(wire(CHAT, "first"), "first")
    assert shape is not None
    assert shape.text(wire(CHAT, text)) == ""


def test_whatever_differs_is_left() -> None:
    """One more field, another index, a cut or a second event, bad UTF-8, a number that is none."""
    shape = learn(wire(CHAT, "first"), "first")
    assert shape is not None
    good = wire(CHAT, "more")
    assert shape.text(good) == "more"
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
    assert [shape.text(other) for other in others] == [""] * len(others)
    numbered = learn(wire(NUMBERED, "first", 7, "ab"), "first")
    assert numbered is not None
    bad = wire(NUMBERED, "more", 8, "ab")
    assert [numbered.text(bad.replace(b":8,", number)) for number in (b":-8,", b":,", b':8,"a":1,', b":8 ,")] == [
        ""
    ] * 4
    assert numbered.text(bad.replace(b'"ab"', b'"a","b":"c"')) == ""


def test_an_uncertain_place_is_not_learnt() -> None:
    """The text also stands elsewhere, or it is not one whole event."""
    assert learn(wire(CHAT, "index"), "index") is None
    assert learn(wire(CHAT, 'a"b'), 'a"b') is None
    assert learn(wire(CHAT, "a") * 2, "a") is None
    assert learn(wire(CHAT, "a")[:-1], "a") is None


@pytest.mark.parametrize("source", Protocol, ids=lambda protocol: protocol.short)
def test_the_decoder_learns_and_forgets(source: Protocol) -> None:
    """From the second or third text on; any other event ends it, and so does half an event."""
    events = list(STREAMS[source](6))
    decoder = codec(source).decoder()
    seen = []
    for event in events:
        text = decoder.glimpse(event)
        seen.append(text)
        if not text:
            decoder.feed(event)
    found = [text for text in seen if text]
    assert found == [f" word{number}" for number in range(6 - len(found), 6)]
    assert len(found) >= 4
    assert decoder.shape is None
    decoder = codec(source).decoder()
    for event in events[:-5]:
        decoder.feed(event)
    assert decoder.shape is not None
    decoder.feed(b"data: {")
    assert decoder.shape is None


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


def test_a_text_that_is_no_text_is_not_learnt() -> None:
    """Arguments of a call are deltas too, and the next step may have to look at them."""
    decoder = codec(Protocol.MESSAGES).decoder()
    for name, data in (
        ("message_start", {"message": {"id": "m", "content": [], "usage": {"input_tokens": 1}}}),
        (
            "content_block_start",
            {"index": 0, "content_block": {"type": "tool_use", "id": "t", "name": "f", "input": {}}},
        ),
        ("content_block_delta", {"index": 0, "delta": {"type": "input_json_delta", "partial_json": "1"}}),
    ):
        events = decoder.feed(f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n".encode())
    assert type(events[0]) is Delta
    assert decoder.shape is None
