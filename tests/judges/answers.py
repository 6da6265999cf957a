"""The meaning of a response in any protocol: text, calls, citations, stop reason and usage."""

import json
from dataclasses import dataclass, field
from typing import Any

Json = Any

END, LENGTH, TOOL_CALLS, FILTER, PAUSE, ERROR = "end", "length", "tool_calls", "filter", "pause", "error"


@dataclass(frozen=True)
class Call:
    """A tool call. `arguments` is parsed if it is JSON, `{}` if it is empty, and otherwise the raw text."""

    id: str
    name: str
    arguments: Json
    kind: str = "function"


@dataclass(frozen=True)
class Usage:
    """Token counts. `input` includes cached tokens; `output` includes reasoning."""

    input: int = 0
    cached: int = 0
    cache_write: int = 0
    output: int = 0
    reasoning: int = 0


@dataclass
class Answer:
    """The meaning of one response, or of the part of it that arrived."""

    text: str = ""
    reasoning: str = ""
    refusal: str = ""
    calls: list[Call] = field(default_factory=list)
    citations: list[tuple[str, str]] = field(default_factory=list)
    searches: list[str] = field(default_factory=list)
    stop: str | None = None
    """why it ended; None if the response does not say"""
    usage: Usage | None = None
    error: tuple[str, str] | None = None
    """class and message"""
    opaque: list[str] = field(default_factory=list)
    """signatures and encrypted values, which only their maker can read"""
    order: list[str] = field(default_factory=list)
    """the order of `text` and `call`, without repetitions"""
    natives: list[str] = field(default_factory=list)
    """types of blocks and items that other protocols do not have"""
    complete: bool = True
    """whether a stream ended with the terminal event of its protocol"""

    def say(self, text: str) -> None:
        """Add text."""
        if text:
            self.text += text
            self.note("text")

    def call(self, call: Call) -> None:
        """Add a tool call."""
        self.calls.append(call)
        self.note("call")

    def note(self, kind: str) -> None:
        """Note what comes next, for the order."""
        if not self.order or self.order[-1] != kind:
            self.order.append(kind)

    def settle(self) -> "Answer":
        """Correct the stop reason by the calls: providers say stop when they mean tool_calls, and the other way
        round."""
        if self.stop == END and self.calls:
            self.stop = TOOL_CALLS
        elif self.stop == TOOL_CALLS and not self.calls:
            self.stop = END
        if self.error:
            self.stop = ERROR
        return self


def arguments(raw: Json) -> Json:
    """Return the value of tool arguments: parsed if they are JSON, an empty object if there are none."""
    if not isinstance(raw, str):
        return {} if raw is None else raw
    if not raw.strip():
        return {}
    try:
        return json.loads(raw)
    except ValueError:
        return raw


def number(value: Json) -> int:
    """Return a token count, or 0 if it is not a number."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def mapping(value: Json) -> dict[str, Json]:
    """Return the object, or an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: Json) -> list[Json]:
    """Return the array, or an empty one."""
    return value if isinstance(value, list) else []


def string(value: Json) -> str:
    """Return the text, or an empty one."""
    return value if isinstance(value, str) else ""


_CLASSES = {
    "invalid_request_error": "invalid",
    "invalid_prompt": "invalid",
    "context_length_exceeded": "invalid",
    "authentication_error": "auth",
    "invalid_api_key": "auth",
    "billing_error": "quota",
    "insufficient_quota": "quota",
    "permission_error": "permission",
    "not_found_error": "not_found",
    "model_not_found": "not_found",
    "rate_limit_error": "rate",
    "rate_limit_exceeded": "rate",
    "tokens": "rate",
    "requests": "rate",
    "overloaded_error": "overloaded",
    "server_is_overloaded": "overloaded",
    "timeout_error": "timeout",
    "api_error": "server",
    "server_error": "server",
    "upstream_truncated": "server",
    "upstream_protocol_error": "server",
    "request_too_large": "invalid",
}


def error_of(value: Json) -> tuple[str, str]:
    """Return class and message of an error object in any of the forms that providers use."""
    if isinstance(value, str):
        return "unknown", value
    fields = mapping(value)
    inner = fields.get("error")
    if isinstance(inner, dict | str) and inner:
        return error_of(inner)
    names = [fields.get("code"), fields.get("type")]
    known = [_CLASSES[name] for name in names if isinstance(name, str) and name in _CLASSES]
    message = fields.get("message") or fields.get("detail") or ""
    return (known[0] if known else "unknown"), message if isinstance(message, str) else json.dumps(message)
