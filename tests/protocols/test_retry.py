"""Dates in retry-after: all forms that HTTP knows, and nothing else."""

import pytest

from trilogue.protocols.failure.retry import retry_after

NOW = "Sun, 15 Nov 2026 10:00:00 GMT"


@pytest.mark.parametrize(
    ("date", "seconds"),
    [
        ("Sun, 15 Nov 2026 10:00:20 GMT", 20.0),
        ("Sun, 15 Nov 2026 10:00:20 UTC", 20.0),
        ("Sun, 15 Nov 2026 10:00:20 +0000", 20.0),
        (" Sun, 15 Nov 2026 10:00:20 GMT ", 20.0),
        ("Mon, 16 Nov 2026 10:00:00 GMT", 86_400.0),
        ("Tue, 1 Dec 2026 10:00:00 GMT", 16 * 86_400.0),
        ("Sunday, 15-Nov-26 10:01:00 GMT", 60.0),
        ("Sun Nov 15 10:01:00 2026", 60.0),
        ("Tue Dec  1 10:00:00 2026", 16 * 86_400.0),
        ("Sun, 15 Nov 2026 09:00:00 GMT", 0.0),
        ("Sun, 15 Nov 2026 10:00:20 PST", None),
        ("Sun, 15 Nov 2026 25:00:20 GMT", None),
        ("Sun, 31 Nov 2026 10:00:20 GMT", None),
        ("Sun, 15 Nev 2026 10:00:20 GMT", None),
        ("Sun, 15 Nov 0000 10:00:20 GMT", None),
        ("Sun, 15 Nov 2026 10:00:20 GMT, or later", None),
        ("Sun, 1\u0665 Nov 2026 10:00:20 GMT", None),
        ("soon", None),
        ("", None),
    ],
)
def test_date(date: str, seconds: float | None) -> None:
    assert retry_after({"retry-after": date, "date": NOW}) == seconds


@pytest.mark.parametrize("now", ["", "now", "Sun, 15 Nov 2026"])
def test_date_needs_the_date_of_the_answer(now: str) -> None:
    assert retry_after({"retry-after": NOW, "date": now}) is None
