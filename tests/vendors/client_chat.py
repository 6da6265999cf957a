"""Generate Chat Completions requests as clients send them: every setting alone, or many at once."""

from __future__ import annotations

import json

from tests.vendors.client_draw import (
    IMAGE_URL,
    IMAGES,
    JSON,
    LONG_KEY,
    LONG_USER,
    MP3,
    PDF,
    WAV,
    Draw,
    Settings,
    data_url,
)
from tests.vendors.client_plan import Assistant, Call, Kinds, Results, Step, System, User, draw_plan
from tests.vendors.client_tools import EVERY, FREEFORM, TOOLS, Freeform, Tool, draw_tools

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
CLOSED: JSON = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "degrees": {"type": "number"}},
    "required": ["city", "degrees"],
    "additionalProperties": False,
}
LIMITED: JSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 40, "pattern": "^[a-z]+$"},
        "score": {"type": "integer", "minimum": 0, "maximum": 10},
        "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 3},
    },
    "required": ["name", "score", "tags"],
    "additionalProperties": False,
}
OPEN: JSON = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "note": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
}
# The name of the case, the schema, and whether it is strict.
FORMATS: tuple[tuple[str, JSON, bool | None], ...] = (
    ("closed_strict", CLOSED, True),
    ("limited_strict", LIMITED, True),
    ("closed_loose", CLOSED, False),
    ("limited", LIMITED, None),
    ("open", OPEN, None),
    ("open_loose", OPEN, False),
)


def _format(name: str, schema: JSON, strict: bool | None) -> JSON:
    inner: JSON = {"name": name, "schema": schema} | ({} if strict is None else {"strict": strict})
    return {"response_format": {"type": "json_schema", "json_schema": inner}}


METADATA: tuple[JSON, ...] = (
    {"metadata": {"team": "blue"}},
    {"metadata": {f"key_{number}": "v" * 512 for number in range(16)}},
    {"metadata": {"user_id": LONG_USER}},
)
STOPS = ("END", "\n\n", "###", "Human:", " ", "</done>")
TOKENS = (1, 16, 100, 1000, 4096, 32000, 64000, 128000, 200000)

SETTINGS: Settings = {
    "effort": (
        0.25,
        (
            *({"reasoning_effort": effort} for effort in EFFORTS),
            # OpenAI does not have this object; routers of many vendors accept it.
            *({"reasoning": {"effort": effort}} for effort in ("low", "high", "max")),
            {"reasoning": {"max_tokens": 8000}},
            {"reasoning": {"enabled": True}},
            {"reasoning": {"enabled": False}},
            {"reasoning": {"effort": "medium", "exclude": True}},
        ),
    ),
    "temperature": (0.35, tuple({"temperature": value} for value in (0, 0.2, 0.7, 1, 1.5, 2))),
    "top_p": (0.15, tuple({"top_p": value} for value in (0.1, 0.9, 0.95, 1))),
    "top_k": (0.03, ({"top_k": 1}, {"top_k": 40})),
    "frequency_penalty": (0.06, tuple({"frequency_penalty": value} for value in (-2, 0, 0.5, 2))),
    "presence_penalty": (0.06, tuple({"presence_penalty": value} for value in (-2, 0, 0.5, 2))),
    "seed": (0.08, ({"seed": 7}, {"seed": 0})),
    "logit_bias": (0.03, ({"logit_bias": {"50256": -100, "1734": 5}}, {"logit_bias": {}})),
    "stop": (
        0.15,
        (
            *({"stop": text} for text in STOPS),
            {"stop": []},
            {"stop": None},
            *({"stop": list(STOPS[:count])} for count in (1, 2, 4, 5, 6)),
        ),
    ),
    "limit": (0.5, tuple({name: value} for name in ("max_completion_tokens", "max_tokens") for value in TOKENS)),
    "format": (
        0.15,
        (
            {"response_format": {"type": "text"}},
            {"response_format": {"type": "json_object"}},
            *(_format(*case) for case in FORMATS),
        ),
    ),
    "verbosity": (0.08, tuple({"verbosity": value} for value in ("low", "medium", "high"))),
    "cache_key": (0.08, ({"prompt_cache_key": "session-7"}, {"prompt_cache_key": LONG_KEY})),
    "cache_retention": (0.04, ({"prompt_cache_retention": "in_memory"}, {"prompt_cache_retention": "24h"})),
    "cache_options": (
        0.04,
        (
            {"prompt_cache_options": {"mode": "implicit"}},
            {"prompt_cache_options": {"mode": "explicit"}},
            {"prompt_cache_options": {"mode": "implicit", "ttl": "30m"}},
        ),
    ),
    "service_tier": (
        0.08,
        tuple({"service_tier": tier} for tier in ("auto", "default", "flex", "priority", "fast", "scale")),
    ),
    "n": (0.05, ({"n": 1}, {"n": 2}, {"n": 5})),
    "logprobs": (
        0.06,
        (
            {"logprobs": True},
            {"logprobs": False},
            {"logprobs": True, "top_logprobs": 0},
            {"logprobs": True, "top_logprobs": 5},
            {"logprobs": True, "top_logprobs": 20},
        ),
    ),
    "store": (0.06, ({"store": True}, {"store": False}, {"store": None})),
    "metadata": (0.06, METADATA),
    "safety_identifier": (0.05, ({"safety_identifier": "person-1"}, {"safety_identifier": "p" * 128})),
    "user": (0.06, ({"user": "person-1"}, {"user": LONG_USER})),
    "stream": (
        0.5,
        (
            {"stream": True},
            {"stream": True, "stream_options": {"include_usage": True}},
            {"stream": True, "stream_options": {"include_usage": False, "include_obfuscation": False}},
            {"stream": False},
        ),
    ),
    "web_search": (
        0.03,
        (
            {"web_search_options": {}},
            {
                "web_search_options": {
                    "search_context_size": "low",
                    "user_location": {"type": "approximate", "approximate": {"city": "Paris", "country": "FR"}},
                }
            },
        ),
    ),
    "prediction": (0.02, ({"prediction": {"type": "content", "content": "hello river"}},)),
    "modalities": (
        0.02,
        ({"modalities": ["text"]}, {"modalities": ["text", "audio"], "audio": {"format": "mp3", "voice": "alloy"}}),
    ),
    "moderation": (0.02, ({"moderation": {"model": "omni-moderation-latest"}},)),
}

PARTS: dict[str, JSON] = {
    "image url": {"type": "image_url", "image_url": {"url": IMAGE_URL}},
    "image url high": {"type": "image_url", "image_url": {"url": IMAGE_URL, "detail": "high"}},
    **{kind: {"type": "image_url", "image_url": {"url": data_url(kind, data)}} for kind, data in IMAGES.items()},
    "audio wav": {"type": "input_audio", "input_audio": {"data": WAV, "format": "wav"}},
    "audio mp3": {"type": "input_audio", "input_audio": {"data": MP3, "format": "mp3"}},
    "pdf": {"type": "file", "file": {"filename": "paper.pdf", "file_data": data_url("application/pdf", PDF)}},
}
RESULTS: dict[str, str | list[JSON]] = {
    "text": "hi\n",
    "parts": [{"type": "text", "text": "hi"}, {"type": "text", "text": "there"}],
    "json": '{"degrees": 21}',
    "empty": "",
}
KINDS = Kinds("chat", tuple(PARTS), tuple(RESULTS), ("reasoning_content", "reasoning", "details"))
THOUGHTS: dict[str, JSON] = {
    # OpenAI does not have this field; clients of other vendors send it back.
    "": {},
    "reasoning_content": {"reasoning_content": "Let me see."},
    "reasoning": {"reasoning": "Let me see."},
    "details": {
        "reasoning_details": [
            {"type": "reasoning.text", "text": "Let me see.", "signature": "sig", "format": "anthropic-claude-v1"}
        ]
    },
}


def tool_of(tool: Tool | Freeform) -> JSON:
    """Write a tool as Chat Completions does."""
    if isinstance(tool, Freeform):
        custom: JSON = {"name": tool.name, "description": "Takes text."}
        if tool.grammar:
            syntax, definition = tool.grammar
            custom["format"] = {"type": "grammar", "grammar": {"syntax": syntax, "definition": definition}}
        return {"type": "custom", "custom": custom}
    optional = {"description": tool.description, "parameters": tool.schema, "strict": tool.strict}
    function = {"name": tool.name} | {key: value for key, value in optional.items() if value is not None}
    return {"type": "function", "function": function}


def _pointer(tool: Tool | Freeform) -> JSON:
    kind = "custom" if isinstance(tool, Freeform) else "function"
    return {"type": kind, kind: {"name": tool.name}}


def choices(tools: list[Tool | Freeform]) -> list[str | JSON]:
    """Return the tool choices that are possible with these tools."""
    allowed = [_pointer(tool) for tool in tools[:3]]
    return [
        "auto",
        "none",
        "required",
        _pointer(tools[0]),
        _pointer(tools[-1]),
        *(
            {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": allowed}}
            for mode in ("auto", "required")
        ),
    ]


def _call(call: Call) -> JSON:
    if isinstance(call.tool, Freeform):
        return {"id": call.id, "type": "custom", "custom": {"name": call.tool.name, "input": call.tool.example}}
    arguments = json.dumps(call.tool.example, ensure_ascii=False)
    return {"id": call.id, "type": "function", "function": {"name": call.tool.name, "arguments": arguments}}


def _messages(step: Step) -> list[JSON]:
    """Write one step of a conversation."""
    match step:
        case User(text, media):
            parts = [{"type": "text", "text": text}, *(PARTS[name] for name in media)]
            return [{"role": "user", "content": parts if media else text}]
        case System(text):
            return [{"role": "system", "content": text}]
        case Results(calls, added):
            told = [{"role": "tool", "tool_call_id": call.id, "content": RESULTS[call.result]} for call in calls]
            return told + ([{"role": "user", "content": added}] if added else [])
        case Assistant(thought, before, calls, after):
            message: JSON = {"role": "assistant", "content": before + after or None} | THOUGHTS[thought]
            return [message | {"tool_calls": [_call(call) for call in calls]} if calls else message]


def generate(draw: Draw) -> JSON:
    """Generate one request."""
    body: JSON = {"model": "the-model", "messages": []} | draw.settings(SETTINGS)
    tools: list[Tool | Freeform] = []
    if draw.wants(0.4):
        tools += draw_tools(draw, "chat")
        if draw.chance(0.1):
            tools.append(draw.pick(list(FREEFORM.values())))
        body["tools"] = [tool_of(tool) for tool in tools]
        if draw.chance(0.4):
            body["tool_choice"] = draw.pick(choices(tools))
        if draw.chance(0.25):
            body["parallel_tool_calls"] = draw.chance(0.5)
    messages = [message for step in draw_plan(draw, KINDS, tools) for message in _messages(step)]
    messages = _front(draw, body) + messages
    if draw.wants(0.03) and messages[-1]["role"] == "user":
        messages.append({"role": "assistant", "content": draw.pick(("The answer is", "{"))})
    if draw.wants(0.05):
        _mark(draw, messages)
    body["messages"] = messages
    return body


def _front(draw: Draw, body: JSON) -> list[JSON]:
    """Write the instructions at the beginning. JSON mode requires the word JSON somewhere in the messages."""
    json_mode = body.get("response_format", {}).get("type") == "json_object"
    if not json_mode and not draw.chance(0.5):
        return []
    text = "Answer in JSON." if json_mode else draw.text()
    role = draw.pick(("system", "system", "developer"))
    return [{"role": role, "content": [{"type": "text", "text": text}] if draw.chance(0.2) else text}]


def _mark(draw: Draw, messages: list[JSON]) -> None:
    """Mark up to four places for the prompt cache, as OpenAI or as routers do."""
    mark: JSON = draw.pick(
        (
            {"prompt_cache_breakpoint": {"mode": "explicit"}},
            {"prompt_cache_breakpoint": {"mode": "explicit", "ttl": "30m"}},
            {"cache_control": {"type": "ephemeral"}},
            {"cache_control": {"type": "ephemeral", "ttl": "1h"}},
        )
    )
    places = [message for message in messages if message["role"] in ("system", "developer", "user")]
    for message in draw.some(places, 4) if places else []:
        content = message["content"]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
        parts[-1] = parts[-1] | mark
        message["content"] = parts


HELLO: JSON = {"model": "the-model", "messages": [{"role": "user", "content": "Hello"}]}
_PAIR: list[Tool | Freeform] = [TOOLS["plain"], FREEFORM["freeform"]]


def _turns(*messages: JSON) -> JSON:
    return {"messages": list(messages)}


def _history(calls: tuple[Call, ...], thought: str = "", before: str = "") -> JSON:
    steps = (User("Hello"), Assistant(thought, before, calls), Results(calls))
    used = {call.tool.name: tool_of(call.tool) for call in calls}
    return {"tools": list(used.values()), "messages": [message for step in steps for message in _messages(step)]}


_USER: JSON = {"role": "user", "content": "Hello"}
_TOLD: JSON = {"role": "assistant", "content": "Hi."}
SCENES: dict[str, tuple[JSON, ...]] = {
    "part": tuple(
        _turns({"role": "user", "content": [{"type": "text", "text": "Look"}, part]}) for part in PARTS.values()
    ),
    "tool": tuple({"tools": [tool_of(tool)]} for tool in EVERY),
    "tools": ({"tools": [tool_of(tool) for tool in TOOLS.values()]},),
    "tool_choice": tuple(
        {"tools": [tool_of(tool) for tool in _PAIR], "tool_choice": choice} for choice in choices(_PAIR)
    ),
    "parallel_tool_calls": tuple(
        {"tools": [tool_of(TOOLS["plain"])], "parallel_tool_calls": value} for value in (True, False)
    ),
    "instructions": tuple(
        _turns(*turns)
        for role in ("system", "developer")
        for turns in (
            ({"role": role, "content": "Be short."}, _USER),
            ({"role": role, "content": [{"type": "text", "text": "Be short."}]}, _USER),
            (_USER, _TOLD, {"role": role, "content": "Be short."}, _USER),
        )
    ),
    "prefill": (_turns(_USER, {"role": "assistant", "content": "The answer is"}),),
    "cache_mark": tuple(
        _turns({"role": "user", "content": [{"type": "text", "text": "Hello"} | mark]})
        for mark in ({"prompt_cache_breakpoint": {"mode": "explicit"}}, {"cache_control": {"type": "ephemeral"}})
    ),
    "result": tuple(_history((Call("call_1", TOOLS["plain"], result),)) for result in RESULTS),
    "call_id": tuple(_history((Call(id, TOOLS["plain"], "text"),)) for id in ("c" * 100, "functions.look_up:0")),
    "calls": (
        _history(
            (Call("call_1", TOOLS["plain"], "text"), Call("call_2", TOOLS["strict"], "json")), before="One moment."
        ),
        _history((Call("call_1", FREEFORM["freeform"], "text"),)),
    ),
    "thought": tuple(_history((Call("call_1", TOOLS["plain"], "text"),), thought) for thought in THOUGHTS if thought),
}
