"""What went wrong, as far as the HTTP status of an answer tells, and the status that a client gets for it.

What the body of an error says, whatever it is packed in.
"""

from __future__ import annotations

from trilogue.model import Failure, FailureKind


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
