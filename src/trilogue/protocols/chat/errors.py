"""Errors of Chat Completions, both ways. The shapes are in `openai.errors`; only errors inside a 200 are Chat's own.

In: status, headers and body of an error response, or a body or chunk of a response with status 200. Out:
`model.Failure`, and back.
"""

from __future__ import annotations

from collections.abc import Mapping

from trilogue.model import Failure, Json
from trilogue.protocols.chat.wire import PROTOCOL
from trilogue.protocols.codec import ErrorReply
from trilogue.protocols.openai.errors import has_verdict, read_error, read_failure, write_error, write_failure


def decode_error(status: int, headers: Mapping[str, str], body: bytes) -> Failure:
    """Return the failure that an HTTP error response reports, whatever its body is."""
    return read_error(status, headers, body, PROTOCOL)


def decode_failure(value: Json, status: int = 0) -> Failure:
    """Return the failure that a JSON value reports."""
    return read_failure(value, PROTOCOL, status)


def find_failure(body: dict[str, Json]) -> Failure | None:
    """Return the failure that a body or chunk with status 200 reports; None if it reports none."""
    is_error = bool(body.get("error")) or body.get("object") == "error" or body.get("type") == "error"
    if not is_error and not body.get("choices"):
        is_error = any(body.get(name) for name in _LISTS) or any(isinstance(body.get(name), str) for name in _WORDS)
    return decode_failure(body) if is_error or ("base_resp" in body and has_verdict(body)) else None


_LISTS = ("detail", "errors")
_WORDS = ("message", "msg", "error_msg", "error_message")
"""Fields of errors in bodies without `choices`: FastAPI, Cloudflare, DashScope, Baidu and others."""
MARKS = frozenset({"error", "type", "base_resp", *_LISTS, *_WORDS})
"""A body with none of these fields, and whose `object` is not `error`, is not a failure."""


def failure_of_text(text: str) -> Failure:
    """Return the failure for an error that is not JSON."""
    return decode_failure(text.strip() or None)


def encode_failure(failure: Failure) -> dict[str, Json]:
    """Return the `error` object, for a body or the last event of a stream."""
    return write_failure(failure, PROTOCOL)


def encode_error(failure: Failure, request_id: str) -> ErrorReply:
    """Return the failure as an HTTP response."""
    return write_error(failure, request_id, PROTOCOL)
