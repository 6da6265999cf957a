"""Strict Chat upstreams in three styles, by path: DeepSeek's and Moonshot's, which want their reasoning back with every
tool call, and a plain one, which has no reasoning and refuses the field."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tests.multiturn.refusal import RefusedError
from tests.multiturn.script import Json, Seen, Turn, step_of, text_of

DEEPSEEK, MOONSHOT, PLAIN = "deepseek", "moonshot", "plain"
STYLES = (DEEPSEEK, MOONSHOT, PLAIN)
SYSTEM = ("system", "developer")


def check(body: Json, style: str) -> None:
    """Raise what the real API says if calls, results or reasoning are missing."""
    waiting: list[str] = []
    for index, message in enumerate(body["messages"]):
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                raise RefusedError(
                    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with "
                    "'tool_calls'.",
                    param=f"messages.[{index}].role",
                )
            waiting.remove(message["tool_call_id"])
            continue
        _check_results(waiting)
        calls = message.get("tool_calls") or []
        waiting = [call["id"] for call in calls]
        if message["role"] == "assistant":
            _check_reasoning(message, index, style)
    _check_results(waiting)


def _check_results(waiting: list[str]) -> None:
    if waiting:
        raise RefusedError(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
            f"'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(waiting)}",
            param="messages",
        )


def _check_reasoning(message: Json, index: int, style: str) -> None:
    reasoning = message.get("reasoning_content")
    calls = bool(message.get("tool_calls"))
    if style == PLAIN:
        if "reasoning_content" in message:
            raise RefusedError(
                f"Additional properties are not allowed ('reasoning_content' was unexpected) - 'messages.{index}'"
            )
    elif style == DEEPSEEK and calls and reasoning is None:
        raise RefusedError(f"Missing `reasoning_content` field in the assistant message at message index {index}.")
    elif style == MOONSHOT and calls and not reasoning:
        raise RefusedError(
            f"thinking is enabled but reasoning_content is missing in assistant tool call message at index {index}"
        )


def read(body: Json) -> Seen:
    """Return what the model can see."""
    messages = body["messages"]
    system = "\n".join(text_of(message["content"]) for message in messages if message["role"] in SYSTEM)
    users: list[str] = []
    results: list[str] = []
    step = 0
    for message in messages:
        if message["role"] == "user":
            users.append(text_of(message["content"]))
            step = 0
        elif message["role"] == "tool":
            results.append(text_of(message["content"]))
        for call in message.get("tool_calls") or []:
            step = max(step, step_of(call["function"]["arguments"]))
    tools = tuple(tool["function"]["name"] for tool in body.get("tools") or [])
    return Seen(system, tuple(users), tuple(results), tools, step)


def respond(turn: Turn, body: Json, style: str, number: int) -> Json:
    """Return the whole response."""
    message: Json = {"role": "assistant", "content": "".join(turn.text) or None, "refusal": None}
    if turn.thought and style != PLAIN:
        message["reasoning_content"] = turn.thought
    if turn.calls:
        message["tool_calls"] = [
            {
                "id": f"call_strict{number}x{part}",
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for part, call in enumerate(turn.calls)
        ]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "tool_calls" if turn.calls else "stop"}
    return {
        "id": f"chatcmpl-strict{number}",
        "object": "chat.completion",
        "created": 1_790_000_000,
        "model": body["model"],
        "choices": [choice],
        "usage": {
            "prompt_tokens": 25,
            "completion_tokens": 10,
            "total_tokens": 35,
            "prompt_tokens_details": {"cached_tokens": 5},
        },
    }


def events(whole: Json, turn: Turn) -> Iterator[Json]:
    """Yield the chunks of a streamed response."""
    choice = whole["choices"][0]
    base = {name: value for name, value in whole.items() if name not in ("choices", "usage")}
    base["object"] = "chat.completion.chunk"
    deltas: list[Json] = [{"role": "assistant", "content": ""}]
    if "reasoning_content" in choice["message"]:
        deltas.append({"reasoning_content": turn.thought})
    deltas += [{"content": piece} for piece in turn.text]
    for index, call in enumerate(choice["message"].get("tool_calls") or []):
        started = {**call, "index": index, "function": {**call["function"], "arguments": ""}}
        rest = {"index": index, "function": {"arguments": call["function"]["arguments"]}}
        deltas += [{"tool_calls": [started]}, {"tool_calls": [rest]}]
    for delta in deltas:
        yield {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]}
    yield {**base, "choices": [], "usage": whole["usage"]}


def frame(event: Json) -> bytes:
    """Return a chunk as bytes."""
    return b"data: " + json.dumps(event).encode() + b"\n\n"


def sealed_by_call(whole: Json) -> dict[str, str]:
    """Return which reasoning belongs to which call of a response."""
    message = whole["choices"][0]["message"]
    thought = message.get("reasoning_content")
    return {call["id"]: thought for call in message.get("tool_calls") or [] if thought}


def returned(body: Json) -> tuple[list[str], list[str]]:
    """Return the ids of the calls and the reasoning in a request."""
    assistants = [message for message in body["messages"] if message["role"] == "assistant"]
    calls = [call["id"] for message in assistants for call in message.get("tool_calls") or []]
    return calls, [message["reasoning_content"] for message in assistants if message.get("reasoning_content")]
