"""Errors of Messages, both ways.

In: status, headers and body of an error response, or an object that reports an error. Out: `model.Failure`, and back.
Errors come in many wrappers: Vertex puts the JSON into a string, resellers nest it, proxies send HTML.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec.structs import replace

from trilogue.base.json_text import parse_object
from trilogue.model import Failure, FailureKind, Json
from trilogue.protocols.codec import ErrorReply
from trilogue.protocols.failure import (
    OURS,
    STATUSES,
    TOO_LONG,
    error_text,
    reply_status,
    retry_after,
    retry_headers,
)
from trilogue.protocols.fields import LooseFields
from trilogue.protocols.messages.wire import PROTOCOL

_TYPES = {
    "invalid_request_error": FailureKind.INVALID_REQUEST,
    "authentication_error": FailureKind.AUTHENTICATION,
    "billing_error": FailureKind.BILLING,
    "permission_error": FailureKind.PERMISSION,
    "not_found_error": FailureKind.NOT_FOUND,
    "conflict_error": FailureKind.CONFLICT,
    "request_too_large": FailureKind.TOO_LARGE,
    "rate_limit_error": FailureKind.RATE_LIMIT,
    "api_error": FailureKind.SERVER,
    "timeout_error": FailureKind.TIMEOUT,
    "overloaded_error": FailureKind.OVERLOADED,
}

_CODES = {
    "enforced_spend_limit_reached": FailureKind.QUOTA,
    "insufficient_quota": FailureKind.QUOTA,
    "insufficient_user_quota": FailureKind.QUOTA,
    "organization_on_hold": FailureKind.BILLING,
    "ramp_limit_exceeded": FailureKind.RATE_LIMIT,
    "request_body_too_large_after_decoding": FailureKind.TOO_LARGE,
    "compaction_unavailable": FailureKind.OVERLOADED,
    "file_expired": FailureKind.NOT_FOUND,
    "thread_not_found": FailureKind.NOT_FOUND,
}

_OFFICIAL_TOO_LONG = re.compile(r"prompt is too long|exceed context limit", re.IGNORECASE)
_NO_MONEY = re.compile(r"credit balance is too low|spend(ing)? limit|usage limits?", re.IGNORECASE)
_NO_MODEL = re.compile(r"^model:|model .*not (found|exist)", re.IGNORECASE)
_MESSAGES = (
    (FailureKind.INVALID_REQUEST, TOO_LONG, FailureKind.CONTEXT_LENGTH),
    (FailureKind.INVALID_REQUEST, _NO_MONEY, FailureKind.QUOTA),
    (FailureKind.NOT_FOUND, _NO_MODEL, FailureKind.MODEL_NOT_FOUND),
)
"""What only the text of an error shows: a kind, a pattern, the finer kind."""

_STATUSES = {**STATUSES, 503: FailureKind.UNAVAILABLE}
_VAGUE = frozenset({FailureKind.INVALID_REQUEST, FailureKind.SERVER})
"""Kinds whose types servers also use where the status is more precise."""

_WRAPPERS = ("error", "upstream_error", "detail", "cause")
_MAX_MESSAGE = 2000
_MAX_DEPTH = 5


def decode_error(status: int, headers: Mapping[str, str], body: bytes) -> Failure:
    """Return the failure that an HTTP error response reports, whatever its body is."""
    lower = {name.lower(): value for name, value in headers.items()}
    text = error_text(body)
    found = decode_failure(parse_object(text) or {}, status)
    return replace(
        found,
        message=found.message or _plain_text(text) or f"the upstream responded with status {status}",
        retry_after=retry_after(lower),
        request_id=found.request_id or lower.get("request-id") or lower.get("x-request-id"),
    )


def find_failure(body: dict[str, Json]) -> Failure | None:
    """Return the failure that a body or event with status 200 reports; None if it reports none."""
    is_error = body.get("type") == "error" or body.get("object") == "error" or bool(body.get("error"))
    if not is_error and not ("detail" in body and "type" not in body):
        return None
    return decode_failure(body)


def failure_of_text(text: str) -> Failure:
    """Return the failure for an error that is not JSON."""
    message = text.strip()[:_MAX_MESSAGE] or "the upstream reported an error"
    return Failure(kind=FailureKind.SERVER, message=message, protocol=PROTOCOL)


def decode_failure(body: dict[str, Json], status: int = 0) -> Failure:
    """Return the failure that a JSON object reports."""
    error, depth = body, 0
    while depth < _MAX_DEPTH and (inner := _inner(error)) is not None:
        error, depth = inner, depth + 1
    fields = LooseFields(error)
    code = LooseFields(fields.any("details")).text("error_code") or fields.text("code")
    kind_name = fields.text("type")
    message = fields.text("message") or _first_text(error, *_WRAPPERS) or ""
    whole = LooseFields(body)
    return Failure(
        kind=_kind(code, kind_name, status, message),
        message=message[:_MAX_MESSAGE],
        status=status,
        code=code or fields.text("status"),
        type=kind_name,
        request_id=whole.text("request_id"),
        protocol=PROTOCOL,
        native=body if body.get("type") == "error" and kind_name in _TYPES else None,
    )


def _inner(error: dict[str, Json]) -> dict[str, Json] | None:
    """Return the error inside a wrapper, nested as an object or as JSON in a string; None if there is none."""
    for name in (*_WRAPPERS, "message"):
        value = error.get(name)
        if isinstance(value, dict):
            return value
        if isinstance(value, str) and value.lstrip().startswith("{") and (parsed := parse_object(value)) is not None:
            return parsed
    return None


def _first_text(error: dict[str, Json], *names: str) -> str | None:
    return next((value for name in names if isinstance(value := error.get(name), str)), None)


def _kind(code: str | None, name: str | None, status: int, message: str) -> FailureKind:
    named = _CODES.get(code or "") or _CODES.get(name or "") or _TYPES.get(name or "")
    by_status = _STATUSES.get(status)
    if named is None or (named in _VAGUE and by_status is not None):
        unknown = FailureKind.INVALID_REQUEST if 400 <= status < 500 else FailureKind.SERVER
        kind = by_status or unknown
    else:
        kind = named
    for coarse, pattern, fine in _MESSAGES:
        if kind is coarse and pattern.search(message):
            return fine
    return kind


_TAGS = re.compile(r"<(script|style)\b.*?</\1\s*>|<[^>]*>", re.DOTALL | re.IGNORECASE)
_HTML_LIMIT = 20_000


def _plain_text(text: str) -> str:
    text = text[:_HTML_LIMIT]
    if "<" in text:
        text = _TAGS.sub(" ", text)
    return " ".join(text.split())[:200]


_REPLIES: dict[FailureKind, tuple[int, str]] = {
    FailureKind.INVALID_REQUEST: (400, "invalid_request_error"),
    FailureKind.CONTEXT_LENGTH: (400, "invalid_request_error"),
    FailureKind.UNSUPPORTED: (400, "invalid_request_error"),
    FailureKind.AUTHENTICATION: (401, "authentication_error"),
    FailureKind.BILLING: (402, "billing_error"),
    FailureKind.PERMISSION: (403, "permission_error"),
    FailureKind.NOT_FOUND: (404, "not_found_error"),
    FailureKind.MODEL_NOT_FOUND: (404, "not_found_error"),
    FailureKind.CONFLICT: (409, "conflict_error"),
    FailureKind.TOO_LARGE: (413, "request_too_large"),
    FailureKind.RATE_LIMIT: (429, "rate_limit_error"),
    FailureKind.QUOTA: (429, "rate_limit_error"),
    FailureKind.SERVER: (500, "api_error"),
    FailureKind.OVERLOADED: (529, "overloaded_error"),
    FailureKind.TIMEOUT: (504, "timeout_error"),
    FailureKind.UNAVAILABLE: (503, "overloaded_error"),
    FailureKind.UPSTREAM_PROTOCOL: (502, "api_error"),
    FailureKind.UPSTREAM_TRUNCATED: (502, "api_error"),
    FailureKind.UPSTREAM_CONNECT: (502, "api_error"),
}


def encode_error(failure: Failure, request_id: str) -> ErrorReply:
    """Return the failure as an HTTP response, with our request id and not the upstream's."""
    status = reply_status(failure, _REPLIES[failure.kind][0], own=False)
    headers = {"request-id": request_id} if request_id else {}
    return ErrorReply(status, encode_failure(failure, request_id), headers | retry_headers(failure))


def encode_failure(failure: Failure, request_id: str) -> dict[str, Json]:
    """Return the error object, for a body or the last event of a stream."""
    message = failure.message
    if failure.kind is FailureKind.CONTEXT_LENGTH and not _OFFICIAL_TOO_LONG.search(message):
        # The type only says that the request is wrong. Agents compact their history when they read these words.
        message = f"prompt is too long: {message}"
    error: dict[str, Json] = {"type": _REPLIES[failure.kind][1], "message": message}
    if failure.protocol is PROTOCOL and isinstance(failure.native, dict) and failure.status not in OURS:
        error = _native_error(failure.native, error)
    elif failure.kind is FailureKind.QUOTA:
        error["details"] = {"error_code": "enforced_spend_limit_reached"}
    elif failure.param == "thread":
        # At this code the official client sends the whole history again, without a thread.
        error["details"] = {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}
    return {"type": "error", "error": error, "request_id": request_id or None}


def _native_error(native: dict[str, Json], known: dict[str, Json]) -> dict[str, Json]:
    """Return an error of this protocol in its own words if its type is one that clients know."""
    error = native.get("error")
    return error if isinstance(error, dict) and error.get("type") in _TYPES else known
