"""Audio in Chat responses: other protocols get its transcript as text, but never the same words twice."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trilogue import Protocol, StreamTranslator, collect_stream, translate_response

C, M, R = Protocol.CHAT, Protocol.MESSAGES, Protocol.RESPONSES
Body = dict[str, Any]
WORDS = "Hello there. How are you?"
CLIP: Body = {"id": "audio_1", "data": "AAAA", "expires_at": 9}
others = pytest.mark.parametrize("target", [M, R], ids=["messages", "responses"])


def whole(target: Protocol, message: Body) -> list[str]:
    """The texts of a translated whole response."""
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}
    body = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    translated = translate_response(body, source=C, target=target)
    assert "audio.dropped" in {loss.code for loss in translated.losses}
    return texts(target, translated.body)


def streamed(target: Protocol, *deltas: Body) -> Body:
    """A translated stream, as its client adds it up."""
    shared = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    ends: list[tuple[Body, str | None]] = [(delta, None) for delta in deltas] + [({}, "stop")]
    chunks = [{**shared, "choices": [{"index": 0, "delta": delta, "finish_reason": end}]} for delta, end in ends]
    translator = StreamTranslator(source=C, target=target)
    out = translator.feed(b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks))
    return collect_stream(out + translator.feed(b"data: [DONE]\n\n") + translator.close(), protocol=target)


def texts(target: Protocol, body: Body) -> list[str]:
    """The texts of a response, in order."""
    if target is M:
        return [block["text"] for block in body["content"] if block["text"]]
    return [part["text"] for item in body["output"] for part in item["content"]]


@others
@pytest.mark.parametrize(
    ("content", "transcript", "expected"),
    [
        (None, WORDS, [WORDS]),
        (WORDS, WORDS, [WORDS]),
        (WORDS, WORDS.lower().replace(".", ""), [WORDS]),
        ("**Hello**\n\nthere! How are you?", WORDS, ["**Hello**\n\nthere! How are you?"]),
        ("Listen: " + WORDS, WORDS, ["Listen: " + WORDS]),
        ("word " * 2000, "word " * 2000, ["word " * 2000]),
        ("Listen to this.", WORDS, ["Listen to this.", WORDS]),
        ("Another.", "No", ["Another.", "No"]),
        (WORDS, "", [WORDS]),
    ],
    ids=["only audio", "same", "punctuation", "markup", "part", "long", "different", "inside a word", "no transcript"],
)
def test_the_transcript_is_text_unless_the_text_has_it(
    target: Protocol, content: str | None, transcript: str, expected: list[str]
) -> None:
    """Whole and streamed alike, however the two are mixed."""
    clip = {**CLIP, "transcript": transcript}
    assert whole(target, {"content": content, "audio": clip}) == expected
    parts: list[Body] = [{"content": piece} for piece in cut(content or "")]
    assert texts(target, streamed(target, *parts, {"audio": clip})) == expected
    spoken = [{"audio": {"id": "audio_1", "transcript": piece}} for piece in cut(transcript)]
    mixed = [delta for pair in zip(spoken, parts, strict=False) for delta in pair]
    rest = [*spoken[len(parts) :], *parts[len(spoken) :]]
    assert texts(target, streamed(target, *mixed, *rest, {"audio": CLIP})) == expected


def cut(text: str) -> list[str]:
    """A text in pieces of five characters."""
    return [text[start : start + 5] for start in range(0, len(text), 5)]


@others
def test_a_clip_without_words_leaves_nothing(target: Protocol) -> None:
    """No empty text next to the call."""
    call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    message = {"audio": {"id": "audio_1", "data": "AAAA"}, "tool_calls": [call]}
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "tool_calls"}
    body = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    translated = translate_response(body, source=C, target=target).body
    kinds = [entry["type"] for entry in translated["content" if target is M else "output"]]
    assert kinds == ["tool_use" if target is M else "function_call"]


def test_a_chat_client_gets_one_clip_with_its_id() -> None:
    """Fragments between the texts are of one clip."""
    deltas: list[Body] = [
        {"content": "He"},
        {"audio": {"id": "audio_1", "transcript": "He"}},
        {"reasoning_content": "hm"},
    ]
    message = streamed(C, *deltas, {"content": "y"}, {"audio": {"transcript": "y", "data": "AAAA"}})["choices"][0]
    assert message["message"]["content"] == "Hey"
    assert message["message"]["audio"] == {"id": "audio_1", "data": "AAAA", "transcript": "Hey"}
