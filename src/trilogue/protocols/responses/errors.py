"""Errors of OpenAI's protocols ↔ `Failure`.

In: status, headers and body of a failed answer, whatever its shape (18 have been recorded), or the error object of a
stream. Out: a `Failure`, and back into the one shape that the official clients turn into their exceptions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from msgspec.structs import replace

from trilogue.errors import UpstreamProtocolError
from trilogue.model import Failure, FailureKind, Json, Protocol
from trilogue.protocols.codec import ErrorReply
from trilogue.protocols.fields import LooseFields
from trilogue.protocols.jsontext import dump_text, parse, parse_object
from trilogue.protocols.responses.wire import PROTOCOL

_MAX_MESSAGE = 2_000
_MAX_NESTING = 4
_OPENAI = frozenset({Protocol.CHAT, Protocol.RESPONSES})

_CODES = {
    "context_length_exceeded": FailureKind.CONTEXT_LENGTH,
    "string_above_max_length": FailureKind.CONTEXT_LENGTH,
    "insufficient_quota": FailureKind.QUOTA,
    "billing_hard_limit_reached": FailureKind.QUOTA,
    "billing_not_active": FailureKind.BILLING,
    "billing_error": FailureKind.BILLING,
    "invalid_api_key": FailureKind.AUTHENTICATION,
    "model_not_found": FailureKind.MODEL_NOT_FOUND,
    "rate_limit_exceeded": FailureKind.RATE_LIMIT,
    "slow_down": FailureKind.OVERLOADED,
    "server_is_overloaded": FailureKind.OVERLOADED,
    "overloaded": FailureKind.OVERLOADED,
    "server_error": FailureKind.SERVER,
    "unsupported_parameter": FailureKind.UNSUPPORTED,
    "unsupported_value": FailureKind.UNSUPPORTED,
    "request_too_large": FailureKind.TOO_LARGE,
    "timeout": FailureKind.TIMEOUT,
    "vector_store_timeout": FailureKind.TIMEOUT,
    "invalid_prompt": FailureKind.INVALID_REQUEST,
}

_HINTS = (
    (re.compile(r"maximum context length|context window", re.IGNORECASE), FailureKind.CONTEXT_LENGTH),
    (re.compile(r"exceeded your current quota", re.IGNORECASE), FailureKind.QUOTA),
    (re.compile(r"incorrect api key|invalid api key", re.IGNORECASE), FailureKind.AUTHENTICATION),
    (re.compile(r"model not found|model .* does not exist", re.IGNORECASE), FailureKind.MODEL_NOT_FOUND),
)

_TYPES = {
    "authentication_error": FailureKind.AUTHENTICATION,
    "permission_error": FailureKind.PERMISSION,
    "insufficient_quota": FailureKind.QUOTA,
    "rate_limit_error": FailureKind.RATE_LIMIT,
    "requests": FailureKind.RATE_LIMIT,
    "tokens": FailureKind.RATE_LIMIT,
    "not_found_error": FailureKind.NOT_FOUND,
    "overloaded_error": FailureKind.OVERLOADED,
    "timeout_error": FailureKind.TIMEOUT,
}

_STATUSES = {
    401: FailureKind.AUTHENTICATION,
    402: FailureKind.BILLING,
    403: FailureKind.PERMISSION,
    404: FailureKind.NOT_FOUND,
    408: FailureKind.TIMEOUT,
    409: FailureKind.CONFLICT,
    413: FailureKind.TOO_LARGE,
    429: FailureKind.RATE_LIMIT,
    503: FailureKind.UNAVAILABLE,
    504: FailureKind.TIMEOUT,
    529: FailureKind.OVERLOADED,
}

_REPLIES: dict[FailureKind, tuple[int, str, str | None]] = {
    FailureKind.INVALID_REQUEST: (400, "invalid_request_error", None),
    FailureKind.CONTEXT_LENGTH: (400, "invalid_request_error", "context_length_exceeded"),
    FailureKind.UNSUPPORTED: (400, "invalid_request_error", "unsupported_parameter"),
    FailureKind.AUTHENTICATION: (401, "invalid_request_error", "invalid_api_key"),
    FailureKind.BILLING: (402, "insufficient_quota", "billing_error"),
    FailureKind.PERMISSION: (403, "permission_error", None),
    FailureKind.NOT_FOUND: (404, "invalid_request_error", "not_found"),
    FailureKind.MODEL_NOT_FOUND: (404, "invalid_request_error", "model_not_found"),
    FailureKind.CONFLICT: (409, "conflict", "conflict"),
    FailureKind.TOO_LARGE: (413, "invalid_request_error", "request_too_large"),
    FailureKind.RATE_LIMIT: (429, "rate_limit_error", "rate_limit_exceeded"),
    FailureKind.QUOTA: (429, "insufficient_quota", "insufficient_quota"),
    FailureKind.SERVER: (500, "server_error", "server_error"),
    FailureKind.OVERLOADED: (503, "server_error", "server_is_overloaded"),
    FailureKind.TIMEOUT: (504, "server_error", "timeout"),
    FailureKind.UNAVAILABLE: (503, "server_error", "unavailable"),
    FailureKind.UPSTREAM_PROTOCOL: (502, "server_error", "upstream_protocol_error"),
    FailureKind.UPSTREAM_TRUNCATED: (502, "server_error", "upstream_truncated"),
    FailureKind.UPSTREAM_CONNECT: (502, "server_error", "upstream_connect"),
}

_RETRY = re.compile(r"try again in (\d+(?:\.\d+)?)\s*(ms|s)\b", re.IGNORECASE)


def decode_error(status: int, headers: Mapping[str, str], data: bytes) -> Failure:
    """The failure that an HTTP answer tells of; any body will do."""
    lower = {name.lower(): value for name, value in headers.items()}
    try:
        body = parse(data, UpstreamProtocolError)
    except UpstreamProtocolError:
        body = None
    fallback = _plain_text(data) if body is None else ""
    failure = failure_of_body(body, status, fallback)
    retry = None if failure.kind is FailureKind.QUOTA else _retry_after(lower, failure.message)
    request_id = lower.get("x-request-id") or lower.get("request-id")
    return replace(failure, retry_after=retry, request_id=request_id)


def failure_of_body(body: Json, status: int = 0, fallback: str = "") -> Failure:
    """The failure that a parsed body or the error object of a stream tells of."""
    fields = LooseFields(_innermost(body))
    code = _text_or_number(fields.any("code"))
    kind = fields.text("type")
    message = fields.text("message") or _detail(fields.any("detail")) or fields.text("error") or fallback
    message = message or (f"the upstream answered with status {status}" if status else "the upstream reported an error")
    return Failure(
        kind=_kind(status, code, kind, message),
        message=message[:_MAX_MESSAGE],
        status=status,
        code=code,
        type=kind,
        param=fields.text("param"),
        retry_after=_retry_after({}, message),
        protocol=PROTOCOL,
        native=body,
    )


def _innermost(body: Json) -> Json:
    """The object that holds the message: resellers wrap errors in errors, some as JSON inside a string."""
    current = body if isinstance(body, dict) else {"message": body} if isinstance(body, str) else {}
    for _ in range(_MAX_NESTING):
        inner = current.get("upstream_error") or current.get("error")
        if isinstance(inner, str) and inner.lstrip().startswith("{"):
            inner = parse_object(inner) or inner
        if not isinstance(inner, dict) or not inner:
            break
        current = inner
    return current


def _detail(value: Json) -> str | None:
    """FastAPI's `detail`: a string, or a list of what is wrong where."""
    return value if value is None or isinstance(value, str) else dump_text(value)


def _text_or_number(value: Json) -> str | None:
    if isinstance(value, str):
        return value or None
    return str(value) if type(value) is int else None


def _kind(status: int, code: str | None, kind: str | None, message: str) -> FailureKind:
    if code in _CODES:
        return _CODES[code]
    for pattern, hinted in _HINTS:
        if pattern.search(message):
            return hinted
    if kind in _TYPES:
        return _TYPES[kind]
    if status in _STATUSES:
        return _STATUSES[status]
    return FailureKind.INVALID_REQUEST if 400 <= status < 500 else FailureKind.SERVER


def _plain_text(data: bytes) -> str:
    """What a body that is not JSON says. HTML is for browsers and says nothing."""
    text = data.decode("utf-8", "replace").strip()
    return "" if text.startswith("<") else text


def _retry_after(headers: Mapping[str, str], message: str) -> float | None:
    found = _seconds(headers.get("retry-after-ms"), 1_000)
    if found is None:
        found = _seconds(headers.get("retry-after"), 1)
    if found is None:
        found = _until(headers.get("retry-after"), headers.get("date"))
    if found is None and (said := _RETRY.search(message)):
        found = float(said[1]) / (1_000 if said[2].lower() == "ms" else 1)
    return found


def _seconds(value: str | None, unit: int) -> float | None:
    try:
        seconds = float(value or "") / unit
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _until(value: str | None, now: str | None) -> float | None:
    """A date, counted from the answer's own date: there is no clock here."""
    try:
        then, start = parsedate_to_datetime(value or ""), parsedate_to_datetime(now or "")
        return max((then - start).total_seconds(), 0.0)
    except (ValueError, TypeError):
        return None


def error_object(failure: Failure) -> dict[str, Json]:
    """The `error` object. Names of another protocol are replaced by OpenAI's own."""
    _, kind, code = _REPLIES[failure.kind]
    if failure.protocol in _OPENAI:
        kind = failure.type or kind
    if failure.protocol is not Protocol.MESSAGES:
        code = failure.code or code
    return {"message": failure.message, "type": kind, "param": failure.param, "code": code}


def encode_error(failure: Failure, request_id: str) -> ErrorReply:
    """The failure as an HTTP answer."""
    status = _REPLIES[failure.kind][0]
    if failure.protocol in _OPENAI and failure.status >= 400:
        status = failure.status
    headers = {"x-request-id": request_id} if request_id else {}
    if failure.retry_after is not None and failure.kind is not FailureKind.QUOTA:
        headers["retry-after"] = str(math.ceil(failure.retry_after))
    return ErrorReply(status, {"error": error_object(failure)}, headers)
