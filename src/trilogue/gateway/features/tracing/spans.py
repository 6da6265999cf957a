"""The spans of one request.

    POST /v1/chat/completions       SERVER: from the first byte of the request to the end of the response
    ├── translate chat>messages     INTERNAL: the translation of the request for one attempt, if it needs one
    ├── chat claude-sonnet-4-6      CLIENT: one attempt, until the end of its response
    └── chat claude-sonnet-4-6      CLIENT: the next one, after a failure

An attempt is a `gen_ai.client.inference` span. `RequestTrace` is for requests that are recorded. For others,
`UnrecordedTrace` passes the trace context on, and nothing else is done.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from msgspec import Struct
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer

from trilogue.base.json_text import LARGE_BYTES
from trilogue.gateway.features.tracing.attributes import (
    ERROR_TYPE,
    FINISH_REASONS,
    OPERATION,
    TIME_TO_FIRST_CHUNK,
    Attributes,
    request_attributes,
    response_attributes,
    server_of,
)
from trilogue.gateway.features.tracing.content import request_content, response_content
from trilogue.gateway.features.tracing.propagation import HeaderChanges, Propagation, below
from trilogue.gateway.observer import ByteObserver
from trilogue.gateway.record import RequestRecord
from trilogue.model import Failure, Protocol, protocol_of
from trilogue.net.client.interface import UpstreamRequest
from trilogue.routing.pool.decision import Attempt

REFUSED = "refused"
"""the type of the error if a target cannot express the request"""
MOST_RESPONSE_BYTES = 4 * 1024 * 1024
"""of a response whose content is wanted; a larger one is recorded without its content"""


class UnrecordedTrace(ByteObserver):
    """A request that is not recorded: upstreams get its trace context, which says so."""

    def __init__(self, span: Span, propagation: Propagation) -> None:
        self._span = span
        self._propagation = propagation

    def upstream_headers(self, attempt: Attempt, request: UpstreamRequest) -> HeaderChanges:
        """Return the trace context for an upstream."""
        return self._propagation.headers(self._span)


class AttemptSpan(Struct, eq=False):
    """An attempt whose request is being sent, or was sent."""

    span: Span
    began_at: float
    began_ns: int
    protocol: Protocol
    body: bytes
    status: int = 0
    settings: asyncio.Future[Attributes] | None = None
    """what is read from a large request in a thread"""

    def end_ns(self) -> int:
        """Return the time of the end, now. It does not depend on changes of the system's clock."""
        return self.began_ns + int((time.monotonic() - self.began_at) * 1e9)


class RequestTrace(ByteObserver):
    """A request that is recorded. `providers`: the names of providers in the conventions."""

    def __init__(
        self,
        record: RequestRecord,
        span: Span,
        began_ns: int,
        tracer: Tracer,
        propagation: Propagation,
        providers: dict[str, str],
    ) -> None:
        self._record = record
        self._span = span
        self._began_ns = began_ns
        self._tracer = tracer
        self._propagation = propagation
        self._providers = providers
        self.context: Context = below(span)
        self._prepared_from = 0
        """when the current attempt began to be prepared"""
        self._attempt: AttemptSpan | None = None
        self._attempts = 0

    def attempt_began(self) -> None:
        """Note that a request is prepared for an attempt."""
        self._prepared_from = time.time_ns()
        self._attempt = None

    def upstream_headers(self, attempt: Attempt, request: UpstreamRequest) -> HeaderChanges:
        """Begin the span of an attempt. Return its trace context for the upstream."""
        current = self._attempt
        # A response that the upstream pauses is continued by another request of the same attempt.
        if current is None:
            current = self._attempt = self._begin(attempt, request)
        return self._propagation.headers(current.span)

    def _begin(self, attempt: Attempt, request: UpstreamRequest) -> AttemptSpan:
        record, now = self._record, time.time_ns()
        if record.upstream != record.client:
            self._translated(now, record.upstream)
        attributes: Attributes = {
            "gen_ai.operation.name": OPERATION,
            "gen_ai.provider.name": self._providers.get(attempt.provider, attempt.provider),
            "gen_ai.request.model": attempt.model,
            **server_of(request.url),
            "trilogue.provider": attempt.provider,
            "trilogue.account": attempt.account,
        }
        if record.stream:
            attributes["gen_ai.request.stream"] = True
        if self._attempts:
            attributes["http.request.resend_count"] = self._attempts
        self._attempts += 1
        name = f"{OPERATION} {attempt.model}"
        span = self._tracer.start_span(name, self.context, SpanKind.CLIENT, attributes, start_time=now)
        protocol = protocol_of(record.upstream)
        begun = AttemptSpan(span, time.monotonic(), now, protocol, request.body)
        if len(request.body) > LARGE_BYTES:
            loop = asyncio.get_running_loop()
            begun.settings = loop.run_in_executor(None, request_attributes, request.body, protocol)
        else:
            span.set_attributes(request_attributes(request.body, protocol))
        return begun

    def _translated(self, now: int, upstream: str, error: str = "") -> None:
        client = self._record.client
        pair = {"trilogue.source": client} | ({"trilogue.target": upstream} if upstream else {})
        name = f"translate {client}>{upstream}" if upstream else f"translate {client}"
        span = self._tracer.start_span(name, self.context, attributes=pair, start_time=self._prepared_from)
        if error:
            _fail(span, error)
        span.end(now)

    def upstream_head(self, attempt: Attempt, status: int, headers: Sequence[tuple[str, str]]) -> None:
        """Note the status of a response."""
        if self._attempt is not None:
            self._attempt.status = status

    def attempt_ended(self, attempt: Attempt, failure: Failure | None) -> None:
        """End the span of an attempt."""
        current, self._attempt = self._attempt, None
        if current is None:
            # The request could not be prepared for its target.
            self._translated(time.time_ns(), "", REFUSED)
            return
        span = current.span
        span.set_attributes(self._outcome(current, attempt, failure))
        if failure is not None:
            _fail(span, failure.kind.value)
        self._end(current)

    def _outcome(self, current: AttemptSpan, attempt: Attempt, failure: Failure | None) -> Attributes:
        record = self._record
        found = response_attributes(record) if current.status and current.status < 300 else {}
        settings = current.settings
        if settings is not None and settings.done() and not settings.cancelled() and settings.exception() is None:
            found |= settings.result()
        if current.status:
            found["http.response.status_code"] = current.status
        if record.content_at is not None:
            found[TIME_TO_FIRST_CHUNK] = record.content_at - current.began_at
            found.setdefault(FINISH_REASONS, ("error",))
        if attempt.action:
            found["trilogue.action"] = attempt.action
        if attempt.why:
            found["trilogue.reason"] = attempt.why
        return found

    def _end(self, current: AttemptSpan) -> None:
        current.span.end(current.end_ns())

    def request_ended(self) -> None:
        """End the span of the request."""
        record, span = self._record, self._span
        span.set_attributes(self._result())
        failure = record.failure
        if failure is not None and (record.status >= 500 or record.status < 400):
            _fail(span, failure.kind.value)
        span.end(self._began_ns + int((record.ended_at - record.began_at) * 1e9))

    def _result(self) -> Attributes:
        record = self._record
        found: Attributes = {"http.response.status_code": record.status}
        for name, value in (
            ("trilogue.model", record.model),
            ("trilogue.provider", record.provider),
            ("trilogue.upstream_protocol", record.upstream),
            ("trilogue.losses", record.loss_codes),
            ("trilogue.error", record.error),
        ):
            if value:
                found[name] = value
        if self._attempts:
            found["trilogue.attempts"] = self._attempts
        if record.content_at is not None:
            found["trilogue.time_to_first_token"] = record.content_at - record.began_at
        return found


def _fail(span: Span, error: str) -> None:
    """Mark a span as failed. Messages of errors are left out: they may quote the request."""
    span.set_attribute(ERROR_TYPE, error)
    span.set_status(StatusCode.ERROR)


class ContentTrace(RequestTrace):
    """A request that is recorded with its messages. `later`: runs a function in a thread, or returns False."""

    later: Callable[[Callable[[], None]], bool]

    def attempt_began(self) -> None:
        """Note that a request is prepared for an attempt."""
        super().attempt_began()
        self._pieces: list[bytes] = []
        self._size = 0

    def upstream_response(self, attempt: Attempt, data: bytes, at: float) -> None:
        """Keep a piece of a response."""
        self._size += len(data)
        if self._size <= MOST_RESPONSE_BYTES:
            self._pieces.append(data)

    def _end(self, current: AttemptSpan) -> None:
        end, pieces = current.end_ns(), self._pieces if self._size <= MOST_RESPONSE_BYTES else []

        def finish() -> None:
            span, protocol = current.span, current.protocol
            span.set_attributes(request_content(current.body, protocol))
            if pieces and current.status < 300:
                span.set_attributes(response_content(b"".join(pieces), protocol))
            span.end(end)

        if not self.later(finish):
            current.span.set_attribute("trilogue.content_dropped", True)
            current.span.end(end)
