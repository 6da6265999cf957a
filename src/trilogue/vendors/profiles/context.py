"""Context windows of models. Nothing is fitted to them: lists of models show them to clients."""

from __future__ import annotations

from trilogue.vendors.profiles.profile import ProfileRow

_SOURCE = "anomalyco/models.dev"


def _row(vendors: str, models: str, tokens: int, example: str) -> ProfileRow:
    return ProfileRow(
        vendors=vendors,
        protocols="messages" if vendors == "anthropic" else "chat responses" if "openai" in vendors else "chat",
        models=models,
        takes={"context_window": tokens},
        what=f"a context window of {tokens:,} tokens",
        sure="several",
        sources=(_SOURCE,),
        example=example,
    )


ROWS = (
    _row("openai azure", r"gpt-3\.5", 16_385, "gpt-3.5-turbo"),
    _row("openai azure", r"gpt-4o|chatgpt-4o|gpt-4-turbo|gpt-5(\.\d+)?-chat", 128_000, "gpt-4o"),
    _row("openai azure", r"gpt-4\.1", 1_047_576, "gpt-4.1"),
    _row("openai azure", r"o1-(mini|preview)", 128_000, "o1-mini"),
    _row("openai azure", r"o[1-9]", 200_000, "o3"),
    _row("openai azure", r"gpt-5(\.[1-3])?(-|$)", 400_000, "gpt-5.2"),
    _row("openai azure", r"gpt-5\.[4-9](?!-(mini|nano))|gpt-6", 1_050_000, "gpt-5.5"),
    _row("anthropic", r"claude-(3|(opus|sonnet)-4(-0|-1|-5|-2025|$|@)|haiku-4)", 200_000, "claude-opus-4-5"),
    _row(
        "anthropic",
        r"claude-(opus|sonnet)-4-[6-9]|claude-(opus|sonnet|haiku)-[5-9]|claude-(fable|mythos)",
        1_000_000,
        "claude-sonnet-5",
    ),
    _row("deepseek", r"deepseek-(chat|reasoner|v[4-9])", 1_000_000, "deepseek-chat"),
    _row("gemini", r"gemini-2\.[05]-(pro|flash)", 1_048_576, "gemini-2.5-pro"),
    _row("gemini", r"gemini-3", 1_000_000, "gemini-3-pro-preview"),
    _row("xai", r"grok-4\.[3-9]", 1_000_000, "grok-4.3"),
    _row("xai", r"grok-4($|-0)", 256_000, "grok-4"),
    _row("moonshot", r"kimi-k2", 262_144, "kimi-k2.5"),
    _row("moonshot", r"kimi-k3", 1_048_576, "kimi-k3"),
    _row("mistral", r"mistral-large", 262_144, "mistral-large-latest"),
)
