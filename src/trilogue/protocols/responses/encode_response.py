"""`Response` → a whole Responses answer.

It is what the last event of its stream would say, so that the stream encoder writes it, of the same items.
"""

from __future__ import annotations

from trilogue.jsontext.text import dump
from trilogue.model import Json, Response
from trilogue.protocols.responses.encode_stream import ResponsesStreamEncoder
from trilogue.protocols.stream.reply import Reply


def encode_response(response: Response, reply: Reply) -> dict[str, Json]:
    """The whole answer as the client's protocol has it."""
    body = ResponsesStreamEncoder(reply).whole(response)
    if not reply.parsed:
        dump(body)  # raises for what no JSON text can hold, as the events of a stream do
    return body
