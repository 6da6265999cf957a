"""What translation costs (`make bench-core`), compared with the standard library's JSON on the same bytes.

Prints µs per text event for each of the nine stream pairs, how constant that stays over a long stream, and µs per
request for a small and a large request. Each also as a ratio, because ratios differ less between machines.
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from trilogue import Protocol, StreamTranslator, dump, translate_request

SHORT_STREAM = 2_000
LONG_STREAM = 100_000
TURNS = 200
TOOLS = 60


def main() -> None:
    """Run all benchmarks of translation and print the results."""
    print("streams: µs per text event (aim: at most 6)")
    print(f"{'from':>10} {'to':>10} {SHORT_STREAM:>9,} ev {LONG_STREAM:>9,} ev   growth   x json.loads+dumps")
    for source in Protocol:
        for target in Protocol:
            bench_stream(source, target)
    print("\nrequests: µs per request (aim for the large one: at most 2 x json.loads+dumps)")
    print(f"{'from':>10} {'to':>10} {'size':>8} {'bytes':>9} {'µs':>9}   x json.loads+dumps")
    for source in Protocol:
        for target in Protocol:
            if source is not target:
                bench_request(source, target, "small", REQUESTS[source](2, 1))
                bench_request(source, target, "large", REQUESTS[source](TURNS, TOOLS))


def best(run: Callable[[], object], repeat: int) -> float:
    """Return the CPU seconds of the fastest run, which is the one that was disturbed the least."""
    times = []
    for _ in range(repeat):
        gc.collect()
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def bench_stream(source: Protocol, target: Protocol) -> None:
    """Print the cost of one stream pair, with events that arrive one at a time."""
    costs = []
    for count, repeat in ((SHORT_STREAM, 7), (LONG_STREAM, 2)):
        events = list(STREAMS[source](count))
        costs.append(best(partial(relay, source, target, events), repeat) / count * 1e6)
    payload = [event.split(b"data: ", 1)[1] for event in STREAMS[source](SHORT_STREAM) if b"{" in event]
    plain = best(lambda: [json.dumps(json.loads(data)) for data in payload], 5) / len(payload) * 1e6
    short, long = costs
    print(
        f"{source.short:>10} {target.short:>10} {short:>12.2f} {long:>12.2f} {long / short:>8.2f} {short / plain:>8.2f}"
    )


def relay(source: Protocol, target: Protocol, events: list[bytes]) -> None:
    """Pass a whole stream through a translator."""
    translator = StreamTranslator(source=source, target=target)
    for event in events:
        translator.feed(event)
    translator.close()
    if translator.failed is not None:
        raise SystemExit(f"{source.short} to {target.short}: {translator.failed.failure}")


def bench_request(source: Protocol, target: Protocol, size: str, body: dict[str, Any]) -> None:
    """Print the cost of one request pair and size, from bytes to bytes."""
    data = json.dumps(body).encode()
    count = 200 if size == "small" else 5

    def translate() -> None:
        for _ in range(count):
            dump(translate_request(data, source=source, target=target).body)

    def plain() -> None:
        for _ in range(count):
            json.dumps(json.loads(data))

    ours, theirs = best(translate, 7) / count * 1e6, best(plain, 7) / count * 1e6
    print(f"{source.short:>10} {target.short:>10} {size:>8} {len(data):>9,} {ours:>9.1f} {ours / theirs:>8.2f}")


def sse(data: dict[str, Any], name: str = "") -> bytes:
    """Return one event as a server writes it."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data, separators=(',', ':'))}\n\n".encode()


def chat_stream(count: int) -> Iterator[bytes]:
    """Return a stream of Chat Completions chunks."""
    base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}

    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return sse({**base, "choices": [choice], "usage": None})

    yield chunk({"role": "assistant", "content": ""})
    for number in range(count):
        yield chunk({"content": f" word{number % 10}"})
    yield chunk({}, "stop")
    usage = {"prompt_tokens": 5, "completion_tokens": count, "total_tokens": count + 5}
    yield sse({**base, "choices": [], "usage": usage})
    yield b"data: [DONE]\n\n"


def messages_stream(count: int) -> Iterator[bytes]:
    """Return a stream of Messages events."""
    message: dict[str, Any] = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None,
        "stop_sequence": None, "usage": {"input_tokens": 5, "cache_creation_input_tokens": 0,
                                         "cache_read_input_tokens": 0, "output_tokens": 1},
    }  # fmt: skip
    yield sse({"type": "message_start", "message": message}, "message_start")
    block = {"type": "text", "text": ""}
    yield sse({"type": "content_block_start", "index": 0, "content_block": block}, "content_block_start")
    yield sse({"type": "ping"}, "ping")
    for number in range(count):
        delta = {"type": "text_delta", "text": f" word{number % 10}"}
        yield sse({"type": "content_block_delta", "index": 0, "delta": delta}, "content_block_delta")
    yield sse({"type": "content_block_stop", "index": 0}, "content_block_stop")
    end = {"stop_reason": "end_turn", "stop_sequence": None}
    yield sse({"type": "message_delta", "delta": end, "usage": {"output_tokens": count}}, "message_delta")
    yield sse({"type": "message_stop"}, "message_stop")


RESPONSE: dict[str, Any] = {
    "id": "resp_1", "object": "response", "created_at": 1, "model": "m", "output": [], "error": None,
    "incomplete_details": None, "instructions": None, "max_output_tokens": None, "metadata": {},
    "parallel_tool_calls": True, "previous_response_id": None, "reasoning": {"effort": None, "summary": None},
    "store": True, "temperature": 1.0, "text": {"format": {"type": "text"}}, "tool_choice": "auto", "tools": [],
    "top_p": 1.0, "truncation": "disabled", "usage": None, "user": None,
}  # fmt: skip
"""the response object that the first two events and the last one repeat"""


def responses_usage(count: int) -> dict[str, Any]:
    """Return the usage of a response with this many tokens."""
    return {
        "input_tokens": 5, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": count, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": count + 5,
    }  # fmt: skip


def responses_stream(count: int) -> Iterator[bytes]:
    """Return a stream of Responses events."""
    number = -1

    def event(kind: str, **fields: Any) -> bytes:
        nonlocal number
        number += 1
        return sse({"type": kind, "sequence_number": number, **fields}, kind)

    where = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    item: dict[str, Any] = {"id": "msg_1", "type": "message", "role": "assistant"}
    part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    yield event("response.created", response={**RESPONSE, "status": "in_progress"})
    yield event("response.in_progress", response={**RESPONSE, "status": "in_progress"})
    item_start = {**item, "status": "in_progress", "content": []}
    yield event("response.output_item.added", output_index=0, item=item_start)
    yield event("response.content_part.added", **where, part=part)
    words = [f" word{position % 10}" for position in range(count)]
    for word in words:
        yield event("response.output_text.delta", **where, delta=word, logprobs=[])
    text = "".join(words)
    done = {**part, "text": text}
    yield event("response.output_text.done", **where, text=text, logprobs=[])
    yield event("response.content_part.done", **where, part=done)
    whole = {**item, "status": "completed", "content": [done]}
    yield event("response.output_item.done", output_index=0, item=whole)
    final = {**RESPONSE, "status": "completed", "output": [whole], "usage": responses_usage(count)}
    yield event("response.completed", response=final)


STREAMS = {
    Protocol.CHAT: chat_stream,
    Protocol.MESSAGES: messages_stream,
    Protocol.RESPONSES: responses_stream,
}

PROSE = "The quick brown fox jumps over the lazy dog. " * 6


def schema(number: int) -> dict[str, Any]:
    """Return a tool's parameters of usual size."""
    properties = {f"field_{n}": {"type": "string", "description": f"Field {n} of tool {number}"} for n in range(8)}
    return {"type": "object", "properties": properties, "required": ["field_0"], "additionalProperties": False}


def chat_request(turns: int, tools: int) -> dict[str, Any]:
    """Return a long agent conversation as a Chat request."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": PROSE}]
    for turn in range(turns // 2):
        call = {"name": f"tool_{turn % tools}", "arguments": '{"field_0":"x"}'}
        messages += [
            {"role": "user", "content": PROSE},
            {"role": "assistant", "content": PROSE,
             "tool_calls": [{"id": f"call_{turn}", "type": "function", "function": call}]},
            {"role": "tool", "tool_call_id": f"call_{turn}", "content": PROSE},
        ]  # fmt: skip
    messages.append({"role": "user", "content": "go on"})
    offered = [
        {"type": "function", "function": {"name": f"tool_{n}", "description": PROSE, "parameters": schema(n)}}
        for n in range(tools)
    ]
    return {"model": "gpt-5", "messages": messages, "tools": offered, "stream": True}


def messages_request(turns: int, tools: int) -> dict[str, Any]:
    """Return the same conversation as a Messages request."""
    messages: list[dict[str, Any]] = []
    for turn in range(turns // 2):
        use = {"type": "tool_use", "id": f"toolu_{turn}", "name": f"tool_{turn % tools}", "input": {"field_0": "x"}}
        result = {"type": "tool_result", "tool_use_id": f"toolu_{turn}", "content": PROSE}
        messages += [
            {"role": "user", "content": PROSE},
            {"role": "assistant", "content": [{"type": "text", "text": PROSE}, use]},
            {"role": "user", "content": [result]},
        ]
    messages.append({"role": "user", "content": "go on"})
    offered = [{"name": f"tool_{n}", "description": PROSE, "input_schema": schema(n)} for n in range(tools)]
    return {"model": "claude-sonnet-5", "max_tokens": 4096, "system": PROSE, "messages": messages, "tools": offered}


def responses_request(turns: int, tools: int) -> dict[str, Any]:
    """Return the same conversation as a Responses request."""
    items: list[dict[str, Any]] = []
    for turn in range(turns // 2):
        call = {"type": "function_call", "call_id": f"call_{turn}", "name": f"tool_{turn % tools}",
                "arguments": '{"field_0":"x"}'}  # fmt: skip
        items += [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": PROSE}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": PROSE}]},
            call,
            {"type": "function_call_output", "call_id": f"call_{turn}", "output": PROSE},
        ]
    items.append({"role": "user", "content": "go on"})
    offered = [
        {"type": "function", "name": f"tool_{n}", "description": PROSE, "parameters": schema(n), "strict": False}
        for n in range(tools)
    ]
    return {"model": "gpt-5", "instructions": PROSE, "input": items, "tools": offered, "store": False}


REQUESTS = {
    Protocol.CHAT: chat_request,
    Protocol.MESSAGES: messages_request,
    Protocol.RESPONSES: responses_request,
}

if __name__ == "__main__":
    main()
