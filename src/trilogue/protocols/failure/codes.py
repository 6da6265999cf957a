"""What clients go by when an answer fails: words in the message, codes inside a stream.

An HTTP error has a status and headers for that. Inside a stream there is only the error itself, and every agent has
its own way to tell what may pass from what will not. docs/errors.md lists what each of them looks for.

What went wrong, as far as the HTTP status of an answer tells, and the status that a client gets for it.

What the body of an error says, whatever it is packed in.
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from trilogue.model import Failure, FailureKind, Protocol


def error_text(body: bytes) -> str:
    """The text, without the list of one that Google puts around it, or the event of a stream that LiteLLM does."""
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
    # Between us and the upstream: the client has no part in that connection.
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
"""statuses of an upstream that speak of our request to it, not of the client's to us"""


def reply_status(failure: Failure, usual: int, *, own: bool) -> int:
    """The status for a client. `usual`: that of the failure's kind; `own`: the upstream is of the client's vendor.

    A request that is wrong in a way of its own (405, 418, 422, 451) stays wrong in that way, whoever says so.
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
FINAL_CODES = frozenset({"upstream_credential", "upstream_quota", "upstream_tls", "gateway_loop"})
"""failures of the gateway's own that only who runs it can mend, whatever their kind"""

RETRY_WORDS = re.compile(
    r"429|500|502|503|504|524|rate[ _-]limit|too many requests|overloaded|service[ _-]unavailable|internal[ _]error"
    r"|internal server error|server[ _-]error|provider[ _-]returned[ _-]error|network[-_\s]error|connection error"
    r"|connection refused|connection lost|resource[ _]exhausted|try again (?:later|in\b)",
    re.IGNORECASE,
)
"""opencode tries again if the message of a stream's error has one of these words (1.18, among others of transports)"""
_RETRY_PREFIX = "Provider returned error"
"""OpenRouter's words: the only ones that make Cline (3.0) try again, and among those of opencode"""

TOO_LONG = re.compile(
    r"prompt is too long|maximum.{0,20}context|context (length|window|size|limit)|context_length_exceeded"
    r"|too many tokens|input is too long|maximum prompt length|token count.{0,40}exceeds the maximum"
    r"|exceeded model token limit|reduce the length of the (messages|input|prompt)",
    re.IGNORECASE,
)
"""how vendors say that the context is full; agents that read it in an error make their history shorter"""

_NO_MONEY = frozenset({FailureKind.QUOTA, FailureKind.BILLING})
_GIVES_UP = frozenset({"server_is_overloaded", "slow_down"})
"""codes at which Codex (0.166) gives up, although they pass"""


def may_pass(failure: Failure) -> bool:
    """Whether the same request may succeed a little later."""
    return failure.kind in RETRY_HELPS and failure.code not in FINAL_CODES


def in_stream(failure: Failure) -> Failure:
    """The failure as it is told inside a stream: what may pass is said in words at which agents try again."""
    if not may_pass(failure) or RETRY_WORDS.search(failure.message):
        return failure
    return replace(failure, message=f"{_RETRY_PREFIX}: {failure.message}")


def responses_code(failure: Failure, code: str) -> str:
    """The code for a failed response inside a stream. Codex and opencode retry at every code but the few they know."""
    if may_pass(failure):
        return "server_error" if failure.kind is FailureKind.OVERLOADED or code in _GIVES_UP else code
    if failure.kind is FailureKind.CONTEXT_LENGTH:
        return "context_length_exceeded"
    if failure.kind in _NO_MONEY or failure.code == "upstream_quota":
        return "insufficient_quota"
    return code if failure.protocol is Protocol.RESPONSES and failure.code else "invalid_prompt"
