"""Reading and writing JSON: every failure is one of our own errors."""

from __future__ import annotations

import json
from typing import Any

import pytest

import trilogue
from trilogue.base.json_text import SUSPECT, blame, dump, parse_object, parse_request, parse_upstream
from trilogue.errors import BadRequest, InternalError, UpstreamProtocolError

HOSTILE = [b"", b"[1]", b"{", b'{"a":' * 100_000, b'"\xff"', b'{"a":"\\ud800"}', b"nul", b'{"a":1e999999}', b"9" * 6000]


@pytest.mark.parametrize("data", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_is_the_senders_fault(data: bytes) -> None:
    """Invalid JSON of a client is a 400, that of an upstream a 502, and neither error shows the text."""
    with pytest.raises(BadRequest):
        parse_request(data)
    with pytest.raises(UpstreamProtocolError):
        parse_upstream(data)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "it is empty"),
        (" \n", "it is empty"),
        (b"\xef\xbb\xbf{}", "it begins with a byte order mark"),
        ("\ufeff{}", "it begins with a byte order mark"),
        ("{}".encode("utf-16"), "it is not in UTF-8"),
        (b'{"a":"\xe9"}', "it is not in UTF-8"),
        (rb'{"a":"\ud83d"}', "a text holds half of a character, an escaped surrogate without the other one"),
        (r'{"a":"\ude00 b"}', "a text holds half of a character, an escaped surrogate without the other one"),
    ],
)
def test_what_editors_and_shells_do_to_a_file_is_reported(data: bytes | str, told: str) -> None:
    """Damage by editors and shells is reported in words that say what to fix."""
    with pytest.raises(BadRequest, match=f"^not valid JSON: {told}$"):
        parse_request(data)
    with pytest.raises(UpstreamProtocolError, match=f"^not valid JSON: {told}$"):
        parse_upstream(data)


@pytest.mark.parametrize("value", [[], None, 5])
def test_a_value_that_was_parsed_elsewhere_and_is_no_object(value: Any) -> None:
    """A parsed value that is not an object is the sender's fault too."""
    with pytest.raises(BadRequest, match="must be a JSON object"):
        parse_request(value)
    with pytest.raises(UpstreamProtocolError, match="not an object"):
        parse_upstream(value)


@pytest.mark.parametrize(("text", "value"), [("{}", {}), ('{"a":1}', {"a": 1}), ("[]", None), ("{", None), ("", None)])
def test_object_or_nothing(text: str, value: object) -> None:
    """Arguments may be any value; only an object is returned."""
    assert parse_object(text) == value


@pytest.mark.parametrize("value", ["\ud800", object()], ids=["half", "object"])
def test_documents_that_are_no_json_are_to_blame(value: object) -> None:
    """A caller's parser may accept what cannot be written as JSON. That is not a bug of ours."""
    with pytest.raises(SUSPECT):
        dump({"a": value})
    with pytest.raises(BadRequest):
        blame({"a": value}, BadRequest)


def test_a_bug_stays_a_bug() -> None:
    """A valid document is not blamed for a bug."""
    with pytest.raises(InternalError):
        dump(object())
    blame({"a": 1}, BadRequest)


def test_a_half_that_nothing_follows_is_shown_as_such() -> None:
    """A complete response with one broken character is better than an error."""
    text = rb'{"a":"x\ud83d","b":"\uDE00 \\ud83d \ud83d\ude01"}'
    shown = {"a": "x\ufffd", "b": "\ufffd \\ud83d \U0001f601"}
    assert parse_upstream(text, whole=True) == shown
    assert parse_upstream(text.decode(), whole=True) == shown
    with pytest.raises(UpstreamProtocolError):
        parse_upstream(rb'{"a":"x\ud83d"', whole=True)


def test_a_response_with_half_of_a_character_is_translated() -> None:
    """Half a character in a complete response is handled as in a stream."""
    text = rb'{"id":"1","choices":[{"index":0,"finish_reason":"length","message":{"content":"cut \ud83d"}}]}'
    for target in (trilogue.Protocol.MESSAGES, trilogue.Protocol.RESPONSES):
        body = trilogue.translate_response(text, source=trilogue.Protocol.CHAT, target=target).body
        assert "cut \ufffd" in json.dumps(body, ensure_ascii=False)
