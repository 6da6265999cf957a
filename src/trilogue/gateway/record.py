"""What is known of one call when it is over: one structured line in the access log.

Names, counts and times; never a prompt, a key or a header.
"""

from __future__ import annotations

import time

import structlog
from msgspec import Struct

from trilogue.gateway.journal import journal, sane
from trilogue.model import Failure, Loss, Usage

log = structlog.get_logger("trilogue.access")


class Record(Struct, kw_only=True):
    """Filled in as the call goes on."""

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
    error: str = ""
    losses: tuple[str, ...] = ()
    usage: Usage | None = None
    started: float = 0.0
    first_token: float | None = None
    """when the first content came, of a streamed answer"""

    def answered(self, usage: Usage | None, losses: list[Loss]) -> None:
        """The answer is complete."""
        self.usage = usage
        self.losses = tuple(dict.fromkeys(loss.code for loss in losses))

    def failed(self, failure: Failure) -> None:
        """It was not."""
        self.error = sane(failure.code or failure.kind.value)

    def write(self) -> None:
        """The line in the log."""
        journal.write(log, "request", self._line(time.monotonic()))

    def _line(self, now: float) -> _Line:
        usage = self.usage
        return _Line(
            request_id=self.request_id,
            client=self.client,
            path=sane(self.path),
            model=sane(self.model),
            key=self.key,
            provider=self.provider,
            upstream=self.upstream,
            upstream_model=self.upstream_model,
            account=self.account,
            stream=self.stream,
            status=self.status,
            error=self.error or None,
            losses=self.losses,
            ttft_ms=None if self.first_token is None else round((self.first_token - self.started) * 1000, 1),
            duration_ms=round((now - self.started) * 1000, 1),
            input_tokens=usage.input if usage else None,
            cached_tokens=usage.cache_read if usage else None,
            output_tokens=usage.output if usage else None,
        )


class _Line(Struct, kw_only=True):
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
    losses: tuple[str, ...]
    ttft_ms: float | None
    duration_ms: float
    input_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
