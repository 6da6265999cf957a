"""Paused turns: which requests can lead to one, how it is sent back, and how its parts become one response."""

from __future__ import annotations

from collections.abc import Sequence

from trilogue.model import Json
from trilogue.protocols.content.pauses import PauseForm
from trilogue.protocols.messages.wire import TOOL_TYPES, TOOL_VERSION, Wire

_PAUSED = "pause_turn"
_CLIENT_TOOLS = frozenset({"", "custom"} | {name for name, (_, on_client) in TOOL_TYPES.items() if on_client})


def may_pause(request: Wire) -> bool:
    """Return whether a request has tools that the provider runs: only turns with those are paused."""
    if "mcp_servers" in request:
        return True
    if "tools" not in request:
        return False
    types = {str(tool.get("type") or "") for tool in request["tools"]}
    return not types <= _CLIENT_TOOLS and any(TOOL_VERSION.sub("", kind) not in _CLIENT_TOOLS for kind in types)


def is_paused(response: Wire) -> bool:
    """Return whether a complete response was paused."""
    return response.get("stop_reason") == _PAUSED and isinstance(response.get("content"), list)


def continued(request: Wire, content: list[Json]) -> Wire:
    """Return the request that continues a turn. `content`: all blocks of the turn so far, exactly as they came."""
    return {**request, "messages": [*request["messages"], {"role": "assistant", "content": content}]}


def joined(parts: Sequence[Wire]) -> Wire:
    """Return the parts of a turn as one response: all blocks, the last end, and the sum of all usage."""
    usage: Json = {}
    for part in parts:
        usage = _added(usage, part.get("usage") or {})
    content = [block for part in parts for block in part["content"]]
    return {**parts[0], **parts[-1], "id": parts[0].get("id"), "content": content, "usage": usage}


def cut_short(response: Wire) -> Wire:
    """Return a paused response as one that reached its limit, for a turn that is not continued any more."""
    return {**response, "stop_reason": "max_tokens"}


def _added(earlier: Json, latest: Json) -> Json:
    """Return the sum of all counts in two usage objects. Of everything else the latest value counts."""
    if isinstance(earlier, dict) and isinstance(latest, dict):
        return {**earlier, **{name: _added(earlier.get(name), value) for name, value in latest.items()}}
    if type(earlier) is int and type(latest) is int:
        return earlier + latest
    return latest


PAUSES = PauseForm(
    mark=b'"pause_turn"',
    may_pause=may_pause,
    is_paused=is_paused,
    continued=continued,
    joined=joined,
    cut_short=cut_short,
)
