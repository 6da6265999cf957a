"""What real Chat servers do differently, as changes of the events of a regular stream."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

Body = dict[str, Any]
Change = Callable[[list[Any], Random], list[Any]]


def _deltas(events: list[Any]) -> list[Body]:
    """Return the deltas of a Chat stream, which may be changed in place."""
    choices = [choice for event in events if isinstance(event, dict) for choice in event["choices"]]
    return [choice["delta"] for choice in choices if "delta" in choice]


def _calls(events: list[Any]) -> list[Body]:
    return [call for delta in _deltas(events) for call in delta.get("tool_calls") or ()]


def _each_call(change: Callable[[Body, Random], None]) -> Change:
    def changed(events: list[Any], rng: Random) -> list[Any]:
        for call in _calls(events):
            change(call, rng)
        return events

    return changed


def _each_delta(change: Callable[[Body, Random], None]) -> Change:
    def changed(events: list[Any], rng: Random) -> list[Any]:
        for delta in _deltas(events):
            change(delta, rng)
        return events

    return changed


def _late_names(events: list[Any], rng: Random) -> list[Any]:
    """Send names one fragment late, as GLM does."""
    waiting: dict[Any, str] = {}
    for call in _calls(events):
        index, function = call.get("index"), call["function"]
        if function.get("name") and index not in waiting and not function["arguments"]:
            waiting[index] = function.pop("name")
        elif waiting.get(index):
            function["name"] = waiting[index]
            waiting[index] = ""
    left = {index: name for index, name in waiting.items() if name}
    for call in _calls(events):
        if call.get("index") in left:
            call["function"]["name"] = left.pop(call.get("index"))
    return events


def _whole_calls(events: list[Any], rng: Random) -> list[Any]:
    """Send each call in one chunk, as xAI, Groq and Cerebras do."""
    last: Body = {}
    kept = []
    for event in events:
        calls = _calls([event])
        for call in calls:
            if call.get("id") and call["id"] != last.get("id"):
                last = call
            else:
                last["function"]["arguments"] += call["function"]["arguments"]
        fresh = any([call is last for call in calls])
        if calls and not fresh and not event["choices"][0].get("finish_reason"):
            continue
        if calls and not fresh:
            event["choices"][0]["delta"] = {}
        kept.append(event)
    return kept


def _object_arguments(events: list[Any], rng: Random) -> list[Any]:
    """Send whole calls with their arguments as an object, as Ollama does."""
    events = _whole_calls(events, rng)
    for call in _calls(events):
        text = call["function"]["arguments"]
        if isinstance(text, str):
            call["function"]["arguments"] = json.loads(text) if text else {}
    return events


def _joined_deltas(events: list[Any], rng: Random) -> list[Any]:
    """Send calls and texts that follow each other in one delta."""
    kept: list[Any] = []
    for event in events:
        last = kept[-1] if kept else None
        if rng.random() < 0.5 and isinstance(last, dict) and isinstance(event, dict) and _joins(last, event):
            before, after = last["choices"][0], event["choices"][0]
            calls = [*before["delta"].get("tool_calls", ()), *after["delta"].get("tool_calls", ())]
            before["delta"] |= after["delta"] | ({"tool_calls": calls} if calls else {})
            before["finish_reason"] = after["finish_reason"]
        else:
            kept.append(event)
    return kept


def _joins(before: Body, after: Body) -> bool:
    """Return whether the order of what two chunks say stays the same in one delta."""
    order = ("role", "reasoning_content", "content", "tool_calls")
    if not before["choices"] or not after["choices"] or "usage" in before or "usage" in after:
        return False
    first, second = before["choices"][0], after["choices"][0]
    if first.get("finish_reason") or first["delta"].get("refusal") or second["delta"].get("refusal"):
        return False
    said = [order.index(name) for name in first["delta"] if name in order]
    next_said = [order.index(name) for name in second["delta"] if name in order]
    if 3 in said and 3 in next_said:
        return True
    return not said or not next_said or max(said) < min(next_said)


def _finish(reason: str) -> Change:
    def changed(events: list[Any], rng: Random) -> list[Any]:
        for event in events:
            for choice in event["choices"] if isinstance(event, dict) else ():
                if choice.get("finish_reason") in ("stop", "tool_calls"):
                    choice["finish_reason"] = reason
        return events

    return changed


def _finish_twice(events: list[Any], rng: Random) -> list[Any]:
    """Send another finish reason behind the first one, as ChatMock did."""
    ends = [n for n, event in enumerate(events) if isinstance(event, dict) and event["choices"]]
    last = events[ends[-1]]
    again = {**last, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    return [*events[: ends[-1] + 1], again, *events[ends[-1] + 1 :]]


def _azure(events: list[Any], rng: Random) -> list[Any]:
    """Begin with the results of a filter, and send some without a delta behind the end."""
    first: Body = {"id": "", "object": "", "created": 0, "model": "", "choices": [], "prompt_filter_results": [{}]}
    filtered = {"index": 0, "content_filter_results": {"hate": {"filtered": False}}, "finish_reason": None}
    late = {"id": "", "object": "", "created": 0, "model": "", "choices": [filtered]}
    end = len(events) - (events[-1] == "[DONE]")
    return [first, *events[:end], late, *events[end:]] if rng.random() < 0.5 else [first, *events]


def _changing_ids(events: list[Any], rng: Random) -> list[Any]:
    for number, event in enumerate(events):
        if isinstance(event, dict):
            event["id"], event["created"] = f"chatcmpl-{number}", 1763200000 + number
    return events


def _second_choice(events: list[Any], rng: Random) -> list[Any]:
    """Send a second choice between the chunks of the first, as with n=2."""
    kept: list[Any] = []
    ended = False
    for event in events:
        kept.append(event)
        if isinstance(event, dict) and event["choices"] and not ended and rng.random() < 0.4:
            last = bool(event["choices"][0].get("finish_reason"))
            delta: Body = {} if last else {"role": "assistant", "content": "other"}
            kept.append({**event, "choices": [{"index": 1, "delta": delta, "finish_reason": "stop" if last else None}]})
            ended = last
    return kept


def _logprobs(events: list[Any], rng: Random) -> list[Any]:
    for event in events:
        for choice in event["choices"] if isinstance(event, dict) else ():
            if isinstance(choice["delta"].get("content"), str) and choice["delta"]["content"]:
                token = choice["delta"]["content"]
                entry = {"token": token, "logprob": -0.5, "bytes": list(token.encode()), "top_logprobs": []}
                choice["logprobs"] = {"content": [entry], "refusal": None}
    return events


def _thinking_parts(delta: Body, rng: Random) -> None:
    """Write reasoning and text as arrays of parts, as Mistral does."""
    if delta.get("reasoning_content"):
        thought = {"type": "text", "text": delta.pop("reasoning_content")}
        delta["content"] = [{"type": "thinking", "thinking": [thought]}]


def _renamed_reasoning(name: str) -> Change:
    def change(delta: Body, rng: Random) -> None:
        if "reasoning_content" in delta:
            delta[name] = delta.pop("reasoning_content")

    return _each_delta(change)


def _detailed_reasoning(delta: Body, rng: Random) -> None:
    """Write reasoning as details, as OpenRouter does."""
    if delta.get("reasoning_content"):
        text = delta.pop("reasoning_content")
        delta["reasoning"] = text
        delta["reasoning_details"] = [{"type": "reasoning.text", "text": text, "format": "unknown", "index": 0}]


CHAT: dict[str, Change] = {
    "names come late": _late_names,
    "whole calls": _whole_calls,
    "arguments as objects": _object_arguments,
    "several things in one delta": _joined_deltas,
    "calls have no index": _each_call(lambda call, rng: call.pop("index", None) and None),
    "all calls have index 0": _each_call(lambda call, rng: call.update(index=0)),
    "indices have gaps": _each_call(lambda call, rng: call.update(index=call.get("index", 0) * 2 + 1)),
    "empty ids later": _each_call(lambda call, rng: call.setdefault("id", "") and None),
    "a new id in every fragment": _each_call(lambda call, rng: call.update(id=f"call_{rng.random()}")),
    "empty names later": _each_call(lambda call, rng: call["function"].setdefault("name", "") and None),
    "no type": _each_call(lambda call, rng: call.pop("type", None) and None),
    "stop with calls": _finish("stop"),
    "an odd finish reason": _finish("end_turn"),
    "ids change": _changing_ids,
    "logprobs": _logprobs,
    "null fields": _each_delta(lambda delta, rng: delta.update({"role": None, "tool_calls": None, **delta})),
    "role in every delta": _each_delta(lambda delta, rng: delta.update(role="assistant")),
    "no role": _each_delta(lambda delta, rng: delta.pop("role", None) and None),
    "index inside of the delta": _each_delta(lambda delta, rng: delta.update(index=0)),
    "empty content with calls": _each_delta(lambda delta, rng: delta.setdefault("content", "") and None),
    "thinking parts": _each_delta(_thinking_parts),
    "reasoning": _renamed_reasoning("reasoning"),
    "thinking": _renamed_reasoning("thinking"),
    "reasoning_details": _each_delta(_detailed_reasoning),
    "a second choice": _second_choice,
    "two finish reasons": _finish_twice,
    "results of a filter": _azure,
}
