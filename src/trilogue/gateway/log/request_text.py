"""One request as one short line of text, for people who watch the gateway in a terminal.

12:10:05 200 messages→chat claude-sonnet-4-6 → deepseek/deepseek-chat 1.2s 11.2k→560 lost: cache.mark, phase
"""

from __future__ import annotations

import time
from collections import Counter

from trilogue.base.text import printable
from trilogue.gateway.log.lines import CLOCK, TextStyle
from trilogue.gateway.record import RequestRecord

MAX_NAME = 100
MAX_LOSSES = 5
TIMES = "\N{MULTIPLICATION SIGN}"
_ANSI = {"dim": "2", "info": "32", "warning": "33", "error": "31"}
"""by level: green, yellow, red"""


def request_text(record: RequestRecord, level: str, style: TextStyle) -> str:
    """Return the line about a request that is over, without a line break."""

    def coloured(text: str, colour: str) -> str:
        return f"\x1b[{_ANSI[colour]}m{text}\x1b[0m" if style.colours else text

    parts = [
        coloured(time.strftime(CLOCK), "dim"),
        coloured(str(record.status), level),
        _protocols(record),
        _names(record),
        duration(record.ended_at - record.began_at),
        _attempts(record),
        _tokens(record),
        coloured(lost, "warning") if (lost := _losses(record)) else "",
        coloured(decided, "warning") if (decided := _policies(record)) else "",
        coloured(reason, level) if (reason := _reason(record)) else "",
        coloured(f"for {record.parent}", "dim") if record.parent else "",
        coloured(record.request_id, "dim") if level != "info" else "",
    ]
    return " ".join([part for part in parts if part])


def duration(seconds: float) -> str:
    """Return a duration such as 340ms, 1.2s or 2m05s."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 59.95:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest:02d}s"


def count(tokens: int) -> str:
    """Return a number of tokens such as 560, 11.2k or 1.3M."""
    if tokens < 1_000:
        return str(tokens)
    return f"{tokens / 1_000:.1f}k" if tokens < 999_950 else f"{tokens / 1_000_000:.1f}M"


def _protocols(record: RequestRecord) -> str:
    return f"{record.client}→{record.upstream}" if record.upstream not in ("", record.client) else record.client


def _names(record: RequestRecord) -> str:
    """Return what was asked for and where it went, once if both are the same."""
    asked = _short(record.model or record.path)
    if not record.provider:
        return asked
    used = _short(f"{record.provider}/{record.upstream_model}")
    return used if used == asked else f"{asked} → {used}"


def _short(text: str) -> str:
    return printable(text if len(text) <= MAX_NAME else f"{text[:MAX_NAME]}…")


def _attempts(record: RequestRecord) -> str:
    made = len(record.decision.attempts) if record.decision is not None else 0
    return f"{made} attempts" if made > 1 else ""


def _tokens(record: RequestRecord) -> str:
    usage = record.usage
    return "" if usage is None else f"{count(usage.input)}→{count(usage.output)}"


def _losses(record: RequestRecord) -> str:
    counts = Counter(loss.code for loss in record.losses)
    shown = [code if times == 1 else f"{code}{TIMES}{times}" for code, times in list(counts.items())[:MAX_LOSSES]]
    more = [f"and {len(counts) - MAX_LOSSES} more"] if len(counts) > MAX_LOSSES else []
    return f"lost: {', '.join([*shown, *more])}" if counts else ""


def _policies(record: RequestRecord) -> str:
    """Return which policies did something, and what."""
    decided = Counter(f"{one.policy} {one.verdict}" for one in record.policies if one.verdict != "pass")
    shown = [what if times == 1 else f"{what}{TIMES}{times}" for what, times in decided.items()]
    return f"policies: {', '.join(shown[:MAX_LOSSES])}" if shown else ""


def _reason(record: RequestRecord) -> str:
    """Return the code of an error and its message."""
    if record.failure is None:
        return record.error or ""
    return printable(f"{record.error}: {' '.join(record.failure.message[:300].split())}")
