"""One change per rule of Chat Completions, and per shared rule that is tested with Chat."""

from typing import Any

from tests.lint.edits import Case, append, both, cut, everywhere, insert, keep, put, repeat, swapped
from tests.lint.goldens import (
    CHAT_REQUEST,
    CHAT_USAGE,
    Data,
    Stream,
    call_delta,
    chat_body,
    chat_error_stream,
    chat_stream,
    chat_text_stream,
    chunk,
    openai_error,
)

S, T, F, B = chat_stream, chat_text_stream, chat_error_stream, chat_body
ASKED = CHAT_REQUEST
CHOICE = "choices.0"
MESSAGE = "choices.0.message"


def asked(**fields: Any) -> Data:
    return {**CHAT_REQUEST, **fields}


def entry(index: int, delta: Data, finish: str | None = None) -> Data:
    """Return a chunk of another choice."""
    other = chunk(delta, finish)
    other["choices"][0]["index"] = index
    return other


TWO_CHOICES = both(insert(1, entry(1, {"role": "assistant", "content": ""})), insert(-2, entry(1, {}, "stop")))

NO_LOGPROBS = both(put("1.choices.0.logprobs", None), put("2.choices.0.logprobs", None))


def no_usage() -> Stream:
    return [event for event in chat_stream() if event == "[DONE]" or not event["usage"]]


FRAMING = [
    Case("A02", S, raw=lambda data: data.replace(b"\n", b"\r\n")),
    Case("A02", S, raw=lambda data: b"\xef\xbb\xbf" + data),
    Case("A02", S, raw=lambda data: data[:-1]),
    Case("A02", S, raw=lambda data: data[:-2]),
    Case("A02", S, raw=swapped(b"\n\ndata", b"\ndata")),
    Case("A02", S, raw=swapped(b"\n\n", b"\n\n\n"), note=True),
    Case("A03", S, insert(1, "{not json}")),
    Case("A03", S, raw=swapped(b", ", b",\ndata: ")),
    Case("A03", S, raw=swapped(b"data: ", b"data: 5\n\ndata: ")),
    Case("A03", S, raw=swapped(b"data: [DONE]", b'{"bare": 1}\n\ndata: [DONE]')),
    Case("A04", S, raw=swapped(b"data: ", b"id: 1\ndata: ")),
    Case("A04", S, raw=swapped(b"data: ", b"retry: 10\n\ndata: ")),
    Case("A05", S, raw=swapped(b"data: ", b"data:\n\ndata: ")),
    Case("A05", S, raw=swapped(b"data: ", b"event: ping\n\ndata: ")),
    Case("A06", S, edit=insert(1, {"type": "ping"})),
    Case("A08", S, raw=swapped(b"Hel", b"\xff"), edit=insert(2, chunk({"content": "x"}))),
    Case("A08", S, raw=swapped(b"Hel", b"\\ud83d")),
]

STREAMS = [
    Case("A11", S, put("1.stop_reason", None)),
    Case("A11", S, put("1.choices.0.delta.output_index", 0)),
    Case("A14", S, everywhere("m-1", "m-2"), ASKED),
    Case("A15", S, keep(0, 4)),
    Case("A16", S, append(chunk({"content": "x"}))),
    Case("A25", S, put("8.usage", {"prompt_tokens": -1, "completion_tokens": 5, "total_tokens": 5})),
    Case("B01", S, put("2.id", "chatcmpl-2")),
    Case("B01", S, put("0.id", "chatcmpl-2")),
    Case("B02", S, put("2.created", 1)),
    Case("B03", S, put("2.model", "m-2")),
    Case("B04", S, put("2.object", "chat.completion")),
    Case("B05", S, cut("2.choices")),
    Case("B06", S, put("2.choices", [])),
    Case("B07", T, both(*(put(f"{number}.choices.0.index", 1) for number in range(4)))),
    Case("B08", S, cut("0.choices.0.delta.role")),
    Case("B08", S, put("0.choices.0.delta.role", "model")),
    Case("B09", S, put("2.choices.0.delta.role", "assistant")),
    Case("B10", S, put("2.choices.0.delta.content", [{"type": "text"}])),
    Case("B11", S, put("2.choices.0.delta.refusal", "no")),
    Case("B12", S, insert(8, chunk({"content": "x"}))),
    Case("B13", S, repeat(7, 8)),
    Case("B13", T, both(put("3.choices.0.finish_reason", None), cut("4"))),
    Case("B14", T, put("3.choices.0.finish_reason", "eos")),
    Case("B15", S, put("7.choices.0.delta", {"content": ""})),
    Case("B16", S, cut("2.choices.0.finish_reason")),
    Case("B17", S, insert(5, chunk({"tool_calls": [{"function": {"arguments": ""}}]}))),
    Case("B18", S, both(*(put(f"{number}.choices.0.delta.tool_calls.0.index", 2) for number in (5, 6)))),
    Case("B19", S, cut("3.choices.0.delta.tool_calls.0.type")),
    Case("B19", S, put("3.choices.0.delta.tool_calls.0.id", "")),
    Case("B20", S, put("4.choices.0.delta.tool_calls.0.id", "call_1")),
    Case("B20", S, put("4.choices.0.delta.tool_calls.0.function.name", "look")),
    Case("B21", S, put("4.choices.0.delta.tool_calls.0.function.arguments", {"a": 1})),
    Case("B22", S, put("4.choices.0.delta.tool_calls.0.function.arguments", '{"a"')),
    Case("B23", S, put("4.choices.0.delta.tool_calls.0.function.arguments", "[1]")),
    Case("B24", S, put("5.choices.0.delta.tool_calls.0.id", "call_1")),
    Case("B24", S, put("3.choices.0.delta.tool_calls.0.id", "c" * 65)),
    Case("B25", S, put("7.choices.0.finish_reason", "stop")),
    Case("B26", T, put("3.choices.0.finish_reason", "tool_calls")),
    Case("B27", S, put("3.choices.0.delta.tool_calls.0.function.name", "other"), ASKED),
    Case("B28", S, insert(7, chunk(call_delta(0, function={"arguments": " "})))),
    Case("B29", S, cut("8"), ASKED, note=True),
    Case("B30", T, both(put("3.usage", CHAT_USAGE), cut("4"))),
    Case("B31", S, both(insert(9, chunk(None)), put("9.moderation", {"x": 1}))),
    Case("B32", S, cut("2.usage"), ASKED),
    Case("B33", no_usage, insert(-1, chunk(None, usage=CHAT_USAGE)), asked(stream_options={})),
    Case("B34", S, put("8.usage.total_tokens", 16)),
    Case("B35", S, put("8.usage.prompt_tokens_details.cached_tokens", 9)),
    Case("B36", S, put("8.usage.completion_tokens_details.reasoning_tokens", 6)),
    Case("B37", S, cut("9")),
    Case("B37", S, append("[DONE]")),
    Case("B38", S, raw=swapped(b"data: ", b"event: message\ndata: ")),
    Case("B39", F, append(chunk({"content": "x"}))),
    Case("B40", F, cut("1.error.param")),
    Case("B41", S, put("2.obfuscation", "x"), ASKED),
    Case("B42", S, TWO_CHOICES, ASKED),
    Case("B43", S, put("2.system_fingerprint", 1)),
    Case("B44", S, put("2.service_tier", "on_demand")),
    Case("B45", S, both(put("1.choices.0.delta", {"reasoning": "x", "reasoning_content": "x"}))),
    Case("B46", S, put("2.choices.0.delta", {"reasoning_content": "x"}), note=True),
    Case("B47", T, put("2.choices.0.logprobs.content.0.token", "2")),
    Case("B48", F, put("1.choices", [])),
    Case("B59", T, both(cut("2"), NO_LOGPROBS), asked(response_format={"type": "json_schema"})),
    Case("B60", T, both(insert(3, chunk({"content": "END"})), NO_LOGPROBS), ASKED),
]

BODIES = [
    Case("A11", B, put("stop_reason", None)),
    Case("A14", B, put("model", "m-2"), ASKED),
    Case("B50", B, put("object", "chat.completion.chunk")),
    Case("B50", B, put("created", None)),
    Case("B51", B, put("choices.0.index", 1)),
    Case("B51", B, put("choices", [])),
    Case("B52", B, put(f"{MESSAGE}.role", "model")),
    Case("B52", B, both(put(f"{MESSAGE}.content", ["Hello"]), cut(f"{MESSAGE}.annotations"))),
    Case(
        "B53",
        B,
        both(put(f"{MESSAGE}", {"role": "assistant", "content": None}), put(f"{CHOICE}.finish_reason", "stop")),
    ),
    Case("B54", B, both(put(f"{MESSAGE}.tool_calls", []), put(f"{CHOICE}.finish_reason", "stop"))),
    Case("B55", B, put(f"{MESSAGE}.tool_calls.0.function.arguments", {"a": 1})),
    Case("B55", B, cut(f"{MESSAGE}.tool_calls.0.type"), None),
    Case("B56", B, put(f"{CHOICE}.finish_reason", None)),
    Case("B57", B, cut("usage"), note=True),
    Case("B57", B, cut("usage.total_tokens")),
    Case("B58", B, put(f"{MESSAGE}.annotations.0.url_citation.end_index", 6)),
    Case("B25", B, put(f"{CHOICE}.finish_reason", "stop")),
    Case("B22", B, put(f"{MESSAGE}.tool_calls.0.function.arguments", "{")),
]

ERRORS = [
    Case("A26", openai_error, put("error", "no such model")),
    Case("B62", openai_error, put("error.code", 404)),
    Case("B62", openai_error, cut("error.param")),
]

CASES = [*FRAMING, *STREAMS, *BODIES, *ERRORS]
