"""Generate OpenAI Responses requests as clients send them: every setting alone, or many at once."""

from __future__ import annotations

import json

from tests.vendors.client_chat import EFFORTS, FORMATS, METADATA, TOKENS
from tests.vendors.client_draw import (
    IMAGE_URL,
    IMAGES,
    JSON,
    LONG_KEY,
    LONG_USER,
    PDF,
    PDF_URL,
    Draw,
    Settings,
    data_url,
)
from tests.vendors.client_plan import Assistant, Call, Kinds, Results, Step, System, User, draw_plan
from tests.vendors.client_tools import EVERY, FREEFORM, TOOLS, Freeform, Tool, draw_tools

SUMMARIES = ("auto", "concise", "detailed")
ENCRYPTED = "reasoning.encrypted_content"


def _format(name: str, schema: JSON, strict: bool | None) -> JSON:
    return {"type": "json_schema", "name": name, "schema": schema} | ({} if strict is None else {"strict": strict})


SETTINGS: Settings = {
    "reasoning": (
        0.35,
        (
            *({"reasoning": {"effort": effort}} for effort in EFFORTS),
            *({"reasoning": {"summary": summary}} for summary in SUMMARIES),
            *({"reasoning": {"effort": "medium", "summary": summary}} for summary in SUMMARIES),
            *({"reasoning": {"context": context}} for context in ("auto", "current_turn", "all_turns")),
            {"reasoning": {"effort": "high", "summary": None}},
            {"reasoning": {"effort": "low", "context": "all_turns"}},
            {"reasoning": {"mode": "pro"}},
            {"reasoning": {}},
        ),
    ),
    "temperature": (0.25, tuple({"temperature": value} for value in (0, 0.2, 0.7, 1, 1.5, 2))),
    "top_p": (0.1, tuple({"top_p": value} for value in (0.1, 0.9, 0.95, 1))),
    "logprobs": (
        0.05,
        (
            {"top_logprobs": 0},
            {"top_logprobs": 5, "include": ["message.output_text.logprobs"]},
            {"top_logprobs": 20, "include": ["message.output_text.logprobs", ENCRYPTED]},
        ),
    ),
    "include": (0.25, ({"include": [ENCRYPTED]}, {"include": []}, {"include": ["web_search_call.action.sources"]})),
    "limit": (0.4, tuple({"max_output_tokens": max(16, value)} for value in TOKENS)),
    "text": (
        0.2,
        (
            *({"text": {"verbosity": value}} for value in ("low", "medium", "high")),
            {"text": {"format": {"type": "text"}}},
            {"text": {"format": {"type": "json_object"}}},
            {"text": {"format": _format(*FORMATS[0]), "verbosity": "low"}},
            *({"text": {"format": _format(*case)}} for case in FORMATS),
        ),
    ),
    "cache_key": (0.15, ({"prompt_cache_key": "session-7"}, {"prompt_cache_key": LONG_KEY})),
    "cache_retention": (0.04, ({"prompt_cache_retention": "in_memory"}, {"prompt_cache_retention": "24h"})),
    "cache_options": (
        0.04,
        (
            {"prompt_cache_options": {"mode": "explicit"}},
            {"prompt_cache_options": {"mode": "implicit", "ttl": "30m"}},
            {"prompt_cache_options": {"ttl": "12h"}},
        ),
    ),
    "service_tier": (
        0.08,
        tuple({"service_tier": t} for t in ("auto", "default", "flex", "priority", "fast", "scale", "ultrafast")),
    ),
    "store": (0.4, ({"store": False}, {"store": True}, {"store": None})),
    "metadata": (0.06, METADATA),
    "safety_identifier": (0.05, ({"safety_identifier": "person-1"}, {"safety_identifier": "p" * 128})),
    "user": (0.05, ({"user": "person-1"}, {"user": LONG_USER})),
    "instructions": (
        0.5,
        ({"instructions": "Be short."}, {"instructions": "Be short and kind."}, {"instructions": None}),
    ),
    "stream": (
        0.6,
        ({"stream": True}, {"stream": True, "stream_options": {"include_obfuscation": False}}, {"stream": False}),
    ),
    "truncation": (0.05, ({"truncation": "auto"}, {"truncation": "disabled"})),
    "max_tool_calls": (0.03, ({"max_tool_calls": 3},)),
    "background": (0.02, ({"background": False},)),
    "context_management": (0.02, ({"context_management": [{"type": "compaction", "compact_threshold": 200000}]},)),
    "image": (0.02, ({"image": {"context_compression": "auto"}},)),
    "moderation": (0.02, ({"moderation": {"model": "omni-moderation-latest"}},)),
}

PARTS: dict[str, JSON] = {
    "image url": {"type": "input_image", "image_url": IMAGE_URL, "detail": "auto"},
    "image url high": {"type": "input_image", "image_url": IMAGE_URL, "detail": "high"},
    **{kind: {"type": "input_image", "image_url": data_url(kind, data)} for kind, data in IMAGES.items()},
    "pdf": {"type": "input_file", "filename": "paper.pdf", "file_data": data_url("application/pdf", PDF)},
    "pdf url": {"type": "input_file", "file_url": PDF_URL},
}
_TOLD: JSON = {"type": "input_text", "text": "hi"}
RESULTS: dict[str, str | list[JSON]] = {
    "text": "hi\n",
    "parts": [_TOLD, {"type": "input_text", "text": "there"}],
    "image": [_TOLD, PARTS["image/png"]],
    "image url": [PARTS["image url"]],
    "pdf": [PARTS["pdf"]],
    "empty": "",
}
_SUMMARY: list[JSON] = [{"type": "summary_text", "text": "Let me see."}]
THOUGHTS: dict[str, JSON] = {
    "sealed": {"summary": _SUMMARY, "encrypted_content": "gAAAAABnotarealthought"},
    "sealed without summary": {"summary": [], "encrypted_content": "gAAAAABnotarealthought"},
    "sealed, no content": {"summary": _SUMMARY, "content": None, "encrypted_content": "gAAAAABnotarealthought"},
    # Compatible servers send the reasoning itself and encrypt nothing.
    "open": {"summary": [], "content": [{"type": "reasoning_text", "text": "Let me see."}]},
    "summary only": {"summary": _SUMMARY},
}
KINDS = Kinds("responses", tuple(PARTS), tuple(RESULTS), tuple(THOUGHTS))
HOSTED: dict[str, JSON] = {
    "web search": {"type": "web_search"},
    "web search options": {
        "type": "web_search",
        "search_context_size": "low",
        "filters": {"allowed_domains": ["example.com"]},
        "user_location": {"type": "approximate", "city": "Paris", "country": "FR"},
    },
    "web search preview": {"type": "web_search_preview"},
    "web search cached": {"type": "web_search", "external_web_access": False},
}


def tool_of(tool: Tool | Freeform) -> JSON:
    """Write a tool as Responses does, where parameters may be null but not absent."""
    if isinstance(tool, Freeform):
        custom: JSON = {"type": "custom", "name": tool.name, "description": "Takes text."}
        if tool.grammar:
            syntax, definition = tool.grammar
            custom["format"] = {"type": "grammar", "syntax": syntax, "definition": definition}
        return custom
    function: JSON = {"type": "function", "name": tool.name, "parameters": tool.schema}
    optional = {"description": tool.description, "strict": tool.strict}
    return function | {key: value for key, value in optional.items() if value is not None}


def _namespace(tools: list[Tool]) -> JSON:
    return {
        "type": "namespace",
        "name": "crew",
        "description": "Tools of a crew.",
        "tools": [tool_of(t) for t in tools],
    }


def _pointer(tool: Tool | Freeform) -> JSON:
    return {"type": "custom" if isinstance(tool, Freeform) else "function", "name": tool.name}


def choices(tools: list[Tool | Freeform]) -> list[str | JSON]:
    """Return the tool choices that are possible with these tools."""
    allowed = [_pointer(tool) for tool in tools[:3]]
    return [
        "auto",
        "none",
        "required",
        _pointer(tools[0]),
        _pointer(tools[-1]),
        *({"type": "allowed_tools", "mode": mode, "tools": allowed} for mode in ("auto", "required")),
    ]


def _call(call: Call, number: int) -> JSON:
    name = call.tool.name
    if isinstance(call.tool, Freeform):
        return {"type": "custom_tool_call", "call_id": call.id, "name": name, "input": call.tool.example}
    arguments = json.dumps(call.tool.example, ensure_ascii=False)
    item: JSON = {"type": "function_call", "call_id": call.id, "name": name, "arguments": arguments}
    # Clients send back the complete item, or only what is needed.
    return item | ({"id": f"fc_{number}{call.id[:8]}", "status": "completed"} if len(call.id) % 2 else {})


def _output(call: Call) -> JSON:
    kind = "custom_tool_call_output" if isinstance(call.tool, Freeform) else "function_call_output"
    return {"type": kind, "call_id": call.id, "output": RESULTS[call.result]}


def _said(text: str, phase: str) -> list[JSON]:
    """Write what the assistant said, in full or in short, as clients do."""
    if not text:
        return []
    if len(text) % 3 == 0:
        return [{"role": "assistant", "content": text}]
    part: JSON = {"type": "output_text", "text": text, "annotations": []}
    item: JSON = {"type": "message", "role": "assistant", "content": [part]}
    return [item | ({"id": "msg_1", "status": "completed", "phase": phase} if len(text) % 3 == 1 else {})]


def _items(step: Step) -> list[JSON]:
    """Write one step of a conversation."""
    match step:
        case User(text, media):
            parts = [{"type": "input_text", "text": text}, *(PARTS[name] for name in media)]
            return [{"role": "user", "content": parts if media else text}]
        case System(text):
            return [{"type": "message", "role": "developer", "content": [{"type": "input_text", "text": text}]}]
        case Results(calls, added):
            return [_output(call) for call in calls] + ([{"role": "user", "content": added}] if added else [])
        case Assistant(thought, before, calls, after):
            items = [{"type": "reasoning", "id": "rs_1"} | THOUGHTS[thought]] if thought else []
            items += _said(before, "commentary" if calls else "final_answer")
            items += [_call(call, number) for number, call in enumerate(calls)]
            return items + _said(after, "commentary")


def generate(draw: Draw) -> JSON:
    """Generate one request."""
    body: JSON = {"model": "the-model", "input": ""} | draw.settings(SETTINGS)
    tools: list[Tool | Freeform] = []
    if draw.wants(0.45):
        drawn = draw_tools(draw, "responses")
        tools += drawn
        if draw.chance(0.2):
            tools.append(draw.pick(list(FREEFORM.values())))
        body["tools"] = [tool_of(tool) for tool in tools]
        if draw.chance(0.15):
            body["tools"].append(draw.pick(list(HOSTED.values())))
        if draw.chance(0.08):
            body["tools"].append(_namespace([TOOLS["strict"], TOOLS["plain"]]))
        if draw.chance(0.4):
            body["tool_choice"] = draw.pick(choices(tools))
        if draw.chance(0.3):
            body["parallel_tool_calls"] = draw.chance(0.5)
    items = _front(draw, body) + [item for step in draw_plan(draw, KINDS, tools) for item in _items(step)]
    if draw.wants(0.04):
        _mark(draw, items)
    only_text = len(items) == 1 and isinstance(items[0].get("content"), str)
    body["input"] = items[0]["content"] if only_text and draw.chance(0.5) else items
    return body


def _front(draw: Draw, body: JSON) -> list[JSON]:
    """Write the instructions at the beginning. JSON mode requires the word JSON somewhere in the input."""
    json_mode = body.get("text", {}).get("format", {}).get("type") == "json_object"
    if not json_mode and not draw.chance(0.3):
        return []
    text = "Answer in JSON." if json_mode else draw.text()
    role = draw.pick(("developer", "developer", "system"))
    return [{"role": role, "content": [{"type": "input_text", "text": text}] if draw.chance(0.3) else text}]


def _mark(draw: Draw, items: list[JSON]) -> None:
    """Mark up to four places for the prompt cache."""
    mark: JSON = {"mode": "explicit"} | draw.pick(({}, {"ttl": "30m"}, {"ttl": "12h"}))
    places = [item for item in items if item.get("role") in ("user", "system", "developer")]
    for item in draw.some(places, 4) if places else []:
        content = item["content"]
        parts = [{"type": "input_text", "text": content}] if isinstance(content, str) else list(content)
        parts[-1] = parts[-1] | {"prompt_cache_breakpoint": mark}
        item["content"] = parts


HELLO: JSON = {"model": "the-model", "input": "Hello"}
_PAIR: list[Tool | Freeform] = [TOOLS["plain"], FREEFORM["freeform"]]
_USER: JSON = {"role": "user", "content": "Hello"}


def _history(calls: tuple[Call, ...], thought: str = "", before: str = "", after: str = "") -> JSON:
    steps = (User("Hello"), Assistant(thought, before, calls, after), Results(calls))
    used = {call.tool.name: tool_of(call.tool) for call in calls}
    return {"tools": list(used.values()), "input": [item for step in steps for item in _items(step)]}


_ONE = (Call("call_1", TOOLS["plain"], "text"),)
_TWO = (*_ONE, Call("call_2", TOOLS["strict"], "parts"))
SCENES: dict[str, tuple[JSON, ...]] = {
    "part": tuple(
        {"input": [{"role": "user", "content": [{"type": "input_text", "text": "Look"}, part]}]}
        for part in PARTS.values()
    ),
    "tool": (
        *({"tools": [tool_of(tool)]} for tool in EVERY),
        *({"tools": [tool]} for tool in (*HOSTED.values(), _namespace([TOOLS["plain"]]))),
    ),
    "tools": ({"tools": [tool_of(tool) for tool in TOOLS.values()]},),
    "tool_choice": tuple(
        {"tools": [tool_of(tool) for tool in _PAIR], "tool_choice": choice} for choice in choices(_PAIR)
    ),
    "parallel_tool_calls": tuple(
        {"tools": [tool_of(TOOLS["plain"])], "parallel_tool_calls": value} for value in (True, False)
    ),
    "front": tuple({"input": [{"role": role, "content": "Be short."}, _USER]} for role in ("system", "developer")),
    "mid_system": tuple(
        {"input": [_USER, {"role": "assistant", "content": "Hi."}, {"role": role, "content": "Be short."}, _USER]}
        for role in ("system", "developer")
    ),
    "cache_mark": (
        {
            "input": [
                {
                    "role": "user",
                    "content": [
                        {"type": "input_text", "text": "Hello", "prompt_cache_breakpoint": {"mode": "explicit"}}
                    ],
                }
            ]
        },
    ),
    "result": tuple(_history((Call("call_1", TOOLS["plain"], result),)) for result in RESULTS),
    "call_id": tuple(_history((Call(id, TOOLS["plain"], "text"),)) for id in ("c" * 100, "functions.look_up:0")),
    "calls": (
        _history(_TWO),
        _history(_TWO, before="One moment."),
        _history(_ONE, after="There it goes."),
        _history((Call("call_1", FREEFORM["freeform lark"], "text"),)),
    ),
    "thought": tuple(_history(_ONE, thought) for thought in THOUGHTS),
}
