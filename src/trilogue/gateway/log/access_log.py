"""The access log: one line per request, written when it is over, as JSON or as text.

Names, counts and times, and the message of the error that the client got; never a prompt, a key or a header.
"""

from __future__ import annotations

import time
from collections import Counter
from datetime import datetime

from msgspec import Struct

from trilogue.base.text import printable, sane
from trilogue.gateway.log.lines import CLOCK, LogLine, TextStyle, journal
from trilogue.gateway.observer import Observer
from trilogue.gateway.record import RequestRecord
from trilogue.policies import Record
from trilogue.routing.pool.decision import Decision

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


MOST_POLICIES = 20


class VerdictLine(Struct, frozen=True):
    """A decision of a policy in the log. It holds no content."""

    policy: str
    stage: str
    verdict: str
    reason: str
    block: int | None
    kind: str
    duration_ms: float


class AccessLine(LogLine, kw_only=False, eq=False, gc=False):
    """The line about one request. The names and the order of the fields are those in the log."""

    event: str
    level: str
    timestamp: datetime | None
    request_id: str
    client: str
    path: str
    model: str
    key: str
    provider: str
    upstream: str
    upstream_model: str
    account: str
    stream: bool
    status: int
    error: str | None
    reason: str | None
    """the error's message"""
    empty: bool
    """the response is complete and has nothing but reasoning"""
    losses: tuple[str, ...]
    policies: list[VerdictLine] | None
    """what policies changed, stopped or failed to decide; None if that is nothing"""
    ttft_ms: float | None
    """time to the first content of a stream"""
    duration_ms: float
    input_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
    decision: Decision | None
    """which accounts were considered and used, and why; None for requests that need no account"""
    parent: str | None
    """the request whose policy has made this one; None if a client has"""


class AccessLog(Observer):
    """An observer that writes one line to the access log for each request that has ended."""

    def request_ended(self, record: RequestRecord) -> None:
        """Write the line about a request."""
        failed = record.status >= 400 or record.error is not None
        level = level_of(record) if failed else "info"
        if journal.text is not None:
            journal.write_text(level, request_text(record, level, journal.text))
            return
        usage, began, content, failure = record.usage, record.began_at, record.content_at, record.failure
        # Positional arguments: with names, making the line takes three times as long, for every request.
        line = AccessLine(
            "request",
            level,
            None,
            record.request_id,
            record.client,
            record.path,
            record.model,
            record.key,
            record.provider,
            record.upstream,
            record.upstream_model,
            record.account,
            record.stream,
            record.status,
            record.error,
            None if failure is None else sane(failure.message),
            record.empty,
            record.loss_codes,
            policy_lines(record.policies) if record.policies else None,
            None if content is None else round((content - began) * 1000, 1),
            round((record.ended_at - began) * 1000, 1),
            None if usage is None else usage.input,
            None if usage is None else usage.cache_read,
            None if usage is None else usage.output,
            record.decision,
            record.parent or None,
        )
        journal.write(line)


def policy_lines(records: list[Record]) -> list[VerdictLine] | None:
    """Return the first decisions that were not simply to let something pass."""
    lines = [
        VerdictLine(one.policy, one.stage, one.verdict, one.reason, one.block, one.kind, round(one.seconds * 1000, 1))
        for one in records
        if one.verdict != "pass"
    ]
    return lines[:MOST_POLICIES] or None


def level_of(record: RequestRecord) -> str:
    """Return the level of a request that did not succeed: error for 5xx, warning for 4xx.

    An error inside a stream counts as the status that it would have had. A client that disconnects is nothing to warn
    about: people stop agents all the time.
    """
    failure = record.failure
    if failure is None:
        return "info" if record.error is not None else _level(record.status)
    return _level(record.status if record.status >= 400 else failure.status or 500)


def _level(status: int) -> str:
    return "info" if status < 400 else "warning" if status < 500 else "error"
