"""The requests that this worker knows: those that are running, and the latest of those that have ended."""

from __future__ import annotations

from collections.abc import Iterator

from trilogue.gateway.endpoints.generate import ActiveRequests
from trilogue.gateway.features.explain.history import RequestHistory
from trilogue.gateway.record import RequestRecord


class KnownRequests:
    """The requests that this worker knows. `running`: those that it handles now."""

    def __init__(self, running: ActiveRequests, history: RequestHistory) -> None:
        self._running = running
        self._history = history

    def __iter__(self) -> Iterator[RequestRecord]:
        """Iterate over records, the latest first; those that are running come before all others."""
        for running in reversed(self._running.requests):
            yield running.record
        yield from self._history

    def find(self, request_id: str) -> RequestRecord | None:
        """Return the record of a request, or None. Looks through all: requests are many, people rarely ask."""
        return next((record for record in self if record.request_id == request_id), None)
