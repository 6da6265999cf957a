"""A receiver of traces over OTLP/HTTP, for tests: it decodes what exporters send with the official message types."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Condition, Thread
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

SECONDS = 15.0
"""how long to wait for spans: exporters send what they have within a few seconds"""


class ReceivedSpan:
    """One span, with ids as they are in `traceparent`."""

    def __init__(self, span: Span, resource: dict[str, Any], scope: str) -> None:
        self.name = span.name
        self.kind = Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_")
        self.trace_id, self.span_id = span.trace_id.hex(), span.span_id.hex()
        self.parent_id = span.parent_span_id.hex()
        self.trace_state = span.trace_state
        self.start, self.end = span.start_time_unix_nano, span.end_time_unix_nano
        self.attributes = attributes_of(span.attributes)
        self.failed = span.status.code == 2
        self.resource = resource
        self.scope = scope

    def __repr__(self) -> str:
        return f"{self.kind} {self.name} {self.attributes}"


def attributes_of(pairs: Any) -> dict[str, Any]:
    """Return attributes as a dictionary of plain values."""
    return {pair.key: _value(pair) for pair in pairs}


def _value(pair: KeyValue) -> Any:
    return _plain(pair.value)


def _plain(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_plain(one) for one in value.array_value.values]
    return getattr(value, kind) if kind else None


class Receiver:
    """What has arrived. `status`: the response to every export."""

    def __init__(self) -> None:
        self.status = 200
        self.url = ""
        self.spans: list[ReceivedSpan] = []
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.requests = 0
        self._changed = Condition()

    def take(self, path: str, headers: dict[str, str], body: bytes) -> int:
        """Decode an export and return the status of the response."""
        if headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        message = ExportTraceServiceRequest.FromString(body)
        with self._changed:
            self.requests += 1
            if self.status == 200:
                self.paths.append(path)
                self.headers.append(headers)
                self.spans += spans_of(message)
            self._changed.notify_all()
        return self.status

    def wait(self, count: int) -> list[ReceivedSpan]:
        """Return all spans once there are so many."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.spans) >= count, SECONDS), self.spans
            return list(self.spans)

    def take_all(self, count: int) -> list[ReceivedSpan]:
        """Do the same, and forget them."""
        found = self.wait(count)
        self.spans.clear()
        return found


def spans_of(message: ExportTraceServiceRequest) -> Iterator[ReceivedSpan]:
    """Yield the spans of an export."""
    for group in message.resource_spans:
        resource = attributes_of(group.resource.attributes)
        for scoped in group.scope_spans:
            for span in scoped.spans:
                yield ReceivedSpan(span, resource, scoped.scope.name)


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Run a receiver on loopback."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        """Takes one export."""

        def do_POST(self) -> None:
            """Decode the body and respond."""
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status = receiver.take(self.path, headers, body)
            reply = ExportTraceServiceResponse().SerializeToString()
            self.send_response(status)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, format: str, *args: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
