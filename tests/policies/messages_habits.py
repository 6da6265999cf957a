"""What real Messages servers do differently, as changes of the events of a regular stream."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

Body = dict[str, Any]
Change = Callable[[list[Any], Random], list[Any]]


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


MESSAGES: dict[str, Change] = {
    "two starts": _start_twice,
    "two message_deltas": _two_deltas,
    "signatures in pieces": _split_signatures,
    "no signatures": _no_signatures,
    "starts with text": _filled_starts,
    "pings": _stray_pings,
    "citations": _cited,
    "searches": _searches,
}
