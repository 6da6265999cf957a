"""Responses and streams with one field that no shape has: the first invented case with a place for it, with it."""

import copy
import itertools
import json
import re
from functools import cache
from typing import Any

from tests.corpus.load import Recording
from tests.shapes import made
from tests.shapes.fields import body_fields, events, prefix, stream_fields
from tests.shapes.lists import entries
from trilogue import Protocol

Body = dict[str, Any]
Step = tuple[str, str | None]
_STEP = re.compile(r"([^.\[\]]+)(\[[^\]]*\])?")
_ADDED = frozenset(
    {"cache_creation", "output_tokens_details", "server_tool_use", "stop_details", "error", "message", "delta"}
)
"""objects that are made where they are missing"""
_JUDGED = {
    "type": "moderation_results",
    "model": "omni",
    "results": [
        {
            "type": "moderation_result",
            "model": "omni",
            "flagged": False,
            "categories": {"violence": False},
            "category_scores": {"violence": 0.1},
            "category_applied_input_types": {"violence": ["text"]},
        }
    ],
}
_KINDS: Body = {"text": "word", "number": 1, "bool": True, "object": {"some": 1}, "list": []}
_VALUES: Body = {
    "service_tier": "default",
    "usage.cache_creation_input_tokens": 0,
    "usage.service_tier": "standard",
    "speed": "standard",
    "native_finish_reason": "stop",
    "phase": "final_answer",
    "caller": {"type": "direct"},
    "citations": ["https://example.com/a"],
    "finish_details": {"type": "stop"},
    "moderation": {"input": _JUDGED, "output": _JUDGED},
    "tool_choice": {"type": "function", "name": "tool_1"},
    "text": {"format": {"type": "text"}, "verbosity": "medium"},
    "conversation": {"id": "conv_1"},
    "truncation": "disabled",
    "inference_geo": "global",
    "iterations": [{"type": "message", "input_tokens": 1, "output_tokens": 1}],
    "x_groq": {"id": "req_1", "usage": {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}},
}
"""values that must be of a certain kind, by the name of the field; the kind decides otherwise"""


@cache
def covered(protocol: Protocol) -> frozenset[str]:
    """Return the fields that the invented cases of the shapes have already."""
    bodies = [body_fields(body) for body in _bodies(protocol)]
    streams = [stream_fields(protocol, stream) for stream in _streams(protocol)]
    return frozenset().union(*bodies, *streams)


@cache
def with_field(protocol: Protocol, entry: str) -> Recording:
    """Return an invented response or stream that has this field. Raise LookupError if there is no place for it."""
    where, _, rest = entry.partition(" ")
    path, _, kind = rest.rpartition(": ")
    value = _value(path, kind)
    return _body(protocol, path, value) if where == "body" else _stream(protocol, path, value)


def _value(path: str, kind: str) -> Any:
    last = path.rsplit(".", maxsplit=1)[-1]
    known = next((_VALUES[name] for name in (".".join(path.split(".")[-2:]), last) if name in _VALUES), None)
    fits = known is not None and (kind in ("text", "number", "bool")) == (not isinstance(known, dict | list))
    return copy.deepcopy(known) if fits else copy.deepcopy(_KINDS[kind])


def _steps(path: str) -> list[Step]:
    return [(name, tag[1:-1] if tag else None) for name, tag in _STEP.findall(path)]


def _body(protocol: Protocol, path: str, value: Any) -> Recording:
    for create, whole in itertools.product((False, True), _bodies(protocol)):
        body = copy.deepcopy(whole)
        if _place(body, _steps(path), value, create=create):
            return made.as_recorded(protocol, response=body)
    raise LookupError(path)


def _stream(protocol: Protocol, path: str, value: Any) -> Recording:
    for create, stream in itertools.product((False, True), _streams(protocol)):
        every = events(stream)
        for event in every:
            start = prefix(protocol, event)
            rest = _steps(path.removeprefix(start))
            if path.startswith(start) and _place(event, rest, value, create=create):
                return made.streamed(protocol, _framed(protocol, every))
    raise LookupError(path)


def _place(target: Body, steps: list[Step], value: Any, *, create: bool) -> bool:
    """Put a value where the steps lead; False if they lead nowhere, or something is there already."""
    for name, tag in steps[:-1]:
        inner = target.get(name)
        if tag is not None:
            inner = _element(inner, tag, create=create)
        elif inner is None and name in _ADDED:
            inner = target[name] = {}
        if not isinstance(inner, dict):
            return False
        target = inner
    last = steps[-1][0]
    held = target.get(last)
    if held and type(held) is type(value):
        return False
    target[last] = value
    return True


def _element(values: Any, tag: str, *, create: bool) -> Body | None:
    """Return the first object of that type in a list; a new one if the list is empty and may be filled."""
    if create and values == []:
        values.append({"type": tag})
    found = [one for one in values or [] if isinstance(one, dict) and (one.get("type") or "") == tag]
    return found[0] if found else None


def _framed(protocol: Protocol, every: list[Body]) -> bytes:
    if protocol is Protocol.CHAT:
        lines = [f"data: {json.dumps(event)}\n\n" for event in every]
        return "".join([*lines, "data: [DONE]\n\n"]).encode()
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in every).encode()


@cache
def _bodies(protocol: Protocol) -> list[Body]:
    """Return the invented responses, the simplest first."""
    shapes = [line for source, line in entries("responses") if source is protocol]
    return [made.responded(protocol, line).body or {} for line in sorted(shapes, key=len)]


@cache
def _streams(protocol: Protocol) -> list[bytes]:
    """Return the invented streams that end well, the simplest first."""
    shapes = [line for source, line in entries("streams") if source is protocol]
    good = sorted(shapes, key=lambda line: ("error" in line, line != made.PLAIN[protocol], len(line)))
    return [made.stream(protocol, line) for line in good]
