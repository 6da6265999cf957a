"""The access log: one line per request, written when it is over, as JSON or as text.

Names, counts and times, and the message of the error that the client got; never a prompt, a key or a header.
"""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from trilogue.base.text import sane
from trilogue.gateway.log.lines import LogLine, journal
from trilogue.gateway.log.request_text import request_text
from trilogue.gateway.observer import Observer
from trilogue.gateway.record import RequestRecord
from trilogue.policies import Record
from trilogue.routing.pool.decision import Decision

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
