"""Judge request bodies as the vendors would: return the reasons why an API responds with a 4xx."""

from __future__ import annotations

from collections.abc import Iterator

from tests.vendors import (
    anthropic_models,
    anthropic_requests,
    anthropic_turns,
    chat_structure,
    compatible,
    compatible_fields,
    openai_history,
    openai_models,
    openai_requests,
)
from tests.vendors.rule import Body, Headers, Protocol, Rule

RULES: tuple[Rule, ...] = (
    *openai_models.RULES,
    *openai_requests.RULES,
    *openai_history.RULES,
    *anthropic_models.RULES,
    *anthropic_requests.RULES,
    *anthropic_turns.RULES,
    *compatible.RULES,
    *compatible_fields.RULES,
    *chat_structure.RULES,
)

VENDORS = tuple(sorted({vendor for rule in RULES for vendor in rule.vendors}))


def applying(vendor: str, protocol: str, model: str) -> list[Rule]:
    """Return the rules that apply to a model of a vendor behind a protocol."""
    return [rule for rule in RULES if rule.applies(vendor, protocol, model)]


def refusals(vendor: str, protocol: str, model: str, body: Body, headers: Headers | None = None) -> list[str]:
    """Return "rule-id: path: reason" for everything that the vendor's API would refuse; nothing if it accepts the body.

    Without headers, Messages bodies are judged by version 2023-06-01 and without beta features.
    """
    found: list[str] = []
    for rule in applying(vendor, protocol, model):
        found += [f"{rule.id}: {reason}" for reason in rule.check(body, model, headers or {})]
    return found


Combination = tuple[str, Protocol, str]

OPENAI_BOTH = (
    "gpt-4o", "gpt-4.1", "gpt-4-turbo", "gpt-3.5-turbo", "o1", "o3", "o3-mini", "o4-mini", "gpt-5", "gpt-5-mini",
    "gpt-5-chat-latest", "gpt-5.1", "gpt-5.2", "gpt-5.2-chat-latest", "gpt-5.4", "gpt-5.5", "gpt-5.6", "gpt-6",
)  # fmt: skip
MODELS: dict[tuple[str, Protocol], tuple[str, ...]] = {
    ("openai", "chat"): (*OPENAI_BOTH, "gpt-4o-search-preview", "gpt-4o-audio-preview"),
    ("openai", "responses"): (
        *OPENAI_BOTH, "gpt-5-pro", "gpt-5-codex", "gpt-5.1-codex-max", "gpt-5.3-codex", "gpt-5.4-pro",
        "codex-mini-latest",
    ),
    ("azure", "chat"): ("gpt-4o", "gpt-5", "o3-mini", "gpt-5.4"),
    ("azure", "responses"): ("gpt-4.1", "gpt-5-mini", "gpt-5.1"),
    ("anthropic", "messages"): (
        "claude-3-haiku-20240307", "claude-3-5-sonnet-20241022", "claude-3-7-sonnet-20250219",
        "claude-sonnet-4-20250514", "claude-opus-4-1", "claude-opus-4-5", "claude-sonnet-4-5", "claude-haiku-4-5",
        "claude-sonnet-4-6", "claude-opus-4-6", "claude-opus-4-7", "claude-opus-4-8", "claude-sonnet-5",
        "claude-opus-5", "claude-fable-5",
    ),
    ("deepseek", "chat"): ("deepseek-chat", "deepseek-reasoner", "deepseek-v4-flash"),
    ("mistral", "chat"): (
        "mistral-large-latest", "mistral-small-latest", "magistral-medium-latest", "codestral-latest",
    ),
    ("groq", "chat"): ("llama-3.3-70b-versatile", "openai/gpt-oss-120b", "qwen/qwen3-32b"),
    ("xai", "chat"): ("grok-3", "grok-3-mini", "grok-4", "grok-4.3"),
    ("xai", "responses"): ("grok-3", "grok-3-mini", "grok-4", "grok-4.3"),
    ("gemini", "chat"): ("gemini-2.5-pro", "gemini-2.5-flash", "gemini-3-pro-preview"),
    ("ollama", "chat"): ("llama3.2", "gpt-oss:20b", "qwen3"),
    ("moonshot", "chat"): ("kimi-k2.5", "kimi-k2-thinking", "kimi-k3"),
    ("openrouter", "chat"): ("openai/gpt-5", "anthropic/claude-sonnet-4.5", "deepseek/deepseek-r1"),
}  # fmt: skip


def _combinations() -> Iterator[Combination]:
    for (vendor, protocol), models in MODELS.items():
        for model in models:
            yield vendor, protocol, model


COMBINATIONS: tuple[Combination, ...] = tuple(_combinations())
"""models that together cover every rule"""
