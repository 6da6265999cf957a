"""Statuses, codes and words of errors: what they mean, and which of them make clients retry.

In: the body of an error response, or a `Failure`. Out: its text, its kind by status, the status and the words for a
client. For HTTP errors, clients decide by status and headers. Inside a stream there is only the error itself, and every
agent has its own way to recognise what a retry can fix. docs/errors.md lists what each agent looks for.
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from trilogue.model import Failure, FailureKind


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
