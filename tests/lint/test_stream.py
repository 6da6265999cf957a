"""The stream linter as an API: how it is fed, event numbers, ends of streams, and what `own` adds."""

import pytest

from tests.lint.golden_responses import responses_error_stream, responses_incomplete_stream, responses_stream
from tests.lint.goldens import (
    Stream,
    chat_error_stream,
    chat_stream,
    chat_text_stream,
    chunk,
    frames,
    messages_error_stream,
    messages_stream,
    messages_text_stream,
)
from trilogue.base.sse import SseEvent, SseParser
from trilogue.lint import Finding, StreamLinter, lint_stream
from trilogue.model import Protocol

GOLDENS = [
    (Protocol.CHAT, chat_stream()),
    (Protocol.CHAT, chat_text_stream()),
    (Protocol.CHAT, chat_error_stream()),
    (Protocol.CHAT, [*chat_error_stream(), "[DONE]"]),
    (Protocol.MESSAGES, messages_stream()),
    (Protocol.MESSAGES, messages_text_stream()),
    (Protocol.MESSAGES, messages_error_stream()),
    (Protocol.RESPONSES, responses_stream()),
    (Protocol.RESPONSES, responses_incomplete_stream()),
    (Protocol.RESPONSES, responses_error_stream()),
    (Protocol.RESPONSES, responses_error_stream()[:4]),
]


def data_of(protocol: Protocol, events: Stream) -> bytes:
    return frames(events, named=protocol is not Protocol.CHAT)


def pairs(findings: list[Finding]) -> list[tuple[str, int | None]]:
    return [(finding.rule, finding.event) for finding in findings]


@pytest.mark.parametrize(("protocol", "events"), GOLDENS)
def test_goldens_are_clean(protocol: Protocol, events: Stream) -> None:
    """Streams that are complete, cut off by a limit, or end in a native error break no rule."""
    assert lint_stream(protocol, data_of(protocol, events)) == []


@pytest.mark.parametrize(("protocol", "events"), GOLDENS)
def test_parsed_events_give_the_same_as_bytes(protocol: Protocol, events: Stream) -> None:
    """Recordings often contain events instead of bytes."""
    assert lint_stream(protocol, SseParser().feed(data_of(protocol, events))) == []


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_the_cut_of_the_bytes_does_not_show(size: int) -> None:
    """Reads may end anywhere, also between CR and LF and inside a character."""
    events = [*chat_stream()[:2], chunk({"content": "é", "role": "assistant"}), *chat_stream()[2:]]
    data = b"\xef\xbb\xbf: hi\r\n\r\n" + data_of(Protocol.CHAT, events)
    chunks = [data[start : start + size] for start in range(0, len(data), size)]
    assert sorted(pairs(lint_stream(Protocol.CHAT, chunks))) == [("A02", 0), ("A02", 0), ("B09", 2)]


@pytest.mark.parametrize("protocol", list(Protocol))
def test_comments_are_welcome_anywhere(protocol: Protocol) -> None:
    """Comments are keep-alives that every client ignores, also after the terminal event."""
    events = {
        Protocol.CHAT: chat_stream(),
        Protocol.MESSAGES: messages_stream(),
        Protocol.RESPONSES: responses_stream(),
    }[protocol]
    data = data_of(protocol, events).replace(b"\n\n", b"\n\n: keepalive\n\n")
    assert lint_stream(protocol, b": keepalive\n\n" + data) == []


@pytest.mark.parametrize(("protocol", "events"), [golden for golden in GOLDENS if len(golden[1]) > 5])
def test_every_truncation_is_found(protocol: Protocol, events: Stream) -> None:
    """A truncated stream is found at any length. Other gateways report it as a success."""
    for length in range(len(events)):
        findings = lint_stream(protocol, data_of(protocol, events[:length]))
        assert {finding.rule for finding in findings} & {"A15", "B37", "C02"}, length
        assert all(finding.severity == "error" for finding in findings)


def test_empty_stream_is_truncated() -> None:
    """A stream without any event is truncated."""
    assert [pairs(lint_stream(protocol, b"")) for protocol in Protocol] == [[("A15", 0)]] * 3


def test_findings_come_as_soon_as_they_show() -> None:
    """`feed` returns what is new, `close` the rest, and `findings` everything."""
    linter = StreamLinter(Protocol.CHAT)
    assert linter.feed(b'data: {"error": {') == []
    first = linter.feed(b'"message": "m"}}\n\n')
    assert pairs(first) == [("B40", 0)] * 3
    assert linter.feed(b"data: {}\n\n")[0].event == 1
    assert linter.close() == []
    assert [finding.rule for finding in linter.findings] == ["B40", "B40", "B40", "B39"]


def test_events_without_data_are_numbered_too() -> None:
    """Events without data count, so that numbers match the events of a client."""
    data = b"event: ping\n\n" + data_of(Protocol.CHAT, [*chat_stream(), "[DONE]"])
    assert pairs(lint_stream(Protocol.CHAT, data)) == [("A05", 0), ("B37", 11)]


def test_the_same_fault_is_reported_once() -> None:
    """A stream without sequence numbers has one finding, not one per event."""
    events = responses_stream()
    for event in events:
        del event["sequence_number"]
    findings = lint_stream(Protocol.RESPONSES, data_of(Protocol.RESPONSES, events))
    assert pairs(findings) == [("D03", 0)]
    assert "Cherry Studio" in str(findings[0])


def test_own_false_leaves_out_the_obligations_of_a_gateway() -> None:
    """Providers may do what a gateway must not do."""
    events = messages_stream()
    events[0]["message"]["model"] = "m-1-2026"
    del events[1]
    data, request = data_of(Protocol.MESSAGES, events), {"model": "m-1", "thinking": {"type": "adaptive"}}
    assert pairs(lint_stream(Protocol.MESSAGES, data, request=request)) == [("C43", 0), ("C48", 19), ("C32", 20)]
    assert lint_stream(Protocol.MESSAGES, data, request=request, own=False) == []


def test_continuation_of_a_call_from_code_is_the_providers_own() -> None:
    """Anthropic responds with a filled message_start and message_stop here; a gateway must not."""
    start = messages_stream()[0]
    start["message"].update({"content": [{"type": "text", "text": "x"}], "stop_reason": "tool_use"})
    data = data_of(Protocol.MESSAGES, [start, {"type": "message_stop"}])
    assert lint_stream(Protocol.MESSAGES, data, own=False) == []
    assert {rule for rule, _ in pairs(lint_stream(Protocol.MESSAGES, data))} == {"C03", "C05", "C32"}


def test_named_tool_choice_may_end_in_stop_at_openai_only() -> None:
    """OpenAI says stop here, but agents behind a gateway rely on tool_calls."""
    events = chat_stream()
    events[7]["choices"][0]["finish_reason"] = "stop"
    request = {"model": "m-1", "tool_choice": {"type": "function", "function": {"name": "look"}}}
    data = data_of(Protocol.CHAT, events)
    assert lint_stream(Protocol.CHAT, data, request=request, own=False) == []
    assert "B25" in {finding.rule for finding in lint_stream(Protocol.CHAT, data, request=request)}


def test_moderation_after_usage_is_openais_own() -> None:
    """The SDK would lose the usage, so a gateway sends usage last."""
    moderation = {**chunk(None), "moderation": {"input": {}}}
    events = [*chat_stream()[:9], moderation, "[DONE]"]
    assert lint_stream(Protocol.CHAT, data_of(Protocol.CHAT, events), own=False) == []
    assert pairs(lint_stream(Protocol.CHAT, data_of(Protocol.CHAT, events))) == [("B31", 9)]


def test_a_refusal_need_not_be_json() -> None:
    """Models may refuse a structured response in plain words."""
    events = [chunk({"role": "assistant", "refusal": "No."}), chunk({}, "stop"), "[DONE]"]
    request = {"model": "m-1", "response_format": {"type": "json_schema"}}
    assert lint_stream(Protocol.CHAT, data_of(Protocol.CHAT, events), request=request) == []


def test_findings_show_no_payload() -> None:
    """Findings contain only names and paths, so that a report can be pasted into an issue."""
    secret = "my-secret-text"
    events = [chunk({"role": secret, "content": [secret]}), {"id": secret, "object": secret, "choices": secret}]
    findings = lint_stream(Protocol.CHAT, data_of(Protocol.CHAT, events) + secret.encode())
    assert len(findings) > 5
    assert all(secret not in str(finding) for finding in findings)


def test_events_may_be_given_one_by_one() -> None:
    """Events can be passed one by one, for transports that do not use SSE."""
    linter = StreamLinter(Protocol.MESSAGES)
    assert pairs(linter.feed_event(SseEvent("ping", b'{"type": "ping"}'))) == [("C32", 0)]
    assert pairs(linter.feed_event(SseEvent("ping", b"\xff"))) == [("A08", 1)]


def test_text_is_optional_where_the_request_does_not_say_it() -> None:
    """Some providers leave the text settings out of their response objects."""
    events = responses_stream()
    for event in events:
        event.get("response", {}).pop("text", None)
    assert lint_stream(Protocol.RESPONSES, data_of(Protocol.RESPONSES, events)) == []
