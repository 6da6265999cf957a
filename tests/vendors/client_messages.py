"""Generate Anthropic Messages requests as clients send them: every setting alone, or many at once."""

from __future__ import annotations

from tests.vendors.client_chat import CLOSED, LIMITED, OPEN, STOPS, TOKENS
from tests.vendors.client_draw import IMAGE_URL, IMAGES, JSON, LONG_USER, PDF, PDF_URL, Draw, Settings, unshared
from tests.vendors.client_plan import Assistant, Call, Kinds, Results, Step, System, User, draw_plan
from tests.vendors.client_tools import TOOLS, Freeform, Tool, draw_tools

BUDGETS = (1024, 2000, 4096, 8000, 16000, 31999, 60000)
EPHEMERAL: JSON = {"type": "ephemeral"}
HOUR: JSON = {"type": "ephemeral", "ttl": "1h"}

SETTINGS: Settings = {
    "limit": (1.0, tuple({"max_tokens": value} for value in TOKENS)),
    "thinking": (
        0.35,
        (
            {"thinking": {"type": "adaptive"}},
            {"thinking": {"type": "adaptive", "display": "summarized"}},
            {"thinking": {"type": "adaptive", "display": "omitted"}},
            {"thinking": {"type": "disabled"}},
            {"thinking": {"type": "between_tools"}},
            *({"thinking": {"type": "enabled", "budget_tokens": b}, "max_tokens": b + 1} for b in BUDGETS),
            {"thinking": {"type": "enabled", "budget_tokens": 5000, "display": "omitted"}, "max_tokens": 9000},
        ),
    ),
    "output_config": (
        0.25,
        (
            *({"output_config": {"effort": effort}} for effort in ("low", "medium", "high", "xhigh", "max")),
            *({"output_config": {"format": {"type": "json_schema", "schema": s}}} for s in (CLOSED, LIMITED, OPEN)),
            {"output_config": {"effort": "low", "format": {"type": "json_schema", "schema": CLOSED}}},
        ),
    ),
    "temperature": (0.25, tuple({"temperature": value} for value in (0, 0.2, 0.7, 1))),
    "top_p": (0.08, tuple({"top_p": value} for value in (0.1, 0.9, 0.95, 1))),
    "top_k": (0.06, ({"top_k": 1}, {"top_k": 40})),
    "stop_sequences": (
        0.15,
        (
            *({"stop_sequences": [text]} for text in STOPS),
            *({"stop_sequences": list(STOPS[:n])} for n in (0, 2, 4, 5, 6)),
        ),
    ),
    "metadata": (0.15, ({"metadata": {"user_id": "person-1"}}, {"metadata": {"user_id": LONG_USER}}, {"metadata": {}})),
    "service_tier": (0.06, ({"service_tier": "auto"}, {"service_tier": "standard_only"})),
    "speed": (0.05, ({"speed": "fast"}, {"speed": "standard"})),
    "cache_control": (
        0.06,
        ({"cache_control": EPHEMERAL}, {"cache_control": HOUR}, {"cache_control": EPHEMERAL | {"ttl": "5m"}}),
    ),
    "system": (
        0.6,
        (
            {"system": "Be short."},
            {"system": [{"type": "text", "text": "Be short."}]},
            {"system": [{"type": "text", "text": "Be short."}, {"type": "text", "text": "Be kind."}]},
        ),
    ),
    "stream": (0.6, ({"stream": True}, {"stream": True}, {"stream": False})),
    "inference_geo": (0.02, ({"inference_geo": "eu"},)),
    "context_management": (
        0.06,
        (
            {"context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}},
            {"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}},
        ),
    ),
}

_TYPES = ("image/png", "image/jpeg", "image/webp", "image/gif")
BLOCKS: dict[str, JSON] = {
    "image url": {"type": "image", "source": {"type": "url", "url": IMAGE_URL}},
    **{
        kind: {"type": "image", "source": {"type": "base64", "media_type": kind, "data": IMAGES[kind]}}
        for kind in _TYPES
    },
    "pdf": {
        "type": "document",
        "source": {"type": "base64", "media_type": "application/pdf", "data": PDF},
        "title": "paper.pdf",
    },
    "pdf url": {"type": "document", "source": {"type": "url", "url": PDF_URL}},
    "text file": {
        "type": "document",
        "source": {"type": "text", "media_type": "text/plain", "data": "seven rivers"},
        "context": "A note.",
        "citations": {"enabled": True},
    },
    "content file": {
        "type": "document",
        "source": {"type": "content", "content": [{"type": "text", "text": "seven rivers"}]},
    },
    "search result": {
        "type": "search_result",
        "source": "https://example.com",
        "title": "Rivers",
        "content": [{"type": "text", "text": "seven rivers"}],
    },
}
_TOLD: JSON = {"type": "text", "text": "hi"}
RESULTS: dict[str, JSON] = {
    "text": {"content": "hi\n"},
    "blocks": {"content": [_TOLD, {"type": "text", "text": "there"}]},
    "image": {"content": [_TOLD, BLOCKS["image/png"]]},
    "image url": {"content": [BLOCKS["image url"]]},
    "pdf": {"content": [BLOCKS["pdf"]]},
    "error": {"content": "no such file", "is_error": True},
    "no error": {"content": "hi", "is_error": False},
    "nothing": {},
    "empty": {"content": []},
}
THOUGHTS: dict[str, list[JSON]] = {
    "": [],
    "signed": [
        {"type": "thinking", "thinking": "Let me see.", "signature": "EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pki"}
    ],
    # Compatible servers make thinking without a signature, and clients send it back like that.
    "unsigned": [{"type": "thinking", "thinking": "Let me see.", "signature": ""}],
    "omitted": [{"type": "thinking", "thinking": "", "signature": "EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pki"}],
    "redacted": [{"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3pzix"}],
}
KINDS = Kinds("messages", tuple(BLOCKS), tuple(RESULTS), [name for name in THOUGHTS if name])
HOSTED: dict[str, JSON] = {
    "web search": {"type": "web_search_20250305", "name": "web_search"},
    "web search limits": {
        "type": "web_search_20250305",
        "name": "web_search",
        "max_uses": 3,
        "allowed_domains": ["example.com"],
        "user_location": {"type": "approximate", "city": "Paris", "country": "FR"},
    },
    "web search new": {"type": "web_search_20260209", "name": "web_search", "blocked_domains": ["example.org"]},
}
CHOICES: tuple[JSON, ...] = ({"type": "auto"}, {"type": "any"}, {"type": "none"}, {"type": "tool"})


def tool_of(tool: Tool) -> JSON:
    """Write a tool as Messages does, where a schema is required."""
    optional = {"description": tool.description, "strict": tool.strict}
    shown = {key: value for key, value in optional.items() if value is not None}
    return {"name": tool.name, "input_schema": tool.schema or {"type": "object"}} | shown


def _block(call: Call) -> JSON:
    return {"type": "tool_use", "id": call.id, "name": call.tool.name, "input": call.tool.example}


def _text(text: str) -> list[JSON]:
    return [{"type": "text", "text": text}] if text else []


def _turn(step: Step) -> JSON:
    """Write one step of a conversation."""
    match step:
        case User(text, media):
            return {"role": "user", "content": _text(text) + [dict(BLOCKS[name]) for name in media] if media else text}
        case System(text):
            return {"role": "system", "content": text}
        case Results(calls, added):
            told = [{"type": "tool_result", "tool_use_id": call.id} | RESULTS[call.result] for call in calls]
            return {"role": "user", "content": told + _text(added)}
        case Assistant(thought, before, calls, after):
            blocks = [dict(block) for block in THOUGHTS[thought]]
            blocks += _text(before) + [_block(call) for call in calls] + _text(after)
            plain = not calls and not thought
            return {"role": "assistant", "content": before if plain else blocks}


def generate(draw: Draw) -> JSON:
    """Generate one request."""
    body: JSON = {"model": "the-model", "messages": []} | draw.settings(SETTINGS)
    tools: list[Tool | Freeform] = []
    if draw.wants(0.4):
        drawn = draw_tools(draw, "messages")
        tools += drawn
        body["tools"] = _tools(draw, drawn)
        if draw.chance(0.4):
            body["tool_choice"] = _choice(draw, drawn)
    body.setdefault("max_tokens", 1024)
    steps = draw_plan(draw, KINDS, tools)
    body = unshared(body | {"messages": [_turn(step) for step in steps]})
    _agree(body)
    if draw.wants(0.04) and _may_prefill(body):
        body["messages"].append({"role": "assistant", "content": draw.pick(("The answer is", "{"))})
    if draw.wants(0.25):
        mark(draw, body)
    return body


def _tools(draw: Draw, tools: list[Tool]) -> list[JSON]:
    written = [tool_of(tool) for tool in tools]
    if draw.chance(0.15):
        written = [tool | {"eager_input_streaming": True} for tool in written]
    if draw.chance(0.1):
        written = [{"type": "custom"} | tool for tool in written]
    if draw.chance(0.1):
        written[0]["input_examples"] = [tools[0].example]
    if draw.chance(0.15):
        written.append(dict(draw.pick(list(HOSTED.values()))))
    return written


def _choice(draw: Draw, tools: list[Tool]) -> JSON:
    choice = dict(draw.pick(CHOICES))
    if choice["type"] == "tool":
        choice["name"] = draw.pick(tools).name
    if choice["type"] != "none" and draw.chance(0.3):
        choice["disable_parallel_tool_use"] = draw.chance(0.7)
    return choice


def _agree(body: JSON) -> None:
    """Remove what the protocol does not allow together with a thinking budget."""
    thinking = body.get("thinking", {})
    if thinking.get("type") != "enabled":
        return
    body["max_tokens"] = max(body["max_tokens"], thinking["budget_tokens"] + 1)
    body.pop("top_k", None)
    if body.get("temperature", 1) != 1:
        del body["temperature"]
    if body.get("top_p", 1) < 0.95:
        del body["top_p"]
    if body.get("tool_choice", {}).get("type") in ("any", "tool"):
        del body["tool_choice"]
    last = body["messages"][-2] if len(body["messages"]) > 1 else {}
    if last.get("role") == "assistant" and body["messages"][-1]["role"] == "user" and isinstance(last["content"], list):
        # A turn with calls that is still open has to begin with its thinking.
        thoughts = [block for block in last["content"] if block["type"].endswith("thinking")]
        last["content"] = (thoughts or [dict(block) for block in THOUGHTS["signed"]]) + [
            block for block in last["content"] if block not in thoughts
        ]


def _may_prefill(body: JSON) -> bool:
    last = body["messages"][-1]
    plain = last["role"] == "user" and "format" not in body.get("output_config", {})
    return plain and body.get("thinking", {}).get("type", "disabled") == "disabled"


def mark(draw: Draw, body: JSON) -> None:
    """Mark up to four places for the cache. Marks for an hour come before those for five minutes."""
    if isinstance(body.get("system"), str) and draw.chance(0.5):
        body["system"] = _text(body["system"])
    system = body["system"] if isinstance(body.get("system"), list) else []
    places = [*body.get("tools", []), *system]
    for turn in body["messages"]:
        if isinstance(turn["content"], str) and turn["role"] == "user" and draw.chance(0.5):
            turn["content"] = _text(turn["content"])
        if isinstance(turn["content"], list):
            places += [block for block in turn["content"] if not block["type"].endswith("thinking")]
    automatic = body.get("cache_control", {})
    most = 3 if automatic else 4
    chosen = draw.some(places, most) if places else []
    # The automatic mark comes last: if it is for an hour, all the others are too.
    hours = len(chosen) if automatic.get("ttl") == "1h" else draw.count(0, len(chosen))
    for number, place in enumerate(chosen):
        place["cache_control"] = dict(HOUR) if number < hours else dict(EPHEMERAL)


HELLO: JSON = {"model": "the-model", "max_tokens": 1024, "messages": [{"role": "user", "content": "Hello"}]}
_USER: JSON = {"role": "user", "content": "Hello"}
_PLAIN = tool_of(TOOLS["plain"])


def _history(calls: tuple[Call, ...], thought: str = "", before: str = "", after: str = "") -> JSON:
    steps = (User("Hello"), Assistant(thought, before, calls, after), Results(calls))
    tools = {call.tool.name: tool_of(call.tool) for call in calls if isinstance(call.tool, Tool)}
    return {"tools": list(tools.values()), "messages": [_turn(step) for step in steps]}


_TWO = (Call("toolu_1", TOOLS["plain"], "text"), Call("toolu_2", TOOLS["strict"], "blocks"))
SCENES: dict[str, tuple[JSON, ...]] = {
    "block": tuple({"messages": [{"role": "user", "content": [*_text("Look"), block]}]} for block in BLOCKS.values()),
    "tool": (
        *({"tools": [tool_of(tool)]} for tool in TOOLS.values()),
        *({"tools": [tool]} for tool in HOSTED.values()),
    ),
    "tool_extra": tuple(
        {"tools": [_PLAIN | extra]}
        for extra in (
            {"eager_input_streaming": True},
            {"type": "custom"},
            {"input_examples": [{"query": "rain"}]},
            {"cache_control": HOUR},
        )
    ),
    "tools": ({"tools": [tool_of(tool) for tool in TOOLS.values()]},),
    "tool_choice": tuple(
        {"tools": [_PLAIN], "tool_choice": choice}
        for choice in (
            *CHOICES[:3],
            {"type": "tool", "name": "look_up"},
            {"type": "auto", "disable_parallel_tool_use": True},
            {"type": "any", "disable_parallel_tool_use": True},
        )
    ),
    "mid_system": (
        {
            "messages": [
                _USER,
                {"role": "assistant", "content": "Hi."},
                _USER,
                {"role": "system", "content": "Be short."},
            ]
        },
        {"messages": [_USER, {"role": "system", "content": _text("Be short.")}]},
    ),
    "prefill": (
        {"messages": [_USER, {"role": "assistant", "content": "The answer is"}]},
        {"messages": [_USER, {"role": "assistant", "content": _text("{")}]},
    ),
    "cache_mark": tuple(
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hello", "cache_control": mark}]}]}
        for mark in (EPHEMERAL, HOUR)
    ),
    "system_mark": ({"system": [{"type": "text", "text": "Be short.", "cache_control": HOUR}]},),
    "result": tuple(_history((Call("toolu_1", TOOLS["plain"], result),)) for result in RESULTS),
    "call_id": (_history((Call("t" * 100, TOOLS["plain"], "text"),)),),
    "calls": (_history(_TWO), _history(_TWO, before="One moment."), _history(_TWO, after="There.")),
    "thought": tuple(_history(_TWO[:1], thought) for thought in THOUGHTS if thought),
}
