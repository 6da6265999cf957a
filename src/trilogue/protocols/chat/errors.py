"""Errors, both ways. The shapes are those of `openai_errors`; here is what only Chat has: errors inside a 200.

In: status, headers and body of a failed answer, or the body or chunk of a good one. Out: `model.Failure`, and back.
"""

from __future__ import annotations

from collections.abc import Mapping

from trilogue.model import Failure, Json
from trilogue.protocols.chat.wire import PROTOCOL
from trilogue.protocols.codec import ErrorReply
from trilogue.protocols.openai_errors import read_error, read_failure, write_error, write_failure


def decode_error(status: int, headers: Mapping[str, str], body: bytes) -> Failure:
    """The failure that an HTTP answer reports, whatever its body is."""
    return read_error(status, headers, body, PROTOCOL)


def decode_failure(value: Json, status: int = 0) -> Failure:
    """The failure that a JSON value reports."""
    return read_failure(value, PROTOCOL, status)


def find_failure(body: dict[str, Json]) -> Failure | None:
    """The failure that a body or chunk is, although it came with a good status; None if it is none."""
    is_error = bool(body.get("error")) or body.get("object") == "error" or body.get("type") == "error"
    if not is_error and "choices" not in body:
        is_error = "detail" in body or isinstance(body.get("message"), str)
    return decode_failure(body) if is_error else None


def encode_failure(failure: Failure) -> dict[str, Json]:
    """The `error` object, in a body or as the last event of a stream."""
    return write_failure(failure, PROTOCOL)


def encode_error(failure: Failure, request_id: str) -> ErrorReply:
    """The failure as an HTTP answer."""
    return write_error(failure, request_id, PROTOCOL)
