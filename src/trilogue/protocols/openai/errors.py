"""Errors of OpenAI's two protocols, both ways.

In: status, headers and body of an error response, or any JSON that reports an error. Compatible servers send at least
18 shapes. Out: `model.Failure`, and back in the one shape that the official clients turn into their exceptions. The
module does not decide whether to retry, nor whose key is at fault.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec.structs import replace

from trilogue.base.json_text import parse_object
from trilogue.model import Failure, FailureKind, Json, Protocol
from trilogue.protocols.codec import ErrorReply
from trilogue.protocols.failure import (
    OURS,
    STATUSES,
    TOO_LONG,
    error_text,
    reply_status,
    retry_after,
    retry_headers,
    span,
)

_MAX_MESSAGE = 2_000
_MAX_NESTING = 5
FAMILY = "openai"
"""the protocols that share the names of errors, models and moderation results"""

_STATUSES = {
    **STATUSES,
    498: FailureKind.OVERLOADED,
    500: FailureKind.SERVER,
    502: FailureKind.SERVER,
    503: FailureKind.OVERLOADED,
}

_NAMES = {
    "context_length_exceeded": FailureKind.CONTEXT_LENGTH,
    "exceed_context_size_error": FailureKind.CONTEXT_LENGTH,
    "too_many_prompt_tokens": FailureKind.CONTEXT_LENGTH,
    "string_above_max_length": FailureKind.CONTEXT_LENGTH,
    "unsupported_parameter": FailureKind.UNSUPPORTED,
    "unsupported_value": FailureKind.UNSUPPORTED,
    "invalid_api_key": FailureKind.AUTHENTICATION,
    "authentication_error": FailureKind.AUTHENTICATION,
    "insufficient_quota": FailureKind.QUOTA,
    "insufficient_user_quota": FailureKind.QUOTA,
    "billing_hard_limit_reached": FailureKind.QUOTA,
    "billing_not_active": FailureKind.BILLING,
    "billing_error": FailureKind.BILLING,
    "permission_error": FailureKind.PERMISSION,
    "model_not_found": FailureKind.MODEL_NOT_FOUND,
    "model_not_available": FailureKind.MODEL_NOT_FOUND,
    "invalid_model": FailureKind.MODEL_NOT_FOUND,
    "not_found_error": FailureKind.NOT_FOUND,
    "request_too_large": FailureKind.TOO_LARGE,
    "rate_limit_exceeded": FailureKind.RATE_LIMIT,
    "rate_limit_error": FailureKind.RATE_LIMIT,
    "requests": FailureKind.RATE_LIMIT,
    "tokens": FailureKind.RATE_LIMIT,
    "slow_down": FailureKind.OVERLOADED,
    "server_is_overloaded": FailureKind.OVERLOADED,
    "overloaded": FailureKind.OVERLOADED,
    "overloaded_error": FailureKind.OVERLOADED,
    "engine_overloaded_error": FailureKind.OVERLOADED,
    "service_unavailable": FailureKind.OVERLOADED,
    "service_unavailable_error": FailureKind.OVERLOADED,
    "timeout": FailureKind.TIMEOUT,
    "timeout_error": FailureKind.TIMEOUT,
    "vector_store_timeout": FailureKind.TIMEOUT,
    "invalid_request_error": FailureKind.INVALID_REQUEST,
    "invalid_prompt": FailureKind.INVALID_REQUEST,
    "tool_use_failed": FailureKind.INVALID_REQUEST,
    "server_error": FailureKind.SERVER,
    "internal_server_error": FailureKind.SERVER,
}
"""Codes and types of OpenAI and of compatible servers."""
_VAGUE = frozenset({FailureKind.INVALID_REQUEST, FailureKind.SERVER})
"""Kinds whose names servers also use where the message or the status is more precise."""

_HINTS = (
    (TOO_LONG, FailureKind.CONTEXT_LENGTH),
    (re.compile(r"exceeded your current quota", re.IGNORECASE), FailureKind.QUOTA),
    (re.compile(r"incorrect api key|invalid api key", re.IGNORECASE), FailureKind.AUTHENTICATION),
    (re.compile(r"model not found|model .* does not exist", re.IGNORECASE), FailureKind.MODEL_NOT_FOUND),
)  # fmt: skip
"""What only the words show. They count where the status only says that the request is wrong."""

_OFFICIAL_TOO_LONG = re.compile(
    r"maximum context (length|limit)|context window|exceed context limit|available context size"
    r"|maximum number of tokens",
    re.IGNORECASE,
)

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
"""Status, type and code for a client."""


def read_error(status: int, headers: Mapping[str, str], body: bytes, protocol: Protocol) -> Failure:
    """Return the failure that an HTTP error response reports, whatever its body is."""
    lower = {name.lower(): value for name, value in headers.items()}
    failure = read_failure(_parse(body), protocol, status)
    wait = None if failure.kind is FailureKind.QUOTA else retry_after(lower) or failure.retry_after
    return replace(failure, retry_after=wait, request_id=lower.get("x-request-id") or lower.get("request-id"))


def _parse(body: bytes) -> Json:
    """Return the JSON if it is an object, the text if it is not a web page, else None."""
    text = error_text(body)
    value = parse_object(text)
    if value is not None:
        return value
    return None if text.startswith(("<", "[")) else text.strip('"') or None


def read_failure(value: Json, protocol: Protocol, status: int = 0) -> Failure:
    """Return the failure that a JSON value reports. `status`: the HTTP status, 0 or 200 inside a stream."""
    error = _innermost(value)
    code, kind_name = _name(error.get("code")), _name(error.get("type"))
    if status < 400:
        status = _status_of(error) or 0
    message = _message(error, status)
    return Failure(
        kind=_kind(status, (code, kind_name), message),
        message=message[:_MAX_MESSAGE],
        status=status,
        code=code,
        type=kind_name,
        param=_name(error.get("param")),
        retry_after=_delay(error) or retry_after({}, message),
        protocol=protocol,
        native=value,
    )


def has_verdict(body: dict[str, Json]) -> bool:
    """Return True if the body has MiniMax's `base_resp` with an error. Good responses have one too, with 0."""
    verdict = body.get("base_resp")
    return isinstance(verdict, dict) and type(verdict.get("status_code")) is int and verdict["status_code"] != 0


_VERDICTS = {
    1001: 504,
    1002: 429,
    1004: 401,
    1008: 402,
    1026: 400,
    1027: 400,
    1039: 429,
    1041: 429,
    2013: 400,
    2049: 401,
    2056: 429,
}
"""MiniMax's codes, and the HTTP statuses with the same meaning."""

_OUTER = frozenset({"code", "type", "param", "status", "status_code"})


def _innermost(value: Json) -> dict[str, Json]:
    """Return the innermost error: resellers wrap that of their own upstream, sometimes as JSON in a string."""
    found: dict[str, Json] = value if isinstance(value, dict) else {"message": value}
    for _ in range(_MAX_NESTING):
        inner = _inner(found)
        if inner is None:
            break
        # Keep what only the outer object has, such as a status or a code.
        found = {**{name: value for name, value in found.items() if name in _OUTER}, **inner}
    return found


def _inner(error: dict[str, Json]) -> dict[str, Json] | None:
    metadata = error.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    verdict = error.get("base_resp") if has_verdict(error) else None
    for inner in (error.get("error"), error.get("upstream_error"), verdict, raw, error.get("message")):
        if isinstance(inner, dict) and inner:
            return inner
        if isinstance(inner, str) and inner.lstrip().startswith("{"):
            parsed = parse_object(inner)
            if parsed is not None:
                return parsed
    return None


def _name(value: Json) -> str | None:
    """Return a code, type or param if it is a name. Numbers are statuses."""
    return value if isinstance(value, str) and value and not value.isdigit() else None


def _delay(error: dict[str, Json]) -> float | None:
    """Return the seconds to wait from Google's `retryDelay`, or None."""
    details = error.get("details")
    for entry in details if isinstance(details, list) else ():
        if isinstance(entry, dict) and isinstance(delay := entry.get("retryDelay"), str):
            return span(delay)
    return None


def _status_of(error: dict[str, Json]) -> int | None:
    for name in ("code", "status_code", "status", "raw_status_code"):
        value = error.get(name)
        if isinstance(value, str) and value.isdigit() and len(value) == 3:
            value = int(value)
        if type(value) is int and (value in _VERDICTS or 400 <= value < 600):
            return _VERDICTS.get(value, value)
    return None


def _message(error: dict[str, Json], status: int) -> str:
    for name in ("message", "error", "detail", "errors", "error_message", "error_msg", "status_msg", "msg"):
        value = error.get(name)
        if isinstance(value, str) and value.strip():
            return value.strip()
        if isinstance(value, list):
            words = [_words(item) for item in value]
            if any(words):
                return "; ".join(word for word in words if word)
    return f"the upstream responded with status {status}" if status else "the upstream reported an error"


def _words(item: Json) -> str:
    """Return the text of one entry of a list of errors: FastAPI's `detail`, Cloudflare's `errors`."""
    if isinstance(item, dict):
        item = item.get("msg") or item.get("message")
    return item if isinstance(item, str) else ""


def _kind(status: int, names: tuple[str | None, ...], message: str) -> FailureKind:
    """Return the kind: by an exact name, else by the words, else by status, else by a vague name."""
    named = [_NAMES[name] for name in names if name in _NAMES]
    exact = next((kind for kind in named if kind not in _VAGUE), None)
    if exact is not None:
        return exact
    by_status = _STATUSES.get(status)
    if by_status in (None, FailureKind.INVALID_REQUEST):
        hinted = next((kind for pattern, kind in _HINTS if pattern.search(message)), None)
        if hinted is not None:
            return hinted
    if by_status is not None:
        return by_status
    if named:
        return named[0]
    return FailureKind.INVALID_REQUEST if 400 <= status < 500 else FailureKind.SERVER


def write_failure(failure: Failure, protocol: Protocol) -> dict[str, Json]:
    """Return the `error` object. Names of another protocol are replaced by OpenAI's."""
    _, kind, code = _REPLIES[failure.kind]
    if failure.status not in OURS:
        # The gateway's own failures have codes but no types; the names of other protocols mean nothing here.
        kind = failure.type or kind if _is_own(failure) else kind
        code = failure.code or code if failure.protocol is None or _is_own(failure) else code
    param = failure.param if failure.protocol in (protocol, None) else None
    message = failure.message
    if failure.kind is FailureKind.CONTEXT_LENGTH and not _OFFICIAL_TOO_LONG.search(message):
        # LiteLLM, and therefore aider, looks for OpenAI's words, not for its code.
        message = f"This model's maximum context length is exceeded: {message}"
    return {"message": message, "type": kind, "param": param, "code": code}


def write_error(failure: Failure, request_id: str, protocol: Protocol) -> ErrorReply:
    """Return the failure as an HTTP response of the official API."""
    status = reply_status(failure, _REPLIES[failure.kind][0], own=_is_own(failure))
    headers = {"x-request-id": request_id} if request_id else {}
    return ErrorReply(status, {"error": write_failure(failure, protocol)}, headers | retry_headers(failure))


def _is_own(failure: Failure) -> bool:
    """Return whether a failure came from an upstream that has OpenAI's names."""
    return failure.protocol is not None and failure.protocol.traits.family == FAMILY
