"""Errors of Turns, in both directions: `{"fault": {"code": "…", "text": "…"}}`."""

from __future__ import annotations

from collections.abc import Mapping

from tests.fourth_protocol.wire import PROTOCOL
from trilogue.base.json_text import parse_object
from trilogue.model import Failure, FailureKind, Json
from trilogue.protocols.codec import ErrorReply
from trilogue.protocols.failure import STATUSES, reply_status, retry_after, retry_headers

_STATUS_OF = {kind: status for status, kind in reversed(STATUSES.items())} | {FailureKind.MODEL_NOT_FOUND: 404}


def decode_error(status: int, headers: Mapping[str, str], body: bytes) -> Failure:
    """Return the failure that an HTTP error response reports."""
    lower = {name.lower(): value for name, value in headers.items()}
    return decode_failure((parse_object(body) or {}).get("fault"), status, retry_after(lower))


def decode_failure(fault: Json, status: int = 0, seconds: float | None = None) -> Failure:
    """Return the failure that a `fault` object reports."""
    said = fault if isinstance(fault, dict) else {}
    kind = STATUSES.get(status, FailureKind.INVALID_REQUEST if 400 <= status < 500 else FailureKind.SERVER)
    text = str(said.get("text") or f"the upstream responded with status {status}")
    return Failure(
        kind=kind, message=text, status=status, code=said.get("code"), retry_after=seconds, protocol=PROTOCOL
    )


def encode_failure(failure: Failure) -> dict[str, Json]:
    """Return the `fault` object."""
    return {"code": failure.code or failure.kind.value, "text": failure.message}


def encode_error(failure: Failure, request_id: str) -> ErrorReply:
    """Return the failure as an HTTP response."""
    status = reply_status(failure, _STATUS_OF.get(failure.kind, 500), own=failure.protocol is PROTOCOL)
    return ErrorReply(status, {"fault": encode_failure(failure)}, retry_headers(failure))
