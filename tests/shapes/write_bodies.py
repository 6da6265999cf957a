"""Whole responses from their shape, with invented content."""

import json
from collections.abc import Callable
from typing import Any

from tests.shapes.blocks import CITATIONS, HOSTED_INPUT, result
from tests.shapes.items import ANNOTATIONS, done_item
from tests.shapes.repeats import expand
from tests.shapes.words import USAGE, Words
from tests.shapes.write_chat import FIELDS, Choice
from tests.shapes.write_messages import BLOCKS, MESSAGE, end
from tests.shapes.write_responses import response
from trilogue import Protocol

Body = dict[str, Any]


def write(protocol: Protocol, line: str) -> Body:
    """Return a response of that shape."""
    return _WRITERS[protocol](expand(line, lambda _: False))


def _chat(tokens: list[str]) -> Body:
    words, choices = Words(), list[Body]()
    message: Body = {"role": "assistant", "content": None}
    logprobs: Body | None = None
    for token in [token for token in tokens if token != "usage"]:
        name, _, detail = token.rstrip("]").replace("[", ":").partition(":")
        if name == "finish":
            reason = None if detail == "-" else detail
            made = {"index": len(choices), "message": message, "finish_reason": reason, "logprobs": logprobs}
            choices.append(made)
            message, logprobs = {"role": "assistant", "content": None}, None
        elif name == "logprobs":
            word = message["content"]
            logprobs = {"content": [{"token": word, "logprob": -0.5, "bytes": list(word.encode()), "top_logprobs": []}]}
        else:
            message[name] = _CHAT_FIELDS.get(name, _field)(name, detail, words, message)
    usage = {"usage": USAGE["chat"]} if "usage" in tokens else {}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1760000000, "model": "m"}
    return {**head, "choices": choices, **usage}


def _field(name: str, detail: str, words: Words, message: Body) -> Any:
    make = FIELDS.get(name)
    return make(words, Choice(), detail, message) if make else words.word(name)


def _tool_calls(_name: str, detail: str, words: Words, _message: Body) -> list[Body]:
    inner: Body = {"name": "tool_1", "input": "free text"}
    if detail != "custom":
        inner = {"name": "tool_1", "arguments": words.arguments()}
    call = {"id": "call_1", "type": detail, "custom" if detail == "custom" else "function": inner}
    return [{name: value for name, value in call.items() if value != "None"}]


def _audio(_name: str, _detail: str, words: Words, _message: Body) -> Body:
    return {"id": "audio_1", "data": "AAAA", "transcript": words.word("spoken"), "expires_at": 1760000000}


def _function_call(_name: str, _detail: str, words: Words, _message: Body) -> Body:
    return {"name": "tool_1", "arguments": words.arguments()}


_CHAT_FIELDS: dict[str, Callable[[str, str, Words, Body], Any]] = {
    "tool_calls": _tool_calls,
    "audio": _audio,
    "function_call": _function_call,
    "extra_content": lambda *_: {"google": {"thought_signature": "c2lnbmVk"}},
}


def _messages(tokens: list[str]) -> Body:
    words, content, hosted = Words(), list[Body](), list[str]()
    for number, token in enumerate(tokens[:-1], 1):
        kind, _, detail = token.rstrip("])").replace("[", "(").partition("(")
        if kind.endswith("tool_use"):
            content.append(_call(kind, detail, number))
            hosted += [content[-1]["id"]] if kind != "tool_use" else []
        elif kind.endswith("_tool_result"):
            used = hosted.pop(0) if hosted else "srvtoolu_earlier"
            content.append({"type": kind, "tool_use_id": used, **result(kind, failed=detail == "error")})
        else:
            said = {name: words.word(kind) if value in ("", None) else value for name, value in BLOCKS[kind].items()}
            cited = {"citations": [CITATIONS[detail]]} if detail else {}
            content.append({"type": kind, **said, **cited})
    return {**MESSAGE, "content": content, **end(tokens[-1].removeprefix("stop:")), "usage": USAGE["messages"]}


def _call(kind: str, detail: str, number: int) -> Body:
    prefix = {"server_tool_use": "srvtoolu_", "mcp_tool_use": "mcptoolu_"}.get(kind, "toolu_")
    server = {"server_name": "files"} if kind == "mcp_tool_use" else {}
    given = HOSTED_INPUT.get(detail, {"number": number})
    return {"type": kind, "id": f"{prefix}{number}", "name": detail or f"tool_{number}", "input": given, **server}


def _responses(tokens: list[str]) -> Body:
    words, output = Words(), list[Body]()
    for number, token in enumerate(tokens[:-1], 1):
        kind, _, detail = token.removesuffix(")").partition("(")
        item = done_item(token if kind != "message" else kind, number)
        if kind == "message":
            item["content"] = [_part(part, words) for part in detail.split(";")]
        for name in ("arguments", "input", "code"):
            if item.get(name) == "":
                item[name] = json.dumps({"number": number})
        output.append(item)
    status, _, reason = tokens[-1].removeprefix("status:").partition(":")
    return response(status, output, reason)


def _part(shape: str, words: Words) -> Body:
    kind, _, cited = shape.rstrip("]").partition("[")
    if kind == "refusal":
        return {"type": kind, "refusal": words.word("sorry")}
    annotations = [ANNOTATIONS[cited]] if cited else []
    return {"type": kind, "text": words.word("text"), "annotations": annotations, "logprobs": []}


_WRITERS = {Protocol.CHAT: _chat, Protocol.MESSAGES: _messages, Protocol.RESPONSES: _responses}
