"""The requests that this worker knows: those that are running, and the latest of those that have ended."""

from __future__ import annotations

from collections.abc import Iterator

from trilogue.gateway.admin.routes import AdminContext
from trilogue.gateway.record import RequestRecord


def known_requests(context: AdminContext) -> Iterator[RequestRecord]:
    """Yield the records of requests, the latest first; those that are running come before all others."""
    for running in reversed(context.running.requests):
        yield running.record
    yield from context.services().history


def find_request(context: AdminContext, request_id: str) -> RequestRecord | None:
    """Return the record of a request, or None. Looks through all: requests are many, people rarely ask."""
    return next((record for record in known_requests(context) if record.request_id == request_id), None)
