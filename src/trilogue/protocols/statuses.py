"""What went wrong, as far as the HTTP status of an answer tells, whoever gave it."""

from __future__ import annotations

from trilogue.model import FailureKind

STATUSES = {
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
    504: FailureKind.TIMEOUT,
    529: FailureKind.OVERLOADED,
}
