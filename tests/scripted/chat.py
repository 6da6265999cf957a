"""Chat Completions on the wire, written by hand from OpenAI's recordings.

Reasoning is in `reasoning_content`, as on the many servers that show it; OpenAI's own server does not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.scripted.asked import Asked
from tests.scripted.errors import Refused, openai_error
from tests.scripted.scenario import Answer, Call, Refuse, Say, Search, Stop, Think
from tests.scripted.tokens import Ids

CREATED = 1_790_000_000
_FINISH = {Stop.END: "stop", Stop.CALLS: "tool_calls", Stop.LENGTH: "length", Stop.REFUSAL: "stop"}


def headers(ids: Ids) -> list[tuple[str, str]]:
    """Return the response headers of OpenAI."""
    return [
        ("x-request-id", ids.make("req_")),
        ("openai-organization", "org-scripted"),
        ("openai-processing-ms", "12"),
        ("x-ratelimit-limit-requests", "500"),
        ("x-ratelimit-remaining-requests", "499"),
    ]


def whole(answer: Answer, asked: Asked, ids: Ids) -> dict[str, Any]:
    """Return a complete response."""
    message: dict[str, Any] = {"role": "assistant", "content": None, "refusal": None, "annotations": []}
    if thoughts := _join(answer, Think):
        message["reasoning_content"] = thoughts
    if text := _join(answer, Say):
        message["content"] = text
    if refusal := _join(answer, Refuse):
        message["refusal"] = refusal
    message["annotations"] = _annotations(answer)
    calls = [_call(call, ids) for call in answer.calls]
    if calls:
        message["tool_calls"] = calls
    elif message["content"] is None and message["refusal"] is None:
        message["content"] = ""
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _FINISH[answer.stop]}
    return {
        "id": ids.make("chatcmpl-"),
        "object": "chat.completion",
        "created": CREATED,
        "model": asked.model,
        "choices": [choice],
        "usage": usage(answer),
        "service_tier": "default",
        "system_fingerprint": "fp_scripted",
    }


def stream(answer: Answer, asked: Asked, ids: Ids) -> Iterator[bytes]:
    """Yield a streamed response, one frame at a time."""
    with_usage = bool(asked.option("stream_options", "include_usage"))
    base: dict[str, Any] = {
        "id": ids.make("chatcmpl-"),
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": asked.model,
        "service_tier": "default",
        "system_fingerprint": "fp_scripted",
    }

    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        frame = {**base, "choices": [choice], **({"usage": None} if with_usage else {})}
        if asked.option("stream_options", "include_obfuscation") is not False:
            frame["obfuscation"] = "x7Qp"
        return _frame(frame)

    yield chunk({"role": "assistant", "content": "", "refusal": None})
    for delta in _deltas(answer, ids):
        yield chunk(delta)
    yield chunk({}, _FINISH[answer.stop])
    if with_usage:
        yield _frame({**base, "choices": [], "usage": usage(answer)})
    yield b"data: [DONE]\n\n"


def usage(answer: Answer) -> dict[str, Any]:
    """Return the usage. Cached tokens are part of the prompt tokens."""
    prompt = answer.fresh + answer.cached + answer.written
    written = {"cache_write_tokens": answer.written} if answer.written else {}
    return {
        "prompt_tokens": prompt,
        "completion_tokens": answer.output,
        "total_tokens": prompt + answer.output,
        "prompt_tokens_details": {"cached_tokens": answer.cached, "audio_tokens": 0, **written},
        "completion_tokens_details": {
            "reasoning_tokens": answer.thought,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def error_events(refused: Refused, asked: Asked, ids: Ids, sent: int) -> list[bytes]:
    """Return an error inside the stream, as frames."""
    return [_frame(openai_error(refused))]


def _deltas(answer: Answer, ids: Ids) -> Iterator[dict[str, Any]]:
    calls = [_call_deltas(index, call, ids) for index, call in enumerate(answer.calls)]
    for part in answer.parts:
        if isinstance(part, Think):
            yield from ({"reasoning_content": piece} for piece in part.pieces)
        elif isinstance(part, Say):
            yield from ({"content": piece} for piece in part.pieces)
        elif isinstance(part, Refuse):
            yield from ({"refusal": word} for word in _words(part.text))
    if annotations := _annotations(answer):
        yield {"annotations": annotations}
    yield from _alternate(calls) if answer.interleaved else (delta for call in calls for delta in call)


def _call_deltas(index: int, call: Call, ids: Ids) -> list[dict[str, Any]]:
    function = {"name": call.name, "arguments": ""}
    first = {"index": index, "id": ids.make("call_"), "type": "function", "function": function}
    rest = [{"index": index, "function": {"arguments": piece}} for piece in call.pieces]
    return [{"tool_calls": [entry]} for entry in (first, *rest)]


def _alternate(sequences: list[list[dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    """Alternate between the items, which OpenAI never does and some servers do."""
    for position in range(max(map(len, sequences))):
        yield from (sequence[position] for sequence in sequences if position < len(sequence))


def _call(call: Call, ids: Ids) -> dict[str, Any]:
    return {"id": ids.make("call_"), "type": "function", "function": {"name": call.name, "arguments": call.text}}


def _annotations(answer: Answer) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    position = 0
    for part in answer.parts:
        if not isinstance(part, Say):
            continue
        end = position + len(part.text)
        for cite in part.cites:
            where = {"start_index": position, "end_index": end, "title": cite.title, "url": cite.url}
            found.append({"type": "url_citation", "url_citation": where})
        position = end
    return found


def _join(answer: Answer, kind: type[Say] | type[Think] | type[Refuse]) -> str:
    return "".join(part.text for part in answer.parts if isinstance(part, kind) and not isinstance(part, Search))


def _words(text: str) -> list[str]:
    words = text.split(" ")
    return [words[0], *(f" {word}" for word in words[1:])]


def _frame(data: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"
