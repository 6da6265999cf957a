"""Prices of other vendors, in US dollars, for their international platforms.

DeepSeek's were read from stored copies of its own page; the others come from packages that list the prices of vendors.
What these packages list differently is left out. So are the prices of OpenRouter, which change with the server that it
chooses, and fees for searches, which most vendors do not report in the usage of a response.
"""

from __future__ import annotations

from trilogue.vendors.prices.price import REGISTRIES, REGISTRIES_DATED, Peak, PriceRow, Rates, rates

_DEEPSEEK = "https://api-docs.deepseek.com/quick_start/pricing"
_PEAK_HOURS = (1, 2, 3, 6, 7, 8, 9)
_GOOGLE = f"{REGISTRIES}; api-evangelist/gemini"


def _row(vendor: str, models: str, listed: str, source: str = REGISTRIES) -> PriceRow:
    names = tuple(models.split())
    return PriceRow(vendor=vendor, models=names, rates=rates(listed), source=source, dated=REGISTRIES_DATED)


def _long(vendor: str, models: str, listed: str, up_to: int, above: Rates) -> PriceRow:
    """Return a row of models with other prices for long requests."""
    return PriceRow(
        vendor=vendor,
        models=tuple(models.split()),
        rates=rates(listed),
        source=REGISTRIES,
        dated=REGISTRIES_DATED,
        up_to=up_to,
        above=above,
    )


def _grok(models: str, listed: str) -> PriceRow:
    """Return a row of models that cost twice as much from 200,000 input tokens on."""
    return _long("xai", models, listed, 199_999, rates(listed).times("2", "2"))


def _deepseek(models: str, off_peak: str) -> PriceRow:
    """Return a row of DeepSeek's own page. At peak hours, everything costs twice as much.

    Chinese public holidays have no peak hours. They are not known here, so that the cost is too high on these days.
    """
    standard = rates(off_peak)
    return PriceRow(
        vendor="deepseek",
        models=tuple(models.split()),
        rates=standard,
        peak=Peak(rates=standard.times("2", "2"), hours=_PEAK_HOURS),
        source=_DEEPSEEK,
        dated="2026-11",
        first_hand=True,
    )


def _gemini_until(models: str, listed: str, until: str, after: str) -> PriceRow:
    return PriceRow(
        vendor="gemini",
        models=tuple(models.split()),
        rates=rates(listed),
        until=until,
        after=rates(after),
        source=_GOOGLE,
        dated=REGISTRIES_DATED,
    )


_VENDORS = (
    _deepseek(
        "deepseek-flash deepseek-v4-flash deepseek-v4-flash-vision-exp", "input=0.15 cache_read=0.003 output=0.6"
    ),
    _deepseek("deepseek-v4-pro", "input=0.66 cache_read=0.022 output=1.98"),
    _gemini_until(
        "gemini-4-argon", "input=2 cache_read=0.1 output=10", "2026-11-30", "input=4 cache_read=0.2 output=20"
    ),
    _gemini_until(
        "gemini-3.8-flash gemini-3.7-flash gemini-3.6-flash gemini-flash-latest",
        "input=0.75 cache_read=0.075 output=3.75",
        "2026-12-31",
        "input=1.5 output=7.5",
    ),
    _row("gemini", "gemini-3.5-flash", "input=1.5 cache_read=0.15 output=9", _GOOGLE),
    _row("gemini", "gemini-3.5-flash-lite gemini-flash-lite-latest", "input=0.3 cache_read=0.03 output=2.5"),
    _long(
        "gemini",
        "gemini-3.1-pro-preview gemini-3.1-pro-preview-customtools gemini-pro-latest",
        "input=2 cache_read=0.2 output=12",
        200_000,
        rates("input=4 cache_read=0.4 output=18"),
    ),
    _row("gemini", "gemini-3.1-flash-lite gemini-3.1-flash-lite-preview", "input=0.25 cache_read=0.025 output=1.5"),
    _row("gemini", "gemini-3-flash-preview", "input=0.5 cache_read=0.05 output=3"),
    _long(
        "gemini",
        "gemini-2.5-pro",
        "input=1.25 cache_read=0.125 output=10",
        200_000,
        rates("input=2.5 cache_read=0.25 output=15"),
    ),
    _row("gemini", "gemini-2.5-flash", "input=0.3 cache_read=0.03 output=2.5"),
    _row("gemini", "gemini-2.5-flash-lite", "input=0.1 cache_read=0.01 output=0.4"),
    _grok("grok-4.7 grok-4.6", "input=2 cache_read=0.5 output=6"),
    _grok("grok-4.5", "input=2 cache_read=0.3 output=6"),
    _grok("grok-4.3 grok-4.20 grok-4.20-reasoning grok-4.20-non-reasoning", "input=1.25 cache_read=0.2 output=2.5"),
    _grok("grok-build-0.1", "input=1 cache_read=0.2 output=2"),
    _row(
        "mistral",
        "mistral-medium-latest mistral-medium-3.5 mistral-medium-3-5 mistral-medium-2604 mistral-medium-3",
        "input=1.5 cache_read=0.15 output=7.5",
    ),
    _row("mistral", "mistral-small-latest mistral-small-2603", "input=0.15 cache_read=0.015 output=0.6"),
    _row("mistral", "codestral-2508", "input=0.3 cache_read=0.03 output=0.9"),
    _row("mistral", "ministral-14b-2512", "input=0.2 cache_read=0.02 output=0.2"),
    _row("mistral", "ministral-8b-latest ministral-8b-2512", "input=0.15 cache_read=0.015 output=0.15"),
    _row("mistral", "ministral-3b-2512", "input=0.1 cache_read=0.01 output=0.1"),
    _row("moonshot", "kimi-k3.1-pro", "input=2 cache_write=2 cache_read=0.2 output=10"),
    _row("moonshot", "kimi-k3", "input=3 cache_write=3 cache_read=0.3 output=15"),
    _row("moonshot", "kimi-k2.7-code", "input=0.95 cache_read=0.19 output=4"),
    _row("moonshot", "kimi-k2.6", "input=0.95 cache_read=0.16 output=4"),
    _row("moonshot", "kimi-k2.5", "input=0.6 cache_read=0.1 output=3"),
    _row("zai", "glm-5.3 glm-5.2 glm-5.1", "input=1.4 cache_read=0.26 output=4.4"),
    _row("zai", "glm-5.3-flash", "input=0.15 cache_read=0.03 output=0.5"),
    _row("zai", "glm-5", "input=1 cache_read=0.2 output=3.2"),
    _row("zai", "glm-4.7 glm-4.6", "input=0.6 cache_read=0.11 output=2.2"),
    _long(
        "minimax",
        "minimax-m3",
        "input=0.3 cache_read=0.06 output=1.2",
        512_000,
        rates("input=0.6 cache_read=0.12 output=2.4"),
    ),
    _row("minimax", "minimax-m2.5 minimax-m2.1 minimax-m2", "input=0.3 cache_write=0.375 cache_read=0.03 output=1.2"),
    _row("qwen", "qwen3.8-max", "input=2 cache_read=0.25 output=6", "litellm 1.109.1"),
    _row("qwen", "qwen3.8-flash", "input=0.15 cache_write=0.2 cache_read=0.016 output=0.47", "litellm 1.109.1"),
    _row("qwen", "qwen3.7-max", "input=2.5 cache_write=3.125 cache_read=0.5 output=7.5", "litellm 1.109.1"),
)
_HOSTS = (
    _row("groq", "gpt-oss-120b", "input=0.15 cache_read=0.075 output=0.6"),
    _row("groq", "gpt-oss-20b", "input=0.075 cache_read=0.0375 output=0.3"),
    _row("groq", "qwen3.8-27b", "input=0.8 output=4"),
    _row("cerebras", "gpt-oss-120b", "input=0.35 output=0.75"),
    _row("cerebras", "qwen-3.8-27b gemma-4-31b", "input=0.99 output=1.49"),
    _row("together", "kimi-k3", "input=3 cache_read=0.3 output=15"),
    _row("together", "glm-5.3 glm-5.2", "input=1.4 cache_read=0.26 output=4.4"),
    _row("together", "glm-5.3-flash", "input=0.15 cache_read=0.03 output=0.5"),
    _row("together", "minimax-m3", "input=0.3 cache_read=0.06 output=1.2"),
    _row("together", "minimax-m3.1-flash", "input=0.15 cache_read=0.015 output=0.6"),
    _row("together", "deepseek-v4-pro-0813", "input=1.32 cache_read=0.13 output=3.96"),
    _row("together", "deepseek-v4.1-flash deepseek-v4.1-flash-1017", "input=0.3 cache_read=0.006 output=1.2"),
    _row("together", "qwen3.8-flash", "input=0.15 output=0.47"),
    _row("together", "qwen3.7-plus", "input=0.32 output=1.28"),
    _row("together", "qwen3.6-plus", "input=0.5 output=3"),
    _row("together", "gpt-oss-120b", "input=0.15 output=0.6"),
    _row("together", "muse-spark-open-816b-a42b", "input=1.25 cache_read=0.15 output=4.25"),
    _row("together", "llama-4-scout-17b-16e-instruct", "input=0.18 output=0.59"),
    _row("fireworks", "kimi-k3", "input=3 cache_read=0.3 output=15"),
    _row("fireworks", "kimi-k3-fast", "input=4.5 cache_read=0.45 output=22.5"),
    _row("fireworks", "kimi-k2p7-code", "input=0.95 cache_read=0.19 output=4"),
    _row("fireworks", "kimi-k2p6", "input=0.95 cache_read=0.16 output=4"),
    _row("fireworks", "kimi-k2p5", "input=0.6 cache_read=0.1 output=3"),
    _row("fireworks", "glm-5p3 glm-5p1", "input=1.4 cache_read=0.26 output=4.4"),
    _row("fireworks", "glm-5p3-fast", "input=2.1 cache_read=0.39 output=6.6"),
    _row("fireworks", "glm-5p3-flash", "input=0.15 cache_read=0.03 output=0.5"),
    _row("fireworks", "glm-5p2", "input=1.4 cache_read=0.14 output=4.4"),
    _row("fireworks", "deepseek-v4p1-flash", "input=0.3 cache_read=0.006 output=1.2"),
    _row("fireworks", "deepseek-v4-flash", "input=0.14 cache_read=0.028 output=0.28"),
    _row("fireworks", "minimax-m3", "input=0.3 cache_read=0.06 output=1.2"),
    _row("fireworks", "qwen3p8-max", "input=2 cache_read=0.25 output=6"),
    _row("fireworks", "qwen3p7-plus", "input=0.4 cache_read=0.08 output=1.6"),
    _row("fireworks", "gpt-oss-120b", "input=0.15 cache_read=0.015 output=0.6"),
    _row("fireworks", "gpt-oss-20b", "input=0.07 cache_read=0.035 output=0.3"),
)

ROWS = (*_VENDORS, *_HOSTS)
