"""The cases of the other vendors' rules and of the checks that all Chat vendors make."""

from __future__ import annotations

from tests.vendors.cases import (
    CLOSED,
    PNG,
    USER,
    Case,
    chat_call,
    chat_history,
    chat_result,
    chat_tool,
    response_tool,
    says,
    text,
)
from tests.vendors.rule import Body

IMAGE: Body = {"type": "image_url", "image_url": {"url": PNG}}
FORCED: Body = {"tools": [chat_tool()], "tool_choice": "required"}
FREE: Body = {"tools": [chat_tool()], "tool_choice": "auto"}
DISABLED: Body = {"thinking": {"type": "disabled"}}
ANSWER: Body = {"role": "assistant", "content": "Hi"}
SCHEMA: Body = {"type": "json_schema", "json_schema": {"name": "answer", "schema": CLOSED}}
SIGNED: Body = {"extra_content": {"google": {"thought_signature": "s"}}}


def _calls(**fields: object) -> Body:
    return chat_history({**chat_call(), **fields}, chat_result())


def _signed() -> Body:
    call = chat_call()
    return chat_history({**call, "tool_calls": [{**call["tool_calls"][0], **SIGNED}]}, chat_result())


def _effort(level: str) -> Body:
    return {"reasoning_effort": level}


def case(rule: str, vendor: str, model: str, refused: Body, accepted: Body | None = None) -> Case:
    """Return a case of the Chat API."""
    return Case(rule, vendor, "chat", model, refused, accepted or {})


VENDORS = (
    case(
        "chat-no-developer", "xai", "grok-4",
        {"messages": [{"role": "developer", "content": "Be brief."}, USER]},
        {"messages": [{"role": "system", "content": "Be brief."}, USER]},
    ),
    case(
        "deepseek-json-schema", "deepseek", "deepseek-chat",
        {"response_format": SCHEMA}, {"response_format": {"type": "text"}},
    ),
    case("deepseek-forced-tool", "deepseek", "deepseek-v4-flash", FORCED, {**FORCED, **DISABLED}),
    case("deepseek-forced-tool", "deepseek", "deepseek-reasoner", FORCED, FREE),
    case("deepseek-reasoning-content", "deepseek", "deepseek-v4-flash", _calls(), _calls(reasoning_content="")),
    case("deepseek-reasoning-content", "deepseek", "deepseek-v4-flash", _calls(), {**_calls(), **DISABLED}),
    case(
        "deepseek-text-only", "deepseek", "deepseek-chat",
        {"messages": [says("user", IMAGE)]}, {"messages": [says("user", text("an image"))]},
    ),
    case("deepseek-last-message", "deepseek", "deepseek-reasoner", chat_history(ANSWER), chat_history(ANSWER, USER)),
    case("moonshot-sampling", "moonshot", "kimi-k2.5", {"temperature": 0.6}, {"temperature": 1, "top_p": 0.95}),
    case("moonshot-forced-tool", "moonshot", "kimi-k2-thinking", FORCED, FREE),
    case("moonshot-forced-tool", "moonshot", "kimi-k2.5", FORCED, {**FORCED, **DISABLED}),
    case(
        "moonshot-reasoning-content", "moonshot", "kimi-k3",
        _calls(reasoning_content=""), _calls(reasoning_content=" "),
    ),
    case("moonshot-effort", "moonshot", "kimi-k3", _effort("xhigh"), _effort("high")),
    case("moonshot-fixed", "moonshot", "kimi-k2.5", {"n": 2}, {"n": 1, "presence_penalty": 0}),
    case("xai-effort", "xai", "grok-4", _effort("low")),
    Case("xai-effort", "xai", "responses", "grok-3", {"reasoning": {"effort": "low"}}),
    case("xai-penalties", "xai", "grok-3-mini", {"stop": ["END"]}, _effort("low")),
    case("gemini-effort", "gemini", "gemini-2.5-pro", _effort("none"), _effort("minimal")),
    case("gemini-effort", "gemini", "gemini-2.5-flash", _effort("xhigh"), _effort("none")),
    case("gemini-signatures", "gemini", "gemini-3-pro-preview", _calls(), _signed()),
    case("gemini-signatures", "gemini", "gemini-3-pro-preview", _calls(), {"messages": [*_calls()["messages"], USER]}),
    case("ollama-effort", "ollama", "qwen3", _effort("xhigh"), _effort("max")),
    case("ollama-effort-absent", "ollama", "llama3.2", _effort("low")),
    case("openrouter-effort", "openrouter", "anthropic/claude-sonnet-4.5", _effort("max"), _effort("xhigh")),
    case("openrouter-always-reasons", "openrouter", "openai/gpt-5", _effort("none"), _effort("minimal")),
    case("openrouter-always-reasons", "openrouter", "deepseek/deepseek-r1", {"reasoning": {"enabled": False}}),
)  # fmt: skip

FIELDS = (
    case("mistral-unknown", "mistral", "mistral-large-latest", {"seed": 1}, {"random_seed": 1}),
    case("mistral-message-fields", "mistral", "mistral-large-latest", {"messages": [{**USER, "name": "Ann"}]}),
    case("mistral-message-fields", "mistral", "magistral-medium-latest", _calls(reasoning_content="Hm"), _calls()),
    case(
        "mistral-call-ids", "mistral", "codestral-latest",
        chat_history(chat_call("call_1"), chat_result("call_1")),
        chat_history(chat_call("aB3456789"), chat_result("aB3456789")),
    ),
    case(
        "mistral-last-message", "mistral", "mistral-large-latest",
        chat_history(ANSWER), chat_history({**ANSWER, "prefix": True}),
    ),
    case("mistral-logprobs", "mistral", "mistral-small-latest", {"logprobs": True}, {"logprobs": False}),
    case("mistral-effort-absent", "mistral", "codestral-latest", _effort("high")),
    case("mistral-effort-level", "mistral", "magistral-medium-latest", _effort("low"), _effort("high")),
    case("mistral-empty-tools", "mistral", "mistral-large-latest", {"tools": []}, {"tools": [chat_tool()]}),
    case("groq-effort-absent", "groq", "llama-3.3-70b-versatile", _effort("low")),
    case("groq-effort-level", "groq", "openai/gpt-oss-120b", _effort("none"), _effort("low")),
    case("groq-effort-level", "groq", "qwen/qwen3-32b", _effort("low"), _effort("default")),
    case("groq-unknown", "groq", "llama-3.3-70b-versatile", {"logprobs": True}, {"seed": 1}),
    case(
        "groq-reasoning-content", "groq", "openai/gpt-oss-120b",
        _calls(reasoning_content="Hm"), _calls(reasoning="Hm"),
    ),
    case("groq-reasoning", "groq", "qwen/qwen3-32b", _calls(reasoning="Hm"), _calls()),
    case("groq-compatibility", "groq", "qwen/qwen3-32b", {"n": 2}, {"n": 1}),
    case("gemini-unknown", "gemini", "gemini-2.5-pro", {"frequency_penalty": 0}, {"max_completion_tokens": 10}),
)  # fmt: skip

STRUCTURE = (
    case("chat-types", "ollama", "qwen3", {"temperature": "1"}, {"temperature": 1}),
    case("chat-types", "groq", "qwen/qwen3-32b", {"stop": [1]}, {"stop": ["1"]}),
    case("chat-ranges", "deepseek", "deepseek-chat", {"max_tokens": 0}, {"max_tokens": 1}),
    case(
        "chat-messages", "gemini", "gemini-2.5-pro",
        chat_history({"role": "model", "content": "Hi"}), chat_history(ANSWER),
    ),
    case(
        "chat-parts", "openrouter", "openai/gpt-5",
        {"messages": [says("system", IMAGE), USER]}, {"messages": [says("system", text("Hi")), says("user", IMAGE)]},
    ),
    case(
        "chat-calls", "ollama", "qwen3",
        chat_history({**chat_call(), "tool_calls": [{"type": "function", "function": {"name": "weather"}}]}), _calls(),
    ),
    case("chat-tools", "ollama", "qwen3", {"tools": [response_tool()]}, {"tools": [chat_tool()]}),
    case(
        "chat-tool-choice", "openai", "gpt-4o",
        {"tools": [chat_tool()], "tool_choice": {"type": "function", "function": {"name": "other"}}},
        {"tools": [chat_tool()], "tool_choice": {"type": "function", "function": {"name": "weather"}}},
    ),
    Case("xai-responses-types", "xai", "responses", "grok-4", {"input": None}, {"input": [USER]}),
)  # fmt: skip

CASES: tuple[Case, ...] = VENDORS + FIELDS + STRUCTURE
