"""What is no request that anyone could answer, and what is said about it."""

from __future__ import annotations

MAX_HEAD_BYTES = 64 * 1024
MAX_HEADERS = 100

Problem = tuple[int, str, str]
"""status, text, code"""

BAD: Problem = (400, "this is not a valid HTTP request", "bad_http")
BAD_HOST: Problem = (400, "there must be one valid Host header", "bad_host")
TOO_LARGE: Problem = (
    431,
    f"the head of a request may have {MAX_HEAD_BYTES} bytes and {MAX_HEADERS} headers",
    "head_too_large",
)
TOO_SLOW: Problem = (408, "the head of the request came too slowly", "request_timeout")
