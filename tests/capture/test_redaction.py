"""A redacted capture has placeholders of the same length for every text, and still replays."""

from __future__ import annotations

import json

import pytest

from tests.capture.making import in_pieces
from tests.capture.samples import CALL, SECRET_WORDS, STREAM, plain, streamed
from trilogue.capture import replay
from trilogue.capture.redaction import JsonTextRedactor, StreamRedactor, redact_body, redact_json_text, redact_text


@pytest.mark.parametrize("size", [1, 5, 64, 10_000])
def test_no_words_are_left_and_the_capture_replays(size: int) -> None:
    traffic = streamed(in_pieces(STREAM, size))
    data = traffic.file(redact=True).decode()
    assert [word for word in SECRET_WORDS if word in data] == []
    assert "get_weather" in data
    replayed = replay(traffic.capture(redact=True))
    assert replayed.compared
    assert replayed.differences == []


def test_plain_responses_too() -> None:
    data = plain().file(redact=True).decode()
    assert [word for word in SECRET_WORDS if word in data] == []
    assert replay(plain().capture(redact=True)).differences == []
    assert plain().capture(redact=True).head.redacted


def test_texts_keep_their_length_and_white_space() -> None:
    assert redact_text("Hi there,\n\tü!") == "xx xxxxxx\n\txx"
    assert redact_text("https://a.example/b?c=1") == "https://x.xxxxxxx/x?x=x"
    assert redact_text("data:image/png;base64,iVBOR") == "data:image/png;base64,AAAAA"
    assert redact_text("<think>hm</think>yes") == "<think>xx</think>xxx"


def test_structure_stays() -> None:
    body = {
        "model": "gpt-5",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "secret one"}]}],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "f",
                    "description": "secret two",
                    "parameters": {
                        "type": "object",
                        "properties": {"type": {"type": "string", "enum": ["secret"]}},
                        "required": ["type"],
                    },
                },
            }
        ],
        "temperature": 0.5,
        "code": "print('secret three')",
        "metadata": {"user": "secret four"},
    }
    redacted = json.loads(redact_body(json.dumps(body).encode()))
    assert "secret" not in json.dumps(redacted)
    assert redacted["model"] == "gpt-5"
    assert redacted["temperature"] == 0.5
    assert redacted["messages"][0]["content"][0] == {"type": "text", "text": "xxxxxx xxx"}
    parameters = redacted["tools"][0]["function"]["parameters"]
    assert parameters["properties"] == {"type": {"type": "string", "enum": ["xxxxxx"]}}
    assert parameters["required"] == ["type"]
    assert redacted["metadata"] == {"user": "xxxxxx xxxx"}


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_json_text_stays_json_however_it_is_cut(size: int) -> None:
    """Names, numbers and escapes survive; texts have the same number of characters."""
    text = '{"a b": "x\\"y\\\\", "n": [1.5e3, true, null], "u": "\\ud83d\\ude00é\\n", "o": {"k": ""}}'
    redactor = JsonTextRedactor()
    whole = "".join(redactor.feed(text[start : start + size]) for start in range(0, len(text), size))
    assert whole == redact_json_text(text)
    assert json.loads(whole) == {"a b": "xxxx", "n": [1500.0, True, None], "u": "xx\n", "o": {"k": ""}}


def test_arguments_are_redacted_alike_as_text_and_as_object() -> None:
    """A translation turns one into the other."""
    as_text = json.loads(redact_body(json.dumps({"arguments": CALL}).encode()))["arguments"]
    as_object = json.loads(redact_body(json.dumps({"input": json.loads(CALL)}).encode()))["input"]
    assert json.loads(as_text) == as_object
    assert as_object["city"] == "xxxxxx"
    assert as_object["days"] == 2


def test_lines_of_a_stream() -> None:
    """Comments, names of events and the end stay; a line that is not JSON does not."""
    redactor = StreamRedactor()
    data = b': comment\nevent: ping\ndata: {"type": "ping"}\n\ndata: [DONE]\n\ndata: secret\nsecret too\n\n'
    out = redactor.feed(data) + redactor.close()
    assert out == b': comment\nevent: ping\ndata: {"type":"ping"}\n\ndata: [DONE]\n\ndata: xxxxxx\nxxxxxx xxx\n\n'


def test_an_error_page_is_redacted() -> None:
    redactor = StreamRedactor()
    assert redactor.feed(b"<html>secret</html>") + redactor.close() == b"xxxxxxxxxxxxxxxxxxx"
