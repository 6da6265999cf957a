"""Cache marks for requests of clients that have no need to set any: OpenAI caches without them, Anthropic does not.

An agent sends the same beginning with every request. The marks are put on the body as it is sent, because only there
turns and results are in their final place.
"""

from __future__ import annotations

from collections.abc import Iterable

from trilogue.model import Caching, Json
from trilogue.protocols.messages.wire import Wire

_UNMARKABLE = frozenset({"thinking", "redacted_thinking"})
_LONG_TTL, _LONG_RETENTION = "12h", "24h"
"""the lifetimes in OpenAI's cache settings that are longer than the usual one"""


def add_marks(body: Wire, caching: Caching | None) -> None:
    """Mark the beginning and end of the prompt, the last user message, and the one before the last assistant message.

    The beginning, the instructions, outlasts what clients add to the prompt or take away, as at a compaction. The last
    user message is where the next request finds everything so far. The one before is where the last request had that
    mark: Anthropic looks back at most 20 blocks for an earlier write, and a turn may have more. A request with neither
    tools nor an assistant message is not part of a session: nothing would be read again.
    """
    messages: list[Wire] = body["messages"]
    replies = [position for position, message in enumerate(messages) if message["role"] == "assistant"]
    if (not replies and "tools" not in body) or _has_own_rules(caching):
        return
    control = {"type": "ephemeral", **({"ttl": "1h"} if _asks_for_long(caching) else {})}
    # Tools come before the system prompt, so a mark there includes them.
    prompt: list[Json] = body.get("system") or body.get("tools") or []
    _mark_last(prompt[:1] if "system" in body else [], control)
    _mark_last(prompt, control)
    _mark_user(messages, control)
    if replies:
        _mark_user(messages[: replies[-1]], control)


def _has_own_rules(caching: Caching | None) -> bool:
    """Return whether the client wants nothing cached but what it marks itself."""
    return caching is not None and (caching.options or {}).get("mode") == "explicit"


def _asks_for_long(caching: Caching | None) -> bool:
    if caching is None:
        return False
    return caching.retention == _LONG_RETENTION or (caching.options or {}).get("ttl") == _LONG_TTL


def _mark_user(messages: list[Wire], control: Wire) -> None:
    """Mark the last user message. A system message after it is not part of what the next request has there."""
    for message in reversed(messages):
        if message["role"] == "user":
            _mark_last(message["content"], control)
            return


def _mark_last(blocks: Iterable[Json], control: Wire) -> None:
    """Mark the last block or tool that may have a mark."""
    for block in reversed(list(blocks)):
        if _is_markable(block):
            block["cache_control"] = dict(control)
            return


def _is_markable(block: Wire) -> bool:
    """Return whether Anthropic accepts a mark: not on thinking, empty text, or a tool that is loaded later."""
    kind = block.get("type")
    if kind == "text":
        return bool(block["text"].strip())
    return kind not in _UNMARKABLE and not block.get("defer_loading")
