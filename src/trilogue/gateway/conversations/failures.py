"""Errors of the store as the failures that clients get."""

from __future__ import annotations

from trilogue.gateway.conversations.store.types import NotStorable, StoreError
from trilogue.model import Failure
from trilogue.protocols.failure import own_failure

UNAVAILABLE = (
    "the response cannot be stored, or what the request refers to cannot be read. Try again later, or send "
    "store: false and the whole history"
)
TOO_LARGE = "the response is larger than what the gateway stores for one client key (state.key_bytes)"


def store_failure(error: StoreError) -> Failure:
    """Return the failure for an error of the store. Where the store is, and why it failed, is only in the log."""
    if isinstance(error, NotStorable):
        return own_failure(507, TOO_LARGE, "response_not_storable")
    return own_failure(503, UNAVAILABLE, "store_unavailable")
