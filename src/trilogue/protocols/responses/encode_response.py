"""The encoder for complete Responses responses.

A complete response is what the last event of its stream contains, so the stream encoder writes it from the same items.
"""

from __future__ import annotations

from trilogue.base.json_text import dump
from trilogue.model import Json, Response
from trilogue.protocols.responses.encode_stream import ResponsesStreamEncoder
from trilogue.protocols.stream.reply import Reply


def encode_response(response: Response, reply: Reply) -> dict[str, Json]:
    """Return the complete response in the client's protocol."""
    body = ResponsesStreamEncoder(reply).whole(response)
    if not reply.parsed:
        dump(body)  # raise for values that JSON cannot express, as the events of a stream do
    return body
