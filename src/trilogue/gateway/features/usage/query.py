"""Questions to the usage ledger in words, as the command and the admin interface take them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from trilogue.errors import BadRequest
from trilogue.gateway.features.usage.ledger.counts import HOUR_SECONDS, HOURS_PER_DAY
from trilogue.gateway.features.usage.ledger.reading import COLUMNS, UsageQuery

SINCE = "7d"
BY = "model"
ALL = "all"
FILTERS = ("key", "owner", "model", "upstream_model", "provider", "account")
_AGO = re.compile(r"(\d{1,5})([hdw])")
_HOURS = {"h": 1, "d": HOURS_PER_DAY, "w": 7 * HOURS_PER_DAY}


def usage_query(asked: Mapping[str, str], now: float) -> UsageQuery:
    """Return the query for `by`, `since`, `until` and the names of `FILTERS`. Raises BadRequest.

    `7d` begins with the day that was seven days ago, `24h` with the hour that was 24 hours ago. `until` includes its
    day. All times are UTC. `now`: seconds since the epoch.
    """
    for name in asked:
        if name not in ("by", "since", "until", *FILTERS):
            raise _bad(f"there is no such parameter; use by, since, until, {', '.join(FILTERS)}")
    by = tuple(dict.fromkeys(part.strip() for part in asked.get("by", BY).split(",") if part.strip()))
    for name in by:
        if name not in COLUMNS:
            raise _bad(f"`by` must be some of {', '.join(COLUMNS)}, separated by commas")
    only = {name: asked[name] for name in FILTERS if name in asked}
    if "/" in only.get("account", ""):
        only["provider"], _, only["account"] = only["account"].partition("/")
    query = UsageQuery(by=by, start=_start(asked.get("since", SINCE), now), only=only)
    if not asked.get("until"):
        return query
    end = _hour_of_date(asked["until"])
    if end is None:
        raise _bad("`until` must be a date such as 2026-11-01")
    if end + HOURS_PER_DAY <= query.start:
        raise _bad("`until` is before `since` (7d if it is not given)")
    return UsageQuery(by=by, start=query.start, end=end + HOURS_PER_DAY, only=only)


def _start(text: str, now: float) -> int:
    if text == ALL:
        return 0
    found, this_hour = _AGO.fullmatch(text), int(now) // HOUR_SECONDS
    if found is not None:
        start = this_hour - int(found[1]) * _HOURS[found[2]]
        return max(0, start if found[2] == "h" else start - start % HOURS_PER_DAY)
    date = _hour_of_date(text)
    if date is None:
        raise _bad("`since` must be a time ago such as 24h, 7d or 4w, a date such as 2026-11-01, or all")
    return date


def _bad(message: str) -> BadRequest:
    return BadRequest(message, code="bad_query")


def _hour_of_date(text: str) -> int | None:
    """Return the first hour of a day, in hours since the epoch; None if it is not a date."""
    try:
        date = datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        return None
    return (date - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(hours=1)
