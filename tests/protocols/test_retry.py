"""Retry times: the forms of retry-after dates that HTTP knows, and the reset headers of vendors."""

import pytest

from trilogue.protocols.failure import reset_delay, retry_after

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
def test_date_needs_the_date_of_the_response(now: str) -> None:
    assert retry_after({"retry-after": NOW, "date": now}) is None


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "23m2.4s"}, 1_382.4),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "6ms"}, 0.006),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "1h2m"}, 3_720.0),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "17"}, 17.0),
        (
            {
                "x-ratelimit-remaining-tokens": "0",
                "x-ratelimit-reset-tokens": "2s",
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-requests": "9s",
            },
            9.0,
        ),
        (
            {
                "anthropic-ratelimit-input-tokens-remaining": "0",
                "anthropic-ratelimit-input-tokens-reset": "2026-11-15T10:00:30Z",
            },
            30.0,
        ),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "1d2h"}, 93_600.0),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "0.5"}, 0.5),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "-7"}, 0.0),
        (
            {
                "anthropic-ratelimit-tokens-remaining": "0",
                "anthropic-ratelimit-tokens-reset": "2026-11-15T09:59:30Z",
            },
            0.0,
        ),
        ({"x-ratelimit-remaining-tokens": "5", "x-ratelimit-reset-tokens": "2s"}, None),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "whenever"}, None),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "nan"}, None),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "1e400"}, None),
        ({"x-ratelimit-remaining-tokens": "0"}, None),
        ({}, None),
    ],
)
def test_reset_headers(headers: dict[str, str], wait: float | None) -> None:
    """OpenAI's spans and Anthropic's dates; only of limits that are used up."""
    now = 1_794_736_800.0
    assert reset_delay(headers, now) == (None if wait is None else pytest.approx(wait))
