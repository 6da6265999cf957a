"""Comparison by meaning: what two documents say, whatever protocol they are in and however they are written."""

from __future__ import annotations

import json
from typing import Any

import pytest

import trilogue
from tests.capture.samples import BODY, REQUEST, STREAM
from tests.corpus import load
from tests.each import each
from trilogue import Protocol
from trilogue.errors import BadRequest
from trilogue.translate.compare.detect import DocumentKind
from trilogue.translate.compare.differences import ABSENT, Difference, differences
from trilogue.translate.compare.documents import compare_documents, compare_events, read_document

PROTOCOLS = [protocol.short for protocol in Protocol]


def document(body: dict[str, Any] | bytes, **options: Any) -> Any:
    return read_document(body if isinstance(body, bytes) else json.dumps(body).encode(), **options)


def found(a: dict[str, Any] | bytes, b: dict[str, Any] | bytes) -> list[tuple[str, Any, Any]]:
    return [(one.path, one.a, one.b) for one in compare_documents(document(a), document(b))]


def test_trees() -> None:
    """Each place once; one element more at the front of a list is one difference."""
    assert list(differences({"a": [1, {"b": 2}], "c": 0}, {"a": [1, {"b": 3}], "d": True})) == [
        Difference("a[1].b", 2, 3),
        Difference("c", 0, ABSENT),
        Difference("d", ABSENT, True),
    ]
    assert list(differences(["x", "a", "b"], ["a", "b"])) == [Difference("[0]", "x", ABSENT)]
    assert list(differences([1, 2], [1, 2])) == []
    assert list(differences(True, 1)) == [Difference("", True, 1)]
    assert list(differences("a  b\n", "a b", loose=True)) == []
    assert len(list(differences(list(range(1000)), list(range(1, 1001))))) == 1000


@pytest.mark.parametrize("target", PROTOCOLS)
def test_a_translated_request_means_the_same(target: str) -> None:
    """But for what was lost."""
    body = {name: value for name, value in REQUEST.items() if name != "top_k"}
    translated = trilogue.translate_request(body, source="messages", target=target)
    assert translated.losses == []
    assert found(body, translated.body) == []


@pytest.mark.parametrize("target", PROTOCOLS)
def test_a_translated_response_means_the_same(target: str) -> None:
    translated = trilogue.translate_response(BODY, source="chat", target=target)
    across = compare_documents(document(BODY), document(translated.body))
    assert across == []


@pytest.mark.parametrize("target", PROTOCOLS)
def test_a_stream_means_the_same_as_its_translation_and_its_response(target: str) -> None:
    translator = trilogue.StreamTranslator(source="chat", target=target)
    out = translator.feed(STREAM) + translator.close()
    assert found(STREAM, out) == []
    whole = trilogue.collect_stream(out, protocol=target)
    assert found(out, whole) == []


def test_differences_are_named() -> None:
    other = {**REQUEST, "system": "You know nothing.", "max_tokens": 7}
    other["tools"] = [{**REQUEST["tools"][0], "name": "other"}]
    assert found(REQUEST, other) == [
        ("turns[0].blocks[0].text", "You know the harbour.", "You know nothing."),
        ("tools[0].name", "get_weather", "other"),
        ("sampling.max_tokens", 100, 7),
    ]


def test_form_does_not_count() -> None:
    """Bare strings and lists of parts, adjacent messages of one role, the order of fields, and made-up ids."""
    call = {"type": "tool_use", "name": "f", "input": {"a": 1, "b": 2}}
    result = {"type": "tool_result", "content": "ok"}

    def conversation(call_id: str, *, parts: bool) -> dict[str, Any]:
        text: Any = [{"type": "text", "text": "hi"}] if parts else "hi"
        return {
            "model": "claude-x",
            "max_tokens": 5,
            "messages": [
                {"role": "user", "content": text},
                {"role": "assistant", "content": [{**call, "id": call_id}]},
                {"role": "user", "content": [{**result, "tool_use_id": call_id}]},
            ],
        }

    assert found(conversation("toolu_1", parts=True), conversation("toolu_2", parts=False)) == []
    broken = conversation("toolu_1", parts=False)
    broken["messages"][2]["content"][0]["tool_use_id"] = "toolu_9"
    assert [path for path, _, _ in found(conversation("toolu_1", parts=False), broken)] == [
        "turns[2].blocks[0].call_id"
    ]


def test_arguments_are_compared_as_json() -> None:
    chat = json.loads(BODY)
    one, two = (json.loads(BODY) for _ in range(2))
    for body, arguments in ((one, '{"a": 1, "b": "é"}'), (two, '{"b":"\\u00e9","a":1}')):
        call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
        body["choices"][0]["message"] = {"role": "assistant", "content": None, "tool_calls": [call]}
    assert found(one, two) == []
    assert found(one, chat) != []


def test_events_are_compared_one_by_one() -> None:
    cut = STREAM.replace(b"is wet", b"is w")
    [difference] = compare_events(Protocol.CHAT, [STREAM], [cut])
    assert (difference.path, difference.b) == ("events[3].text", "is w. é")
    assert compare_events(Protocol.CHAT, [STREAM], [STREAM[:33], STREAM[33:]]) == []


def test_errors_and_cut_streams_are_differences() -> None:
    whole, half = document(STREAM), document(STREAM[: len(STREAM) // 2])
    paths = [one.path for one in compare_documents(whole, half)]
    assert "failure" in paths
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "later"}}
    assert compare_documents(document(error), document(error)) == []
    other = {"type": "error", "error": {"type": "overloaded_error", "message": "never"}}
    assert [one.path for one in compare_documents(document(error), document(other))] == ["failure.message"]


@pytest.mark.parametrize(
    ("body", "kind", "protocol"),
    [
        (REQUEST, DocumentKind.REQUEST, Protocol.MESSAGES),
        ({"model": "m", "messages": []}, DocumentKind.REQUEST, Protocol.CHAT),
        ({"model": "m", "max_tokens": 1, "messages": [{"role": "tool"}]}, DocumentKind.REQUEST, Protocol.CHAT),
        ({"model": "claude-x", "max_tokens": 1, "messages": []}, DocumentKind.REQUEST, Protocol.MESSAGES),
        ({"model": "m", "input": "x"}, DocumentKind.REQUEST, Protocol.RESPONSES),
        (BODY, DocumentKind.RESPONSE, Protocol.CHAT),
        ({"type": "message", "content": []}, DocumentKind.RESPONSE, Protocol.MESSAGES),
        ({"object": "response", "output": [], "error": {"code": "x"}}, DocumentKind.RESPONSE, Protocol.RESPONSES),
        ({"type": "error", "error": {}, "x": 1}, DocumentKind.REQUEST, None),
        (STREAM, DocumentKind.STREAM, Protocol.CHAT),
        (b": comment\n\n" + STREAM, DocumentKind.STREAM, Protocol.CHAT),
    ],
)
def test_kind_and_protocol_are_found_out(body: Any, kind: DocumentKind, protocol: Protocol | None) -> None:
    if protocol is None:
        with pytest.raises(BadRequest, match="several protocols"):
            document(body)
        return
    read = document(body)
    assert (read.kind, read.protocol) == (kind, protocol)


@pytest.mark.parametrize("data", [b"", b"[]", b"hello", b"{"])
def test_what_is_neither(data: bytes) -> None:
    with pytest.raises(BadRequest):
        document(data)


def test_a_request_is_not_compared_with_a_response() -> None:
    with pytest.raises(BadRequest, match="cannot be compared"):
        found(REQUEST, BODY)


@each("name", load.bodies())
def test_recorded_responses_are_recognised(name: str) -> None:
    recording = load.load(name)
    assert recording.body is not None
    read = document(trilogue.dump(recording.body))
    assert (read.kind, read.protocol) == (DocumentKind.RESPONSE, recording.protocol)
    assert compare_documents(read, read) == []
