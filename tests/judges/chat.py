"""Read the meaning of Chat Completions responses, as OpenAI defines them and as other servers send them."""

import json
from typing import Any

from tests.judges.answers import (
    END,
    ERROR,
    FILTER,
    LENGTH,
    TOOL_CALLS,
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

STOPS = {
    "stop": END,
    "eos": END,
    "end_turn": END,
    "length": LENGTH,
    "model_length": LENGTH,
    "tool_calls": TOOL_CALLS,
    "tool_call": TOOL_CALLS,
    "tool_use": TOOL_CALLS,
    "function_call": TOOL_CALLS,
    "content_filter": FILTER,
    "error": ERROR,
}
_REASONING = ("reasoning_content", "reasoning", "thinking")


def answer(body: dict[str, Any]) -> Answer:
    """Return the meaning of a complete response: its first choice."""
    found = Answer()
    choices = items(body.get("choices"))
    if body.get("error") or (not choices and (body.get("detail") or body.get("object") == "error")):
        found.error = error_of(body)
        return found.settle()
    choice = mapping(choices[0]) if choices else {}
    if choice.get("error"):
        found.error = error_of(choice)
    message = mapping(choice.get("message"))
    _message(message, found)
    details = _details(message, found)
    found.reasoning = found.reasoning or details
    found.stop = STOPS.get(string(choice.get("finish_reason"))) or _old_stop(choice)
    found.usage = usage(body.get("usage"))
    return found.settle()


def stream(events: list[Event]) -> Answer:
    """Return the meaning of a stream. Calls are assembled by id and index."""
    found = Answer(complete=False)
    calls = _Calls()
    details = ""
    for event in events:
        if event.data.startswith("[DONE]"):
            found.complete = True
            break
        chunk = mapping(event.json)
        if chunk.get("error") or event.name == "error" or (chunk.get("detail") and "choices" not in chunk):
            found.error = error_of(chunk)
            break
        found.usage = usage(chunk.get("usage") or mapping(chunk.get("x_groq")).get("usage")) or found.usage
        for choice in items(chunk.get("choices")):
            if number(mapping(choice).get("index")) == 0:
                details += _details(mapping(mapping(choice).get("delta")), found)
                _delta(mapping(choice), found, calls)
    found.calls = calls.finished()
    found.reasoning = found.reasoning or details
    found.complete = found.complete or found.stop is not None
    return found.settle()


def _delta(choice: dict[str, Any], found: Answer, calls: "_Calls") -> None:
    delta = mapping(choice.get("delta"))
    legacy = mapping(delta.get("function_call"))
    _message({name: value for name, value in delta.items() if name not in ("tool_calls", "function_call")}, found)
    for fragment in [*items(delta.get("tool_calls")), *([{"index": "legacy", "function": legacy}] if legacy else [])]:
        calls.add(mapping(fragment))
        found.note("call")
    found.stop = STOPS.get(string(choice.get("finish_reason")), found.stop)


def _message(message: dict[str, Any], found: Answer) -> None:
    found.reasoning += _reasoning(message)
    _content(message.get("content"), found)
    found.refusal += string(message.get("refusal"))
    found.text += string(mapping(message.get("audio")).get("transcript"))
    for note in items(message.get("annotations")):
        cited = mapping(mapping(note).get("url_citation"))
        if cited:
            found.citations.append((string(cited.get("url")), string(cited.get("title"))))
    for raw in items(message.get("tool_calls")):
        call = _call(mapping(raw))
        if call.id or call.name:
            found.call(call)
    legacy = mapping(message.get("function_call"))
    if legacy.get("name"):
        found.call(Call("", string(legacy["name"]), arguments(legacy.get("arguments"))))


def _reasoning(message: dict[str, Any]) -> str:
    for name in _REASONING:
        if isinstance(message.get(name), str) and message[name]:
            return string(message[name])
    return ""


def _details(message: dict[str, Any], found: Answer) -> str:
    """Return the text of `reasoning_details`, unless the plain fields have it already."""
    details = [mapping(detail) for detail in items(message.get("reasoning_details"))]
    found.opaque += [string(d.get("signature")) or string(d.get("data")) for d in details if _opaque(d)]
    return "".join(string(detail.get("text")) or string(detail.get("summary")) for detail in details)


def _opaque(detail: dict[str, Any]) -> bool:
    return bool(string(detail.get("signature")) or string(detail.get("data")))


def _old_stop(choice: dict[str, Any]) -> str | None:
    """Return the stop reason of early vision models, which sent `finish_details`."""
    kind = mapping(choice.get("finish_details")).get("type")
    return LENGTH if kind == "max_tokens" else END if kind == "stop" else None


def _content(content: Any, found: Answer) -> None:
    if isinstance(content, dict):
        found.say(_dumped(content))
        return
    if isinstance(content, str):
        found.say(content)
    for part in items(content):
        kind = mapping(part).get("type")
        if kind == "thinking":
            inner = items(part.get("thinking"))
            found.reasoning += "".join(string(mapping(piece).get("text")) for piece in inner)
        elif kind in ("text", "output_text"):
            found.say(string(part.get("text")))
        elif kind == "refusal":
            found.refusal += string(part.get("refusal"))


def _dumped(value: Any) -> str:
    """Return the compact JSON of an object: some servers send the object itself in JSON mode."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _call(call: dict[str, Any]) -> Call:
    custom = mapping(call.get("custom"))
    if custom.get("name"):
        return Call(string(call.get("id")), string(custom.get("name")), string(custom.get("input")), "custom")
    function = mapping(call.get("function"))
    return Call(string(call.get("id")), string(function.get("name")), arguments(function.get("arguments")))


class _Calls:
    """Tool calls in fragments. A new id with a name starts a new call, even if the index is an old one."""

    def __init__(self) -> None:
        self._calls: list[dict[str, Any]] = []
        self._at: dict[Any, dict[str, Any]] = {}

    def add(self, piece: dict[str, Any]) -> None:
        """Add one fragment."""
        call = self._find(piece)
        function = mapping(piece.get("function")) or mapping(piece.get("custom"))
        call["kind"] = "custom" if piece.get("custom") else call["kind"]
        call["id"] = call["id"] or string(piece.get("id"))
        name = string(function.get("name"))
        if name != call["name"]:
            call["name"] += name
        given = function.get("arguments", function.get("input"))
        if isinstance(given, str):
            call["arguments"] += given
        elif given is not None:
            call["arguments"] += _dumped(given)

    def _find(self, piece: dict[str, Any]) -> dict[str, Any]:
        index = piece.get("index")
        known = self._at.get(index) if index is not None or not piece.get("id") else None
        if known is None and index is None and self._calls and not piece.get("id"):
            known = self._calls[-1]
        fresh = piece.get("id") and known and known["id"] and piece["id"] != known["id"]
        if known is None or (fresh and mapping(piece.get("function")).get("name")):
            known = {"id": "", "name": "", "arguments": "", "kind": "function"}
            self._calls.append(known)
        self._at[index] = known
        return known

    def finished(self) -> list[Call]:
        """Return all calls in the order in which they began."""
        return [
            Call(c["id"], c["name"], c["arguments"] if c["kind"] == "custom" else arguments(c["arguments"]), c["kind"])
            for c in self._calls
        ]


def usage(value: Any) -> Usage | None:
    """Return the usage. Reasoning that a provider counts outside of the completion is added to it."""
    fields = mapping(value)
    if not fields:
        return None
    prompt, completion = number(fields.get("prompt_tokens")), number(fields.get("completion_tokens"))
    details = mapping(fields.get("completion_tokens_details"))
    reasoning = number(details.get("reasoning_tokens")) or number(fields.get("reasoning_tokens"))
    if reasoning and number(fields.get("total_tokens")) == prompt + completion + reasoning:
        completion += reasoning
    cached = mapping(fields.get("prompt_tokens_details"))
    return Usage(
        input=prompt,
        cached=number(cached.get("cached_tokens"))
        or number(fields.get("prompt_cache_hit_tokens"))
        or number(fields.get("num_cached_tokens"))
        or number(fields.get("cached_tokens")),
        cache_write=number(cached.get("cache_write_tokens")),
        output=completion,
        reasoning=reasoning,
    )
