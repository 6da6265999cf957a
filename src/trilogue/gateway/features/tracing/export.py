"""The export of spans over OTLP: batched, in a thread of its own, so that no request ever waits for a collector.

If the collector does not respond, or spans come faster than they can be sent, spans are dropped and counted. One log
line says so, and one when spans arrive again.
"""

from __future__ import annotations

import logging
import os
import threading
import uuid
from collections.abc import Callable, Sequence

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import Tracer

from trilogue.gateway.features.tracing.settings import TracingSettings

SERVICE_NAME = "trilogue"
MOST_WAITING = 2048
"""Spans that wait to be exported, unless OTEL_BSP_MAX_QUEUE_SIZE says otherwise."""
CLOSE_SECONDS = 3.0
"""How long a worker that stops waits for the collector to take the last spans."""

Notice = Callable[[bool], None]
"""called when spans begin to be dropped (True), and when all are exported again (False), in any thread"""


class SpanCounts:
    """How many spans were exported and dropped. Several threads count. `notice` is told when that begins and ends."""

    def __init__(self, notice: Notice) -> None:
        self._lock = threading.Lock()
        self._notice = notice
        self._failing = False
        self._lately = 0
        """spans that were dropped since the last successful export"""
        self.exported = self.dropped = 0

    def drop(self, spans: int) -> None:
        """Count spans that were lost."""
        with self._lock:
            self.dropped += spans
            self._lately += spans
            begins, self._failing = not self._failing, True
        if begins:
            self._notice(True)

    def export(self, spans: int) -> None:
        """Count spans that the collector has taken."""
        with self._lock:
            self.exported += spans
            ends, self._lately = self._failing and not self._lately, 0
            self._failing = self._failing and not ends
        if ends:
            self._notice(False)


class CountingExporter(SpanExporter):
    """Sends spans with another exporter and counts what becomes of them."""

    def __init__(self, exporter: SpanExporter, counts: SpanCounts) -> None:
        self._exporter = exporter
        self._counts = counts
        self.taken = 0
        """spans that were handed over so far"""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send spans. It returns when they have arrived, or after the time limit of the exporter."""
        self.taken += len(spans)
        result = self._exporter.export(spans)
        count = self._counts.export if result is SpanExportResult.SUCCESS else self._counts.drop
        count(len(spans))
        return result

    def shutdown(self) -> None:
        """Stop sending, and do not try again what has failed."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Return True: nothing waits here."""
        return True


class SpanQueue(SpanProcessor):
    """Hands ended spans to the exporter in batches. Spans for which there is no room are dropped and counted."""

    def __init__(self, exporter: CountingExporter, counts: SpanCounts) -> None:
        self._exporter = exporter
        self._counts = counts
        self._most = _size(os.environ.get("OTEL_BSP_MAX_QUEUE_SIZE", ""))
        self._batches = BatchSpanProcessor(exporter, max_queue_size=self._most)
        self._shutdown: Callable[[], None] = self._batches.shutdown
        self._lock = threading.Lock()
        self._added = 0

    def on_end(self, span: ReadableSpan) -> None:
        """Add a span. It never waits."""
        with self._lock:
            full = self._added - self._exporter.taken >= self._most
            self._added += not full
        if full:
            self._counts.drop(1)
        else:
            self._batches.on_end(span)

    def shutdown(self) -> None:
        """Export what waits. This may take as long as the collector does."""
        self._shutdown()


def _size(text: str) -> int:
    return int(text) if text.isdecimal() and int(text) > 0 else MOST_WAITING


class SpanExport:
    """Everything from a tracer to the collector. Make one per worker, after the fork: it has threads."""

    def __init__(self, settings: TracingSettings, version: str, notice: Notice) -> None:
        # The exporter logs every failure; `notice` reports the first.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        self.counts = SpanCounts(notice)
        headers = {name: value.reveal() for name, value in settings.headers.items()}
        exporter = OTLPSpanExporter(endpoint=settings.url or None, headers=headers or None)
        ratio = settings.sample_ratio
        self._provider = TracerProvider(
            sampler=None if ratio is None else ParentBased(TraceIdRatioBased(ratio)),
            resource=_resource(settings, version),
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(SpanQueue(CountingExporter(exporter, self.counts), self.counts))
        self.tracer: Tracer = self._provider.get_tracer("trilogue", version)

    def close(self) -> None:
        """Export what waits, if the collector takes it within a few seconds."""
        # The exporter may wait much longer for a collector that does not respond.
        closing = threading.Thread(target=self._provider.shutdown, daemon=True)
        closing.start()
        closing.join(CLOSE_SECONDS)


def _resource(settings: TracingSettings, version: str) -> Resource:
    """Return what every span says about this worker. The environment may add to it, and name the service."""
    attributes: dict[str, str] = {"service.version": version, "service.instance.id": str(uuid.uuid4())}
    named = os.environ.get("OTEL_SERVICE_NAME") or "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    if settings.service_name or not named:
        attributes["service.name"] = settings.service_name or SERVICE_NAME
    return Resource.create(dict(attributes))
