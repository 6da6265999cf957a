"""The observer that makes traces. One per worker, made after the fork."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import BoundedSemaphore

import structlog
from opentelemetry.context import Context
from opentelemetry.trace import SpanKind

from trilogue.gateway.features.tracing.attributes import Attributes, provider_names, route_of
from trilogue.gateway.features.tracing.export import SpanExport
from trilogue.gateway.features.tracing.propagation import BAGGAGE, Propagation, parent_of
from trilogue.gateway.features.tracing.settings import TracingSettings
from trilogue.gateway.features.tracing.spans import ContentTrace, RequestTrace, UnrecordedTrace
from trilogue.gateway.observer import ByteObserver, Observer
from trilogue.gateway.record import RequestRecord
from trilogue.model import Failure
from trilogue.net.server.request import Head
from trilogue.routing.pool.decision import Attempt
from trilogue.upstreams.settings import ProviderSettings

MOST_CONTENTS = 64
"""Responses whose messages wait to be read for their spans. Further ones are recorded without messages."""

log = structlog.get_logger("trilogue.tracing")


class Tracing(Observer):
    """Makes the spans of all requests. `version`: of this program."""

    def __init__(self, settings: TracingSettings, version: str) -> None:
        self._settings = settings
        self._loop: asyncio.AbstractEventLoop | None = None
        self._export = SpanExport(settings, version, self._notice)
        self._tracer = self._export.tracer
        self._requests: dict[RequestRecord, RequestTrace] = {}
        self._providers: dict[str, str] = {}
        self._thread = ThreadPoolExecutor(1, "content")
        self._room = BoundedSemaphore(MOST_CONTENTS)

    def configure(self, providers: Mapping[str, ProviderSettings]) -> None:
        """Take the names of the vendors of all providers."""
        self._providers = provider_names(providers)

    def counts(self) -> Iterator[tuple[tuple[str, ...], float]]:
        """Yield how many spans were exported and dropped, for metrics."""
        yield ("exported",), self._export.counts.exported
        yield ("dropped",), self._export.counts.dropped

    def close(self) -> None:
        """Export what is left. Called when the event loop has ended; takes a few seconds at most."""
        self._thread.shutdown(wait=True, cancel_futures=True)
        self._export.close()

    def bytes_observer(self, record: RequestRecord, head: Head) -> ByteObserver | None:
        """Begin the span of a request, below that of the client if it sent one."""
        self._loop = self._loop or asyncio.get_running_loop()
        settings, now = self._settings, time.time_ns()
        began_ns = now - int((time.monotonic() - record.began_at) * 1e9)
        route = route_of(record.path)
        span = self._tracer.start_span(
            f"{head.method} {route}" if route else head.method,
            self._above(record) or parent_of(head.headers),
            SpanKind.SERVER,
            _request_attributes(record, route, head),
            start_time=began_ns,
        )
        propagation = Propagation(settings.propagate, head.headers.get(BAGGAGE) if settings.baggage else None)
        if not span.is_recording():
            return UnrecordedTrace(span, propagation)
        made = ContentTrace if settings.content else RequestTrace
        trace = made(record, span, began_ns, self._tracer, propagation, self._providers)
        if isinstance(trace, ContentTrace):
            trace.later = self._later
        self._requests[record] = trace
        return trace

    def _above(self, record: RequestRecord) -> Context | None:
        """Return the context of the request whose policy has made this one; None if a client has."""
        if not record.parent:
            return None
        above = (trace.context for other, trace in self._requests.items() if other.request_id == record.parent)
        return next(above, None)

    def attempt_began(self, record: RequestRecord, attempt: Attempt) -> None:
        """Note when an attempt began."""
        trace = self._requests.get(record)
        if trace is not None:
            trace.attempt_began()

    def attempt_ended(self, record: RequestRecord, attempt: Attempt, failure: Failure | None) -> None:
        """End the span of an attempt."""
        trace = self._requests.get(record)
        if trace is not None:
            trace.attempt_ended(attempt, failure)

    def request_ended(self, record: RequestRecord) -> None:
        """End the span of a request."""
        trace = self._requests.pop(record, None)
        if trace is not None:
            trace.request_ended()

    def _later(self, work: Callable[[], None]) -> bool:
        """Run a function in a thread. Return False if too many wait."""
        if not self._room.acquire(blocking=False):
            return False

        def run() -> None:
            try:
                work()
            finally:
                self._room.release()

        self._thread.submit(run)
        return True

    def _notice(self, failing: bool) -> None:
        """Log that spans are dropped, or exported again. Called in any thread; the log belongs to the loop."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(_log_export, failing)


def _log_export(failing: bool) -> None:
    if failing:
        log.warning("spans cannot be exported and are dropped", hint="tracing.endpoint")
    else:
        log.info("spans are exported again")


def _request_attributes(record: RequestRecord, route: str, head: Head) -> Attributes:
    found: Attributes = {
        "http.request.method": head.method,
        "url.path": head.path,
        "url.scheme": "http",
        "trilogue.request_id": record.request_id,
        "trilogue.client_protocol": record.client,
    }
    if route:
        found["http.route"] = route
    if record.parent:
        found["trilogue.parent_request_id"] = record.parent
    if record.key:
        found["trilogue.key"] = record.key
    if "user-agent" in head.headers:
        found["user_agent.original"] = head.headers["user-agent"]
    return found
