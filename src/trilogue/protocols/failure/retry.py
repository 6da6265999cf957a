"""When to retry: what an upstream says about it in headers or words, and the headers that say it to clients.

How long an account cools down for it is decided in `pool`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import datetime

from msgspec.structs import replace

from trilogue.model import Failure
from trilogue.protocols.failure.codes import may_pass

_CLOCK = r"(?P<clock>\d\d:\d\d:\d\d)"
_DATES = (
    re.compile(
        rf"\w+, (?P<day>\d\d?)[ -](?P<month>\w+)[ -](?P<year>\d\d(\d\d)?) {_CLOCK} (GMT|UTC|[+-]0000)", re.ASCII
    ),
    re.compile(rf"\w+ (?P<month>\w+) +(?P<day>\d\d?) {_CLOCK} (?P<year>\d\d\d\d)", re.ASCII),
)
"""RFC 9110 §5.6.7: the current form and both old ones. `email.utils` would load the whole mail package."""
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_SAID = re.compile(r"(?:try again|retry) (?:in|after) (?=\d)([\d.hms]+(?:\s*(?:ms|s|sec|seconds?)\b)?)", re.IGNORECASE)
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|h|m|s)", re.IGNORECASE)
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_REMAINING = re.compile(r"(?:x|anthropic)-ratelimit-(?:remaining-(\w+)|([\w-]+)-remaining)")
_RESET_SPAN = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


def retry_after(headers: Mapping[str, str], message: str = "") -> float | None:
    """Return the seconds to wait, from the headers (names in lower case) or else the words of the error; or None.

    A date in `retry-after` counts from the response's own `date`, because this module has no clock. The gateway adds a
    missing `date`.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds:
        return milliseconds / 1000
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is None and value is not None:
        seconds = _until(value, headers.get("date"))
    return _said(message) if seconds is None else seconds


def reset_delay(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds until the limits that are used up are reset, from rate-limit headers; None if they don't say.

    OpenAI: `x-ratelimit-remaining-tokens: 0`, `x-ratelimit-reset-tokens: 6m0.5s`. Anthropic:
    `anthropic-ratelimit-tokens-remaining: 0`, `anthropic-ratelimit-tokens-reset:` a date. `now`: wall clock.
    """
    waits = []
    for name, value in headers.items():
        found = _REMAINING.fullmatch(name.lower())
        if found is None or value.strip() != "0":
            continue
        reset = f"x-ratelimit-reset-{found[1]}" if found[1] else f"anthropic-ratelimit-{found[2]}-reset"
        wait = _until_reset(headers.get(reset, ""), now)
        if wait is not None:
            waits.append(wait)
    return max(waits, default=None)


def with_retry_after(failure: Failure, seconds: float | None) -> Failure:
    """Return a failure with this retry time if it has none."""
    return failure if seconds is None or failure.retry_after is not None else replace(failure, retry_after=seconds)


def _until_reset(text: str, now: float) -> float | None:
    parts = _RESET_SPAN.findall(text)
    if parts and _RESET_SPAN.sub("", text).strip() == "":
        return _seconds(parts)
    try:
        seconds = float(text)
        return max(seconds, 0.0) if math.isfinite(seconds) else None
    except ValueError:
        pass
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if date.tzinfo is None else max(date.timestamp() - now, 0.0)


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _until(value: str, now: str | None) -> float | None:
    end, start = http_date(value), http_date(now or "")
    return None if end is None or start is None else max((end - start).total_seconds(), 0.0)


def http_date(text: str) -> datetime | None:
    """Return the date that an HTTP header holds, in UTC; None if it is not one."""
    found = next((match for form in _DATES if (match := form.fullmatch(text.strip()))), None)
    if found is None or found["month"] not in _MONTHS:
        return None
    year = found["year"] if len(found["year"]) == 4 else f"20{found['year']}"
    month = _MONTHS.index(found["month"]) + 1
    try:
        return datetime.fromisoformat(f"{year}-{month:02}-{found['day']:0>2}T{found['clock']}")
    except ValueError:
        return None


def _said(message: str) -> float | None:
    found = _SAID.search(message)
    return span(found[1]) if found else None


def span(text: str) -> float | None:
    """Return the seconds of a duration as providers write it: 250ms, 7s, 34.07s, 6m0s, 20 seconds."""
    parts = _SPAN.findall(text)
    return _seconds(parts) if parts else None


def _seconds(parts: list[tuple[str, str]]) -> float:
    return sum(float(number) * _UNITS[unit.lower()] for number, unit in parts)


def retry_headers(failure: Failure) -> dict[str, str]:
    """Return the headers by which the official SDKs decide whether and when to retry."""
    if not may_pass(failure):
        return {"x-should-retry": "false"}
    headers = {"x-should-retry": "true"}
    if failure.retry_after is not None:
        headers["retry-after"] = str(math.ceil(max(failure.retry_after, 0)))
    return headers
