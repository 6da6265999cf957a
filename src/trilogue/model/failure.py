"""An error as data: what happened, whose fault it is, and when to retry. Each protocol writes it in its own form."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from trilogue.base.json_text import Json
from trilogue.model.protocol import Protocol


class FailureKind(StrEnum):
    """What went wrong, independent of any protocol's names."""

    INVALID_REQUEST = "invalid_request"
    CONTEXT_LENGTH = "context_length"
    UNSUPPORTED = "unsupported"
    AUTHENTICATION = "authentication"
    BILLING = "billing"
    PERMISSION = "permission"
    NOT_FOUND = "not_found"
    MODEL_NOT_FOUND = "model_not_found"
    CONFLICT = "conflict"
    TOO_LARGE = "too_large"
    RATE_LIMIT = "rate_limit"
    QUOTA = "quota"
    """out of credit or allowance: waiting does not help"""
    SERVER = "server"
    OVERLOADED = "overloaded"
    TIMEOUT = "timeout"
    UNAVAILABLE = "unavailable"
    UPSTREAM_PROTOCOL = "upstream_protocol"
    UPSTREAM_TRUNCATED = "upstream_truncated"
    UPSTREAM_CONNECT = "upstream_connect"


class Failure(Struct, frozen=True, kw_only=True):
    """One failure, from an upstream or from the gateway itself.

    `status`: the HTTP status that came with it, or 0. `code`: the most specific name that the source gave.
    `retry_after` is in seconds. `request_id`: the upstream's, for logs only. `native`: the unchanged body, for its own
    protocol.
    """

    kind: FailureKind
    message: str
    status: int = 0
    code: str | None = None
    type: str | None = None
    param: str | None = None
    retry_after: float | None = None
    request_id: str | None = None
    protocol: Protocol | None = None
    native: Json = None

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.message}"
