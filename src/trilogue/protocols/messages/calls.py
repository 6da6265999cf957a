"""Tool calls: their input is an object on the wire, and the string that the model wrote in the model."""

from __future__ import annotations

from trilogue.errors import BadRequest, TrilogueError, UpstreamProtocolError
from trilogue.jsontext.text import dump_text
from trilogue.model import Json
from trilogue.protocols.fields.reader import Fields, LooseFields


def arguments_of(value: Json, fields: Fields) -> str:
    """Tool input as the string that the model wrote, as far as it can be known."""
    if value is None or type(value) is str:
        return value or ""
    try:
        return dump_text(value)
    except TrilogueError:
        fault = UpstreamProtocolError if isinstance(fields, LooseFields) else BadRequest
        raise fault(f"{fields.at('input')} cannot be written as JSON") from None
