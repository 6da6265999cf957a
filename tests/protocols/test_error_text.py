"""What errors are packed in."""

from __future__ import annotations

import pytest

from trilogue.model import FailureKind, Protocol
from trilogue.protocols.registry import codec

ERROR = '{"error": {"message": "no quota for you", "type": "rate_limit_error", "code": "429"}}'

PACKED = {
    "bare": ERROR,
    "list": f"[{ERROR}]\n",
    "event": f"data: {ERROR}\n\ndata: [DONE]\n\n",
    "named": f"event: error\r\ndata: {ERROR}\r\n\r\n",
}


@pytest.mark.parametrize("protocol", Protocol)
@pytest.mark.parametrize("packed", PACKED.values(), ids=PACKED)
def test_the_error_is_found_inside(protocol: Protocol, packed: str) -> None:
    """LiteLLM answers a request for a stream that fails at once with its status and an event."""
    failure = codec(protocol).decode_error(429, {}, packed.encode())
    assert (failure.message, failure.kind) == ("no quota for you", FailureKind.RATE_LIMIT)


@pytest.mark.parametrize("protocol", Protocol)
@pytest.mark.parametrize("body", ["data: ", "event: error", "data: [DONE]", "[]", "[1]", "data:\xff"])
def test_what_has_no_error_inside_is_still_one(protocol: Protocol, body: str) -> None:
    """With the kind that its status has."""
    failure = codec(protocol).decode_error(429, {}, body.encode("latin-1"))
    assert failure.kind is FailureKind.RATE_LIMIT
    assert failure.message
