"""What all protocols share about errors: statuses, texts and words, when to retry, and exceptions as a `Failure`.

Statuses, codes and words say what an error means, and which errors make clients retry. For HTTP errors, clients decide
by status and headers. Inside a stream there is only the error itself, and every agent has its own way to recognise what
a retry can fix. docs/errors.md lists what each agent looks for.

`failure_of` is the one place where an exception becomes a `Failure`, which the pool classifies and a codec writes for
the client. How an error looks on the wire is in each protocol's `errors.py`; what to do about it, and how long an
account cools down for it, is decided in `routing.pool`.

The way of an error from the socket to the client, in order of calls:

1. An exception is raised.
   - No connection: `net.client.failures.connect_failure` and `tls_failure` make an OSError an `UpstreamConnect`.
   - A connection that breaks or goes silent: `net.client.connection` and `net.client.exchange` raise `UpstreamConnect`,
     `UpstreamTruncated`, `UpstreamTimeout` or `UpstreamProtocolError`.
   - An HTTP status of 400 or more: `gateway.request.failures.response_failure` removes secrets from the body, and
     `decode_error` of the upstream's codec reads it. The result is raised as an `UpstreamFailure`.
   - An error inside a response with status 200: the codec's decoder raises `UpstreamFailure` or another
     `UpstreamError`. `StreamDecoder.fail` makes it the last event, `Failed`, with `failure_of`.
2. `gateway.request.failures.redacted` removes secrets of the account from what the upstream said. Nothing before this
   point is logged or sent.
3. `routing.pool.classify.classify` decides, on the result of `failure_of`, whether another attempt is made.
4. If there is none, `gateway.request.failures.client_failure` calls `failure_of` and replaces failures that only the
   operator can fix. `error_reply` then writes an HTTP response with `encode_error` of the client's codec. Once a stream
   has begun, the client's encoder writes the failure as its last event.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import datetime

from msgspec.structs import replace

from trilogue.errors import (
    ClientError,
    LimitReached,
    TrilogueError,
    UpstreamConnect,
    UpstreamError,
    UpstreamFailure,
    UpstreamProtocolError,
    UpstreamTimeout,
    UpstreamTruncated,
)
from trilogue.model import Failure, FailureKind, Protocol

_CLOCK = r"(?P<clock>\d\d:\d\d:\d\d)"
_DATES = (
    re.compile(
        rf"\w+, (?P<day>\d\d?)[ -](?P<month>\w+)[ -](?P<year>\d\d(\d\d)?) {_CLOCK} (GMT|UTC|[+-]0000)", re.ASCII
    ),
    re.compile(rf"\w+ (?P<month>\w+) +(?P<day>\d\d?) {_CLOCK} (?P<year>\d\d\d\d)", re.ASCII),
)
"""RFC 9110 §5.6.7: the current form and both old ones. `email.utils` would load the whole mail package."""
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_SAID = re.compile(r"(?:try again|retry) (?:in|after) (?=\d)([\d.hms]+(?:\s*(?:ms|s|sec|seconds?)\b)?)", re.IGNORECASE)
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|h|m|s)", re.IGNORECASE)
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_REMAINING = re.compile(r"(?:x|anthropic)-ratelimit-(?:remaining-(\w+)|([\w-]+)-remaining)")
_RESET_SPAN = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_UPSTREAM_KINDS = {
    UpstreamProtocolError: FailureKind.UPSTREAM_PROTOCOL,
    UpstreamTruncated: FailureKind.UPSTREAM_TRUNCATED,
    UpstreamConnect: FailureKind.UPSTREAM_CONNECT,
    UpstreamTimeout: FailureKind.TIMEOUT,
}
_OWN_KINDS = {
    400: FailureKind.INVALID_REQUEST,
    401: FailureKind.AUTHENTICATION,
    403: FailureKind.PERMISSION,
    404: FailureKind.NOT_FOUND,
    405: FailureKind.INVALID_REQUEST,
    408: FailureKind.INVALID_REQUEST,
    409: FailureKind.INVALID_REQUEST,
    413: FailureKind.TOO_LARGE,
    415: FailureKind.INVALID_REQUEST,
    426: FailureKind.INVALID_REQUEST,
    429: FailureKind.RATE_LIMIT,
    431: FailureKind.TOO_LARGE,
    503: FailureKind.UNAVAILABLE,
}
"""Statuses that the gateway itself gives. A 408 of ours is about the client's slow request, not an upstream's."""


def error_text(body: bytes) -> str:
    """Return the text of an error body. Google puts a list around it, LiteLLM an event of a stream."""
    text = body.decode("utf-8", "replace").strip()
    if text.startswith(("data:", "event:")):
        return next((line[5:].strip() for line in text.split("\n") if line.startswith("data:")), text)
    inner = text.removeprefix("[").removesuffix("]").strip()
    return inner if inner.startswith("{") else text


STATUSES = {
    400: FailureKind.INVALID_REQUEST,
    401: FailureKind.AUTHENTICATION,
    402: FailureKind.BILLING,
    403: FailureKind.PERMISSION,
    404: FailureKind.NOT_FOUND,
    # About our own connection to the upstream, not the client's.
    407: FailureKind.UPSTREAM_CONNECT,
    408: FailureKind.TIMEOUT,
    409: FailureKind.CONFLICT,
    413: FailureKind.TOO_LARGE,
    422: FailureKind.INVALID_REQUEST,
    429: FailureKind.RATE_LIMIT,
    504: FailureKind.TIMEOUT,
    529: FailureKind.OVERLOADED,
}
OURS = frozenset({407, 408})
"""Statuses of an upstream that are about our request to it, not about the client's request."""


def reply_status(failure: Failure, usual: int, *, own: bool) -> int:
    """Return the status for a client.

    `usual`: the one for the failure's kind. `own`: the upstream's errors have the names of the client's protocol. An
    unusual status for a wrong request (405, 418, 422, 451) is kept in any case.
    """
    status = failure.status
    if failure.protocol is None or status in OURS:
        return usual
    keeps = own and 400 <= status < 600
    if keeps or (failure.kind is FailureKind.INVALID_REQUEST and 400 <= status < 500):
        return status
    return usual


RETRY_HELPS = frozenset(
    {
        FailureKind.CONFLICT,
        FailureKind.RATE_LIMIT,
        FailureKind.SERVER,
        FailureKind.OVERLOADED,
        FailureKind.TIMEOUT,
        FailureKind.UNAVAILABLE,
        FailureKind.UPSTREAM_PROTOCOL,
        FailureKind.UPSTREAM_TRUNCATED,
        FailureKind.UPSTREAM_CONNECT,
    }
)
FINAL_CODES = frozenset(
    {"upstream_credential", "upstream_quota", "upstream_tls", "upstream_unreachable", "gateway_loop"}
)
"""Codes of failures that only the operator of the gateway can fix, whatever their kind."""

RETRY_WORDS = re.compile(
    r"429|500|502|503|504|524|rate[ _-]limit|too many requests|overloaded|service[ _-]unavailable|internal[ _]error"
    r"|internal server error|server[ _-]error|provider[ _-]returned[ _-]error|network[-_\s]error|connection error"
    r"|connection refused|connection lost|resource[ _]exhausted|try again (?:later|in\b)",
    re.IGNORECASE,
)
"""opencode 1.18 retries if the message of an error in a stream has one of these words."""
_RETRY_PREFIX = "Provider returned error"
"""OpenRouter's words. They are the only ones that make Cline 3.0 retry, and opencode knows them too."""

TOO_LONG = re.compile(
    r"prompt is too long|maximum.{0,20}context|context (length|window|size|limit)|context_length_exceeded"
    r"|too many tokens|input is too long|maximum prompt length|token count.{0,40}exceeds the maximum"
    r"|exceeded model token limit|reduce the length of the (messages|input|prompt)",
    re.IGNORECASE,
)
"""How vendors say that the context is full. Agents that read this in an error shorten their history."""


def may_pass(failure: Failure) -> bool:
    """Return True if the same request may succeed a little later."""
    return failure.kind in RETRY_HELPS and failure.code not in FINAL_CODES


def in_stream(failure: Failure) -> Failure:
    """Return the failure for use inside a stream. If a retry may help, its message has words that make agents retry."""
    if not may_pass(failure) or RETRY_WORDS.search(failure.message):
        return failure
    return replace(failure, message=f"{_RETRY_PREFIX}: {failure.message}")


def retry_after(headers: Mapping[str, str], message: str = "") -> float | None:
    """Return the seconds to wait, from the headers (names in lower case) or else the words of the error; or None.

    A date in `retry-after` counts from the response's own `date`, because this module has no clock. The gateway adds a
    missing `date`.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds:
        return milliseconds / 1000
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is None and value is not None:
        seconds = _until(value, headers.get("date"))
    return _said(message) if seconds is None else seconds


def reset_delay(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds until the limits that are used up are reset, from rate-limit headers; None if they don't say.

    OpenAI: `x-ratelimit-remaining-tokens: 0`, `x-ratelimit-reset-tokens: 6m0.5s`. Anthropic:
    `anthropic-ratelimit-tokens-remaining: 0`, `anthropic-ratelimit-tokens-reset:` a date. `now`: wall clock.
    """
    waits = []
    for name, value in headers.items():
        found = _REMAINING.fullmatch(name.lower())
        if found is None or value.strip() != "0":
            continue
        reset = f"x-ratelimit-reset-{found[1]}" if found[1] else f"anthropic-ratelimit-{found[2]}-reset"
        wait = _until_reset(headers.get(reset, ""), now)
        if wait is not None:
            waits.append(wait)
    return max(waits, default=None)


def with_retry_after(failure: Failure, seconds: float | None) -> Failure:
    """Return a failure with this retry time if it has none."""
    return failure if seconds is None or failure.retry_after is not None else replace(failure, retry_after=seconds)


def _until_reset(text: str, now: float) -> float | None:
    parts = _RESET_SPAN.findall(text)
    if parts and _RESET_SPAN.sub("", text).strip() == "":
        return _seconds(parts)
    try:
        seconds = float(text)
        return max(seconds, 0.0) if math.isfinite(seconds) else None
    except ValueError:
        pass
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if date.tzinfo is None else max(date.timestamp() - now, 0.0)


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _until(value: str, now: str | None) -> float | None:
    end, start = http_date(value), http_date(now or "")
    return None if end is None or start is None else max((end - start).total_seconds(), 0.0)


def http_date(text: str) -> datetime | None:
    """Return the date that an HTTP header holds, in UTC; None if it is not one."""
    found = next((match for form in _DATES if (match := form.fullmatch(text.strip()))), None)
    if found is None or found["month"] not in _MONTHS:
        return None
    year = found["year"] if len(found["year"]) == 4 else f"20{found['year']}"
    month = _MONTHS.index(found["month"]) + 1
    try:
        return datetime.fromisoformat(f"{year}-{month:02}-{found['day']:0>2}T{found['clock']}")
    except ValueError:
        return None


def _said(message: str) -> float | None:
    found = _SAID.search(message)
    return span(found[1]) if found else None


def span(text: str) -> float | None:
    """Return the seconds of a duration as providers write it: 250ms, 7s, 34.07s, 6m0s, 20 seconds."""
    parts = _SPAN.findall(text)
    return _seconds(parts) if parts else None


def _seconds(parts: list[tuple[str, str]]) -> float:
    return sum(float(number) * _UNITS[unit.lower()] for number, unit in parts)


def retry_headers(failure: Failure) -> dict[str, str]:
    """Return the headers by which the official SDKs decide whether and when to retry."""
    if not may_pass(failure):
        return {"x-should-retry": "false"}
    headers = {"x-should-retry": "true"}
    if failure.retry_after is not None:
        headers["retry-after"] = str(math.ceil(max(failure.retry_after, 0)))
    return headers


def failure_of(error: TrilogueError | Failure, protocol: Protocol | None = None) -> Failure:
    """Return an error as data; a `Failure` comes back unchanged.

    `protocol`: the one whose response the failure takes the place of. Without it, an upstream error of our own has no
    status, because no server sent one: the pool's rules must not match it by status.
    """
    if isinstance(error, Failure):
        return error
    if isinstance(error, UpstreamFailure) and isinstance(error.failure, Failure):
        return error.failure
    if isinstance(error, UpstreamError):
        return Failure(
            kind=_UPSTREAM_KINDS.get(type(error), FailureKind.SERVER),
            message=str(error),
            status=error.status if protocol is not None else 0,
            code=error.code,
            protocol=protocol,
        )
    if isinstance(error, LimitReached):
        kind = FailureKind.QUOTA if error.is_budget else FailureKind.RATE_LIMIT
        return Failure(kind=kind, message=error.message, status=429, code=error.code, retry_after=error.retry_after)
    if isinstance(error, ClientError):
        kind = FailureKind.MODEL_NOT_FOUND if error.code == "model_not_found" else _OWN_KINDS[error.status]
        return Failure(kind=kind, message=error.message, status=error.status, code=error.code, param=error.path or None)
    return own_failure(500, "internal error", "internal_error")


def own_failure(status: int, message: str, code: str) -> Failure:
    """Return a failure that the gateway found itself, such as a missing key, an unknown path, a body too large."""
    return Failure(kind=_OWN_KINDS.get(status, FailureKind.SERVER), message=message, status=status, code=code)
