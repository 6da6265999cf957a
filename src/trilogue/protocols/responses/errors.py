"""Errors, both ways. The shapes are those of `openai_errors`; here is what only Responses has: a response that failed.

In: status, headers and body of a failed answer, the error object of a stream, or a response object. Out:
`model.Failure`, and back.
"""

from __future__ import annotations

from collections.abc import Mapping

from trilogue.model import Failure, FailureKind, Json
from trilogue.protocols.codec import ErrorReply
from trilogue.protocols.openai.errors import read_error, read_failure, write_error, write_failure
from trilogue.protocols.responses.wire import PROTOCOL

STREAMED_FAILURES = frozenset({FailureKind.CONTEXT_LENGTH})
"""OpenAI says it after `response.created`. Codex compacts its history when it reads it there, and gives up at a 400."""


def decode_error(status: int, headers: Mapping[str, str], body: bytes) -> Failure:
    """The failure that an HTTP answer reports, whatever its body is."""
    return read_error(status, headers, body, PROTOCOL)


def decode_failure(value: Json, status: int = 0) -> Failure:
    """The failure that a JSON value reports."""
    return read_failure(value, PROTOCOL, status)


def failure_of_response(body: dict[str, Json]) -> Failure:
    """The failure that a response object tells of."""
    error = body.get("error")
    if isinstance(error, (dict, str)) and error:
        return decode_failure({"error": error})
    status = body.get("status")
    named = status if isinstance(status, str) else "failed"
    return decode_failure({"message": f"the response is {named}", "code": named})


def encode_failure(failure: Failure) -> dict[str, Json]:
    """The `error` object, in a body or in the events that end a stream."""
    return write_failure(failure, PROTOCOL)


def encode_error(failure: Failure, request_id: str) -> ErrorReply:
    """The failure as an HTTP answer."""
    return write_error(failure, request_id, PROTOCOL)
