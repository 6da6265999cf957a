"""DeepSeek. Prices were read from stored copies of its own page."""

from __future__ import annotations

from trilogue.vendors.price import Peak, PriceRow, rates
from trilogue.vendors.profile import ALL_MODELS, ProfileRow, context_window, levels
from trilogue.vendors.vendor import CHAT, MESSAGES, ModelFamily, Preset, Vendor

_PAGE = "https://api-docs.deepseek.com/quick_start/pricing"
_PEAK_HOURS = (1, 2, 3, 6, 7, 8, 9)

_PROFILES = (
    ProfileRow(
        vendors="deepseek",
        protocols="chat",
        models=r"deepseek-reasoner",
        takes={"reasons": "always", "efforts": (), "thinking_switch": "", "prefill": False, "user_speaks_last": True},
        what="always reasons; the last message must be from the user or a tool",
        sure="once",
        sources=("langgenius/dify#16860",),
        example="deepseek-reasoner",
    ),
    ProfileRow(
        vendors="deepseek",
        protocols="chat",
        models=r"deepseek-v[4-9]",
        takes={"reasons": "default", "thinking_switch": "thinking", "efforts": levels("low high max")},
        what="reasons unless thinking is disabled; effort low, high or max",
        sure="documented",
        sources=("page: Thinking Mode, DeepSeek API Docs", "nextai-translator/nextai-translator#1879"),
        example="deepseek-v4-flash",
    ),
    ProfileRow(
        vendors="deepseek",
        protocols="chat",
        models=r"deepseek-(v[4-9]|reasoner)",
        takes={"forced_tool_thinking": False},
        what="no forced tool choice while reasoning",
        sure="several",
        sources=("deepseek-ai/DeepSeek-V3#1376", "cloudwego/eino#994", "BerriAI/litellm#31466"),
        example="deepseek-v4-flash",
    ),
    ProfileRow(
        vendors="deepseek",
        protocols="chat",
        models=ALL_MODELS,
        takes={
            "reasons": "asked",
            "thinking_switch": "thinking",
            "efforts": (),
            "reasoning_field": "reasoning_content",
        },
        what="earlier reasoning is sent back as reasoning_content; thinking is on or off",
        sure="several",
        sources=("danny-avila/LibreChat#12836", "JohnnyZ93/oai-compatible-copilot#215"),
        example="deepseek-chat",
    ),
    ProfileRow(
        vendors="deepseek",
        protocols="chat",
        models=ALL_MODELS,
        takes={"json_schema": False, "json_word": True},
        what="no json_schema, only json_object, which requires the word json in the messages",
        sure="documented",
        sources=("llm-exe/llm-exe#662", "UKGovernmentBEIS/inspect_ai#4916", "BerriAI/litellm#31466"),
        example="deepseek-chat",
    ),
    ProfileRow(
        vendors="deepseek",
        protocols="chat",
        models=r"deepseek-(chat|reasoner|coder|v\d|r\d)",
        takes={"images": False, "audio": False},
        what="text only",
        sure="documented",
        sources=("rec: deepseek-v4-flash, unknown variant `image_url`, expected `text`",),
        example="deepseek-chat",
    ),
    context_window("deepseek", r"deepseek-(chat|reasoner|v[4-9])", 1_000_000, "deepseek-chat"),
)


def _listed(models: str, off_peak: str) -> PriceRow:
    """Return a row of DeepSeek's own page. At peak hours, everything costs twice as much.

    Chinese public holidays have no peak hours. They are not known here, so that the cost is too high on these days.
    """
    standard = rates(off_peak)
    return PriceRow(
        vendor="deepseek",
        models=tuple(models.split()),
        rates=standard,
        peak=Peak(rates=standard.times("2", "2"), hours=_PEAK_HOURS),
        source=_PAGE,
        dated="2026-11",
        first_hand=True,
    )


_PRICES = (
    _listed("deepseek-flash deepseek-v4-flash deepseek-v4-flash-vision-exp", "input=0.15 cache_read=0.003 output=0.6"),
    _listed("deepseek-v4-pro", "input=0.66 cache_read=0.022 output=1.98"),
)

VENDOR = Vendor(
    name="deepseek",
    preset=Preset(
        name="deepseek",
        urls={CHAT: "https://api.deepseek.com", MESSAGES: "https://api.deepseek.com/anthropic"},
        variable="DEEPSEEK_API_KEY",
        model="deepseek-v4-flash",
    ),
    hosts=r"api\.deepseek\.com",
    models=r"deepseek",
    # Names with a tag (`deepseek-r1:8b`) are those of open weights on a server such as Ollama.
    families=(ModelFamily("deepseek-*", r"deepseek-[^:/]+"),),
    profiles=_PROFILES,
    prices=_PRICES,
)
