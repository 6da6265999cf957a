"""Rules C for a Messages stream.

In: the JSON object of each event. Out: findings in the report. The legal orders are a table; what a block may receive
is another. What holds at the end of a response is in `body.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto

from msgspec import Struct, field

from trilogue.base.json_text import parse_object
from trilogue.lint.definition import ExpectedResponse
from trilogue.lint.json_values import count, is_int, obj, one_of, text
from trilogue.lint.messages.body import (
    CACHE_COUNTS,
    ERROR_TYPES,
    check_block,
    check_calls,
    check_counts,
    check_json,
    check_stop,
    is_result,
)
from trilogue.lint.rules import LintReport
from trilogue.model import Json


class StreamState(Enum):
    """How far a stream has come."""

    NEW = auto()
    OPEN = auto()
    ENDING = auto()
    """message_delta has come"""
    DONE = auto()
    FAILED = auto()


_BLOCK_EVENTS = ("content_block_start", "content_block_delta", "content_block_stop")

LIFECYCLE: dict[StreamState, dict[str, StreamState]] = {
    StreamState.NEW: {"message_start": StreamState.OPEN, "error": StreamState.FAILED},
    StreamState.OPEN: {
        **dict.fromkeys((*_BLOCK_EVENTS, "ping"), StreamState.OPEN),
        "message_delta": StreamState.ENDING,
        "error": StreamState.FAILED,
    },
    StreamState.ENDING: {"ping": StreamState.ENDING, "message_stop": StreamState.DONE, "error": StreamState.FAILED},
    StreamState.DONE: {},
    StreamState.FAILED: {},
}

ILLEGAL: dict[StreamState, dict[str, str]] = {
    StreamState.NEW: {"ping": "C32", "*": "C01"},
    StreamState.OPEN: {"message_start": "C01", "message_stop": "C03"},
    StreamState.ENDING: {"message_start": "C01", "*": "C03"},
    StreamState.DONE: {"message_stop": "C02", "*": "A16"},
    StreamState.FAILED: {"*": "C33"},
}
"""the rule that an event breaks where the table above has no row for it; * is every other event"""

_EVENTS = frozenset({"message_start", *_BLOCK_EVENTS, "message_delta", "message_stop", "ping", "error"})

_JSON_DELTAS = frozenset({"input_json_delta"})
_ALLOWED: dict[str, tuple[str, frozenset[str]]] = {
    "text": ("C13", frozenset({"text_delta", "citations_delta"})),
    "thinking": ("C14", frozenset({"thinking_delta", "signature_delta"})),
    "redacted_thinking": ("C15", frozenset()),
    "tool_use": ("C16", _JSON_DELTAS),
    "server_tool_use": ("C16", _JSON_DELTAS),
    "mcp_tool_use": ("C16", _JSON_DELTAS),
}
"""block type -> rule and the deltas that it may get; tool results get none"""

_EMPTY: dict[str, dict[str, Json]] = {
    "text": {"text": ""},
    "thinking": {"thinking": "", "signature": ""},
    "tool_use": {"input": {}},
}


class _Block(Struct):
    """What a stream has sent of one block so far."""

    path: str
    kind: str
    start: dict[str, Json]
    is_open: bool = True
    json: list[str] = field(default_factory=list)
    signatures: int = 0
    texts: list[str] = field(default_factory=list)


class MessagesStream:
    """Checks the events of one Messages stream."""

    def __init__(self, report: LintReport, expected: ExpectedResponse) -> None:
        self._report = report
        self._expected = expected
        self._state = StreamState.NEW
        self._blocks: dict[int, _Block] = {}
        self._usage: dict[str, Json] = {}
        self._has_ping = False
        self._is_prefilled = False
        self._reason: Json = None
        self._handlers: dict[str, Callable[[dict[str, Json]], None]] = {
            "message_start": self._on_start,
            "content_block_start": self._on_block_start,
            "content_block_delta": self._on_block_delta,
            "content_block_stop": self._on_block_stop,
            "message_delta": self._on_message_delta,
            "message_stop": self._on_stop,
            "ping": self._on_ping,
            "error": self._on_error,
        }

    def event(self, name: str, data: dict[str, Json]) -> None:
        """Check one event; `name` is its `event:` line."""
        kind = text(data.get("type"))
        self._report.check(bool(kind) and name == kind, "C04", "the event: line is missing or is not data.type")
        kind = kind or name
        if kind not in _EVENTS:
            return
        following = LIFECYCLE[self._state].get(kind)
        if following is None and not self._is_continuation(kind):
            self._illegal(kind)
            return
        self._state = following or StreamState.DONE
        self._handlers[kind](data)

    def done_marker(self) -> None:
        """Report `[DONE]`, which only Chat has."""
        self._report.add("C35", "[DONE]")

    def close(self) -> None:
        """Check that the stream was complete."""
        if self._state is StreamState.ENDING:
            self._report.add("C02", "message_stop is missing")
        elif self._state in (StreamState.NEW, StreamState.OPEN):
            self._report.add("A15", "the stream ends without message_stop or error")
        if self._state is StreamState.DONE and not self._has_ping:
            self._report.add("C32", "no ping in the stream", note=True)

    def _is_continuation(self, kind: str) -> bool:
        """Return whether this ends a message that came whole in its message_start.

        The API responds so to results of calls that were made from code.
        """
        return self._is_prefilled and kind == "message_stop" and self._state is StreamState.OPEN

    def _illegal(self, kind: str) -> None:
        rows = ILLEGAL[self._state]
        self._report.add(rows.get(kind) or rows["*"], f"{kind} in state {self._state.name.lower()}")
        if self._state is StreamState.OPEN and kind == "message_stop":
            self._state = StreamState.DONE

    def _on_start(self, data: dict[str, Json]) -> None:
        report, message = self._report, obj(data.get("message"))
        self._is_prefilled = bool(message.get("content")) and message.get("stop_reason") is not None and not report.own
        is_message = message.get("type") == "message" and message.get("role") == "assistant"
        is_empty = message.get("content") == [] and message.get("stop_reason") is None
        is_empty = is_empty and message.get("stop_sequence") is None
        report.check(is_message, "C05", "message_start.message has no type message or role assistant")
        report.check(is_empty or self._is_prefilled, "C05", "message_start.message is not empty")
        report.check(text(message.get("id")).startswith("msg_"), "C06", "message.id does not start with msg_")
        self._usage = obj(message.get("usage"))
        has_usage = is_int(self._usage.get("input_tokens")) and is_int(self._usage.get("output_tokens"))
        report.check(has_usage, "C07", "message.usage lacks input_tokens or output_tokens")
        missing = [name for name in CACHE_COUNTS if name not in self._usage]
        report.check(not missing or not report.own, "C57", f"message.usage lacks {', '.join(missing)}")
        check_counts(self._usage, "message.usage", report)
        if self._expected.model:
            report.check(message.get("model") == self._expected.model, "C43", "model is not the one of the request")

    def _on_block_start(self, data: dict[str, Json]) -> None:
        report, block = self._report, obj(data.get("content_block"))
        index, kind = data.get("index"), text(block.get("type"))
        path = f"content[{index}]" if is_int(index) else "content[?]"
        report.check(index == len(self._blocks), "C08", f"{path} is not the next index")
        report.check(not any(other.is_open for other in self._blocks.values()), "C09", f"{path} starts inside another")
        self._check_empty(block, kind, path)
        check_block(block, path, report)
        if kind in ("thinking", "redacted_thinking") and self._expected.known:
            report.check(self._expected.thinking, "C39", f"{path} is thinking that the request did not enable")
        self._blocks[index if is_int(index) else len(self._blocks)] = _Block(path, kind, block)

    def _check_empty(self, block: dict[str, Json], kind: str, path: str) -> None:
        # Calls made from code execution come whole, from the provider only.
        caller = text(obj(block.get("caller")).get("type"))
        if caller.startswith("code_execution") and not self._report.own:
            return
        for name, empty in _EMPTY.get(kind, {}).items():
            self._report.check(block.get(name) == empty, "C17", f"{path}.{name} is not empty at the start")

    def _on_block_delta(self, data: dict[str, Json]) -> None:
        report, index, delta = self._report, data.get("index"), obj(data.get("delta"))
        block = self._blocks.get(index) if is_int(index) else None
        if block is None:
            report.add("C10", "a delta for a block that was not started")
        elif not block.is_open:
            report.add("C12", f"{block.path} gets a delta after its stop")
        elif self._is_allowed(block, text(delta.get("type"))):
            self._add_delta(block, delta)

    def _is_allowed(self, block: _Block, kind: str) -> bool:
        if kind == "citations_delta" and block.kind != "text":
            return self._report.check(False, "C37", f"{block.path} gets a citations_delta and is not a text block")
        none: tuple[str, frozenset[str]] = ("C15", frozenset())
        rule, allowed = none if is_result(block.kind) else _ALLOWED.get(block.kind, ("", frozenset()))
        return not rule or self._report.check(kind in allowed, rule, f"{block.path} gets a delta of another kind")

    def _add_delta(self, block: _Block, delta: dict[str, Json]) -> None:
        report, kind = self._report, delta.get("type")
        if kind == "text_delta":
            report.check(delta.get("text") != "", "C38", f"{block.path} gets an empty text_delta")
            block.texts.append(text(delta.get("text")))
        elif kind == "input_json_delta":
            block.json.append(text(delta.get("partial_json")))
        elif kind == "signature_delta":
            block.signatures += 1
            report.check(block.signatures == 1, "C21", f"{block.path} gets a second signature_delta")
            report.check(delta.get("signature") != "", "C22", f"{block.path} gets an empty signature")
        elif kind == "thinking_delta":
            report.check(not block.signatures, "C21", f"{block.path} gets a thinking_delta after its signature")

    def _on_block_stop(self, data: dict[str, Json]) -> None:
        index = data.get("index")
        block = self._blocks.get(index) if is_int(index) else None
        if block is None or not block.is_open:
            self._report.add("C10", "a stop for a block that is not open")
            return
        block.is_open = False
        if block.kind == "thinking":
            self._report.check(block.signatures > 0, "C21", f"{block.path} has no signature_delta")

    def _on_message_delta(self, data: dict[str, Json]) -> None:
        report, delta = self._report, obj(data.get("delta"))
        for block in self._blocks.values():
            report.check(not block.is_open, "C11", f"{block.path} is not stopped")
        self._reason = delta.get("stop_reason")
        if report.check(self._reason is not None, "C23", "message_delta has no stop_reason"):
            check_stop(delta, [block.start for block in self._blocks.values()], report)
        self._check_usage(data.get("usage"))
        self._check_blocks()

    def _check_blocks(self) -> None:
        """Check what must hold when all blocks are there."""
        report = self._report
        for block in self._blocks.values():
            joined = "".join(block.json)
            is_whole = not joined or parse_object(joined) is not None
            report.check(is_whole or self._reason == "max_tokens", "C20", f"{block.path} input is not a JSON object")
        check_calls([(block.path, block.start) for block in self._blocks.values()], report, self._expected)
        texts = "".join(piece for block in self._blocks.values() for piece in block.texts)
        check_json(texts, self._reason, report, self._expected)

    def _check_usage(self, value: Json) -> None:
        report, usage = self._report, obj(value)
        if not report.check(is_int(usage.get("output_tokens")), "C28", "message_delta.usage lacks output_tokens"):
            return
        is_placeholder = usage.get("input_tokens") == 0 and count(self._usage.get("input_tokens")) > 0
        is_placeholder = is_placeholder and not any(count(usage.get(name)) for name in CACHE_COUNTS)
        report.check(not is_placeholder, "C29", "message_delta.usage.input_tokens is 0 after another value")
        falls = count(usage["output_tokens"]) < count(self._usage.get("output_tokens"))
        report.check(not falls or usage["output_tokens"] < 0, "C30", "output_tokens falls")
        for name in CACHE_COUNTS:
            report.check(
                name not in usage or is_int(usage[name]), "C31", f"message_delta.usage.{name} is not an integer"
            )
        check_counts(usage, "message_delta.usage", report)

    def _on_stop(self, _data: dict[str, Json]) -> None:
        """Accept message_stop, which has nothing to check."""

    def _on_ping(self, data: dict[str, Json]) -> None:
        self._has_ping = True
        self._report.check(data == {"type": "ping"}, "C32", "ping holds more than its type")

    def _on_error(self, data: dict[str, Json]) -> None:
        error = obj(data.get("error"))
        is_whole = isinstance(error.get("message"), str) and isinstance(error.get("type"), str)
        if self._report.check(is_whole, "C33", "the error event lacks error.type or error.message"):
            known = one_of(error["type"], ERROR_TYPES)
            self._report.check(known, "C34", "error.type is not one of the documented types")
