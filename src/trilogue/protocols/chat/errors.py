"""Errors, both ways. The shapes are those of `openai_errors`; here is what only Chat has: errors inside a 200.

In: status, headers and body of a failed answer, or the body or chunk of a good one. Out: `model.Failure`, and back.
"""

from __future__ import annotations

from collections.abc import Mapping

from trilogue.model import Failure, Json
from trilogue.protocols.chat.wire import PROTOCOL
from trilogue.protocols.codec import ErrorReply
from trilogue.protocols.openai.errors import has_verdict, read_error, read_failure, write_error, write_failure


def decode_error(status: int, headers: Mapping[str, str], body: bytes) -> Failure:
    """The failure that an HTTP answer reports, whatever its body is."""
    return read_error(status, headers, body, PROTOCOL)


def decode_failure(value: Json, status: int = 0) -> Failure:
    """The failure that a JSON value reports."""
    return read_failure(value, PROTOCOL, status)


def find_failure(body: dict[str, Json]) -> Failure | None:
    """The failure that a body or chunk is, although it came with a good status; None if it is none."""
    is_error = bool(body.get("error")) or body.get("object") == "error" or body.get("type") == "error"
    if not is_error and not body.get("choices"):
        is_error = any(body.get(name) for name in _LISTS) or any(isinstance(body.get(name), str) for name in _WORDS)
    return decode_failure(body) if is_error or ("base_resp" in body and has_verdict(body)) else None


_LISTS = ("detail", "errors")
_WORDS = ("message", "msg", "error_msg", "error_message")
"""what a body without an answer has instead of one: FastAPI, Cloudflare, DashScope, Baidu and others"""
MARKS = frozenset({"error", "type", "base_resp", *_LISTS, *_WORDS})
"""a body that has none of these fields, and is no `object` of the type error, is no failure"""


def failure_of_text(text: str) -> Failure:
    """An error that is no JSON."""
    return decode_failure(text.strip() or None)


def encode_failure(failure: Failure) -> dict[str, Json]:
    """The `error` object, in a body or as the last event of a stream."""
    return write_failure(failure, PROTOCOL)


def encode_error(failure: Failure, request_id: str) -> ErrorReply:
    """The failure as an HTTP answer."""
    return write_error(failure, request_id, PROTOCOL)
