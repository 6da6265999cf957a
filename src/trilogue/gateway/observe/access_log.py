"""The access log: one structured line per request, written when it is over.

Names, counts and times; never a prompt, a key or a header.
"""

from __future__ import annotations

from trilogue.gateway.log.lines import LogLine, journal
from trilogue.gateway.observe.observer import Observer
from trilogue.gateway.observe.record import RequestRecord
from trilogue.pool import Decision


class AccessLine(LogLine, kw_only=True, eq=False, gc=False):
    """The line about one request. The names of the fields are those in the log."""

    event: str = "request"
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
    empty: bool
    """the response is complete and has nothing but reasoning"""
    losses: tuple[str, ...]
    ttft_ms: float | None = None
    """time to the first content of a stream"""
    duration_ms: float
    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    decision: Decision | None
    """which accounts were considered and used, and why; None for requests that need no account"""


class AccessLog(Observer):
    """Writes the access log."""

    def request_ended(self, record: RequestRecord) -> None:
        """Write the line about a request."""
        usage, began = record.usage, record.began_at
        line = AccessLine(
            request_id=record.request_id,
            client=record.client,
            path=record.path,
            model=record.model,
            key=record.key,
            provider=record.provider,
            upstream=record.upstream,
            upstream_model=record.upstream_model,
            account=record.account,
            stream=record.stream,
            status=record.status,
            error=record.error,
            empty=record.empty,
            losses=record.loss_codes,
            duration_ms=round((record.ended_at - began) * 1000, 1),
            decision=record.decision,
        )
        if record.content_at is not None:
            line.ttft_ms = round((record.content_at - began) * 1000, 1)
        if usage is not None:
            line.input_tokens, line.cached_tokens, line.output_tokens = usage.input, usage.cache_read, usage.output
        journal.write(line)
