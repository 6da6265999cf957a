"""OpenAI's prices for standard processing, in US dollars. Batch, Flex, Fast and regional processing cost other prices.

Rows of OpenAI's own pages were read from stored copies of them; the others come from projects and resellers that list
OpenAI's prices. Hosted tools have a fee per call that the usage of a response does not show, so it is not part of any
cost here.
"""

from __future__ import annotations

from trilogue.prices.price import PriceRow, rates

_MODELS = "https://developers.openai.com/api/docs/models/"
_LONG = 272_000
"""input tokens from which the newer models cost more"""


def _row(model: str, listed: str) -> PriceRow:
    """Return a row of OpenAI's own page about a model."""
    return PriceRow(
        vendor="openai",
        models=(model,),
        rates=rates(listed),
        source=_MODELS + model,
        dated="2026-11",
        first_hand=True,
    )


def _tiered(model: str, listed: str) -> PriceRow:
    """Return a row of OpenAI's own page, for a model with higher prices for long requests.

    The pages say: twice the input and the cache, and 1.5 times the output, for the whole request.
    """
    standard = rates(listed)
    return PriceRow(
        vendor="openai",
        models=(model,),
        rates=standard,
        up_to=_LONG,
        above=standard.times("2", "1.5"),
        source=_MODELS + model,
        dated="2026-11",
        first_hand=True,
    )


def _quoted(models: str, listed: str, source: str, dated: str, *, up_to: int | None = None) -> PriceRow:
    """Return a row whose prices were only found elsewhere. `up_to`: longer requests have an unknown price."""
    return PriceRow(
        vendor="openai", models=tuple(models.split()), rates=rates(listed), source=source, dated=dated, up_to=up_to
    )


ROWS = (
    PriceRow(
        vendor="openai",
        models=("gpt-6.1-sol",),
        rates=rates("input=2 cache_read=0.1 output=10"),
        up_to=_LONG,
        above=rates("input=4 cache_read=0.2 output=15"),
        source="amine123max/Codex-Manager 0.4.7",
        dated="2026-09",
    ),
    _tiered("gpt-6-sol", "input=2 cache_read=0.2 cache_write=2.5 output=10"),
    _tiered("gpt-6-luna", "input=0.1 cache_read=0.01 cache_write=0.125 output=0.5"),
    _quoted("gpt-6-astra", "input=10 cache_read=1 output=50", "TheKrush/PromptFuel v1.0.19", "2026-09", up_to=_LONG),
    _quoted(
        "gpt-5.6-sol gpt-5.6",
        "input=4 cache_read=0.4 output=20",
        "BerriAI/litellm discussion 42523; cache reads: docs.apiyi.com",
        "2026-09",
        up_to=_LONG,
    ),
    _tiered("gpt-5.6-terra", "input=2 cache_read=0.2 cache_write=2.5 output=12"),
    _tiered("gpt-5.6-luna", "input=0.2 cache_read=0.02 cache_write=0.25 output=1.2"),
    _quoted("gpt-5.5", "input=5 cache_read=0.5 output=30", "docs.apiyi.com", "2026-11", up_to=_LONG),
    _quoted("gpt-5.4", "input=2.5 cache_read=0.25 output=15", "docs.rs: adk-model 0.6.0", "2026-03", up_to=_LONG),
    _quoted("gpt-5.4-mini", "input=0.75 cache_read=0.075 output=4.5", "docs.rs: adk-model 0.6.0", "2026-03"),
    _quoted("gpt-5.4-nano", "input=0.2 output=1.25", "dev.to: GPT-5.4 mini pricing", "2026-03"),
    _quoted("gpt-5.2", "input=1.75 cache_read=0.175 output=14", "github/docs: prices of Copilot", "2026-11"),
    _quoted("gpt-5.1", "input=1.25 cache_read=0.125 output=10", "Expensify/App: chatGPTCostEstimator.ts", "2026-11"),
    _quoted("gpt-5", "input=1.25 cache_read=0.125 output=10", "docs.rs: openai-cost 0.1.0", "2026-06"),
    _quoted("gpt-5-mini", "input=0.25 cache_read=0.025 output=2", "github/docs: prices of Copilot", "2026-11"),
    _row("gpt-5-nano", "input=0.05 cache_read=0.005 output=0.4"),
    _quoted("gpt-4.1", "input=2 cache_read=0.5 output=8", "github/docs: prices of Copilot", "2026-11"),
    # The cached input of this family costs a quarter, by docs.rs: adk-model 0.6.0.
    _quoted("gpt-4.1-mini", "input=0.4 cache_read=0.1 output=1.6", "tokenmath.io", "2026-06"),
    _quoted("gpt-4.1-nano", "input=0.1 cache_read=0.025 output=0.4", "deploybase.ai", "2026-03"),
    _quoted(
        "gpt-4o",
        "input=2.5 cache_read=1.25 output=10",
        "deploybase.ai; cache reads: docs.rs: openai-models 0.1.1",
        "2026-03",
    ),
    _quoted(
        "gpt-4o-mini",
        "input=0.15 cache_read=0.075 output=0.6",
        "deploybase.ai; cache reads: docs.rs: openai-models 0.1.1",
        "2026-03",
    ),
    _quoted("o4-mini", "input=1.1 cache_read=0.275 output=4.4", "RooCodeInc/Roo-Code#2691", "2025-04"),
)
