"""What real Responses servers do differently, as changes of the events of a regular stream."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

Body = dict[str, Any]
Change = Callable[[list[Any], Random], list[Any]]


def _of_type(events: list[Any], kind: str) -> list[Body]:
    return [event for event in events if isinstance(event, dict) and event.get("type") == kind]


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


RESPONSES: dict[str, Change] = {
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
