"""The names of Turns, a small protocol that exists only in these tests.

A request goes to `POST /v1/models/{model}:generate`, `:stream` or `:count`, with the key in `x-turns-key`:

    {"system": "…", "turns": [{"by": "user", "parts": [{"text": "Hi"}]}], "tools": […], "limit": 100, "heat": 0.5}

A response has parts, the reason why it ended, and token figures. A stream has one event for each step: `start`, `text`,
`call`, `arguments`, `end`.
"""

from __future__ import annotations

from trilogue.model import Protocol, StopReason, Traits

PROTOCOL = Protocol.register("example_turns", "turns", Traits(json_mode=False, stop_path="ended"))
KEY_HEADER = "x-turns-key"

REQUEST_FIELDS = frozenset({"model", "stream", "system", "turns", "tools", "limit", "heat", "stop"})
PATHS = {"turns": "turns", "max_tokens": "limit", "temperature": "heat"}

ENDED = {
    "done": StopReason.END,
    "limit": StopReason.LENGTH,
    "calls": StopReason.TOOL_CALLS,
    "stop": StopReason.STOP_SEQUENCE,
    "blocked": StopReason.REFUSAL,
}
NAMES = {reason: name for name, reason in ENDED.items()}
"""the other reasons are `done` in this protocol"""
