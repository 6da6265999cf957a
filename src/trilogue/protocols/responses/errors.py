"""Errors of Responses, both ways. The shapes are in `openai.errors`; only failed response objects are its own.

In: status, headers and body of an error response, the error object of a stream, or a response object. Out:
`model.Failure`, and back.
"""

from __future__ import annotations

from collections.abc import Mapping

from trilogue.model import Failure, FailureKind, Json
from trilogue.protocols.codec import ErrorReply
from trilogue.protocols.failure import may_pass
from trilogue.protocols.openai.errors import read_error, read_failure, write_error, write_failure
from trilogue.protocols.responses.wire import PROTOCOL

STREAMED_FAILURES = frozenset({FailureKind.CONTEXT_LENGTH})
"""OpenAI reports these after `response.created`. Codex then compacts its history; at an HTTP 400 it gives up."""

_NO_MONEY = frozenset({FailureKind.QUOTA, FailureKind.BILLING})
_GIVES_UP = frozenset({"server_is_overloaded", "slow_down"})
"""Codes at which Codex 0.166 gives up, although a retry helps."""


def decode_error(status: int, headers: Mapping[str, str], body: bytes) -> Failure:
    """Return the failure that an HTTP error response reports, whatever its body is."""
    return read_error(status, headers, body, PROTOCOL)


def decode_failure(value: Json, status: int = 0) -> Failure:
    """Return the failure that a JSON value reports."""
    return read_failure(value, PROTOCOL, status)


def failure_of_response(body: dict[str, Json]) -> Failure:
    """Return the failure that a response object reports."""
    error = body.get("error")
    if isinstance(error, (dict, str)) and error:
        return decode_failure({"error": error})
    status = body.get("status")
    named = status if isinstance(status, str) else "failed"
    return decode_failure({"message": f"the response is {named}", "code": named})


def encode_failure(failure: Failure) -> dict[str, Json]:
    """Return the `error` object, for a body or the events that end a stream."""
    return write_failure(failure, PROTOCOL)


def encode_error(failure: Failure, request_id: str) -> ErrorReply:
    """Return the failure as an HTTP response."""
    return write_error(failure, request_id, PROTOCOL)


def streamed_code(failure: Failure, code: str) -> str:
    """Return the code for a failed response in a stream. Codex and opencode retry at every code but a few."""
    if may_pass(failure):
        return "server_error" if failure.kind is FailureKind.OVERLOADED or code in _GIVES_UP else code
    if failure.kind is FailureKind.CONTEXT_LENGTH:
        return "context_length_exceeded"
    if failure.kind in _NO_MONEY or failure.code == "upstream_quota":
        return "insufficient_quota"
    return code if failure.protocol is PROTOCOL and failure.code else "invalid_prompt"
