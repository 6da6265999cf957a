"""Read the meaning of Chat Completions requests."""

from typing import Any

from tests.judges.answers import Call, arguments, items, mapping, string
from tests.judges.ask_messages import effort
from tests.judges.asks import EMPTY_SCHEMA, Ask, Result, Segment, Tool, clean, data, file_data, media, schema, texts

COVERED = frozenset(
    {
        "messages", "tools", "functions", "tool_choice", "function_call", "parallel_tool_calls",
        "max_completion_tokens", "max_tokens", "temperature", "top_p", "top_k", "stop", "reasoning_effort",
        "response_format", "safety_identifier", "user", "metadata", "stream", "stream_options", "thinking",
        "reasoning", "enable_thinking", "model",
    }
)  # fmt: skip
"""the fields that `ask` reads"""


def ask(body: dict[str, Any]) -> Ask:
    """Return the meaning of a request body."""
    body = clean(body)
    found = Ask(
        parallel=body.get("parallel_tool_calls"),
        max_tokens=body.get("max_completion_tokens", body.get("max_tokens")),
        temperature=body.get("temperature"),
        top_p=body.get("top_p"),
        top_k=body.get("top_k"),
        effort=body.get("reasoning_effort") or _effort(body),
        user=body.get("safety_identifier") or body.get("user"),
        metadata=mapping(body.get("metadata")),
        stream=bool(body.get("stream")),
    )
    stop = body.get("stop")
    found.stop = [stop] if isinstance(stop, str) else items(stop)
    for message in items(body.get("messages")):
        _message(clean(mapping(message)), found)
    _tools(body, found)
    found.format = _format(mapping(body.get("response_format")))
    return found.settle()


def _effort(body: dict[str, Any]) -> str | None:
    """Return the effort as DeepSeek, OpenRouter and Qwen write it."""
    reasoning = clean(mapping(body.get("reasoning")))
    if mapping(body.get("thinking")).get("type") == "disabled" or body.get("enable_thinking") is False:
        return "none"
    if reasoning.get("enabled") is False:
        return "none"
    return string(reasoning.get("effort")) or effort({"budget_tokens": reasoning.get("max_tokens")})


def _message(message: dict[str, Any], found: Ask) -> None:
    role, content = message.get("role"), message.get("content")
    if role in ("system", "developer"):
        found.system += texts(content, "text")
    elif role == "assistant":
        _assistant(message, found.side("assistant"))
    elif role in ("tool", "function"):
        _result(message, found.side("user"))
    else:
        side = found.side("user")
        for part in [{"type": "text", "text": content}] if isinstance(content, str) else items(content):
            _part(mapping(part), side)


def _assistant(message: dict[str, Any], side: Segment) -> None:
    side.texts += texts(message.get("content"), "text", "output_text")
    refusals = [mapping(part).get("refusal") for part in items(message.get("content"))]
    side.texts += [string(text) for text in [message.get("refusal"), *refusals] if text]
    for raw in items(message.get("tool_calls")):
        call = mapping(raw)
        custom, function = mapping(call.get("custom")), mapping(call.get("function"))
        if custom:
            side.calls.append(
                Call(string(call.get("id")), string(custom.get("name")), string(custom.get("input")), "custom")
            )
        else:
            given = arguments(function.get("arguments"))
            side.calls.append(Call(string(call.get("id")), string(function.get("name")), given))
    legacy = mapping(message.get("function_call"))
    if legacy:
        side.calls.append(Call("", string(legacy.get("name")), arguments(legacy.get("arguments"))))


def _result(message: dict[str, Any], side: Segment) -> None:
    content = message.get("content")
    side.results.append(Result(string(message.get("tool_call_id")), "".join(texts(content, "text"))))
    for part in items(content):
        if mapping(part).get("type") != "text":
            _part(mapping(part), side)


def _part(part: dict[str, Any], side: Segment) -> None:
    kind = part.get("type")
    if kind == "text":
        side.texts += [part["text"]] if part.get("text") else []
    elif kind == "image_url":
        url = part.get("image_url")
        side.images.append(media(string(url) or string(mapping(url).get("url"))))
    elif kind == "file":
        file = mapping(part.get("file"))
        side.files.append(file_data(file["file_data"]) if file.get("file_data") else f"id:{file.get('file_id')}")
    elif kind == "input_audio":
        audio = mapping(part.get("input_audio"))
        side.natives.append("audio " + data(string(audio.get("format")), string(audio.get("data"))))
    else:
        side.natives.append(str(kind))


def _tools(body: dict[str, Any], found: Ask) -> None:
    functions = [{"type": "function", "function": function} for function in items(body.get("functions"))]
    for raw in [*items(body.get("tools")), *functions]:
        tool = {"type": "function", **clean(mapping(raw))}
        inner = clean(mapping(tool.get(string(tool.get("type")))))
        if tool.get("type") in ("function", "custom"):
            wanted = schema(inner.get("parameters")) if tool["type"] == "function" else EMPTY_SCHEMA
            found.tools.append(Tool(string(inner.get("name")), string(inner.get("description")), wanted, tool["type"]))
        else:
            found.hosted.append(string(tool.get("type")).removeprefix("openrouter:"))
    if "web_search_options" in body:
        found.hosted.append("web_search")
    found.choice = _choice(body.get("tool_choice", body.get("function_call")))


def _choice(value: Any) -> Any:
    choice = mapping(value)
    if not choice:
        return "required" if value == "any" else value
    if choice.get("type") == "allowed_tools":
        allowed = mapping(choice.get("allowed_tools"))
        names = [_name(mapping(tool)) for tool in items(allowed.get("tools"))]
        return ["allowed", allowed.get("mode"), sorted(names)]
    return ["tool", _name(choice) or string(choice.get("name"))]


def _name(reference: dict[str, Any]) -> str:
    return string(mapping(reference.get(string(reference.get("type")))).get("name"))


def _format(value: dict[str, Any]) -> tuple[str, Any] | None:
    if value.get("type") == "json_schema":
        return "schema", mapping(value.get("json_schema")).get("schema")
    return ("json", None) if value.get("type") == "json_object" else None
