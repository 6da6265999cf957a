"""The values behind the rules: effort levels, output limits, and which models reason."""

from __future__ import annotations

from tests.vendors.rule import matches

PLAIN = r"gpt-4|gpt-3|chatgpt-4|gpt-5-chat"
"""OpenAI models that do not reason"""

REASONING = r"(o[1-9]|gpt-5(?!(\.\d+)?-chat)|gpt-6|codex)"
"""OpenAI models that reason, always or on request"""

ALWAYS_REASONING = r"o[1-9]|gpt-5(?!\.)(?!-chat)|gpt-5\.\d+-(codex|pro)|codex|gpt-6"

REASONING_ON_REQUEST = r"gpt-5\.[1-4]"
"""OpenAI models that reason only if an effort is given; later ones reason unless the effort is none"""

OPENAI_EFFORTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"gpt-5\.\d+-chat", ("medium",)),
    (PLAIN, ()),
    (r"gpt-5-pro", ("high",)),
    (r"gpt-5\.[245]-pro", ("medium", "high", "xhigh")),
    (r"gpt-5-codex|gpt-5\.1-codex(?!-max)|codex-mini", ("low", "medium", "high")),
    (r"gpt-5\.1-codex-max", ("none", "low", "medium", "high", "xhigh")),
    (r"gpt-5\.[23]-codex", ("low", "medium", "high", "xhigh")),
    (r"gpt-5\.1", ("none", "low", "medium", "high")),
    (r"gpt-5\.[2345]", ("none", "low", "medium", "high", "xhigh")),
    (r"gpt-5\.[6-9]", ("none", "low", "medium", "high", "xhigh", "max")),
    (r"gpt-5", ("minimal", "low", "medium", "high")),
    (r"gpt-6", ("low", "medium", "high", "xhigh", "max")),
    (r"o[1-9]", ("low", "medium", "high")),
)
"""effort levels of OpenAI models; the first match counts"""

NO_THINKING = r"claude-(2|instant|3-(opus|sonnet|haiku)|3-5)"
BUDGETS_ONLY = r"claude-(3-7|(opus|sonnet)-4(-0|-1|-2025|$|@)|(opus|sonnet|haiku)-4-5)"
CLAUDE_4_6 = r"claude-(opus|sonnet|haiku)-4-6"
FROM_4_7 = r"claude-(opus-4-[78]|(opus|sonnet|haiku)-[5-9]|fable|mythos)"
FROM_4_6 = rf"({CLAUDE_4_6}|{FROM_4_7})"
TAKES_BUDGETS = rf"({BUDGETS_ONLY}|{CLAUDE_4_6})"

OUTPUT_LIMITS: tuple[tuple[str, int], ...] = (
    (r"gpt-4o|chatgpt-4o", 16_384),
    (r"gpt-4\.1", 32_768),
    (r"gpt-4-turbo|gpt-3\.5", 4_096),
    (r"gpt-5", 128_000),
    (r"o[1-9]", 100_000),
    (r"claude-(2|instant|3-(opus|sonnet|haiku))", 4_096),
    (r"claude-3-5", 8_192),
    (r"claude-3-7", 64_000),
    (r"claude-opus-4(-0|-1|-2025|$|@)", 32_000),
    (r"claude-sonnet-4(-0|-2025|$|@)|claude-(opus|sonnet|haiku)-4-5", 64_000),
    (FROM_4_6, 128_000),
)

CLAUDE_EFFORTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"claude-opus-4-5", ("low", "medium", "high")),
    (CLAUDE_4_6, ("low", "medium", "high", "max")),
    (FROM_4_7, ("low", "medium", "high", "xhigh", "max")),
)


def openai_levels(model: str) -> tuple[str, ...] | None:
    """Return the effort levels of an OpenAI model, or None if they are not known."""
    return next((levels for pattern, levels in OPENAI_EFFORTS if matches(pattern, model)), None)


def claude_levels(model: str) -> tuple[str, ...] | None:
    """Return the effort levels of a Claude model, or None if they are not known."""
    return next((levels for pattern, levels in CLAUDE_EFFORTS if matches(pattern, model)), None)


def output_limit(model: str) -> int | None:
    """Return the maximum number of output tokens of a model, or None if it is not known."""
    return next((limit for pattern, limit in OUTPUT_LIMITS if matches(pattern, model)), None)


def reasons(model: str, effort: str | None) -> bool:
    """Return whether an OpenAI model reasons with this effort, or without one."""
    if matches(ALWAYS_REASONING, model):
        return True
    if effort is None:
        return not matches(REASONING_ON_REQUEST, model)
    return effort != "none"
