"""Random streams of servers that deviate from their protocol in the ways that real ones do.

A regular stream is drawn and written first. Then a few habits change its events, each as some provider's server does,
and the events are framed with random line ends and comments. Nothing here knows Trilogue's decoders.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

from tests.judges import sse
from tests.mapping.cases import C, M
from tests.mapping.streams import Block as Said
from tests.mapping.streams import draw, draw_habits, split, write
from trilogue.model import Protocol

Body = dict[str, Any]
Change = Callable[[list[Any], Random], list[Any]]

_TRIGGERS = (
    "The secret code is <<EMAIL_1>>.",
    "write to jane@example.org now",
    " rm -rf /srv ",
    "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD",
    "sec",
    "ret",
)
"""what the shipped policies of the tests look for, whole and in halves"""
_CALLS = (
    ("shell", '{"command":"rm -rf /srv"}'),
    ("mail", '{"to":"<<EMAIL_1>>","body":"secret"}'),
    ("shell", '{"command":"ls"}'),
)


def generated(protocol: Protocol, seed: object, *, saying: str = "") -> bytes:
    """Return a random stream of a random server. `saying`: what each of its blocks says, instead of random words."""
    rng = Random(f"{protocol.short} {seed}")
    blocks, stop = draw(protocol, rng)
    blocks = [_saying(block, saying, rng) if saying else _triggering(block, rng) for block in blocks]
    habits = draw_habits(rng)
    chosen = rng.sample(list(HABITS[protocol]), k=rng.choice((0, 0, 1, 1, 2, 3)))
    # Texts of Chat that alternate are one text.
    if not INCOMPATIBLE.isdisjoint(chosen) or (saying and protocol is C):
        habits.interleave = False
    data = write(protocol, blocks, stop, rng, habits)
    if not chosen:
        return data
    events = [event.json or event.data for event in sse.read(data)]
    # In the order of the tables: what moves events comes before what changes them.
    for name in [name for name in HABITS[protocol] if name in chosen]:
        events = HABITS[protocol][name](events, rng)
    return framed(protocol, events, rng, names=habits.names)


def _triggering(block: Said, rng: Random) -> Said:
    """Return a block that says something that policies look for, now and then."""
    if rng.random() < 0.6:
        return block
    if block.kind == "call":
        name, arguments = rng.choice(_CALLS)
        return Said("call", split(arguments, rng), block.id, name)
    if block.kind in ("text", "thought"):
        text = "".join([rng.choice(_TRIGGERS) for _ in range(rng.randint(1, 3))])
        return Said(block.kind, split(text, rng), block.id, block.name, block.opaque)
    return block


def _saying(block: Said, text: str, rng: Random) -> Said:
    """Return a block that says a text, in all of its parts."""
    said = json.dumps({"x": text}) if block.kind == "call" else text
    pieces = () if block.kind == "hidden" else split(said, rng)
    return Said(block.kind, pieces, block.id, block.name, f"SIG{text}" if block.opaque else "")


def framed(protocol: Protocol, events: list[Any], rng: Random, *, names: bool) -> bytes:
    """Return events as bytes, with one kind of line end, and with comments now and then."""
    newline = rng.choice(("\n", "\n", "\n", "\r\n", "\r"))
    comments = rng.random() < 0.2
    lines: list[str] = []
    for event in events:
        if comments and rng.random() < 0.3:
            lines += [": still here", ""]
        if isinstance(event, dict) and protocol is not C and names:
            lines.append(f"event: {event['type']}")
        text = event if isinstance(event, str) else json.dumps(event, ensure_ascii=rng.random() < 0.1)
        lines += [f"data: {text}", ""]
    return newline.join([*lines, ""]).encode()


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


_CHAT: dict[str, Change] = {
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


def _of_type(events: list[Any], kind: str) -> list[Body]:
    return [event for event in events if isinstance(event, dict) and event.get("type") == kind]


def _start_twice(events: list[Any], rng: Random) -> list[Any]:
    return [events[0], *events]


def _two_deltas(events: list[Any], rng: Random) -> list[Any]:
    """Send the usage in one message_delta and the stop reason in another."""
    at = next(n for n, event in enumerate(events) if event.get("type") == "message_delta")
    end = events[at]
    first = {**end, "delta": {"stop_reason": None, "stop_sequence": None}}
    return [*events[:at], first, *events[at:]]


def _split_signatures(events: list[Any], rng: Random) -> list[Any]:
    kept = []
    for event in events:
        delta = event.get("delta") or {}
        if delta.get("type") == "signature_delta":
            for half in (delta["signature"][:3], delta["signature"][3:]):
                kept.append({**event, "delta": {**delta, "signature": half}})
        else:
            kept.append(event)
    return kept


def _no_signatures(events: list[Any], rng: Random) -> list[Any]:
    return [event for event in events if (event.get("delta") or {}).get("type") != "signature_delta"]


def _filled_starts(events: list[Any], rng: Random) -> list[Any]:
    """Send the first piece of a text with the start of its block, and the input of a call twice."""
    kept: list[Any] = []
    for event in events:
        last = kept[-1] if kept else {}
        delta = event.get("delta") or {}
        block = last.get("content_block") or {}
        if block.get("type") == "text" and delta.get("type") == "text_delta" and not block["text"]:
            block["text"] = delta["text"]
        else:
            kept.append(event)
    return kept


def _stray_pings(events: list[Any], rng: Random) -> list[Any]:
    return [one for event in events for one in ((event, {"type": "ping"}) if rng.random() < 0.4 else (event,))]


def _cited(events: list[Any], rng: Random) -> list[Any]:
    """Cite a page in every text that is not empty."""
    citation: Body = {"type": "web_search_result_location", "url": "https://example.org/secret", "title": "A page"}
    citation |= {"encrypted_index": "RU5D", "cited_text": "a quote"}
    kept = []
    for event in events:
        kept.append(event)
        if (event.get("delta") or {}).get("type") == "text_delta" and rng.random() < 0.4:
            kept.append({**event, "delta": {"type": "citations_delta", "citation": citation}})
    return kept


def _searches(events: list[Any], rng: Random) -> list[Any]:
    """Begin with a search that the provider runs itself."""
    call: Body = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    page: Body = {"type": "web_search_result", "url": "https://example.org", "title": "T", "encrypted_content": "RU5D"}
    page["page_age"] = None
    result = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [page]}
    query = {"type": "input_json_delta", "partial_json": '{"query":"secret"}'}
    begun: list[Body] = [
        {"type": "content_block_start", "index": 0, "content_block": call},
        {"type": "content_block_delta", "index": 0, "delta": query},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": result},
        {"type": "content_block_stop", "index": 1},
    ]
    for event in events:
        if "index" in event:
            event["index"] += 2
    return [events[0], *begun, *events[1:]]


_MESSAGES: dict[str, Change] = {
    "two starts": _start_twice,
    "two message_deltas": _two_deltas,
    "signatures in pieces": _split_signatures,
    "no signatures": _no_signatures,
    "starts with text": _filled_starts,
    "pings": _stray_pings,
    "citations": _cited,
    "searches": _searches,
}


def _numbered(events: list[Any]) -> list[Any]:
    """Number events anew."""
    for number, event in enumerate(events):
        if isinstance(event, dict) and "sequence_number" in event:
            event["sequence_number"] = number
    return events


def _without_numbers(events: list[Any], rng: Random) -> list[Any]:
    for event in events:
        event.pop("sequence_number", None)
    return events


def _gaps_in_numbers(events: list[Any], rng: Random) -> list[Any]:
    for event in events:
        event["sequence_number"] = event.get("sequence_number", 0) * 3
    return events


def _without(*kinds: str) -> Change:
    return lambda events, rng: _numbered([event for event in events if event.get("type") not in kinds])


def _raw_reasoning(events: list[Any], rng: Random) -> list[Any]:
    """Send reasoning as text and not as a summary, as vLLM and LM Studio do."""
    text = (
        json.dumps(events).replace("reasoning_summary_text", "reasoning_text").replace("summary_text", "reasoning_text")
    )
    text = text.replace("reasoning_summary_part", "content_part").replace("summary_index", "content_index")
    changed: list[Any] = json.loads(text)
    items = [event["item"] for event in changed if event.get("item")]
    for item in [*items, *[item for event in changed for item in (event.get("response") or {}).get("output") or ()]]:
        if item["type"] == "reasoning":
            item["content"], item["summary"] = item["summary"], []
    return changed


def _null_output(events: list[Any], rng: Random) -> list[Any]:
    events[-1]["response"]["output"] = None
    return events


def _two_parts(events: list[Any], rng: Random) -> list[Any]:
    """Give every message a second part, a refusal or a text."""
    refused = rng.random() < 0.3
    name = "refusal" if refused else "output_text"
    key = "refusal" if refused else "text"
    more: Body = {} if refused else {"annotations": [], "logprobs": []}
    part = {"type": name, key: "I see.", **more}
    kept: list[Any] = []
    for event in events:
        item = event.get("item") or {}
        if event["type"] == "response.output_item.done" and item.get("type") == "message":
            at = {"output_index": event["output_index"], "item_id": item["id"], "content_index": 1}
            number: Body = {"sequence_number": 0}
            kept += [
                {"type": "response.content_part.added", **number, **at, "part": {**part, key: ""}},
                {"type": f"response.{name}.delta", **number, **at, "delta": "I see.", "logprobs": []},
                {"type": f"response.{name}.done", **number, **at, key: "I see.", "logprobs": []},
                {"type": "response.content_part.done", **number, **at, "part": part},
            ]
            item["content"].append(part)
        kept.append(event)
    for item in kept[-1]["response"]["output"] or ():
        if item["type"] == "message":
            item["content"].append(part)
    return _numbered(kept)


def _search_items(events: list[Any], rng: Random) -> list[Any]:
    """Begin with a search that the provider runs itself, with its progress."""
    item = {"id": "ws_1", "type": "web_search_call", "action": {"type": "search", "query": "secret"}}
    at: Body = {"output_index": 0, "item_id": "ws_1", "sequence_number": 0}
    begun: list[Body] = [
        {"type": "response.output_item.added", **at, "item": {**item, "status": "in_progress"}},
        *[{"type": f"response.web_search_call.{step}", **at} for step in ("in_progress", "searching", "completed")],
        {"type": "response.output_item.done", **at, "item": {**item, "status": "completed"}},
    ]
    for event in events:
        if "output_index" in event:
            event["output_index"] += 1
    if events[-1]["response"]["output"]:
        events[-1]["response"]["output"].insert(0, {**item, "status": "completed"})
    return _numbered([*events[:2], *begun, *events[2:]])


def _late_annotations(events: list[Any], rng: Random) -> list[Any]:
    """Annotate every text at its end, as xAI does."""
    note = {"type": "url_citation", "url": "https://example.org", "title": "T", "start_index": 0, "end_index": 1}
    kept: list[Any] = []
    for event in events:
        if event["type"] == "response.output_text.done" and len(event["text"]) > 1:
            at = {name: event[name] for name in ("output_index", "item_id", "content_index")}
            kind = "response.output_text.annotation.added"
            kept.append({"type": kind, "sequence_number": 0, **at, "annotation_index": 0, "annotation": note})
        kept.append(event)
    parts = [event["part"] for event in _of_type(kept, "response.content_part.done")]
    items = [event["item"] for event in _of_type(kept, "response.output_item.done")]
    items += (kept[-1].get("response") or {}).get("output") or []
    parts += [part for item in items for part in item.get("content") or ()]
    for part in parts:
        if part["type"] == "output_text" and len(part["text"]) > 1:
            part["annotations"] = [note]
    return _numbered(kept)


def _completed_anyway(events: list[Any], rng: Random) -> list[Any]:
    events[-1]["type"] = "response.completed"
    return events


_RESPONSES: dict[str, Change] = {
    "no numbers": _without_numbers,
    "gaps in numbers": _gaps_in_numbers,
    "no parts": _without("response.content_part.added", "response.content_part.done"),
    "no added items": _without("response.output_item.added"),
    "no progress": _without("response.in_progress"),
    "no deltas": _without("response.output_text.delta", "response.function_call_arguments.delta"),
    "raw reasoning": _raw_reasoning,
    "no output at the end": _null_output,
    "two parts": _two_parts,
    "searches": _search_items,
    "late annotations": _late_annotations,
    "completed anyway": _completed_anyway,
}

HABITS: dict[Protocol, dict[str, Change]] = {C: _CHAT, M: _MESSAGES, Protocol.RESPONSES: _RESPONSES}
INCOMPATIBLE = frozenset(
    {
        "calls have no index",
        "all calls have index 0",
        "a new id in every fragment",
        "names come late",
        "whole calls",
        "arguments as objects",
        "several things in one delta",
        "empty ids later",
    }
)
"""habits of servers that send one call after the other"""
