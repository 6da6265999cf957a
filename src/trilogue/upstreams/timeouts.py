"""The settings for time limits of upstreams."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import asdict, replace

Seconds = Annotated[float, Meta(gt=0, le=86_400)]


class ProviderTimeouts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Time limits for an upstream, in seconds. Every limit but `total` restarts when there is progress."""

    connect: Seconds = 5.0
    """until the connection is open"""
    first_byte: Seconds = 600.0
    """until the response headers arrive; a response that is not streamed arrives all at once, so this is long"""
    first_event: Seconds = 300.0
    """from the response headers to the first event of a stream"""
    between_events: Seconds = 300.0
    """between two events of a stream"""
    total: Seconds = 3_600.0
    """the whole request"""


class TimeoutSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Time limits for one provider. Limits that are not set are taken from `server.timeouts`."""

    connect: Seconds | None = None
    """until the connection is open"""
    first_byte: Seconds | None = None
    """until the response headers arrive"""
    first_event: Seconds | None = None
    """from the response headers to the first event of a stream"""
    between_events: Seconds | None = None
    """between two events of a stream"""
    total: Seconds | None = None
    """the whole request"""

    def over(self, timeouts: ProviderTimeouts) -> ProviderTimeouts:
        """Return other time limits with those replaced that are set here."""
        return replace(timeouts, **{name: value for name, value in asdict(self).items() if value is not None})
