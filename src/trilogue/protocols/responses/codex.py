"""What only Codex and OpenAI's own API have in a request, in forms that every model understands.

`agent_message` items are what Codex's agents say to each other. Parameters of tools marked `encrypted` are encrypted by
the provider, so that only it can read the task of another agent. Codex takes the arguments of such a call for encrypted
unless its `encrypted_function_args` is an empty list, and puts them into an `encrypted_content` part as they are. So a
part that does not look encrypted is text.

Tools that a search of the client has found are in `tool_search_output` items. They are offered like tools that were
added to the conversation: after all other tools, in the order in which they were found, so that the tools of an earlier
request are the beginning of the later ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from trilogue.base.json_schema import with_each
from trilogue.base.json_text import dump, parse_request
from trilogue.errors import Unsupported
from trilogue.model import Json, Ledger, Loss

_Key = tuple[Json, Json]
Wire = dict[str, Json]
PLAIN_CALL: Wire = {"encrypted_function_args": []}
"""what tells Codex that the arguments of a call are not encrypted"""
_CODE = "agent.plaintext"
_MESSAGE, _MARK = "agent_message", "encrypted"
_WITH_TOOLS = ("additional_tools", "tool_search_output")
_CONCERNED = (_MESSAGE, *_WITH_TOOLS)
_SPEAKERS, _CALLS = ("user", "assistant"), ("function_call", "custom_tool_call")
# Such tokens are base64 and begin with their version.
_TOKEN = re.compile(r"gAAAA[\w-]{40,}={0,2}", re.ASCII)
UNREADABLE = "[encrypted: only the provider that made this text can read it]"


def for_others(body: Wire, ledger: Ledger) -> Wire:
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


def _new_tools(body: Wire, found: list[Wire]) -> list[Json]:
    """Return what was found, each tool once, without those that are offered anyway."""
    added = [
        item.get("tools") for item in body["input"] if type(item) is dict and item.get("type") == "additional_tools"
    ]
    known = {key for tools in (body.get("tools"), *added) for key, _ in _each(tools)}
    new: dict[_Key, Wire] = {}
    for item in found:
        for key, tool in _each(item.get("tools")):
            if key not in known:
                new.setdefault(key, tool)
    return list(new.values())


def _each(tools: Json) -> Iterator[tuple[_Key, Wire]]:
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


def _now(tool: Wire) -> Wire:
    return {name: value for name, value in tool.items() if name != "defer_loading"}


def without_agents(body: Wire, ledger: Ledger) -> Wire:
    """Return the body with messages between agents as user messages, and without marks that ask for encryption.

    The same object if it has neither. Raises `Unsupported` for a newest message that only its provider can read: a
    model that does not see its task would make one up.
    """
    changed: Wire = {}
    tools, items = body.get("tools"), body.get("input")
    if type(tools) is list and (plain := _plain_tools(tools, "tools", ledger)) is not tools:
        changed["tools"] = plain
    if type(items) is list:
        # Most histories have none, and may be long.
        places = [n for n, item in enumerate(items) if type(item) is dict and item.get("type") in _CONCERNED]
        written = {n: new for n in places if (new := _item(items[n], n, items, ledger)) is not items[n]}
        if written:
            changed["input"] = [written.get(n, item) for n, item in enumerate(items)]
    return {**body, **changed} if changed else body


def strip_agents(body: bytes) -> tuple[bytes, list[Loss]]:
    """Do the same to a body that is passed through; the same bytes if there is nothing to change."""
    # A search in the bytes is cheaper than parsing.
    if b'"agent_message"' not in body and b'"encrypted"' not in body:
        return body, []
    ledger, wire = Ledger(), parse_request(body)
    plain = without_agents(wire, ledger)
    return body if plain is wire else dump(plain), ledger.losses


def encrypted_tools(body: Wire) -> frozenset[tuple[str | None, str]]:
    """Return the namespaces and names of the tools whose arguments the client expects to be encrypted."""
    items = body.get("input")
    groups = [body.get("tools"), *[item.get("tools") for item in _dicts(items) if item.get("type") in _WITH_TOOLS]]
    return frozenset(
        (namespace, name)
        for group in groups
        for namespace, tool in _functions(group)
        if _is_marked(tool) and isinstance(name := tool.get("name"), str)
    )


def _functions(tools: Json) -> Iterator[tuple[str | None, Wire]]:
    for tool in _dicts(tools):
        if tool.get("type") == "namespace":
            yield from ((tool.get("name"), inner) for inner in _dicts(tool.get("tools")))
        else:
            yield None, tool


def _dicts(values: Json) -> list[Wire]:
    return [value for value in values if type(value) is dict] if type(values) is list else []


def _is_marked(tool: Wire) -> bool:
    """Return whether a parameter of a tool is marked. Codex marks strings at the top level only."""
    schema = tool.get("parameters")
    properties = schema.get("properties") if type(schema) is dict else None
    return type(properties) is dict and any([type(one) is dict and _MARK in one for one in properties.values()])


def _plain_tools(tools: list[Json], path: str, ledger: Ledger) -> list[Json]:
    """Return the tools without marks; the same list if there are none."""
    plain = [_plain_tool(tool, f"{path}[{n}]", ledger) if type(tool) is dict else tool for n, tool in enumerate(tools)]
    return plain if any(new is not old for new, old in zip(plain, tools, strict=True)) else tools


def _plain_tool(tool: Wire, path: str, ledger: Ledger) -> Wire:
    inner = tool.get("tools")
    if type(inner) is list:
        plain = _plain_tools(inner, f"{path}.tools", ledger)
        return tool if plain is inner else {**tool, "tools": plain}
    if not _is_marked(tool):
        return tool
    ledger.add(_CODE, f"{path}.parameters")
    return {**tool, "parameters": with_each(tool["parameters"], _unmarked)}


def _unmarked(node: Wire) -> Wire:
    return {name: value for name, value in node.items() if name != _MARK}


def _item(item: Wire, place: int, items: list[Json], ledger: Ledger) -> Wire:
    path = f"input[{place}]"
    if item["type"] != _MESSAGE:
        tools = item.get("tools")
        plain = _plain_tools(tools, f"{path}.tools", ledger) if type(tools) is list else tools
        return item if plain is tools else {**item, "tools": plain}
    ledger.add(_CODE, path)
    content: list[Json] = []
    for n, part in enumerate(_dicts(item.get("content"))):
        if part.get("type") != "encrypted_content":
            content.append(part)
            continue
        text = part.get("encrypted_content")
        if not isinstance(text, str) or _TOKEN.fullmatch(text):
            where = f"{path}.content[{n}]"
            if not any(map(_is_later, _dicts(items[place + 1 :]))):
                raise Unsupported(where, "the task is encrypted, and only the provider of its sender can read it")
            ledger.add("agent.encrypted", where)
            text = UNREADABLE
        content.append({"type": "input_text", "text": text})
    return {"type": "message", "role": "user", "content": _joined(content)}


def _is_later(item: Wire) -> bool:
    """Return whether an item shows that the conversation has gone on."""
    return item.get("role") in _SPEAKERS or item.get("type") in _CALLS


def _joined(content: list[Json]) -> Json:
    """Return the parts as one string if all are text: the sender's header ends where the text of the message begins."""
    texts = [part.get("text") for part in content if part.get("type") == "input_text"]
    return "".join(texts) if len(texts) == len(content) and all(type(text) is str for text in texts) else content
