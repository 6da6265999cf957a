"""Rules Q05, Q06, Q07, Q09, Q13: the calls and results of a conversation.

Each protocol has a reader that lists them in order as marks; the rules about them are the same for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

from msgspec import Struct

from trilogue.lint.findings import Report
from trilogue.lint.json_values import arr, obj, objects, text
from trilogue.model import Json, Protocol

_ID_LIMIT = 64


class Mark(Struct, frozen=True, kw_only=True):
    """A call, a result, or a turn that goes on without them: before one, every call must have its result.

    `is_open`: its other half may be elsewhere (earlier responses, or a provider's own tools).
    """

    kind: Literal["call", "result", "turn"]
    path: str
    id: str = ""
    has_arguments: bool = True
    is_open: bool = False


def _chat(body: dict[str, Json]) -> Iterator[Mark]:
    """Calls are in assistant messages, results are messages."""
    for number, message in enumerate(objects(body.get("messages"))):
        path = f"messages[{number}]"
        if message.get("role") == "tool":
            yield Mark(kind="result", path=path, id=text(message.get("tool_call_id")))
            continue
        yield Mark(kind="turn", path=path)
        for position, call in enumerate(objects(message.get("tool_calls"))):
            kind = call.get("type")
            inner = obj(call.get("custom" if kind == "custom" else "function"))
            value = inner.get("input" if kind == "custom" else "arguments")
            where = f"{path}.tool_calls[{position}]"
            yield Mark(kind="call", path=where, id=text(call.get("id")), has_arguments=isinstance(value, str))


def _messages(body: dict[str, Json]) -> Iterator[Mark]:
    """Calls and results are blocks; the results are in the next turn of the user."""
    for number, message in enumerate(objects(body.get("messages"))):
        path = f"messages[{number}]"
        blocks = objects(message.get("content"))
        results = [block for block in blocks if block.get("type") == "tool_result"]
        if not results:
            yield Mark(kind="turn", path=path)
        for position, block in enumerate(blocks):
            where, kind = f"{path}.content[{position}]", block.get("type")
            if kind == "tool_use":
                has_arguments = isinstance(block.get("input"), dict)
                yield Mark(kind="call", path=where, id=text(block.get("id")), has_arguments=has_arguments)
            elif kind == "tool_result":
                yield Mark(kind="result", path=where, id=text(block.get("tool_use_id")))
        if results:
            yield Mark(kind="turn", path=path)


_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
_RESULTS = frozenset({"function_call_output", "custom_tool_call_output"})


def _responses(body: dict[str, Json]) -> Iterator[Mark]:
    """Calls and results are items; earlier responses may hold the other half."""
    items = arr(body.get("input"))
    has_state = any(body.get(name) for name in ("previous_response_id", "conversation", "prompt")) or any(
        obj(item).get("type") in ("item_reference", None) and "id" in obj(item) and "role" not in obj(item)
        for item in items
    )
    for number, entry in enumerate(items):
        item, path = obj(entry), f"input[{number}]"
        kind = text(item.get("type"))
        if kind in _CALLS:
            has_arguments = isinstance(item.get(_CALLS[kind]), str)
            yield Mark(
                kind="call", path=path, id=text(item.get("call_id")), has_arguments=has_arguments, is_open=has_state
            )
        elif kind in _RESULTS:
            yield Mark(kind="result", path=path, id=text(item.get("call_id")), is_open=has_state)
    # Items may lie between a call and its result, so only the end of the input closes the calls.
    if items:
        yield Mark(kind="turn", path=f"input[{len(items) - 1}]")


_MARKS: dict[Protocol, Callable[[dict[str, Json]], Iterator[Mark]]] = {
    Protocol.CHAT: _chat,
    Protocol.MESSAGES: _messages,
    Protocol.RESPONSES: _responses,
}


def check_calls(protocol: Protocol, body: dict[str, Json], report: Report) -> None:
    """Each call has its result, and each result its call, before the conversation goes on."""
    waiting: dict[str, Mark] = {}
    answered: set[str] = set()
    for mark in _MARKS[protocol](body):
        if mark.kind == "call":
            report.check(mark.id not in waiting and mark.id not in answered, "Q07", f"{mark.path}: the id occurs twice")
            waiting[mark.id] = mark
            _check_call(mark, protocol, report)
        elif mark.kind == "result":
            report.check(mark.id not in answered, "Q07", f"{mark.path}: a second result of one call")
            is_known = mark.is_open or mark.id in waiting or mark.id in answered
            report.check(is_known, "Q05", f"{mark.path}: a result without its call")
            answered.add(mark.id)
            waiting.pop(mark.id, None)
        else:
            for call in waiting.values():
                report.check(call.is_open, "Q06", f"{call.path}: a call without its result")
            answered.update(waiting)
            waiting.clear()


def _check_call(mark: Mark, protocol: Protocol, report: Report) -> None:
    if protocol is Protocol.MESSAGES:
        is_legal = bool(mark.id) and all(char.isascii() and (char.isalnum() or char in "_-") for char in mark.id)
        report.check(is_legal, "Q09", f"{mark.path}.id has characters that are not allowed")
    else:
        report.check(0 < len(mark.id) <= _ID_LIMIT, "Q09", f"{mark.path}: the id is empty or longer than {_ID_LIMIT}")
    report.check(mark.has_arguments, "Q13", f"{mark.path}: the arguments are of the wrong type")
