"""Requests that try to get more than their key allows, over all endpoints."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

NUMBERS: tuple[Any, ...] = (
    -1, -(10**12), 0, 1, 7, 50, 1000, 5000, 10**6, 10**12, 10**30, 1e30, 2.5, -0.5, "5", "-1", "1e9", "x", "", True,
    False, None, [], {}, [7], "nan", "Infinity",
)  # fmt: skip
SIZES = (0, 0, 10, 200, 3000, 20_000)
LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
TOOLS: tuple[Any, ...] = (
    {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}},
    {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}},
    {"name": "f", "input_schema": {"type": "object", "properties": {"prompt": {"type": "string"}}}},
    {"type": "web_search"},
    {"type": "web_search_20250305", "name": "web_search", "max_uses": 3},
    {"type": "web_search_20250305", "name": "web_search"},
    {"type": "web_search_20250305", "name": "web_search", "max_uses": "many"},
    {"type": "web_search_20250305", "name": "web_search", "max_uses": -4},
    {"type": "code_interpreter", "container": {"type": "auto"}},
    {"type": "mcp", "server_url": "https://example.com"},
    {"type": "image_generation", "model": "m2"},
    {"type": "advisor_20260301", "name": "advisor", "model": "m", "max_uses": 2},
    7,
)
PARTS: tuple[Any, ...] = (
    {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
    {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
    {"type": "input_image", "image_url": "https://example.com/a.png"},
    {"type": "document", "source": {"type": "url", "url": "https://example.com/a.pdf"}},
    {"type": "input_file", "file_id": "file-1"},
    {"type": "file", "file": {"file_id": "file-1"}},
    {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
)
MORE: dict[str, tuple[Any, ...]] = {
    "n": NUMBERS,
    "best_of": NUMBERS,
    "thinking_budget": NUMBERS,
    "max_tool_calls": (*NUMBERS, 3),
    "web_search_options": ({}, None, {"search_context_size": "low"}),
    "previous_response_id": ("resp_1", "", None),
    "models": (["m2"], ["m"], "m2", [{"model": "m2"}]),
    "fallbacks": (["m2"], [{"model": "m2"}]),
    "stream_options": ({"include_usage": False}, {"include_usage": True}),
    "store": (True, False),
    "background": (True, False),
    "service_tier": ("flex",),
    "prediction": ({"type": "content", "content": "x" * 50},),
}

ONLY_MESSAGES: dict[str, tuple[Any, ...]] = {
    "inference_geo": ("us", "global", None),
    "context_management": (
        {"edits": [{"type": "compact_20260112"}]},
        {"edits": [{"type": "compact_20260112", "pause_after_compaction": True}, {"type": "clear_thinking_20251015"}]},
        {"edits": [{"type": "clear_tool_uses_20250919"}]},
    ),
}
Made = tuple[str, str, str, bytes]
"""method, path, content type, body"""


def text_of(random: Random) -> str:
    """Return a text that is sometimes long."""
    return random.choice(("hi", "ж", "\\u006e", "7 ")) * max(1, random.choice(SIZES))


def limits(random: Random) -> dict[str, Any]:
    """Return limits of the output, honest or not."""
    if random.random() < 0.6:
        return {random.choice(LIMITS): random.choice((1, 16, 50, 300, 2000))}
    return {name: random.choice(NUMBERS) for name in LIMITS if random.random() < 0.5}


def more(random: Random) -> dict[str, Any]:
    """Return fields that may cost more."""
    found = {name: random.choice(values) for name, values in MORE.items() if random.random() < 0.06}
    if random.random() < 0.1:
        found["tools"] = random.choice(([random.choice(TOOLS)], list(TOOLS[:2]), "x", {}, [[]]))
    return found


def content(random: Random) -> Any:
    if random.random() < 0.9:
        return text_of(random)
    return [{"type": "text", "text": "hi"}, *(random.choice(PARTS) for _ in range(random.choice((1, 1, 3))))]


def model(random: Random, provider: str = "") -> str:
    """Return a model that most keys may use."""
    provider = provider or random.choice(("chat", "messages", "responses", "limited", "both"))
    return f"{provider}/{random.choice(('m', 'm', 'm', 'm', 'm2'))}"


def _chat(random: Random) -> tuple[str, Any]:
    return "/chat/completions", {"messages": [{"role": "user", "content": content(random)}]}


def _messages(random: Random) -> tuple[str, Any]:
    return "/messages", {"messages": [{"role": "user", "content": content(random)}], "max_tokens": 50}


def _responses(random: Random) -> tuple[str, Any]:
    given = content(random)
    return "/responses", {"input": given if isinstance(given, str) else [{"role": "user", "content": given}]}


def _compact(random: Random) -> tuple[str, Any]:
    return "/responses/compact", {"input": text_of(random)}


def _completions(random: Random) -> tuple[str, Any]:
    prompt = random.choice((text_of(random), [text_of(random)] * random.choice((1, 3, 40)), [1, 2, 3], [[1], [2]]))
    return "/completions", {"prompt": prompt}


def _embeddings(random: Random) -> tuple[str, Any]:
    return "/embeddings", {"input": random.choice((text_of(random), [text_of(random)] * 3, [[1, 2, 3]] * 9))}


def _rerank(random: Random) -> tuple[str, Any]:
    documents: list[Any] = [text_of(random)] * random.choice((1, 5, 30))
    if random.random() < 0.3:
        documents.append({"usage": {"total_tokens": 0}})
    return "/rerank", {"query": "hi", "documents": documents}


def _other(random: Random) -> tuple[str, Any]:
    return random.choice(OTHERS)


OTHERS: tuple[tuple[str, Any], ...] = (
    ("/moderations", {"input": "hi"}),
    ("/images/generations", {"prompt": "a cat", "n": 10}),
    ("/audio/speech", {"input": "hi", "voice": "alloy"}),
    ("/batches", {"input_file_id": "file-1", "endpoint": "/v1/chat/completions", "completion_window": "24h"}),
    ("/batches/batch_1/cancel", {}),
    ("/messages/batches", {"requests": [{"custom_id": "1", "params": {"model": "m2", "max_tokens": 9}}]}),
    ("/fine_tuning/jobs", {"training_file": "file-1"}),
    ("/evals", {"data_source_config": {"type": "logs"}}),
    ("/videos", {"prompt": "a cat", "seconds": "12"}),
    ("/vector_stores", {"file_ids": ["file-1"]}),
    ("/containers", {"name": "c"}),
    ("/messages/count_tokens", {"messages": [{"role": "user", "content": "hi"}]}),
    ("/responses/input_tokens", {"input": "hi"}),
)
ENDPOINTS: tuple[Callable[[Random], tuple[str, Any]], ...] = (
    *(_chat,) * 5,
    *(_messages,) * 4,
    *(_responses,) * 4,
    *(_completions,) * 2,
    _compact,
    _embeddings,
    _rerank,
    _other,
    _other,
)


def honest(random: Random) -> Made:
    """Return a request as decent clients send it."""
    path, body = random.choice((_chat, _messages, _responses))(random)
    limit = {"/responses": "max_output_tokens"}.get(path, "max_tokens")
    provider = random.choice(("chat", "messages", "responses", "limited", "both"))
    if path == "/messages" and random.random() < 0.3:
        provider = "messages"
        body["context_management"] = random.choice(ONLY_MESSAGES["context_management"])
    body |= {"model": f"{provider}/m", limit: random.choice((16, 50, 300)), "stream": random.random() < 0.5}
    return "POST", path, "application/json", json.dumps(body).encode()


def hostile(random: Random) -> Made:
    """Return a request of an attacker."""
    path, made = random.choice(ENDPOINTS)(random)
    if random.random() < 0.02:
        return "GET", random.choice(("/files", "/batches/batch_1", "/responses/resp_1")), "application/json", b""
    body = {"model": model(random), **made, **limits(random), **more(random)}
    if path == "/messages" and random.random() < 0.3:
        name = random.choice(list(ONLY_MESSAGES))
        body |= {"model": model(random, "messages"), name: random.choice(ONLY_MESSAGES[name])}
    if random.random() < 0.4:
        body["stream"] = True
    if random.random() < 0.03:
        del body["model"]
    if path in ("/images/generations", "/audio/speech") and random.random() < 0.5:
        return _form(random, body)
    text = json.dumps(body, ensure_ascii=random.random() < 0.5)
    if random.random() < 0.12:
        text = _doubled(random, text, body)
    return "POST", path, "application/json", text.encode("utf-8", "surrogatepass")


def _doubled(random: Random, text: str, body: dict[str, Any]) -> str:
    """Return a body in which a field comes twice, perhaps with an escaped name."""
    name = random.choice([one for one in ("model", "n", "tools", *LIMITS) if one in body] or ["n"])
    again = name
    if random.random() < 0.5:
        at = random.randrange(len(name))
        again = f"{name[:at]}\\u{ord(name[at]):04x}{name[at + 1 :]}"
    value: Any = random.choice(("chat/m", "m2", 1, 10**6, [])) if name != "model" else random.choice(("m2", "chat/m2"))
    added = f'"{again}": {json.dumps(value)}'
    return f"{text[:-1]}, {added}}}" if random.random() < 0.5 else f"{{{added}, {text[1:]}"


def _form(random: Random, body: dict[str, Any]) -> Made:
    """Return a form in which the model may be there twice, or without quotes."""
    named = random.choice(('name="model"', "name=model", 'name="model"; name="x"'))
    parts = [(named, str(body.get("model", "chat/m")))]
    if random.random() < 0.5:
        parts.append(('name="model"', "chat/m2"))
    parts.append(('name="prompt"', "a cat"))
    random.shuffle(parts)
    lines = "".join(f"--b\r\nContent-Disposition: form-data; {name}\r\n\r\n{value}\r\n" for name, value in parts)
    return "POST", "/images/edits", "multipart/form-data; boundary=b", f"{lines}--b--\r\n".encode()
