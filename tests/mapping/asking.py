"""Random valid requests and answers of each protocol, drawn from what models and clients really say."""

import json
from random import Random
from typing import Any

from tests.mapping.cases import Body, C, M, R, answer, request
from tests.mapping.streams import USAGE, Block, draw
from trilogue import Protocol

_TEXTS = (
    "Hello",
    "Où est-ce ?",
    "日本語 😀",
    "line\nbreak",
    '"quoted" \\ back',
    "x" * 200,
    "a\u2028b",
    "[tool error] no",
)
_INPUTS: tuple[Body, ...] = (
    {},
    {"city": "Rome"},
    {"b": 1, "a": [None, True, 1.5, {"é": "😀"}]},
    {"deep": {"er": {"x": []}}},
)
_SCHEMAS: tuple[Body, ...] = (
    {"type": "object", "properties": {}},
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False},
    {"type": "object", "properties": {"n": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}},
)


class Conversation:
    """A conversation in no protocol's words: each turn is a list of (kind, value)."""

    def __init__(self, rng: Random, *, plain: bool) -> None:
        self.rng = rng
        self.plain = plain
        self.system = rng.choice(_TEXTS) if rng.random() < 0.5 else None
        self.calls = 0
        self.turns: list[tuple[str, list[tuple[str, Any]]]] = []
        for _ in range(rng.randint(0, 3)):
            self.turns.append(("user", self.said(media=True)))
            self.turns += self.worked()
        self.turns.append(("user", self.said(media=True)))
        self.tools = (
            [(name, rng.choice(_SCHEMAS)) for name in ("look", "find")] if self.calls or rng.random() < 0.3 else []
        )
        self.choice = rng.choice(("auto", "none", "required", "look", None)) if self.tools else None
        self.limit = rng.choice((100, 4000))
        self.stream = rng.random() < 0.5

    def said(self, *, media: bool) -> list[tuple[str, Any]]:
        """Text, perhaps with pictures and files."""
        parts: list[tuple[str, Any]] = [("text", self.rng.choice(_TEXTS))]
        if media and self.rng.random() < 0.3:
            parts.append(
                self.rng.choice((("image", "https://e.com/a.png"), ("image", "data:image/png;base64,iVBORw==")))
            )
        if media and self.rng.random() < 0.2:
            parts.append(("file", "JVBERi0="))
        return parts

    def worked(self) -> list[tuple[str, list[tuple[str, Any]]]]:
        """An assistant's turn, and the results of its calls."""
        parts = self.said(media=False) if self.rng.random() < 0.7 else []
        count = self.rng.randint(0, 2) if parts else self.rng.randint(1, 3)
        calls = []
        for _ in range(count):
            self.calls += 1
            calls.append((f"call_{self.calls}", self.rng.choice(("look", "find")), self.rng.choice(_INPUTS)))
        turns: list[tuple[str, list[tuple[str, Any]]]] = [("assistant", [*parts, *(("call", call) for call in calls)])]
        if calls:
            failed = not self.plain and self.rng.random() < 0.3
            turns.append(("results", [("result", (call[0], self.rng.choice(_TEXTS), failed)) for call in calls]))
        return turns


def asked(protocol: Protocol, seed: int, *, plain: bool) -> Body:
    """A random request. `plain`: nothing in it that any protocol could not say."""
    rng = Random(f"{protocol.short}{seed}{plain}")
    conversation = Conversation(rng, plain=plain)
    body = _WRITERS[protocol](conversation)
    if not plain:
        extras = _EXTRAS[protocol]
        for name in rng.sample(sorted(extras), rng.randint(1, 4)):
            body[name] = extras[name]
    return body


_EXTRAS: dict[Protocol, Body] = {
    C: {
        "temperature": 1.5,
        "seed": 7,
        "stop": ["END"],
        "prompt_cache_key": "k",
        "reasoning_effort": "minimal",
        "metadata": {"a": "b"},
        "user": "u",
        "service_tier": "flex",
        "parallel_tool_calls": False,
        "response_format": {"type": "json_object"},
    },
    M: {
        "temperature": 0.5,
        "top_k": 4,
        "stop_sequences": ["END"],
        "thinking": {"type": "enabled", "budget_tokens": 2000},
        "metadata": {"user_id": "u"},
        "service_tier": "standard_only",
        "output_config": {"effort": "high"},
        "inference_geo": "eu",
    },
    R: {
        "temperature": 1.5,
        "reasoning": {"effort": "xhigh", "summary": "auto"},
        "text": {"verbosity": "low"},
        "prompt_cache_key": "k",
        "metadata": {"a": "b"},
        "safety_identifier": "u",
        "service_tier": "ultrafast",
        "max_tool_calls": 3,
        "store": True,
    },
}


def _chat(conversation: Conversation) -> Body:
    turns: list[Body] = [{"role": "system", "content": conversation.system}] if conversation.system else []
    for side, parts in conversation.turns:
        if side == "results":
            turns += [{"role": "tool", "tool_call_id": v[0], "content": v[1]} for _, v in parts]
            continue
        turns.append({"role": side, "content": [_chat_part(k, v) for k, v in parts if k != "call"] or None})
        calls = [_chat_call(value) for kind, value in parts if kind == "call"]
        if calls:
            turns[-1]["tool_calls"] = calls
    choice = conversation.choice
    picked = {"type": "function", "function": {"name": choice}} if choice == "look" else choice
    tools = [
        {"type": "function", "function": {"name": n, "description": n, "parameters": s}} for n, s in conversation.tools
    ]
    fields: Body = {"messages": turns, "max_completion_tokens": conversation.limit, "stream": conversation.stream}
    return request(C, **fields, **_optional(tools=tools, tool_choice=picked))


def _chat_part(kind: str, value: str) -> Body:
    if kind == "image":
        return {"type": "image_url", "image_url": {"url": value}}
    if kind == "file":
        return {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{value}", "filename": "a.pdf"}}
    return {"type": "text", "text": value}


def _chat_call(value: tuple[str, str, Body]) -> Body:
    return {"id": value[0], "type": "function", "function": {"name": value[1], "arguments": json.dumps(value[2])}}


def _messages(conversation: Conversation) -> Body:
    turns: list[Body] = []
    for side, parts in conversation.turns:
        blocks = [_messages_block(kind, value) for kind, value in parts]
        if side == "user" and turns and turns[-1]["role"] == "user":
            turns[-1]["content"] += blocks
        else:
            turns.append({"role": "user" if side == "results" else side, "content": blocks})
    choices: dict[str | None, Any] = {
        "auto": {"type": "auto"},
        "none": {"type": "none"},
        "required": {"type": "any"},
        "look": {"type": "tool", "name": "look"},
    }
    tools = [{"name": n, "description": n, "input_schema": s} for n, s in conversation.tools]
    fields: Body = {"messages": turns, "max_tokens": conversation.limit, "stream": conversation.stream}
    return request(
        M, **fields, **_optional(tools=tools, tool_choice=choices.get(conversation.choice), system=conversation.system)
    )


def _messages_block(kind: str, value: Any) -> Body:
    if kind == "call":
        return {"type": "tool_use", "id": value[0], "name": value[1], "input": value[2]}
    if kind == "result":
        error = {"is_error": True} if value[2] else {}
        return {"type": "tool_result", "tool_use_id": value[0], "content": value[1], **error}
    if kind == "file":
        source = {"type": "base64", "media_type": "application/pdf", "data": value}
        return {"type": "document", "source": source, "title": "a.pdf"}
    if kind == "image":
        head, _, data = value.partition(";base64,")
        source = (
            {"type": "base64", "media_type": head.removeprefix("data:"), "data": data}
            if data
            else {"type": "url", "url": value}
        )
        return {"type": "image", "source": source}
    return {"type": "text", "text": value}


def _responses(conversation: Conversation) -> Body:
    items: list[Body] = []
    for side, parts in conversation.turns:
        if side == "results":
            items += [{"type": "function_call_output", "call_id": v[0], "output": v[1]} for _, v in parts]
            continue
        said = [_responses_part(kind, value, side) for kind, value in parts if kind != "call"]
        if said:
            items.append({"type": "message", "role": side, "content": said})
        for kind, value in parts:
            if kind == "call":
                call = {"call_id": value[0], "name": value[1], "arguments": json.dumps(value[2])}
                items.append({"type": "function_call", **call})
    choice = conversation.choice
    picked = {"type": "function", "name": choice} if choice == "look" else choice
    tools = [
        {"type": "function", "name": n, "description": n, "parameters": s, "strict": False}
        for n, s in conversation.tools
    ]
    fields: Body = {"input": items, "max_output_tokens": conversation.limit, "stream": conversation.stream}
    return request(R, **fields, **_optional(tools=tools, tool_choice=picked, instructions=conversation.system))


def _responses_part(kind: str, value: str, side: str) -> Body:
    if kind == "image":
        return {"type": "input_image", "image_url": value, "detail": "auto"}
    if kind == "file":
        return {"type": "input_file", "file_data": f"data:application/pdf;base64,{value}", "filename": "a.pdf"}
    if side == "assistant":
        return {"type": "output_text", "text": value}
    return {"type": "input_text", "text": value}


_WRITERS = {C: _chat, M: _messages, R: _responses}


def _optional(**values: Any) -> Body:
    return {name: value for name, value in values.items() if value}


def answered(protocol: Protocol, seed: int) -> Body:
    """A random answer."""
    rng = Random(f"{protocol.short}{seed}")
    blocks, stop = draw(protocol, rng)
    return _ANSWERS[protocol](blocks, stop)


def _chat_answer(blocks: list[Block], stop: str) -> Body:
    message: Body = {
        "role": "assistant",
        "content": "".join(block.whole for block in blocks if block.kind == "text"),
        "refusal": None,
    }
    calls = [block for block in blocks if block.kind == "call"]
    thoughts = "".join(block.whole for block in blocks if block.kind == "thought")
    if calls:
        message["tool_calls"] = [
            {"id": b.id, "type": "function", "function": {"name": b.name, "arguments": b.whole or "{}"}} for b in calls
        ]
    if thoughts:
        message["reasoning_content"] = thoughts
    finish = {"end": "stop", "length": "length", "calls": "tool_calls", "filter": "content_filter"}[stop]
    return answer(C, choices=[{"index": 0, "message": message, "finish_reason": finish}], usage=USAGE[C])


def _messages_answer(blocks: list[Block], stop: str) -> Body:
    made: dict[str, Any] = {
        "text": lambda b: {"type": "text", "text": b.whole},
        "thought": lambda b: {"type": "thinking", "thinking": b.whole, "signature": b.opaque},
        "hidden": lambda b: {"type": "redacted_thinking", "data": b.opaque},
        "call": lambda b: {"type": "tool_use", "id": b.id, "name": b.name, "input": json.loads(b.whole or "{}")},
    }
    reason = {"end": "end_turn", "length": "max_tokens", "calls": "tool_use", "filter": "refusal"}[stop]
    content = [made[block.kind](block) for block in blocks]
    return answer(M, content=content, stop_reason=reason, usage=USAGE[M])


def _responses_answer(blocks: list[Block], stop: str) -> Body:
    items: list[Body] = []
    for number, block in enumerate(blocks):
        if block.kind == "text":
            part = {"type": "output_text", "text": block.whole, "annotations": [], "logprobs": []}
            message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "status": "completed"}
            items.append({**message, "content": [part]})
        elif block.kind == "call":
            call = {"id": f"fc_{number}", "type": "function_call", "status": "completed", "call_id": block.id}
            items.append({**call, "name": block.name, "arguments": block.whole})
        else:
            summary = [{"type": "summary_text", "text": block.whole}] if block.whole else []
            thought = {"id": f"rs_{number}", "type": "reasoning", "summary": summary}
            items.append({**thought, "encrypted_content": block.opaque})
    reason = {"length": "max_output_tokens", "filter": "content_filter"}.get(stop)
    details = {"reason": reason} if reason else None
    status = "incomplete" if reason else "completed"
    return answer(R, output=items, status=status, incomplete_details=details, usage=USAGE[R])


_ANSWERS = {C: _chat_answer, M: _messages_answer, R: _responses_answer}
