"""The input of tool calls: an object on the wire, and in the neutral model the string that the model wrote."""

from __future__ import annotations

from trilogue.base.json_text import dump_text
from trilogue.errors import BadRequest, TrilogueError, UpstreamProtocolError
from trilogue.model import Json
from trilogue.protocols.fields.reader import Fields, LooseFields


def arguments_of(value: Json, fields: Fields) -> str:
    """Return tool input as the string that the model wrote, as far as it is known.

    Raises `BadRequest` for a request, or `UpstreamProtocolError` for a response, if it cannot be written as JSON.
    """
    # Some servers send the input as a string, as Chat does.
    if value is None or type(value) is str:
        return value or ""
    try:
        return dump_text(value)
    except TrilogueError:
        fault = UpstreamProtocolError if isinstance(fields, LooseFields) else BadRequest
        raise fault(f"{fields.at('input')} cannot be written as JSON") from None
