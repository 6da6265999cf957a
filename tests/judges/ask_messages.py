"""Read the meaning of Messages requests."""

import json
from typing import Any

from tests.judges.answers import Call, arguments, items, mapping, string
from tests.judges.asks import Ask, Result, Segment, Tool, clean, data, digest, schema, texts

COVERED = frozenset(
    {
        "messages", "system", "tools", "tool_choice", "max_tokens", "temperature", "top_p", "top_k", "stop_sequences",
        "thinking", "output_config", "output_format", "metadata", "stream", "model",
    }
)  # fmt: skip
"""the fields that `ask` reads"""

_EFFORTS = ((1536, "minimal"), (4096, "low"), (16384, "medium"), (28672, "high"), (49152, "xhigh"))
_HOSTED = (
    "web_search",
    "web_fetch",
    "code_execution",
    "mcp",
    "tool_search",
    "bash",
    "text_editor",
    "memory",
    "computer",
)


def ask(body: dict[str, Any]) -> Ask:
    """Return the meaning of a request body."""
    body = clean(body)
    output, thinking = mapping(body.get("output_config")), mapping(body.get("thinking"))
    found = Ask(
        system=texts(body.get("system"), "text"),
        max_tokens=body.get("max_tokens"),
        temperature=body.get("temperature"),
        top_p=body.get("top_p"),
        top_k=body.get("top_k"),
        stop=items(body.get("stop_sequences")),
        budget=thinking.get("budget_tokens"),
        user=mapping(body.get("metadata")).get("user_id"),
        stream=bool(body.get("stream")),
    )
    found.effort = output.get("effort") or effort(thinking)
    # `output_format` is the name from before general availability.
    wanted = mapping(output.get("format")) or mapping(body.get("output_format"))
    if wanted.get("type") == "json_schema":
        found.format = ("schema", wanted.get("schema"))
    for raw in items(body.get("messages")):
        _message(clean(mapping(raw)), found)
    said = json.dumps(body.get("messages"))
    for raw in items(body.get("tools")):
        _tool(clean(mapping(raw)), found, said)
    _choice(clean(mapping(body.get("tool_choice"))), found)
    return found.settle()


def effort(thinking: dict[str, Any]) -> str | None:
    """Return the effort level of a thinking budget."""
    if thinking.get("type") == "disabled":
        return "none"
    budget = thinking.get("budget_tokens")
    if not isinstance(budget, int):
        return None
    return next((level for limit, level in _EFFORTS if budget <= limit), "max")


def _message(message: dict[str, Any], found: Ask) -> None:
    role, content = message.get("role"), message.get("content")
    if role == "system":
        found.system += texts(content, "text")
        return
    side = found.side("assistant" if role == "assistant" else "user")
    for block in [{"type": "text", "text": content}] if isinstance(content, str) else items(content):
        _block(clean(mapping(block)), side)


def _block(block: dict[str, Any], side: Segment) -> None:
    kind = string(block.get("type"))
    if kind == "text":
        side.texts += [block["text"]] if block.get("text") else []
    elif kind in ("thinking", "redacted_thinking"):
        side.reasoning += 1
    elif kind == "tool_use":
        side.calls.append(Call(string(block.get("id")), string(block.get("name")), arguments(block.get("input"))))
    elif kind == "tool_result":
        _result(block, side)
    elif kind in ("image", "document", "search_result"):
        _media(block, side)
    elif kind != "mcp_tool_result":
        # Other protocols have one item for an MCP call and its result.
        side.natives.append(kind)


def _result(block: dict[str, Any], side: Segment) -> None:
    content = block.get("content")
    said = "".join(texts(content, "text"))
    side.results.append(Result(string(block.get("tool_use_id")), said, bool(block.get("is_error"))))
    for part in items(content):
        if mapping(part).get("type") in ("image", "document", "search_result"):
            _media(clean(mapping(part)), side)
        elif mapping(part).get("type") != "text":
            side.natives.append(f"result:{mapping(part).get('type')}")


def _media(block: dict[str, Any], side: Segment) -> None:
    source = mapping(block.get("source"))
    kind = source.get("type")
    if block.get("type") == "search_result":
        side.documents.append("".join(texts(block.get("content"), "text")))
    elif block.get("type") == "image":
        inline = kind == "base64"
        identity = data(string(source.get("media_type")), string(source.get("data"))) if inline else _address(source)
        side.images.append(identity)
    elif kind == "text":
        side.documents.append(string(source.get("data")))
    elif kind == "content":
        side.documents.append("".join(texts(source.get("content"), "text")))
    else:
        side.files.append(digest(string(source.get("data"))) if kind == "base64" else _address(source))


def _address(source: dict[str, Any]) -> str:
    return string(source.get("url")) or f"id:{source.get('file_id')}"


def _tool(tool: dict[str, Any], found: Ask, said: str) -> None:
    kind, name = string(tool.get("type")), string(tool.get("name"))
    if kind in ("", "custom"):
        wanted = schema(tool.get("input_schema"))
        waits = tool.get("defer_loading") is True and f'"tool_name": "{name}"' not in said
        found.tools.append(Tool(name, string(tool.get("description")), wanted, waits=waits))
    else:
        found.hosted.append(next((name for name in _HOSTED if kind.startswith(name)), kind))


def _choice(choice: dict[str, Any], found: Ask) -> None:
    kind = choice.get("type")
    found.choice = {"any": "required", "tool": ["tool", choice.get("name")]}.get(string(kind), kind)
    if "disable_parallel_tool_use" in choice:
        found.parallel = not choice["disable_parallel_tool_use"]
