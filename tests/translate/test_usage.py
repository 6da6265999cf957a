"""Usage that an upstream leaves out: estimated where nothing was said, counted where the items tell, and declared."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.judges import sdk
from trilogue import Protocol, StreamTranslator, translate_request, translate_response
from trilogue.model import Loss
from trilogue.protocols.codec import Target
from trilogue.protocols.endpoint import estimate
from trilogue.translate.requests import RequestTranslation

C, M, R = Protocol.CHAT, Protocol.MESSAGES, Protocol.RESPONSES
Body = dict[str, Any]
WORDS = ["The quick brown fox ", "jumps over ", "the lazy dog."]
ASKED: Body = {
    "model": "m",
    "max_tokens": 100,
    "stream": True,
    "messages": [{"role": "user", "content": "Tell me about the fox. " * 40}],
}


def chat(usage: Body | None = None) -> bytes:
    choices: list[Body] = [{"index": 0, "delta": {"content": piece}, "finish_reason": None} for piece in WORDS]
    choices.append({"index": 0, "delta": {}, "finish_reason": "stop"})
    chunks: list[Body] = [{"id": "c1", "model": "m", "choices": [choice]} for choice in choices]
    if usage:
        chunks.append({"id": "c1", "model": "m", "choices": [], "usage": usage})
    return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks).encode() + b"data: [DONE]\n\n"


def responses(*output: Body, usage: Body | None = None) -> bytes:
    """A stream that only says how it ends."""
    base: Body = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m"}
    at = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    events: list[Body] = [{"type": "response.created", "response": {**base, "status": "in_progress", "output": []}}]
    if not output:
        events += [{"type": "response.output_text.delta", **at, "delta": piece} for piece in WORDS]
    final = {**base, "status": "completed", "output": list(output), "usage": usage}
    events.append({"type": "response.completed", "response": final})
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()


def asked(target: Protocol, **fields: Any) -> RequestTranslation:
    return translate_request({**ASKED, **fields}, source=M, target=Target.of(target, "m"))


def streamed(
    source: Protocol, target: Protocol, data: bytes, *, pieces: int = 0, **fields: Any
) -> tuple[Any, list[str]]:
    """The answer that the client's SDK puts together, and what was declared."""
    exchange = asked(source, **fields).exchange if target is M else None
    translator = StreamTranslator(source=source, target=target, exchange=exchange)
    size = pieces or len(data)
    out = b"".join(translator.feed(data[at : at + size]) for at in range(0, len(data), size)) + translator.close()
    answer = sdk.accumulate(target, out)
    assert answer.error is None
    return answer.final, codes(translator.losses)


def codes(losses: list[Loss]) -> list[str]:
    return [loss.code for loss in losses]


def first_usage(source: Protocol, data: bytes) -> Body:
    """The usage of message_start."""
    translator = StreamTranslator(source=source, target=M, exchange=asked(source).exchange)
    out = translator.feed(data)
    line = next(line for line in out.decode().splitlines() if line.startswith('data: {"type":"message_start"'))
    usage: Body = json.loads(line.removeprefix("data: "))["message"]["usage"]
    return usage


@pytest.mark.parametrize(("source", "data"), [(C, chat()), (R, responses())], ids=["chat", "responses"])
def test_message_start_has_the_estimate_of_count_tokens(source: Protocol, data: bytes) -> None:
    """Other protocols tell their input at the end; clients of this one show it, and compact, from the start."""
    assert first_usage(source, data)["input_tokens"] == estimate(ASKED)


def test_the_end_corrects_the_start() -> None:
    """And nothing is declared then."""
    usage = {"prompt_tokens": 33, "completion_tokens": 7, "total_tokens": 40}
    final, losses = streamed(C, M, chat(usage))
    assert (final["usage"]["input_tokens"], final["usage"]["output_tokens"]) == (33, 7)
    assert losses == []


def test_an_upstream_that_does_not_count_its_input() -> None:
    """The estimate stays, and is declared."""
    usage = {"prompt_tokens": 0, "completion_tokens": 7, "total_tokens": 7}
    final, losses = streamed(C, M, chat(usage))
    assert (final["usage"]["input_tokens"], final["usage"]["output_tokens"]) == (estimate(ASKED), 7)
    assert losses == ["usage.estimated"]


@pytest.mark.parametrize("pieces", [0, 1, 50])
@pytest.mark.parametrize("source", [C, R])
@pytest.mark.parametrize("target", Protocol)
def test_an_upstream_without_usage(source: Protocol, target: Protocol, pieces: int) -> None:
    """An estimate for every client, by what the model wrote, however it is cut."""
    if source is target:
        return
    final, losses = streamed(source, target, chat() if source is C else responses(), pieces=pieces)
    output = final["usage"]["completion_tokens" if target is C else "output_tokens"]
    assert output == -(-len("".join(WORDS)) // 4)
    assert "usage.estimated" in losses


@pytest.mark.parametrize("target", [M, R])
def test_a_whole_response_without_usage(target: Protocol) -> None:
    """The same as for its stream."""
    message = {"role": "assistant", "content": "".join(WORDS)}
    body = {"id": "c1", "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    translated = translate_response(body, source=C, target=target)
    assert translated.body["usage"]["output_tokens"] == -(-len("".join(WORDS)) // 4)
    assert codes(translated.losses) == ["usage.estimated"]
    assert translated.response.usage is None


@pytest.mark.parametrize("pieces", [0, 1, 50])
def test_a_response_that_is_cut_at_a_stop_sequence(pieces: int) -> None:
    """The upstream's usage comes when it has written the rest, for which nobody waits."""
    usage = {"input_tokens": 50, "output_tokens": 100, "total_tokens": 150}
    final, losses = streamed(R, M, responses(usage=usage), pieces=pieces, stop_sequences=["jumps"])
    assert final["stop_sequence"] == "jumps"
    assert final["usage"]["input_tokens"] == estimate({**ASKED, "stop_sequences": ["jumps"]})
    assert final["usage"]["output_tokens"] == len(WORDS[0]) // 4
    assert losses == ["usage.estimated"]


SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "fox"}}
TOLD = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "A fox.", "annotations": []}],
}


def test_searches_are_counted_from_items() -> None:
    """Where the upstream does not say how many there were."""
    usage = {"input_tokens": 5, "output_tokens": 9, "total_tokens": 14}
    output: list[Body] = [SEARCH, {**SEARCH, "id": "ws_2"}, TOLD]
    final, _ = streamed(R, M, responses(*output, usage=usage))
    assert final["usage"]["server_tool_use"]["web_search_requests"] == 2
    whole = {
        "id": "resp_1",
        "object": "response",
        "status": "completed",
        "model": "m",
        "output": output,
        "usage": usage,
    }
    translated = translate_response(whole, source=R, target=M)
    assert translated.body["usage"]["server_tool_use"]["web_search_requests"] == 2
    counted = {**whole, "tool_usage": {"web_search": {"num_requests": 1}}}
    translated = translate_response(counted, source=R, target=M)
    assert translated.body["usage"]["server_tool_use"]["web_search_requests"] == 1


def shapes() -> list[tuple[int, int, int]]:
    """Fresh, read and written input tokens: everything that an upstream can report."""
    few = (0, 1, 2, 900)
    return [(fresh, read, written) for fresh in few for read in few for written in few]


def reported(source: Protocol, fresh: int, read: int, written: int) -> Body:
    """The usage that an upstream reports for them."""
    total, details = fresh + read + written, {"cached_tokens": read, "cache_write_tokens": written}
    if source is C:
        names: Body = {"prompt_tokens": total, "completion_tokens": 7, "prompt_tokens_details": details}
        return {**names, "completion_tokens_details": {"reasoning_tokens": 3}, "total_tokens": total + 7}
    names = {"input_tokens": total, "output_tokens": 7, "input_tokens_details": details}
    return {**names, "output_tokens_details": {"reasoning_tokens": 3}, "total_tokens": total + 7}


COUNTS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


def official(start: Body, end: Body) -> list[int]:
    """What the SDKs of Anthropic have at the end: any figure of message_delta."""
    return [start[name] if end.get(name) is None else end[name] for name in COUNTS]


def claude_code(start: Body, end: Body) -> list[int]:
    """What Claude Code has at the end: only figures above zero."""
    return [end[name] if (end.get(name) or 0) > 0 else start[name] for name in COUNTS]


@pytest.mark.parametrize("source", [C, R], ids=["chat", "responses"])
@pytest.mark.parametrize("known", [False, True], ids=["without request", "with request"])
def test_every_client_ends_with_what_was_used(source: Protocol, known: bool) -> None:
    """By the rule of the SDKs and by that of Claude Code, which keeps the estimate of message_start at a zero."""
    write = chat if source is C else responses
    for fresh, read, written in shapes():
        exchange = asked(source).exchange if known else None
        translator = StreamTranslator(source=source, target=M, exchange=exchange)
        out = translator.feed(write(usage=reported(source, fresh, read, written))) + translator.close()
        events = [json.loads(line[6:]) for line in out.decode().splitlines() if line.startswith("data: ")]
        start = next(event["message"]["usage"] for event in events if event["type"] == "message_start")
        end = next(event["usage"] for event in events if event["type"] == "message_delta")
        says = f"{fresh} {read} {written}: {start} {end}"
        ends = official(start, end)
        assert ends == claude_code(start, end), says
        assert (end["output_tokens"], end["output_tokens_details"]["thinking_tokens"]) == (7, 3), says
        if not fresh and known and not (read or written):
            assert ends == [estimate(ASKED), 0, 0], says
        elif not fresh and known:
            assert (ends[0], sum(ends), codes(translator.losses)) == (1, read + written, ["usage.moved"]), says
        else:
            assert (ends, codes(translator.losses)) == ([fresh, read, written], []), says
