"""Errors, both ways: what compatible servers send in at least 18 shapes, and the one shape that the official API has.

In: status, headers and body of a failed answer, or any JSON inside a 200 that turns out to be an error. Out:
`model.Failure`. It does not decide whether to retry, nor whose credential was at fault.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from trilogue.model import Failure, FailureKind, Json, Protocol
from trilogue.protocols.chat.wire import PROTOCOL
from trilogue.protocols.codec import ErrorReply
from trilogue.protocols.jsontext import parse_object

_MAX_RETRY_AFTER = 60
_MAX_MESSAGE = 2_000
_MAX_NESTING = 5

_KINDS_BY_STATUS = {
    400: FailureKind.INVALID_REQUEST,
    401: FailureKind.AUTHENTICATION,
    402: FailureKind.BILLING,
    403: FailureKind.PERMISSION,
    404: FailureKind.NOT_FOUND,
    408: FailureKind.TIMEOUT,
    409: FailureKind.CONFLICT,
    413: FailureKind.TOO_LARGE,
    422: FailureKind.INVALID_REQUEST,
    429: FailureKind.RATE_LIMIT,
    498: FailureKind.OVERLOADED,
    500: FailureKind.SERVER,
    502: FailureKind.SERVER,
    503: FailureKind.OVERLOADED,
    504: FailureKind.TIMEOUT,
    529: FailureKind.OVERLOADED,
}

_KINDS_BY_NAME = {
    "context_length_exceeded": FailureKind.CONTEXT_LENGTH,
    "exceed_context_size_error": FailureKind.CONTEXT_LENGTH,
    "too_many_prompt_tokens": FailureKind.CONTEXT_LENGTH,
    "string_above_max_length": FailureKind.CONTEXT_LENGTH,
    "unsupported_parameter": FailureKind.UNSUPPORTED,
    "unsupported_value": FailureKind.UNSUPPORTED,
    "invalid_api_key": FailureKind.AUTHENTICATION,
    "authentication_error": FailureKind.AUTHENTICATION,
    "insufficient_quota": FailureKind.QUOTA,
    "billing_hard_limit_reached": FailureKind.QUOTA,
    "billing_error": FailureKind.BILLING,
    "permission_error": FailureKind.PERMISSION,
    "model_not_found": FailureKind.MODEL_NOT_FOUND,
    "model_not_available": FailureKind.MODEL_NOT_FOUND,
    "invalid_model": FailureKind.MODEL_NOT_FOUND,
    "not_found_error": FailureKind.NOT_FOUND,
    "request_too_large": FailureKind.TOO_LARGE,
    "rate_limit_exceeded": FailureKind.RATE_LIMIT,
    "rate_limit_error": FailureKind.RATE_LIMIT,
    "server_is_overloaded": FailureKind.OVERLOADED,
    "overloaded_error": FailureKind.OVERLOADED,
    "engine_overloaded_error": FailureKind.OVERLOADED,
    "service_unavailable": FailureKind.OVERLOADED,
    "service_unavailable_error": FailureKind.OVERLOADED,
    "timeout": FailureKind.TIMEOUT,
    "invalid_request_error": FailureKind.INVALID_REQUEST,
    "tool_use_failed": FailureKind.INVALID_REQUEST,
    "server_error": FailureKind.SERVER,
    "internal_server_error": FailureKind.SERVER,
}
_VAGUE = frozenset({FailureKind.INVALID_REQUEST, FailureKind.SERVER})
"""kinds whose names servers also use for finer things that the status tells"""

_CONTEXT_WORDS = ("context length", "context window", "context size", "maximum context", "too many tokens")

_REPLIES: dict[FailureKind, tuple[int, str, str | None]] = {
    FailureKind.INVALID_REQUEST: (400, "invalid_request_error", None),
    FailureKind.CONTEXT_LENGTH: (400, "invalid_request_error", "context_length_exceeded"),
    FailureKind.UNSUPPORTED: (400, "invalid_request_error", "unsupported_parameter"),
    FailureKind.AUTHENTICATION: (401, "authentication_error", "invalid_api_key"),
    FailureKind.BILLING: (402, "insufficient_quota", "billing_error"),
    FailureKind.PERMISSION: (403, "permission_error", None),
    FailureKind.NOT_FOUND: (404, "invalid_request_error", None),
    FailureKind.MODEL_NOT_FOUND: (404, "invalid_request_error", "model_not_found"),
    FailureKind.CONFLICT: (409, "conflict", None),
    FailureKind.TOO_LARGE: (413, "invalid_request_error", "request_too_large"),
    FailureKind.RATE_LIMIT: (429, "rate_limit_error", "rate_limit_exceeded"),
    FailureKind.QUOTA: (429, "insufficient_quota", "insufficient_quota"),
    FailureKind.SERVER: (500, "server_error", None),
    FailureKind.OVERLOADED: (503, "server_error", "server_is_overloaded"),
    FailureKind.TIMEOUT: (504, "server_error", "timeout"),
    FailureKind.UNAVAILABLE: (503, "server_error", "unavailable"),
    FailureKind.UPSTREAM_PROTOCOL: (502, "server_error", "upstream_protocol_error"),
    FailureKind.UPSTREAM_TRUNCATED: (502, "server_error", "upstream_truncated"),
    FailureKind.UPSTREAM_CONNECT: (502, "server_error", "upstream_connect"),
}

_RETRY_HELPS = frozenset(
    {
        FailureKind.CONFLICT,
        FailureKind.RATE_LIMIT,
        FailureKind.SERVER,
        FailureKind.OVERLOADED,
        FailureKind.TIMEOUT,
        FailureKind.UNAVAILABLE,
        FailureKind.UPSTREAM_PROTOCOL,
        FailureKind.UPSTREAM_TRUNCATED,
    }
)


def decode_error(status: int, headers: Mapping[str, str], body: bytes) -> Failure:
    """The failure that an HTTP answer reports, whatever its body is."""
    lower = {name.lower(): value for name, value in headers.items()}
    failure = decode_failure(_parse(body), status)
    return Failure(
        kind=failure.kind,
        message=failure.message,
        status=failure.status,
        code=failure.code,
        type=failure.type,
        param=failure.param,
        retry_after=_retry_after(lower),
        request_id=lower.get("x-request-id") or lower.get("request-id"),
        protocol=PROTOCOL,
        native=failure.native,
    )


def _parse(body: bytes) -> Json:
    """JSON if it is an object, text if it is readable and no web page, else nothing."""
    text = body.decode("utf-8", "replace").strip()
    value = parse_object(text)
    if value is not None:
        return value
    return None if text.startswith("<") else text.strip('"') or None


def find_error(body: dict[str, Json]) -> Json:
    """The error that a 200 body or a chunk carries, or None."""
    error = body.get("error")
    if error:
        return body
    if body.get("object") == "error" or body.get("type") == "error":
        return body
    if "choices" in body:
        return None
    return body if "detail" in body or isinstance(body.get("message"), str) else None


def decode_failure(value: Json, status: int = 0) -> Failure:
    """The failure that a JSON value reports. `status`: the HTTP status, 0 or 200 inside a stream."""
    error = _innermost(value)
    code, kind_name = _name(error.get("code")), _name(error.get("type"))
    if status < 400:
        status = _status_of(error) or 0
    message = _message(error, status)
    return Failure(
        kind=_kind(status, (code, kind_name), message),
        message=message[:_MAX_MESSAGE],
        status=status,
        code=code or kind_name,
        type=kind_name,
        param=_name(error.get("param")),
        protocol=PROTOCOL,
        native=value,
    )


def _innermost(value: Json) -> dict[str, Json]:
    """The object that says most: resellers wrap the error of their own upstream, sometimes as JSON in a string."""
    found: dict[str, Json] = value if isinstance(value, dict) else {"message": value}
    for _ in range(_MAX_NESTING):
        inner = _inner(found)
        if inner is None:
            break
        # What only the outer object says (a status, a code) is kept.
        found = {**{name: value for name, value in found.items() if name in _OUTER}, **inner}
    return found


_OUTER = frozenset({"code", "type", "param", "status", "status_code"})


def _inner(error: dict[str, Json]) -> dict[str, Json] | None:
    metadata = error.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    for inner in (error.get("error"), error.get("upstream_error"), raw, error.get("message")):
        if isinstance(inner, dict):
            return inner
        if isinstance(inner, str) and inner.lstrip().startswith("{"):
            parsed = parse_object(inner)
            if parsed is not None:
                return parsed
    return None


def _name(value: Json) -> str | None:
    """A code, type or param as text. Numbers are statuses and no names."""
    return value if isinstance(value, str) and value and not value.isdigit() else None


def _status_of(error: dict[str, Json]) -> int | None:
    for name in ("code", "status_code", "status", "raw_status_code"):
        value = error.get(name)
        if isinstance(value, str) and value.isdigit() and len(value) == 3:
            value = int(value)
        if type(value) is int and 400 <= value < 600:
            return value
    return None


def _message(error: dict[str, Json], status: int) -> str:
    for name in ("message", "error", "detail", "error_message", "msg"):
        value = error.get(name)
        if isinstance(value, str) and value.strip():
            return value.strip()
        if isinstance(value, list):
            words = [_words(item) for item in value]
            if any(words):
                return "; ".join(word for word in words if word)
    return f"the upstream answered with status {status}" if status else "the upstream reported an error"


def _words(item: Json) -> str:
    """One entry of a FastAPI `detail` list."""
    if isinstance(item, dict):
        item = item.get("msg")
    return item if isinstance(item, str) else ""


def _kind(status: int, names: tuple[str | None, ...], message: str) -> FailureKind:
    """By name where the name is exact, else by status, else by a vague name."""
    named = [_KINDS_BY_NAME[name] for name in names if name in _KINDS_BY_NAME]
    exact = next((kind for kind in named if kind not in _VAGUE), None)
    if exact is not None:
        return exact
    by_status = _KINDS_BY_STATUS.get(status)
    if by_status in (None, FailureKind.INVALID_REQUEST) and _is_context(message):
        return FailureKind.CONTEXT_LENGTH
    if by_status is not None:
        return by_status
    if named:
        return named[0]
    return FailureKind.INVALID_REQUEST if 400 <= status < 500 else FailureKind.SERVER


def _is_context(message: str) -> bool:
    lower = message.lower()
    return any(words in lower for words in _CONTEXT_WORDS)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait. A date counts from the answer's own `date`: this module has no clock."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds:
        return milliseconds / 1000
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is not None or value is None:
        return seconds
    try:
        wait = parsedate_to_datetime(value) - parsedate_to_datetime(headers["date"])
    except (ValueError, TypeError, KeyError, IndexError, OverflowError):
        return None
    return max(0.0, wait.total_seconds())


def _number(value: str | None) -> float | None:
    try:
        number = float(value) if value is not None else math.nan
    except ValueError:
        return None
    return max(0.0, number) if math.isfinite(number) else None


def encode_failure(failure: Failure) -> dict[str, Json]:
    """The `error` object. Names of another protocol are not passed on."""
    _, kind, code = _REPLIES[failure.kind]
    if failure.protocol in (PROTOCOL, Protocol.RESPONSES, None) and failure.code:
        code = failure.code
    param = failure.param if failure.protocol in (PROTOCOL, None) else None
    return {"message": failure.message, "type": kind, "param": param, "code": code}


def encode_error(failure: Failure, request_id: str) -> ErrorReply:
    """The failure as an HTTP answer of the official API."""
    status = _REPLIES[failure.kind][0]
    if failure.kind is FailureKind.INVALID_REQUEST and failure.status == 422:
        status = 422
    headers = {"x-should-retry": "true" if failure.kind in _RETRY_HELPS else "false"}
    if request_id:
        headers["x-request-id"] = request_id
    if failure.retry_after is not None and failure.kind in _RETRY_HELPS:
        headers["retry-after"] = str(math.ceil(min(max(failure.retry_after, 0), _MAX_RETRY_AFTER)))
    return ErrorReply(status, {"error": encode_failure(failure)}, headers)
