"""OpenAI's prices for standard processing, in US dollars. Batch, Flex, Fast and regional processing cost other prices.

Rows of OpenAI's own pages were read from stored copies of them; the others come from packages that list OpenAI's
prices. Hosted tools have a fee per call that the usage of a response does not show, so it is not part of any
cost here.
"""

from __future__ import annotations

from trilogue.vendors.prices.price import REGISTRIES, REGISTRIES_DATED, PriceRow, rates

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


def _quoted(models: str, listed: str, *, long: bool = False) -> PriceRow:
    """Return a row whose prices were only found elsewhere. `long`: long requests cost more, as in `_tiered`."""
    standard = rates(listed)
    return PriceRow(
        vendor="openai",
        models=tuple(models.split()),
        rates=standard,
        source=REGISTRIES,
        dated=REGISTRIES_DATED,
        up_to=_LONG if long else None,
        above=standard.times("2", "1.5") if long else None,
    )


ROWS = (
    _quoted("gpt-6.1-sol", "input=2 cache_read=0.1 cache_write=2.5 output=10", long=True),
    _quoted("gpt-6.1-terra", "input=1 cache_read=0.05 cache_write=1.25 output=5", long=True),
    _tiered("gpt-6-sol", "input=2 cache_read=0.2 cache_write=2.5 output=10"),
    _tiered("gpt-6-luna", "input=0.1 cache_read=0.01 cache_write=0.125 output=0.5"),
    _quoted("gpt-6-astra", "input=10 cache_read=1 cache_write=12.5 output=50", long=True),
    _quoted("gpt-6-rosalind", "input=15 cache_read=1.5 cache_write=18.75 output=75", long=True),
    _quoted("gpt-5.6-sol gpt-5.6", "input=4 cache_read=0.4 cache_write=5 output=20", long=True),
    _tiered("gpt-5.6-terra", "input=2 cache_read=0.2 cache_write=2.5 output=12"),
    _tiered("gpt-5.6-luna", "input=0.2 cache_read=0.02 cache_write=0.25 output=1.2"),
    _quoted("gpt-5.5", "input=5 cache_read=0.5 output=30", long=True),
    _quoted("gpt-5.5-pro gpt-5.4-pro", "input=30 output=180", long=True),
    _quoted("gpt-5.4", "input=2.5 cache_read=0.25 output=15", long=True),
    _quoted("gpt-5.4-mini", "input=0.75 cache_read=0.075 output=4.5"),
    _quoted("gpt-5.4-nano", "input=0.2 cache_read=0.02 output=1.25"),
    _quoted("gpt-5.2 gpt-5.2-chat gpt-5.2-codex gpt-5.3-chat gpt-5.3-codex", "input=1.75 cache_read=0.175 output=14"),
    _quoted("gpt-5.2-pro", "input=21 output=168"),
    _quoted(
        "gpt-5.1 gpt-5.1-chat gpt-5.1-codex gpt-5.1-codex-max gpt-5 gpt-5-chat gpt-5-codex",
        "input=1.25 cache_read=0.125 output=10",
    ),
    _quoted("gpt-5-pro", "input=15 output=120"),
    _quoted("gpt-5.1-codex-mini gpt-5-mini", "input=0.25 cache_read=0.025 output=2"),
    _row("gpt-5-nano", "input=0.05 cache_read=0.005 output=0.4"),
    _quoted("gpt-4.1 o3", "input=2 cache_read=0.5 output=8"),
    _quoted("gpt-4.1-mini", "input=0.4 cache_read=0.1 output=1.6"),
    _quoted("gpt-4.1-nano", "input=0.1 cache_read=0.025 output=0.4"),
    _quoted("gpt-4o", "input=2.5 cache_read=1.25 output=10"),
    _quoted("gpt-4o-mini", "input=0.15 cache_read=0.075 output=0.6"),
    _quoted("o4-mini", "input=1.1 cache_read=0.275 output=4.4"),
    _quoted("o3-mini", "input=1.1 cache_read=0.55 output=4.4"),
    _quoted("o3-pro", "input=20 output=80"),
    _quoted("o1", "input=15 cache_read=7.5 output=60"),
)
