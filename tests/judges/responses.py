"""Read the meaning of Responses responses, as OpenAI defines them and as other servers send them."""

import copy
from typing import Any, NamedTuple

from tests.judges.answers import (
    END,
    ERROR,
    FILTER,
    LENGTH,
    Answer,
    Call,
    Usage,
    arguments,
    error_of,
    items,
    mapping,
    number,
    string,
)
from tests.judges.sse import Event

STOPS = {"completed": END, "failed": ERROR, "cancelled": ERROR}
INCOMPLETE = {"max_output_tokens": LENGTH, "content_filter": FILTER, "max_messages": END, "steered": END}
TERMINAL = frozenset({"response.completed", "response.incomplete", "response.failed"})


def answer(body: dict[str, Any]) -> Answer:
    """Return the meaning of a complete response."""
    found = Answer()
    if body.get("error") or ("output" not in body and body.get("detail")):
        found.error = error_of(body)
    for item in items(body.get("output")):
        _item(mapping(item), found)
    status = string(body.get("status"))
    if status == "incomplete":
        found.stop = INCOMPLETE.get(string(mapping(body.get("incomplete_details")).get("reason")))
    else:
        found.stop = STOPS.get(status)
    found.usage = usage(body.get("usage"))
    return found.settle()


def _item(item: dict[str, Any], found: Answer) -> None:
    kind = string(item.get("type"))
    if kind == "message":
        for part in items(item.get("content")):
            _part(mapping(part), found)
    elif kind == "reasoning":
        parts = [*items(item.get("summary")), *items(item.get("content"))]
        found.reasoning += "".join(string(mapping(part).get("text")) for part in parts)
        if item.get("encrypted_content"):
            found.opaque.append(string(item["encrypted_content"]))
    elif kind == "function_call":
        found.call(Call(string(item.get("call_id")), string(item.get("name")), arguments(item.get("arguments"))))
    elif kind == "custom_tool_call":
        found.call(Call(string(item.get("call_id")), string(item.get("name")), string(item.get("input")), "custom"))
    elif kind == "web_search_call" and mapping(item.get("action")).get("type") in (None, "search"):
        found.searches.append(_query(item))
    else:
        found.natives.append(kind)


def _query(item: dict[str, Any]) -> str:
    action = mapping(item.get("action"))
    first = items(action.get("queries"))
    # xAI sends searches as function calls.
    written = mapping(arguments(item.get("arguments")))
    return string(action.get("query")) or (string(first[0]) if first else string(written.get("query")))


def _part(part: dict[str, Any], found: Answer) -> None:
    if part.get("type") == "refusal":
        found.refusal += string(part.get("refusal"))
        return
    found.say(string(part.get("text")))
    for note in items(part.get("annotations")):
        if mapping(note).get("type") == "url_citation":
            found.citations.append((string(note.get("url")), string(note.get("title"))))
        else:
            found.natives.append(f"citation:{mapping(note).get('type')}")


def stream(events: list[Event]) -> Answer:
    """Return the meaning of a stream. Finished items come before the final response object, and both before deltas."""
    response: dict[str, Any] = {}
    drafts: dict[int, dict[str, Any]] = {}
    done: dict[int, dict[str, Any]] = {}
    failure: tuple[str, str] | None = None
    complete = False
    for event in events:
        data = mapping(event.json)
        kind = string(data.get("type")) or event.name
        if kind == "error" or (data.get("error") and not kind.startswith("response.")):
            failure = failure or error_of(data)
            continue
        if kind in TERMINAL:
            response, complete = mapping(data.get("response")), True
        _fold(kind, data, drafts, done)
    collected = [done.get(index) or drafts[index] for index in sorted({*drafts, *done})]
    if len(collected) >= len(items(response.get("output"))):
        response = {**response, "output": collected}
    found = answer(response)
    found.error, found.complete = failure or found.error, complete
    return found.settle()


def _fold(kind: str, data: dict[str, Any], drafts: dict[int, Any], done: dict[int, Any]) -> None:
    index = number(data.get("output_index"))
    if kind == "response.output_item.added" and data.get("item"):
        drafts[index] = copy.deepcopy(mapping(data["item"]))
    elif kind == "response.output_item.done":
        done[index] = mapping(data.get("item"))
    elif kind in _PARTS:
        _grow(drafts.setdefault(index, {"type": _PARTS[kind].owner}), _PARTS[kind], data)
    elif kind in _STRINGS:
        name = _STRINGS[kind]
        item = drafts.setdefault(index, {"type": "function_call"})
        item[name] = string(item.get(name)) + string(data.get("delta"))


class _Part(NamedTuple):
    """Where the deltas of an event go: which item, which of its lists, which kind of part, and which field."""

    owner: str
    field: str
    type: str
    text: str = "text"


_PARTS = {
    "response.output_text.delta": _Part("message", "content", "output_text"),
    "response.refusal.delta": _Part("message", "content", "refusal", "refusal"),
    "response.reasoning_summary_text.delta": _Part("reasoning", "summary", "summary_text"),
    "response.reasoning_text.delta": _Part("reasoning", "content", "reasoning_text"),
}
_STRINGS = {
    "response.function_call_arguments.delta": "arguments",
    "response.custom_tool_call_input.delta": "input",
}


def _grow(item: dict[str, Any], into: _Part, data: dict[str, Any]) -> None:
    parts = items(item.get(into.field))
    item[into.field] = parts
    position = number(data.get("content_index")) or number(data.get("summary_index"))
    while len(parts) <= position:
        parts.append({"type": into.type, into.text: ""})
    parts[position][into.text] = string(parts[position].get(into.text)) + string(data.get("delta"))


def usage(value: Any) -> Usage | None:
    """Return the usage."""
    fields = mapping(value)
    if not fields:
        return None
    details = mapping(fields.get("input_tokens_details"))
    return Usage(
        input=number(fields.get("input_tokens")),
        cached=number(details.get("cached_tokens")),
        cache_write=number(details.get("cache_write_tokens")),
        output=number(fields.get("output_tokens")),
        reasoning=number(mapping(fields.get("output_tokens_details")).get("reasoning_tokens")),
    )
