"""Whose API an upstream is: by the name that a configuration gives it, or by its models' names."""

from __future__ import annotations

import re

from trilogue.model import Protocol

VENDORS = (
    "openai",
    "azure",
    "anthropic",
    "deepseek",
    "mistral",
    "moonshot",
    "groq",
    "xai",
    "gemini",
    "openrouter",
    "ollama",
)
"""the vendors that the table has rows for"""

_OTHER_NAMES = {"google": "gemini", "grok": "xai", "kimi": "moonshot", "claude": "anthropic", "aoai": "azure"}

_IMITATIONS = frozenset({"compatible", "compat", "like", "litellm", "proxy", "mirror", "vllm", "local", "mock"})

_MAKERS = (
    (r"gpt-oss", ""),  # anyone may serve these
    (r"gpt-|chatgpt|o\d|codex|computer-use", "openai"),
    (r"claude", "anthropic"),
    (r"deepseek", "deepseek"),
    (r"kimi|moonshot", "moonshot"),
    (r"(open-)?mi[sx]tral|ministral|magistral|codestral|devstral|pixtral", "mistral"),
    (r"grok", "xai"),
    (r"gemini", "gemini"),
)
_MAKER_PATTERNS = tuple((re.compile(pattern), vendor) for pattern, vendor in _MAKERS)

_PREFIXES = re.compile(r"(?:[a-z-]+\.)*(?:anthropic|openai|mistral|deepseek|moonshotai)\.|ft:")
"""of names on Bedrock (`us.anthropic.claude-…`), and of fine-tuned models"""


def plain_name(model: str) -> str:
    """Return the name that patterns are matched with: the last part, in lower case, without prefixes of clouds.

    Claude's versions are written with a dot by some vendors (`claude-sonnet-4.5`) and with a hyphen by Anthropic.
    """
    name = _PREFIXES.sub("", model.rsplit("/", 1)[-1].lower(), count=1)
    return name.replace(".", "-") if name.startswith("claude") else name


def vendor_named(provider: str) -> str:
    """Return the vendor whose name a provider has, alone or among others (`azure-eu`, `my_mistral`).

    `openai-compatible` and `litellm-openai` only speak like one.
    """
    words = re.split(r"[^a-z0-9]+", provider.lower())
    if not _IMITATIONS.isdisjoint(words):
        return ""
    found = (word if word in VENDORS else _OTHER_NAMES.get(word, "") for word in words)
    return next(filter(None, found), "")


def maker_of(model: str) -> str:
    """Return the vendor that makes a model, by its name; "" if that does not tell."""
    name = plain_name(model)
    return next((vendor for pattern, vendor in _MAKER_PATTERNS if pattern.match(name)), "")


def vendor_of_model(protocol: Protocol, model: str) -> str:
    """Return the vendor whose rows count for a model, where an upstream is nobody's that we know.

    Claude behind a protocol of OpenAI's is somebody's translation, and weights with names such as
    `mistralai/Mistral-7B-Instruct` are served by anyone: both take what other servers take.
    """
    maker = maker_of(model)
    if maker == "anthropic":
        return maker if protocol is Protocol.MESSAGES else ""
    owner, slash, _ = model.rpartition("/")
    is_weights = (slash and owner.lower() not in VENDORS) or model != model.lower()
    return "" if is_weights and maker != "openai" else maker
