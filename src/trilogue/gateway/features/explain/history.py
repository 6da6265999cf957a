"""The requests that a worker knows: those that are running, and the latest of those that have ended."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from trilogue.gateway.conversations.cache_sessions import Sessions
from trilogue.gateway.endpoints.generate import ActiveRequests
from trilogue.gateway.observer import Observer
from trilogue.gateway.record import RequestRecord

_NOT_ADMITTED = (401, 403)


class RequestHistory(Observer):
    """Keeps the records of the latest requests. They are turned into something to show only if somebody asks."""

    def __init__(self, limit: int = 0) -> None:
        self._records: deque[RequestRecord] = deque(maxlen=limit)
        self.sessions = Sessions()

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[RequestRecord]:
        """Iterate over the requests, the latest first."""
        return reversed(self._records)

    @property
    def limit(self) -> int:
        """How many requests are kept."""
        return self._records.maxlen or 0

    def resize(self, limit: int) -> None:
        """Keep this many requests from now on."""
        if limit != self.limit:
            self._records = deque(self._records, maxlen=limit)
        if not limit:
            self.sessions = Sessions()

    def request_ended(self, record: RequestRecord) -> None:
        """Keep a request, unless it was refused for its key: whoever can connect could replace all others by those."""
        if record.status not in _NOT_ADMITTED or record.model:
            self._records.append(record)


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
