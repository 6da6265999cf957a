"""Read the meaning of Responses requests."""

import json
from typing import Any

from tests.judges.answers import Call, arguments, items, mapping, string
from tests.judges.asks import EMPTY_SCHEMA, Ask, Result, Segment, Tool, clean, file_data, media, schema, texts

COVERED = frozenset(
    {
        "input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "max_output_tokens", "temperature",
        "top_p", "reasoning", "text", "safety_identifier", "user", "metadata", "stream", "stream_options", "model",
    }
)  # fmt: skip
"""the fields that `ask` reads"""

_TEXTS = ("input_text", "output_text", "text", "refusal")
_CALLS = ("function_call", "custom_tool_call")
_OUTPUTS = ("function_call_output", "custom_tool_call_output")


def ask(body: dict[str, Any]) -> Ask:
    """Return the meaning of a request body."""
    body = clean(body)
    found = Ask(
        system=texts(body.get("instructions")),
        parallel=body.get("parallel_tool_calls"),
        max_tokens=body.get("max_output_tokens"),
        temperature=body.get("temperature"),
        top_p=body.get("top_p"),
        effort=mapping(body.get("reasoning")).get("effort"),
        user=body.get("safety_identifier") or body.get("user"),
        metadata=mapping(body.get("metadata")),
        stream=bool(body.get("stream")),
    )
    given = body.get("input")
    for item in [{"role": "user", "content": given}] if isinstance(given, str) else items(given):
        _item(clean(mapping(item)), found)
    for tool in items(body.get("tools")):
        _tool(clean(mapping(tool)), found)
    found.choice = _choice(body.get("tool_choice"))
    wanted = mapping(mapping(body.get("text")).get("format"))
    if wanted.get("type") in ("json_schema", "json_object"):
        found.format = ("schema", wanted.get("schema")) if wanted["type"] == "json_schema" else ("json", None)
    return found.settle()


def _item(item: dict[str, Any], found: Ask) -> None:
    kind = string(item.get("type")) or ("message" if "role" in item else "item_reference")
    if kind == "message":
        _message(item, found)
    elif kind == "reasoning":
        found.side("assistant").reasoning += 1
    elif kind in _CALLS:
        _call(item, found.side("assistant"))
    elif kind in _OUTPUTS:
        _output(item, found.side("user"))
    elif kind == "additional_tools":
        for tool in items(item.get("tools")):
            _tool(clean(mapping(tool)), found)
    elif kind in _SEARCHES and item.get("execution") == "client":
        _search(item, found)
    elif kind in _OWN_CALLS:
        _own_call(item, found.side("assistant"))
    elif kind.removesuffix("_output") in _OWN_CALLS and isinstance(item.get("output"), str):
        failed = item.get("status") == "failed"
        found.side("user").results.append(Result(string(item.get("call_id")), string(item.get("output")), failed))
    else:
        found.side("user" if kind.endswith("_output") else "assistant").natives.append(kind)


_OWN_CALLS = {"shell_call": "action", "local_shell_call": "action", "apply_patch_call": "operation"}
"""calls of tools that the protocol defines and the client runs; in other protocols they are function calls"""


_SEARCHES = ("tool_search_call", "tool_search_output")


def _search(item: dict[str, Any], found: Ask) -> None:
    """Read a search of the client for tools: a function call in other protocols, whose result offers more tools."""
    call_id = string(item.get("call_id"))
    if item["type"] == _SEARCHES[0]:
        found.side("assistant").calls.append(Call(call_id, "tool_search", arguments(json.dumps(item["arguments"]))))
        return
    tools = [clean(mapping(tool)) for tool in items(item.get("tools"))]
    names = ", ".join(string(tool.get("name")) for tool in tools)
    found.side("user").results.append(Result(call_id, f"You can now call: {names}", False))
    for tool in tools:
        _tool(tool, found)


def _own_call(item: dict[str, Any], side: Segment) -> None:
    said = mapping(item.get(_OWN_CALLS[item["type"]]))
    told = {name: value for name, value in said.items() if value is not None and value != "exec"}
    name = item["type"].removesuffix("_call")
    side.calls.append(Call(string(item.get("call_id")), name, arguments(json.dumps(told))))


def _message(item: dict[str, Any], found: Ask) -> None:
    role, content = item.get("role"), item.get("content")
    if role in ("system", "developer"):
        found.system += texts(content, *_TEXTS)
        return
    side = found.side("assistant" if role == "assistant" else "user")
    for part in [{"type": "input_text", "text": content}] if isinstance(content, str) else items(content):
        _part(clean(mapping(part)), side)


def _part(part: dict[str, Any], side: Segment) -> None:
    kind = part.get("type")
    if kind in _TEXTS:
        text = string(part.get("text")) or string(part.get("refusal"))
        side.texts += [text] if text else []
    elif kind == "input_image":
        side.images.append(media(part["image_url"]) if part.get("image_url") else f"id:{part.get('file_id')}")
    elif kind == "input_file":
        address = string(part.get("file_url")) or f"id:{part.get('file_id')}"
        side.files.append(file_data(part["file_data"]) if part.get("file_data") else address)
    else:
        side.natives.append(str(kind))


def _call(item: dict[str, Any], side: Segment) -> None:
    name = full_name(item)
    if item["type"] == "custom_tool_call":
        side.calls.append(Call(string(item.get("call_id")), name, string(item.get("input")), "custom"))
    else:
        side.calls.append(Call(string(item.get("call_id")), name, arguments(item.get("arguments"))))


def full_name(named: dict[str, Any]) -> str:
    """Return the name of a tool, with its namespace as other protocols write it."""
    space = string(named.get("namespace"))
    return f"{space}__{named.get('name')}" if space else string(named.get("name"))


def _output(item: dict[str, Any], side: Segment) -> None:
    output = item.get("output")
    failed = item.get("status") == "incomplete"
    side.results.append(Result(string(item.get("call_id")), "".join(texts(output, *_TEXTS)), failed))
    for part in items(output):
        if mapping(part).get("type") not in _TEXTS:
            _part(clean(mapping(part)), side)


def _tool(tool: dict[str, Any], found: Ask, space: str = "") -> None:
    kind = string(tool.get("type"))
    if kind == "namespace":
        for inner in items(tool.get("tools")):
            _tool(clean(mapping(inner)), found, string(tool.get("name")))
    elif kind in ("function", "custom"):
        wanted = schema(tool.get("parameters")) if kind == "function" else EMPTY_SCHEMA
        name = full_name({**tool, "namespace": space})
        found.tools.append(Tool(name, string(tool.get("description")), wanted, kind))
    else:
        found.hosted.append("web_search" if kind.startswith("web_search") else _HOSTED.get(kind, kind))


_HOSTED = {"code_interpreter": "code_execution"}


def _choice(value: Any) -> Any:
    choice = clean(mapping(value))
    if not choice:
        return value
    if choice.get("type") == "allowed_tools":
        names = [full_name(mapping(tool)) or string(mapping(tool).get("type")) for tool in items(choice.get("tools"))]
        return ["allowed", choice.get("mode"), sorted(names)]
    if choice.get("type") in ("function", "custom"):
        return ["tool", full_name(choice)]
    return ["hosted", choice.get("type")]
