"""Responses on the wire, written by hand from OpenAI's recordings."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from tests.scripted.asked import Asked
from tests.scripted.chat import CREATED, headers
from tests.scripted.errors import Refused
from tests.scripted.scenario import Answer, Call, Part, Refuse, Say, Search, Stop, Think
from tests.scripted.tokens import Ids, encrypt

__all__ = ["error_events", "headers", "stream", "usage", "whole"]

Json = dict[str, Any]
Item = tuple[Json, list[Json]]
"""a complete item, and the events between its start and its end"""

_ECHOED: Json = {
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}, "verbosity": "medium"},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
    "metadata": {},
}


def whole(answer: Answer, asked: Asked, ids: Ids) -> Json:
    """Return a complete response."""
    items = [item for item, _ in _items(answer, asked, ids)]
    return _final(_snapshot(asked, ids.make("resp_")), answer, items)


def stream(answer: Answer, asked: Asked, ids: Ids) -> Iterator[bytes]:
    """Yield a streamed response, one frame at a time."""
    count = 0

    def frame(event: Json) -> bytes:
        nonlocal count
        payload = {**event, "sequence_number": count}
        count += 1
        return _frame(payload)

    snapshot = _snapshot(asked, ids.make("resp_"))
    yield frame({"type": "response.created", "response": snapshot})
    yield frame({"type": "response.in_progress", "response": snapshot})
    items = _items(answer, asked, ids)
    sequences = [_item_events(index, item) for index, item in enumerate(items)]
    events = _alternate(sequences) if answer.interleaved else [event for sequence in sequences for event in sequence]
    for event in events:
        yield frame(event)
    final = _final(snapshot, answer, [item for item, _ in items])
    yield frame({"type": f"response.{final['status']}", "response": final})


def usage(answer: Answer) -> Json:
    """Return the usage. Cached tokens are part of the input tokens."""
    total = answer.fresh + answer.cached + answer.written
    return {
        "input_tokens": total,
        "input_tokens_details": {"cached_tokens": answer.cached, "cache_write_tokens": answer.written},
        "output_tokens": answer.output,
        "output_tokens_details": {"reasoning_tokens": answer.thought},
        "total_tokens": total + answer.output,
    }


def error_events(refused: Refused, asked: Asked, ids: Ids, sent: int) -> list[bytes]:
    """Return `error` and `response.failed`, numbered after the events that were sent. `ids` starts again."""
    number = sent
    frames: list[bytes] = []
    snapshot = _snapshot(asked, ids.make("resp_"))
    for name in ("response.created", "response.in_progress")[sent:]:
        frames.append(_frame({"type": name, "response": snapshot, "sequence_number": number}))
        number += 1
    kind, code = refused.openai
    error = {"type": kind, "code": code, "message": refused.message, "param": None}
    frames.append(_frame({"type": "error", "error": error, "sequence_number": number}))
    failed = {**snapshot, "status": "failed", "error": {"code": code or "server_error", "message": refused.message}}
    frames.append(_frame({"type": "response.failed", "response": failed, "sequence_number": number + 1}))
    return frames


def _snapshot(asked: Asked, response_id: str) -> Json:
    echo = {name: asked.body.get(name, default) for name, default in _ECHOED.items()}
    echo = {name: _ECHOED[name] if value is None else value for name, value in echo.items()}
    return {
        "id": response_id,
        "object": "response",
        "created_at": CREATED,
        "status": "in_progress",
        "background": False,
        "completed_at": None,
        "error": None,
        "incomplete_details": None,
        "model": asked.model,
        "output": [],
        "service_tier": "default",
        "usage": None,
        **echo,
    }


def _final(snapshot: Json, answer: Answer, items: list[Json]) -> Json:
    complete = answer.stop is not Stop.LENGTH
    return {
        **snapshot,
        "status": "completed" if complete else "incomplete",
        "completed_at": CREATED + 1 if complete else None,
        "incomplete_details": None if complete else {"reason": "max_output_tokens"},
        "output": items,
        "usage": usage(answer),
    }


def _items(answer: Answer, asked: Asked, ids: Ids) -> list[Item]:
    status = "incomplete" if answer.stop is Stop.LENGTH else "completed"
    items: list[Item] = []
    texts: list[Say] = []
    for part in (*answer.parts, None):
        if isinstance(part, Say):
            texts.append(part)
            continue
        if texts:
            items.append(_message(texts, status, ids))
            texts = []
        if part is not None:
            items.append(_ITEMS[type(part)](part, asked, ids))
    return items


def _message(texts: list[Say], status: str, ids: Ids) -> Item:
    item_id = ids.make("msg_")
    annotations: list[Json] = []
    events: list[Json] = []
    where = {"item_id": item_id, "content_index": 0}
    position = 0
    for say in texts:
        for piece in say.pieces:
            delta = {"type": "response.output_text.delta", **where, "delta": piece, "logprobs": []}
            events.append({**delta, "obfuscation": "q8Zt"})
        end = position + len(say.text)
        for cite in say.cites:
            note = {
                "type": "url_citation",
                "start_index": position,
                "end_index": end,
                "title": cite.title,
                "url": cite.url,
            }
            added = {"type": "response.output_text.annotation.added", **where, "annotation_index": len(annotations)}
            events.append({**added, "annotation": note})
            annotations.append(note)
        position = end
    text = "".join(say.text for say in texts)
    part = {"type": "output_text", "annotations": annotations, "logprobs": [], "text": text}
    empty = {**part, "annotations": [], "text": ""}
    done = {"type": "response.output_text.done", **where, "text": text, "logprobs": []}
    return _with_part(item_id, part, empty, [*events, done], status)


def _refusal(refuse: Refuse, _: Asked, ids: Ids) -> Item:
    item_id = ids.make("msg_")
    where = {"item_id": item_id, "content_index": 0}
    part = {"type": "refusal", "refusal": refuse.text}
    events = [
        {"type": "response.refusal.delta", **where, "delta": refuse.text},
        {"type": "response.refusal.done", **where, "refusal": refuse.text},
    ]
    return _with_part(item_id, part, {"type": "refusal", "refusal": ""}, events, "completed")


def _with_part(item_id: str, part: Json, empty: Json, events: list[Json], status: str) -> Item:
    where = {"item_id": item_id, "content_index": 0}
    item = {"id": item_id, "type": "message", "status": status, "content": [part], "role": "assistant"}
    return item, [
        {"type": "response.content_part.added", **where, "part": empty},
        *events,
        {"type": "response.content_part.done", **where, "part": part},
    ]


def _reasoning(think: Think, asked: Asked, ids: Ids) -> Item:
    item_id = ids.make("rs_")
    where = {"item_id": item_id, "summary_index": 0}
    part = {"type": "summary_text", "text": think.text}
    item: Json = {"id": item_id, "type": "reasoning", "summary": [part]}
    if "reasoning.encrypted_content" in (asked.body.get("include") or []):
        item["encrypted_content"] = encrypt(item_id, "done")
    return item, [
        {"type": "response.reasoning_summary_part.added", **where, "part": {"type": "summary_text", "text": ""}},
        *(
            {"type": "response.reasoning_summary_text.delta", **where, "delta": piece, "obfuscation": "k2"}
            for piece in think.pieces
        ),
        {"type": "response.reasoning_summary_text.done", **where, "text": think.text},
        {"type": "response.reasoning_summary_part.done", **where, "part": part},
    ]


def _function_call(call: Call, _: Asked, ids: Ids) -> Item:
    item_id = ids.make("fc_")
    item = {
        "id": item_id,
        "type": "function_call",
        "status": "completed",
        "arguments": call.text,
        "call_id": ids.make("call_"),
        "name": call.name,
        **({"namespace": call.namespace} if call.namespace else {}),
    }
    kind = "response.function_call_arguments"
    events = [
        {"type": f"{kind}.delta", "item_id": item_id, "delta": piece, "obfuscation": "w"} for piece in call.pieces
    ]
    return item, [*events, {"type": f"{kind}.done", "item_id": item_id, "arguments": call.text, "name": call.name}]


def _web_search(search: Search, _: Asked, ids: Ids) -> Item:
    item_id = ids.make("ws_")
    action = {"type": "search", "queries": [search.query], "query": search.query}
    item = {"id": item_id, "type": "web_search_call", "status": "completed", "action": action}
    steps = ("in_progress", "searching", "completed")
    return item, [{"type": f"response.web_search_call.{step}", "item_id": item_id} for step in steps]


_ITEMS: dict[type[Part], Callable[[Any, Asked, Ids], Item]] = {
    Refuse: _refusal,
    Think: _reasoning,
    Call: _function_call,
    Search: _web_search,
}

_EMPTY: Json = {"content": [], "summary": [], "arguments": "", "status": "in_progress", "action": {"type": "search"}}


def _item_events(index: int, item: Item) -> list[Json]:
    done, inner = item
    added = {name: _EMPTY.get(name, value) for name, value in done.items()}
    if "encrypted_content" in done:
        added["encrypted_content"] = encrypt(done["id"], "added")[:40]
    events = [
        {"type": "response.output_item.added", "item": added},
        *inner,
        {"type": "response.output_item.done", "item": done},
    ]
    return [{**event, "output_index": index} for event in events]


def _alternate(sequences: list[list[Json]]) -> list[Json]:
    """Let items overlap, which OpenAI never does and some servers do."""
    longest = max(map(len, sequences))
    return [sequence[position] for position in range(longest) for sequence in sequences if position < len(sequence)]


def _frame(data: Json) -> bytes:
    payload = json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode()
    return b"event: %b\ndata: %b\n\n" % (data["type"].encode(), payload)
