"""Which requests are captured."""

from __future__ import annotations

from fnmatch import fnmatchcase

from msgspec import Struct

from trilogue.gateway.record import RequestRecord

CLIENT_GONE = "client_gone"


class CaptureFilter(Struct, frozen=True, kw_only=True):
    """A choice of requests. What is not set does not matter; with `errors` and `losses`, one of the two is enough."""

    keys: tuple[str, ...] = ()
    """names of client keys"""
    models: tuple[str, ...] = ()
    """names or patterns of the model that the client asks for, or `provider/model` of one that it was sent to"""
    errors: bool = False
    """those that failed, or that an upstream failed to respond to before another one did"""
    losses: bool = False
    """those in which a loss was declared"""

    @property
    def is_decided_late(self) -> bool:
        """Whether only the end of a request shows that it is meant."""
        return self.errors or self.losses

    def has_key(self, record: RequestRecord) -> bool:
        """Return whether the client's key is one of those that are meant."""
        return not self.keys or record.key in self.keys

    def has_model(self, record: RequestRecord) -> bool:
        """Return whether the model is one of those that are meant, by the attempts so far."""
        if not self.models:
            return True
        attempts = record.decision.attempts if record.decision is not None else []
        names = [record.model, *(f"{attempt.provider}/{attempt.model}" for attempt in attempts)]
        return any(fnmatchcase(name, pattern) for name in names for pattern in self.models)

    def matches(self, record: RequestRecord, failed_attempts: int) -> bool:
        """Return whether a request that has ended is meant."""
        if not self.has_key(record) or not self.has_model(record):
            return False
        failed = self.errors and (failed_attempts > 0 or has_failed(record))
        return failed or (self.losses and bool(record.losses)) or not self.is_decided_late


def has_failed(record: RequestRecord) -> bool:
    """Return whether the client got an error. A client that disconnects is not one."""
    return record.failure is not None or (record.status >= 400 and record.error != CLIENT_GONE)
