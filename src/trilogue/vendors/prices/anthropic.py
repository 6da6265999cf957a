"""Anthropic's prices, in US dollars. Batch, fast mode and regional processing cost something else.

Rows of Anthropic's own page were read from stored copies of it. The copies do not list the newest models, whose prices
come from packages and projects that quote the page. So does the price of web searches.
"""

from __future__ import annotations

from decimal import Decimal

from trilogue.vendors.prices.price import REGISTRIES, REGISTRIES_DATED, PriceRow, Rates, rates

_PAGE = "https://platform.claude.com/docs/en/about-claude/pricing"
_SEARCHES = Decimal(10)


def _row(models: str, listed: str) -> PriceRow:
    """Return a row of Anthropic's own page."""
    return PriceRow(
        vendor="anthropic",
        models=tuple(models.split()),
        rates=rates(listed),
        source=_PAGE,
        dated="2026-11",
        first_hand=True,
        searches=_SEARCHES,
    )


def _quoted(
    models: str, listed: str, source: str = REGISTRIES, *, up_to: int | None = None, above: Rates | None = None
) -> PriceRow:
    """Return a row whose prices were only found elsewhere."""
    return PriceRow(
        vendor="anthropic",
        models=tuple(models.split()),
        rates=rates(listed),
        source=source,
        dated=REGISTRIES_DATED,
        searches=_SEARCHES,
        up_to=up_to,
        above=above,
    )


ROWS = (
    # The sources have no price of cache writes for an hour.
    _quoted(
        "claude-fable-5-2 claude-mythos-5-2",
        "input=8 cache_write=10 cache_read=0.2 output=40",
        "genai-prices 0.2.2; docs.laozhang.ai; vercel.com",
    ),
    _row(
        "claude-fable-5-1 claude-mythos-5-1",
        "input=10 cache_write=12.5 cache_write_long=20 cache_read=0.25 output=50",
    ),
    _row("claude-fable-5 claude-mythos-5", "input=10 cache_write=12.5 cache_write_long=20 cache_read=1 output=50"),
    _quoted("claude-opus-5-5", "input=4 cache_write=5 cache_write_long=8 cache_read=0.2 output=20"),
    _row(
        "claude-opus-5 claude-opus-4-8 claude-opus-4-7 claude-opus-4-6 claude-opus-4-5",
        "input=5 cache_write=6.25 cache_write_long=10 cache_read=0.5 output=25",
    ),
    _row(
        "claude-opus-4-1 claude-opus-4 claude-3-opus",
        "input=15 cache_write=18.75 cache_write_long=30 cache_read=1.5 output=75",
    ),
    # The price of cache reads was halved on 2026-10-07.
    _quoted("claude-sonnet-5-5", "input=2 cache_write=2.5 cache_write_long=4 cache_read=0.1 output=10"),
    _quoted("claude-sonnet-5", "input=2 cache_write=2.5 cache_write_long=4 cache_read=0.2 output=10"),
    _row(
        "claude-sonnet-4-6 claude-sonnet-4-5 claude-sonnet-4 claude-3-7-sonnet",
        "input=3 cache_write=3.75 cache_write_long=6 cache_read=0.3 output=15",
    ),
    _quoted(
        "claude-haiku-5-5",
        "input=0.1 cache_write=0.125 cache_write_long=0.2 cache_read=0.01 output=0.5",
        up_to=100_000,
        above=rates("input=0.5 cache_write=0.625 cache_write_long=1 cache_read=0.05 output=2.5"),
    ),
    _row("claude-haiku-4-5", "input=1 cache_write=1.25 cache_write_long=2 cache_read=0.1 output=5"),
    _row("claude-3-5-haiku", "input=0.8 cache_write=1 cache_write_long=1.6 cache_read=0.08 output=4"),
    _row("claude-3-haiku", "input=0.25 cache_write=0.3 cache_write_long=0.5 cache_read=0.03 output=1.25"),
)
