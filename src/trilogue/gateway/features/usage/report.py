"""Questions to the usage ledger in words, and its sums as JSON, CSV and text."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import msgspec

from trilogue.errors import BadRequest
from trilogue.gateway.features.usage.ledger.live_file import HOUR_SECONDS, HOURS_PER_DAY
from trilogue.gateway.features.usage.ledger.tables import COLUMNS, UsageLine, UsageQuery, total_of
from trilogue.model import Json

FIELDS = {
    "requests": "requests",
    "errors": "errors",
    "input": "input_tokens",
    "fresh": "fresh_tokens",
    "cache_read": "cache_read_tokens",
    "cache_write": "cache_write_tokens",
    "output": "output_tokens",
    "reasoning": "reasoning_tokens",
    "searches": "searches",
    "unmetered": "unmetered_requests",
    "unpriced": "unpriced_requests",
}
"""the counts in JSON and CSV, and what they are called there"""
COST = "cost"
RESERVED = "reserved"

_TITLES = (
    "requests",
    "errors",
    "input",
    "cache read",
    "cache write",
    "hit rate",
    "output",
    "reasoning",
    "cost",
    "unknown cost",
)

encode = msgspec.json.Encoder(decimal_format="number").encode
"""encodes usage, with exact costs"""


def fields_of(line: UsageLine, by: Sequence[str] = ()) -> dict[str, object]:
    """Return a sum as plain data. `cost` is None if no request has a known cost."""
    counts = {**line.counts._asdict(), "input": line.counts.input}
    named: dict[str, object] = dict(zip(by, line.names, strict=True))
    cost = line.cost
    return {
        **named,
        **{shown: counts[name] for name, shown in FIELDS.items()},
        COST: None if cost is None else Decimal(plain(cost)),
        RESERVED: Decimal(plain(line.reserved)),
    }


def usage_json(lines: Sequence[UsageLine], by: Sequence[str], budgets: Sequence[Json]) -> bytes:
    """Return sums and their total as one JSON object, with what is left of budgets."""
    sums, total = [fields_of(line, by) for line in lines], fields_of(total_of(lines))
    return encode({"by": by, "usage": sums, "total": total, "budgets": budgets})


def usage_csv(lines: Sequence[UsageLine], by: Sequence[str]) -> str:
    """Return sums as CSV with a line of titles. A cost that is unknown is empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*by, *FIELDS.values(), COST, RESERVED])
    writer.writerows([_cell(value) for value in fields_of(line, by).values()] for line in lines)
    return out.getvalue()


def usage_text(lines: Sequence[UsageLine], by: Sequence[str]) -> str:
    """Return sums as a table for a terminal, with a line for the total."""
    rows = [(*by, *_TITLES), *(_row(line) for line in lines)]
    if by:
        total = _row(total_of(lines))
        rows.append(("total", *("" for _ in by[1:]), *total))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(_aligned(row, widths, len(by)) for row in rows)


def plain(cost: Decimal) -> str:
    """Return an amount without an exponent and trailing zeros."""
    text = f"{cost:f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) or "0"


def _row(line: UsageLine) -> tuple[str, ...]:
    counts, cost = line.counts, line.cost
    numbers = (counts.requests, counts.errors, counts.input, counts.cache_read, counts.cache_write)
    rate = f"{100 * counts.cache_read / counts.input:.0f} %" if counts.input else ""
    shown = "unknown" if cost is None else f"${cost:,.4f}"
    unknown = f"{counts.unpriced:,}" if counts.unpriced else ""
    rest = (counts.output, counts.reasoning)
    figures = (*(f"{number:,}" for number in numbers), rate, *(f"{number:,}" for number in rest))
    return (*line.names, *figures, shown, unknown)


def _aligned(row: Sequence[str], widths: Sequence[int], names: int) -> str:
    cells = (
        f"{cell:<{width}}" if column < names else f"{cell:>{width}}"
        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    )
    return "  ".join(cells).rstrip()


def _cell(value: object) -> Json | str:
    if isinstance(value, str):
        # Spreadsheets would take a name that begins like this for a formula.
        return f"'{value}" if value[:1] in "=+-@\t\r" and value else value
    return "" if value is None else plain(value) if isinstance(value, Decimal) else str(value)


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
