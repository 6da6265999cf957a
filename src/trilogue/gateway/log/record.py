"""What is known of one call when it is over: one structured line in the access log.

Names, counts and times; never a prompt, a key or a header.
"""

from __future__ import annotations

import time

from trilogue.gateway.log.lines import LogLine, journal, sane
from trilogue.model import Failure, Loss, Usage
from trilogue.pool import Decision


class Record(LogLine, kw_only=True, eq=False, gc=False):
    """Filled in as the call goes on."""

    event: str = "request"
    request_id: str
    client: str = ""
    path: str = ""
    model: str = ""
    key: str = ""
    provider: str = ""
    upstream: str = ""
    upstream_model: str = ""
    account: str = ""
    stream: bool = False
    status: int = 0
    error: str | None = None
    empty: bool = False
    """the answer is complete, and there is nothing in it but reasoning"""
    losses: tuple[str, ...] = ()
    ttft_ms: float | None = None
    """until the first content came, of a streamed answer"""
    duration_ms: float = 0.0
    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    decision: Decision | None = None
    """to whom it was sent and why, if it came so far"""

    def answered(self, usage: Usage | None, losses: list[Loss]) -> None:
        """The answer is complete."""
        if usage is not None:
            self.input_tokens, self.cached_tokens, self.output_tokens = usage.input, usage.cache_read, usage.output
        if losses:
            self.losses = loss_codes(losses)

    def failed(self, failure: Failure) -> None:
        """It was not."""
        self.error = sane(failure.code or failure.kind.value)

    def write(self, started: float) -> None:
        """The line in the log."""
        self.duration_ms = milliseconds(started)
        journal.write(self)


def loss_codes(losses: list[Loss]) -> tuple[str, ...]:
    """What was lost, each once, in order."""
    return tuple(dict.fromkeys([loss.code for loss in losses]))


def milliseconds(since: float) -> float:
    """From a point in monotonic time until now."""
    return round((time.monotonic() - since) * 1000, 1)
