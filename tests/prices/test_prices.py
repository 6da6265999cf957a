"""Prices are dated, sourced and exact; what is not known has no cost, which is not the same as 0."""

from __future__ import annotations

import re
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pytest

from trilogue.model import Usage
from trilogue.vendors.price import Money, Price, PriceRow
from trilogue.vendors.price_lookup import PriceBook, cost, price_row, prices_table
from trilogue.vendors.table import PRESETS, PRICE_ROWS, PROFILED

MILLION = 1_000_000
DOC = Path(__file__).resolve().parents[2] / "docs" / "prices.md"


def money(usage: Usage, model: str, vendor: str) -> Decimal:
    found = cost(usage, model, vendor)
    assert found is not None
    return found.amount


def test_each_kind_of_token_has_its_own_price() -> None:
    """Claude Sonnet 4.5: 3 fresh, 0.3 read, 3.75 written for 5 minutes, 6 for an hour, 15 output."""
    usage = Usage(fresh=MILLION, cache_read=MILLION, cache_write=2 * MILLION, cache_write_long=MILLION, output=MILLION)
    assert money(usage, "claude-sonnet-4-5-20250929", "anthropic") == Decimal("28.05")


def test_sums_are_exact() -> None:
    """Amounts are decimal: three tenths are three tenths."""
    one = money(Usage(fresh=1, output=1), "gpt-4o-mini", "openai")
    assert sum([one] * 1000, Decimal(0)) == money(Usage(fresh=1000, output=1000), "gpt-4o-mini", "openai")


@pytest.mark.parametrize(
    ("model", "vendor"),
    [
        ("gpt-4o", "azure"),
        ("gpt-4o", ""),
        ("claude-sonnet-4-5", "openrouter"),
        ("gpt-99", "openai"),
        ("gpt-4o-audio-preview", "openai"),
        ("", "openai"),
        ("deepseek-chat", "deepseek"),
    ],
)
def test_unknown_models_and_vendors_have_no_cost(model: str, vendor: str) -> None:
    assert cost(Usage(fresh=10, output=10), model, vendor) is None


def test_tokens_of_a_kind_without_a_price_have_no_cost() -> None:
    """Leaving them out would say less than the bill."""
    assert cost(Usage(fresh=10, cache_write=5, output=1), "gpt-4o", "openai") is None
    assert cost(Usage(fresh=10, searches=1, output=1), "gpt-4o", "openai") is None
    assert cost(Usage(fresh=10, cache_write=5, cache_write_long=5), "claude-fable-5-2", "anthropic") is None
    assert cost(Usage(fresh=10, cache_write=0, searches=0, output=1), "gpt-4o", "openai") is not None


def test_long_requests_cost_more() -> None:
    short, long = Usage(fresh=272_000, output=MILLION), Usage(fresh=272_001, output=MILLION)
    assert money(short, "gpt-6-sol", "openai") == Decimal("0.544") + 10
    assert money(long, "gpt-6-sol", "openai") == Decimal("272001") * 4 / MILLION + 15
    assert money(long, "gpt-5.4", "openai") == Decimal("272001") * 5 / MILLION + Decimal("22.5")


def test_cached_input_counts_towards_the_length() -> None:
    usage = Usage(fresh=1, cache_read=100_000, output=0)
    assert money(usage, "claude-haiku-5-5", "anthropic") == (Decimal("0.5") + 100_000 * Decimal("0.05")) / MILLION


def test_searches_have_a_price() -> None:
    assert money(Usage(searches=3), "claude-opus-4-5", "anthropic") == Decimal("0.03")


def hours(text: str) -> int:
    """Return a time as hours since the epoch."""
    return int(datetime.fromisoformat(text).timestamp()) // 3600


@pytest.mark.parametrize(
    ("when", "dollars"),
    [
        ("2026-11-18T00:59+00:00", "0.15"),
        ("2026-11-18T01:00+00:00", "0.3"),
        ("2026-11-18T05:00+00:00", "0.15"),
        ("2026-11-18T09:59+00:00", "0.3"),
        ("2026-11-21T09:00+00:00", "0.15"),  # a Saturday
    ],
)
def test_prices_of_peak_hours(when: str, dollars: str) -> None:
    found = cost(Usage(fresh=MILLION), "deepseek-flash", "deepseek", hours(when))
    assert found == Money(Decimal(dollars))


def test_prices_that_end() -> None:
    """Then other prices hold, and what they leave open is unknown."""
    last, next_year = hours("2026-12-31T23:00+00:00"), hours("2027-01-01T00:00+00:00")
    assert cost(Usage(fresh=MILLION), "gemini-3.8-flash", "gemini", last) == Money(Decimal("0.75"))
    assert cost(Usage(fresh=MILLION), "gemini-3.8-flash", "gemini", next_year) == Money(Decimal("1.5"))
    assert cost(Usage(cache_read=1), "gemini-3.8-flash", "gemini", next_year) is None


def test_a_provider_states_prices() -> None:
    """An exact name goes before patterns, and both before the table. What is not stated has the price of the input."""
    stated = {"gpt-*": Price(input=1, output=1), "gpt-4o": Price(input=2, cached=0.5, output=4, cache_write=3)}
    book = PriceBook(stated, "openai")
    usage = Usage(fresh=MILLION, cache_read=MILLION, cache_write=2 * MILLION, cache_write_long=MILLION, output=MILLION)
    assert book.cost(usage, "gpt-4o", 0) == Money(Decimal("12.5"))
    assert book.cost(usage, "gpt-4o-mini", 0) == Money(Decimal(5))
    assert book.cost(Usage(output=MILLION), "o4-mini", 0) == Money(Decimal("4.4"))
    assert book.cost(usage, "unheard-of", 0) is None
    assert book.cost(Usage(searches=1), "gpt-4o", 0) is None
    assert PriceBook(stated).cost(usage, "o4-mini", 0) is None


def test_a_price_of_nothing_is_known() -> None:
    """This is how local servers are stated as free."""
    found = PriceBook({"*": Price()}).cost(Usage(fresh=5, cache_read=1, searches=2, output=9), "any", 0)
    assert found == Money(Decimal(0))


def test_stated_prices_are_taken_as_they_are_written() -> None:
    """0.1 + 0.2 is 0.3 here."""
    book = PriceBook({"m": Price(input=0.1, output=0.2)})
    assert book.cost(Usage(fresh=MILLION, output=MILLION), "m", 0) == Money(Decimal("0.3"))


def test_an_estimate_says_so() -> None:
    found = cost(Usage(fresh=1000, output=10, estimated=True), "gpt-4o", "openai")
    assert found == Money(Decimal("0.0026"), estimated=True)
    assert str(found) == "0.002600 USD"


@pytest.mark.parametrize("name", ["claude-sonnet-4.5", "anthropic/claude-sonnet-4-5", "us.anthropic.claude-sonnet-4-5"])
def test_other_spellings_of_a_name(name: str) -> None:
    row = price_row(name, "anthropic")
    assert row is not None
    assert "claude-sonnet-4-5" in row.models


@pytest.mark.parametrize("row", PRICE_ROWS, ids=lambda row: row.models[0])
def test_every_row_is_complete(row: PriceRow) -> None:
    """A source, a month, and prices that make sense; a vendor's own page is named as such."""
    assert row.vendor in {*PROFILED, *PRESETS}
    assert row.source
    assert row.first_hand == row.source.startswith("https://")
    assert re.fullmatch(r"20\d\d-(0[1-9]|1[0-2])", row.dated)
    assert 0 < row.rates.input <= row.rates.output
    assert row.rates.cache_read is None or row.rates.cache_read < row.rates.input
    assert row.rates.cache_write is None or row.rates.cache_write >= row.rates.input
    for other in (row.above, row.after, row.peak.rates if row.peak is not None else None):
        assert other is None or (other.input > row.rates.input and other.output > row.rates.output)


def test_no_model_has_two_prices() -> None:
    names = [(row.vendor, name) for row in PRICE_ROWS for name in row.models]
    assert len(names) == len(set(names))


def test_the_page_has_the_table() -> None:
    assert prices_table() in DOC.read_text("utf-8")
