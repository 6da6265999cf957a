"""When to retry: reads the time from an upstream's headers or text, and writes the headers for clients."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import datetime

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
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


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
    return sum(float(number) * _UNITS[unit.lower()] for number, unit in parts) if parts else None


def retry_headers(failure: Failure) -> dict[str, str]:
    """Return the headers by which the official SDKs decide whether and when to retry."""
    if not may_pass(failure):
        return {"x-should-retry": "false"}
    headers = {"x-should-retry": "true"}
    if failure.retry_after is not None:
        headers["retry-after"] = str(math.ceil(max(failure.retry_after, 0)))
    return headers
