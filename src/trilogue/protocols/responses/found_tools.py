"""Tools that a search of the client has found, offered like tools that were added to the conversation.

Their definitions are in `tool_search_output` items. They come after all other tools, in the order in which they were
found, so that the tools of an earlier request are the beginning of the later ones.
"""

from __future__ import annotations

from collections.abc import Iterator

from trilogue.model import Json, Ledger
from trilogue.protocols.responses.agents import without_agents

Item = dict[str, Json]
_Key = tuple[Json, Json]


def for_others(body: Item, ledger: Ledger) -> Item:
    """Return a body for an upstream of another protocol, without what only Codex and OpenAI's own API have."""
    plain = without_agents(body, ledger)
    items = plain.get("input")
    if type(items) is not list:
        return plain
    found = [item for item in items if type(item) is dict and item.get("type") == "tool_search_output"]
    tools = _new_tools(plain, [item for item in found if item.get("execution") == "client"]) if found else []
    if not tools:
        return plain
    # After all items, so that the paths of those stay what they are.
    return {**plain, "input": [*items, {"type": "additional_tools", "role": "developer", "tools": tools}]}


def _new_tools(body: Item, found: list[Item]) -> list[Json]:
    """Return what was found, each tool once, without those that are offered anyway."""
    added = [
        item.get("tools") for item in body["input"] if type(item) is dict and item.get("type") == "additional_tools"
    ]
    known = {key for tools in (body.get("tools"), *added) for key, _ in _each(tools)}
    new: dict[_Key, Item] = {}
    for item in found:
        for key, tool in _each(item.get("tools")):
            if key not in known:
                new.setdefault(key, tool)
    return list(new.values())


def _each(tools: Json) -> Iterator[tuple[_Key, Item]]:
    """Yield each tool with its namespace and name; one of a namespace is in a namespace of its own."""
    for tool in tools if isinstance(tools, list) else []:
        if not isinstance(tool, dict):
            continue
        inner = tool.get("tools")
        if tool.get("type") == "namespace" and isinstance(inner, list):
            for one in inner:
                if isinstance(one, dict) and isinstance(one.get("name"), str):
                    yield (str(tool.get("name")), one["name"]), {**tool, "tools": [_now(one)]}
        elif isinstance(tool.get("name"), str):
            yield (None, tool["name"]), _now(tool)


def _now(tool: Item) -> Item:
    return {name: value for name, value in tool.items() if name != "defer_loading"}
