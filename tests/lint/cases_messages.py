"""One change per rule of Messages."""

from typing import Any

from tests.lint.edits import Case, append, both, cut, everywhere, insert, keep, put, repeat, swap, swapped
from tests.lint.goldens import (
    MESSAGES_REQUEST,
    Data,
    block,
    messages_body,
    messages_error,
    messages_error_stream,
    messages_stream,
    messages_text_body,
    messages_text_stream,
)

S, T, F, B, TB = messages_stream, messages_text_stream, messages_error_stream, messages_body, messages_text_body
ASKED = MESSAGES_REQUEST
PING = {"type": "ping"}
TEXT_DELTA = {"type": "content_block_delta", "index": 3, "delta": {"type": "text_delta", "text": "x"}}
TOOL = {"type": "tool_use", "id": "toolu_2", "name": "look", "input": {}}


def asked(**fields: Any) -> Data:
    return {**MESSAGES_REQUEST, **fields}


def delta(index: int, **fields: Any) -> Data:
    return {"type": "content_block_delta", "index": index, "delta": fields}


def count_tokens() -> Data:
    return {"input_tokens": 7}


def refusal_stream() -> Any:
    """Return a stream that a classifier refused."""
    events = messages_text_stream()
    events[-2]["delta"].update({"stop_reason": "refusal", "stop_details": {"type": "refusal", "category": None}})
    return events


# Positions: 0 start, 1 ping, 2-5 thinking, 6-8 server tool, 9-10 result, 11-15 text, 16-19 tool, 20 delta.
REDACTED = both(
    insert(2, *block(0, {"type": "redacted_thinking", "data": "x"})),
    *(put(f"{number}.index", 1) for number in (4, 5, 6)),
)
CALL = both(insert(5, *block(1, TOOL)), put("-2.delta.stop_reason", "tool_use"))

STREAMS = [
    Case("A11", S, put("20.delta.finish_reason", None)),
    Case("A15", S, keep(0, 14)),
    Case("A16", S, append(PING)),
    Case("A25", S, put("0.message.usage.cache_read_input_tokens", -1)),
    Case("A03", S, raw=swapped(b"event: ping\ndata: ", b"event: ping\ndata: x\n\nevent: ping\ndata: ")),
    Case("A02", S, raw=swapped(b"\n\nevent: content", b"\nevent: content")),
    Case("C01", S, repeat(0, 6)),
    Case("C01", S, insert(0, {"type": "content_block_stop", "index": 0})),
    Case("C02", S, cut("21")),
    Case("C02", S, append({"type": "message_stop"})),
    Case("C03", S, cut("20")),
    Case("C03", S, repeat(20, 21)),
    Case("C04", S, raw=swapped(b"event: message_stop\n", b"")),
    Case("C04", S, raw=swapped(b"event: ping\n", b"event: message\n")),
    Case("C05", S, put("0.message.content", [{"type": "text", "text": "x"}])),
    Case("C05", S, put("0.message.role", "user")),
    Case("C06", S, put("0.message.id", "chatcmpl-1")),
    Case("C07", S, cut("0.message.usage.input_tokens")),
    Case("C08", T, both(*(put(f"{number}.index", 1) for number in (2, 3, 4)))),
    Case("C09", S, swap(8, 9)),
    Case("C10", S, put("12.index", 9)),
    Case("C10", S, insert(16, {"type": "content_block_stop", "index": 3})),
    Case("C11", S, cut("19")),
    Case("C12", S, insert(16, TEXT_DELTA)),
    Case("C13", S, put("13.delta", {"type": "input_json_delta", "partial_json": "{}"})),
    Case("C14", S, insert(3, delta(0, type="text_delta", text="x"))),
    Case("C15", S, insert(10, delta(2, type="text_delta", text="x"))),
    Case("C16", S, insert(17, delta(4, type="text_delta", text="x"))),
    Case("C17", S, put("11.content_block.text", "x")),
    Case("C17", S, put("16.content_block.input", {"a": 1})),
    Case("C17", S, cut("2.content_block.signature")),
    Case("C18", S, put("16.content_block.name", "")),
    Case("C19", S, put("16.content_block.id", "functions.look:0")),
    Case("C19", S, put("16.content_block.id", "srvtoolu_1")),
    Case("C20", S, put("18.delta.partial_json", '{"a"')),
    Case("C20", S, put("18.delta.partial_json", "[1]")),
    Case("C21", S, cut("4")),
    Case("C21", S, repeat(4, 5)),
    Case("C21", S, swap(3, 4)),
    Case("C22", S, put("4.delta.signature", "")),
    Case("C23", S, put("20.delta.stop_reason", None)),
    Case("C24", S, put("20.delta.stop_reason", "stop")),
    Case("C25", S, put("20.delta.stop_reason", "end_turn")),
    Case("C25", T, put("5.delta.stop_reason", "tool_use")),
    Case("C26", T, put("5.delta.stop_sequence", "END")),
    Case("C26", T, put("5.delta.stop_reason", "stop_sequence")),
    Case("C27", refusal_stream, put("5.delta.stop_details", None)),
    Case("C27", T, put("5.delta.stop_details", {"type": "refusal"})),
    Case("C28", S, cut("20.usage")),
    Case("C29", S, put("20.usage.input_tokens", 0)),
    Case("C30", T, put("0.message.usage.output_tokens", 50)),
    Case("C31", S, put("20.usage.cache_read_input_tokens", None)),
    Case("C32", S, put("1.x", 1)),
    Case("C32", S, insert(0, PING)),
    Case("C32", S, cut("1"), note=True),
    Case("C33", F, append({"type": "message_stop"})),
    Case("C33", F, cut("3.error.message")),
    Case("C34", F, put("3.error.type", "server_error")),
    Case("C35", S, append("[DONE]")),
    Case("C36", S, put("9.content_block.tool_use_id", "srvtoolu_9")),
    Case("C37", S, insert(17, delta(4, type="citations_delta", citation={}))),
    Case("C38", S, insert(13, delta(3, type="text_delta", text=""))),
    Case("C39", T, REDACTED, asked(thinking={"type": "disabled"}), note=True),
    Case("C41", S, put("11.content_block.annotations", [])),
    Case("C43", S, everywhere("m-1", "m-2"), ASKED),
    Case("C45", S, put("20.usage.output_tokens_details.thinking_tokens", 21)),
    Case("C46", S, insert(20, *block(5, TOOL)), asked(tool_choice={"type": "auto", "disable_parallel_tool_use": True})),
    Case("C47", T, CALL, asked(tool_choice={"type": "none"})),
    Case("C48", S, put("16.content_block.name", "other"), ASKED),
    Case("C60", T, put("3.delta.text", "{"), asked(output_config={"format": {"type": "json_schema", "schema": {}}})),
]

BODIES = [
    Case("A11", B, put("finish_reason", None)),
    Case("A25", B, put("usage.cache_read_input_tokens", -1)),
    Case("C06", B, put("id", "x")),
    Case("C50", B, cut("stop_sequence")),
    Case("C50", B, put("type", "completion")),
    Case("C51", TB, put("content", None)),
    Case("C51", TB, put("content.0.type", "output_text")),
    Case("C52", B, put("stop_reason", None)),
    Case("C53", TB, put("content.0.text", None)),
    Case("C54", B, put("content.4.input", '{"a":1}')),
    Case("C55", B, cut("content.0.signature")),
    Case("C22", B, put("content.0.signature", "")),
    Case("C56", TB, put("content", [{"type": "text", "text": ""}, {"type": "text", "text": ""}])),
    Case("C57", B, cut("usage.input_tokens")),
    Case("C57", B, put("usage.cache_read_input_tokens", "4")),
    Case("C57", B, cut("usage.cache_read_input_tokens")),
    Case("C57", S, cut("0.message.usage.cache_creation_input_tokens")),
    Case("C60", TB, put("content.0.text", "{"), asked(output_config={"format": {"type": "json_schema", "schema": {}}})),
    Case("C61", B, put("temperature", 1)),
    Case("C62", count_tokens, put("output_tokens", 1)),
    Case("C25", B, put("stop_reason", "end_turn")),
    Case("C36", B, put("content.2.tool_use_id", "srvtoolu_9")),
    Case("C48", B, put("content.4.name", "other"), ASKED),
]

ERRORS = [
    Case("A26", messages_error, put("error", None)),
    Case("C59", messages_error, cut("request_id")),
    Case("C59", messages_error, cut("type")),
    Case("C34", messages_error, put("error.type", "server_error")),
]

CASES = [*STREAMS, *BODIES, *ERRORS]
