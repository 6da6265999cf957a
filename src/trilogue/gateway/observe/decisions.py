"""The recent decisions, which the admin interface shows."""

from __future__ import annotations

from trilogue.gateway.observe.observer import Observer
from trilogue.gateway.observe.record import RequestRecord
from trilogue.pool import Recent


class DecisionLog(Observer):
    """Adds each decision as soon as it exists, so that running requests can be looked at as well."""

    def __init__(self, recent: Recent) -> None:
        self._recent = recent

    def request_planned(self, record: RequestRecord) -> None:
        """Add the decision on this request."""
        if record.decision is not None:
            self._recent.add(record.decision)
