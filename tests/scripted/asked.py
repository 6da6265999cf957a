"""What a request asks for, read from the JSON of each protocol. Anything unexpected is treated as absent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.scripted.scenario import Seen
from tests.scripted.tokens import is_encrypted, is_signed

Json = dict[str, Any]


@dataclass(frozen=True)
class Asked:
    """One request. `foreign` is True if it contains reasoning that this upstream did not make."""

    body: Json
    model: str
    stream: bool
    seen: Seen
    foreign: bool = False

    def option(self, *path: str) -> Any:
        """Return a value deep in the request, or None."""
        value: Any = self.body
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        return value


def read_chat(body: Json) -> Asked:
    """Read a Chat Completions request. Results after the last user message count."""
    tools = [tool.get("function") or tool.get("custom") or {} for tool in body.get("tools") or []]
    results = [
        _text(message.get("content"))
        for message in _tail(body.get("messages") or [], _is_user_chat)
        if message.get("role") == "tool"
    ]
    return _asked(body, [tool.get("name", "") for tool in tools], results)


def read_messages(body: Json) -> Asked:
    """Read a Messages request. A user turn that consists of results continues the same task."""
    blocks = [block for message in body.get("messages") or [] for block in _blocks(message)]
    results = [
        _text(block.get("content"))
        for message in _tail(body.get("messages") or [], _is_user_messages)
        for block in _blocks(message)
        if block.get("type") == "tool_result"
    ]
    names = [tool.get("name", "") for tool in body.get("tools") or [] if "input_schema" in tool]
    return _asked(body, names, results, any(map(_foreign_block, blocks)))


def read_responses(body: Json) -> Asked:
    """Read a Responses request. Its input may be a plain string."""
    items = body.get("input")
    items = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
    results = [
        _text(item.get("output"))
        for item in _tail(items, _is_user_chat)
        if item.get("type") in ("function_call_output", "custom_tool_call_output")
    ]
    names = [tool.get("name", "") for tool in body.get("tools") or [] if tool.get("type") == "function"]
    foreign = any(item.get("type") == "reasoning" and not _own_item(item) for item in items)
    return _asked(body, names, results, foreign)


def _asked(body: Json, tools: list[str], results: list[str], foreign: bool = False) -> Asked:
    seen = Seen(tuple(filter(None, tools)), len(results), results[-1] if results else "", body)
    return Asked(body, str(body.get("model", "")), bool(body.get("stream")), seen, foreign)


def _tail(turns: list[Json], is_user: Any) -> list[Json]:
    """Return everything after the user last spoke."""
    start = max((index for index, turn in enumerate(turns) if is_user(turn)), default=-1)
    return turns[start + 1 :]


def _is_user_chat(turn: Json) -> bool:
    return turn.get("role") == "user"


def _is_user_messages(turn: Json) -> bool:
    return turn.get("role") == "user" and not any(block.get("type") == "tool_result" for block in _blocks(turn))


def _blocks(message: Json) -> list[Json]:
    content = message.get("content")
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _foreign_block(block: Json) -> bool:
    if block.get("type") == "redacted_thinking":
        return True
    return block.get("type") == "thinking" and not is_signed(block.get("thinking", ""), block.get("signature", ""))


def _own_item(item: Json) -> bool:
    value = item.get("encrypted_content")
    return not value or is_encrypted(value)
