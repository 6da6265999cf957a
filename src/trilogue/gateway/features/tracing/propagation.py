"""Trace context between client, gateway and upstream, as W3C Trace Context prescribes.

https://www.w3.org/TR/trace-context: an invalid `traceparent` counts as none, and its `tracestate` is ignored. Baggage
is data of the client's own systems, so upstreams get it only if the configuration asks for that.
"""

from __future__ import annotations

from collections.abc import Mapping

from opentelemetry.context import Context
from opentelemetry.trace import Span
from opentelemetry.trace.propagation import set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

TRACEPARENT = "traceparent"
TRACESTATE = "tracestate"
BAGGAGE = "baggage"

_CONTEXT = TraceContextTextMapPropagator()
_NOTHING = Context()

HeaderChanges = dict[str, str | None]
"""headers by name; None: the header is removed"""


def parent_of(headers: Mapping[str, str]) -> Context:
    """Return the context of the client's span; an empty one if it sent none, or an invalid one."""
    return _CONTEXT.extract(headers, _NOTHING) if TRACEPARENT in headers else _NOTHING


def below(span: Span) -> Context:
    """Return the context for spans below this one."""
    return set_span_in_context(span, _NOTHING)


class Propagation:
    """What upstreams get of the trace context of one request."""

    __slots__ = ("_baggage", "_propagate")

    def __init__(self, propagate: bool, baggage: str | None) -> None:
        self._propagate = propagate
        self._baggage = baggage

    def headers(self, span: Span) -> HeaderChanges:
        """Return the headers of a request that is made within this span. They replace those of the client."""
        headers: HeaderChanges = {TRACEPARENT: None, TRACESTATE: None, BAGGAGE: self._baggage}
        if self._propagate:
            context = span.get_span_context()
            headers[TRACEPARENT] = f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
            headers[TRACESTATE] = context.trace_state.to_header() or None
        return headers
