"""One change per rule of Responses, and per shared rule that is tested with Responses."""

from typing import Any

from tests.lint.edits import Case, append, both, cut, everywhere, insert, put, repeat, swap, swapped
from tests.lint.golden_responses import (
    RESPONSES_REQUEST,
    USAGE,
    responses_body,
    responses_error_stream,
    responses_incomplete_stream,
    responses_stream,
)
from tests.lint.goldens import Data, openai_error

S, CUT_SHORT, F, B = responses_stream, responses_incomplete_stream, responses_error_stream, responses_body
ASKED = RESPONSES_REQUEST
JSON_FORMAT = {"format": {"type": "json_schema", "name": "x", "schema": {}}}


def asked(**fields: Any) -> Data:
    return {**RESPONSES_REQUEST, **fields}


def input_tokens() -> Data:
    return {"object": "response.input_tokens", "input_tokens": 7}


def json_body() -> Data:
    """Return a body whose text is JSON."""
    body = responses_body()
    body["output"][2]["content"] = [{"type": "output_text", "text": '{"a":1}', "annotations": [], "logprobs": []}]
    return body


def one_call_body() -> Data:
    body = responses_body()
    del body["output"][5]
    return body


def no_call_body() -> Data:
    """Return a body for a request that forbids calls."""
    body = responses_body()
    del body["output"][3:]
    body["tool_choice"] = "none"
    return body


def in_items(old: str, new: str) -> Any:
    """Change a text that comes in two deltas, in its complete form and in its first delta."""
    return both(everywhere(old, new), everywhere(old[1:], new[1:]))


def text_delta(content_index: int) -> Data:
    place = {"item_id": "msg_1", "output_index": 2, "content_index": content_index}
    return {"type": "response.output_text.delta", **place, "delta": "x", "logprobs": []}


NEGATIVE = {**USAGE, "output_tokens": -5, "total_tokens": 10, "output_tokens_details": {"reasoning_tokens": 0}}
TEXT_PARTS = ("24.part", "30.item.content.0", "46.response.output.2.content.0")
"""position of the finished text once event 22 is gone"""
CALL = {"type": "function_call", "id": "fc_9", "call_id": "call_9", "name": "look", "arguments": "{}"}

# Positions: 2-13 reasoning (3-7 summary, 8-12 raw), 14-18 search, 19-31 message, 32-36, 37-41, 42-46 calls, 47 end.
STREAMS = [
    Case("A05", S, raw=swapped(b"event: response.created", b"data:\n\nevent: response.created")),
    Case("A06", S, insert(2, {"type": "keepalive"})),
    Case("A11", S, put("2.item.stop_reason", None)),
    Case("A14", S, everywhere("m-1", "m-2"), ASKED),
    Case("A15", S, cut("47")),
    Case("A16", S, append({"type": "error", "error": {"code": "x", "message": "y"}})),
    Case("A16", F, insert(4, {"type": "response.output_text.nothing"})),
    Case("A21", S, everywhere("fc_2", "fc_1")),
    Case("A25", S, put("47.response.usage", NEGATIVE)),
    Case("D01", S, put("0.response.status", "completed")),
    Case("D01", S, put("0.type", "response.queued")),
    Case("D02", S, cut("1")),
    Case("D03", S, cut("5.sequence_number"), renumber=False),
    Case("D03", S, put("5.sequence_number", 9), renumber=False),
    Case("D04", S, repeat(47, 48)),
    Case("D05", S, put("47.type", "response.incomplete")),
    Case("D06", S, put("47.response.id", "resp_2")),
    Case("D07", CUT_SHORT, put("2.response.incomplete_details", None)),
    Case("D08", F, both(cut("3"), put("3.response.error", None))),
    Case("D09", S, append("[DONE]")),
    Case("D10", S, raw=swapped(b"event: response.created\n", b"")),
    Case("D11", S, put("1.response", None)),
    Case("D12", S, repeat(2, 3)),
    Case("D13", S, both(*(put(f"{number}.output_index", 7) for number in range(42, 47)))),
    Case("D14", S, swap(13, 14)),
    Case("D15", S, both(cut("46"), cut("46.response.output.5"))),
    Case("D16", S, both(put("36.item.call_id", "call_9"), put("47.response.output.3.call_id", "call_9"))),
    Case("D17", S, insert(32, text_delta(0))),
    Case("D17", S, repeat(46, 47)),
    Case("D18", S, cut("21.item_id")),
    Case("D18", S, put("21.item_id", "msg_9")),
    Case("D19", S, put("32.item.arguments", "{")),
    Case("D19", S, put("32.item.status", "completed")),
    Case("D20", S, both(put("18.item.status", "searching"), put("47.response.output.1.status", "searching"))),
    Case("D21", S, insert(31, text_delta(5))),
    Case("D22", S, both(*(put(f"{number}.content_index", 2) for number in (26, 27, 28)), cut("29"), cut("29"))),
    Case("D23", S, cut("20.part.annotations")),
    Case("D23", S, put("20.part.text", "x")),
    Case("D24", S, put("21.delta", "Hal")),
    Case("D25", S, put("25.part.text", "Hallo")),
    Case("D25", S, both(put("31.item.content.0.text", "Hallo"), put("47.response.output.2.content.0.text", "Hallo"))),
    Case("D26", S, put("27.delta", "Yes")),
    Case("D26", S, put("30.part.refusal", "Yes.")),
    Case("D27", S, put("4.delta", "Oh")),
    Case("D27", S, put("7.part.text", "Oh.")),
    Case("D28", S, both(*(put(f"{number}.summary_index", 1) for number in (3, 4, 5)), cut("6"), cut("6"))),
    Case("D28", S, cut("3")),
    Case("D29", S, put("9.delta", "RA")),
    Case("D30", S, put("33.delta", "[")),
    Case("D30", S, both(put("36.item.arguments", '{"a":2}'), put("47.response.output.3.arguments", '{"a":2}'))),
    Case("D31", S, in_items('{"a":1}', '{"a":1')),
    Case("D32", S, both(*(put(path, "") for path in ("36.item.name", "47.response.output.3.name")))),
    Case("D33", S, everywhere("call_2", "call_1")),
    Case("D34", S, cut("35.name")),
    Case("D35", S, put("38.delta", "L")),
    Case("D36", S, put("22.annotation_index", 1)),
    Case("D36", S, put("22.annotation.title", "other")),
    Case("D37", S, both(cut("22"), *(put(f"{path}.annotations.0.end_index", 6) for path in TEXT_PARTS))),
    Case("D38", S, cut("47.response.output.5")),
    Case("D39", S, put("47.response.output.2.content.0.text", "Hallo")),
    Case("D40", S, put("1.response.usage", {})),
    Case("D41", S, put("47.response.usage", None), note=True),
    Case("D41", S, put("47.response.usage", [])),
    Case("D42", S, put("47.response.usage.total_tokens", 16)),
    Case("D43", S, put("47.response.usage.output_tokens_details.reasoning_tokens", 6)),
    Case("D44", S, put("47.response.usage.input_tokens_details.cached_tokens", 9)),
    Case("D45", S, cut("47.response.usage.input_tokens_details.cache_write_tokens")),
    Case("D46", S, cut("21.logprobs")),
    Case("D47", S, both(cut("13.item.encrypted_content"), cut("47.response.output.0.encrypted_content"))),
    Case("D48", S, both(put("2.item.encrypted_content", ""), put("13.item.encrypted_content", ""))),
    Case("D49", F, put("3.error.code", "other")),
    Case("D50", F, put("3", {"type": "error", "code": "server_error", "message": "overloaded", "param": None})),
    Case("D51", S, append({"type": "response.output_item.done", "output_index": 0, "item": {}})),
    Case("D52", S, swap(15, 17)),
    Case("D52", S, insert(19, {"type": "response.web_search_call.completed", "item_id": "ws_1", "output_index": 1})),
    Case("D53", S, everywhere("assistant", "user")),
    Case("D54", S, put("21.obfuscation", "x"), ASKED),
    Case("D55", S, cut("0.response.truncation")),
    Case("D55", S, cut("0.response.text"), asked(text={"verbosity": "low"})),
    Case("D56", S, put("47.response.tools.0.name", "crm__look"), ASKED),
    Case("D56", S, put("47.response.tool_choice", "required"), asked(tool_choice="auto")),
    Case("D57", S, put("47.response.completed_at", 1)),
    Case("D57", S, put("47.response.created_at", 1700000001)),
    Case("D58", responses_body, put("output", [responses_body()["output"][0]]), note=True),
    Case("D61", S, both(cut("46.item.namespace"), cut("47.response.output.5.namespace")), ASKED),
    Case("D62", B, put("output.3.name", "run"), ASKED),
    Case("D70", S, everywhere("resp_1", "r_1")),
    Case("D71", S, cut("0.response.error")),
    Case("D72", S, both(cut("31.item.status"), cut("47.response.output.2.status"))),
    Case("D73", S, both(cut("31.item.content.0.logprobs"), cut("47.response.output.2.content.0.logprobs"))),
    Case("D73", S, cut("25.part.logprobs")),
    Case("D74", S, put("47.response.incomplete_details", {"reason": "max_output_tokens"})),
    Case("D77", S, put("47.response.previous_response_id", "resp_0"), ASKED),
    Case("D79", S, put("47.response.metadata", {}), ASKED),
]

BODIES = [
    Case("A11", B, put("choices", [])),
    Case("A14", B, put("model", "m-2"), ASKED),
    Case("A21", B, put("output.5.id", "fc_1")),
    Case("D07", B, both(put("status", "incomplete"), put("completed_at", None))),
    Case("D31", B, put("output.3.arguments", "{")),
    Case("D32", B, put("output.3.call_id", "")),
    Case("D37", B, put("output.2.content.0.annotations.0.start_index", 6)),
    Case("D42", B, put("usage.total_tokens", 1)),
    Case("D53", B, put("output.2.content.0", {"type": "refusal", "refusal": "No."})),
    Case("D60", one_call_body, put("output.4", CALL), asked(parallel_tool_calls=False)),
    Case("D60", no_call_body, put("output.1", CALL), asked(tool_choice="none")),
    Case("D70", B, put("id", "chatcmpl-1")),
    Case("D70", B, both(put("status", "in_progress"), put("completed_at", None))),
    Case("D71", B, cut("instructions")),
    Case("D72", B, cut("output.1.id")),
    Case("D73", B, cut("output.2.content.0.annotations")),
    Case("D74", B, put("error", {"code": "x", "message": "y"})),
    Case("D78", json_body, put("output.2.content.0.text", "{"), asked(text=JSON_FORMAT)),
    Case("D80", input_tokens, put("total", 1)),
]

ERRORS = [
    Case("A26", openai_error, put("error", None)),
    Case("B62", openai_error, put("error.code", 404)),
]

CASES = [*STREAMS, *BODIES, *ERRORS]
