"""`reasoning`: settings for thinking, and for how much of it is shown, in both directions."""

from __future__ import annotations

from trilogue.errors import BadRequest
from trilogue.model import Json, Thinking
from trilogue.protocols.codec import EncodingContext
from trilogue.protocols.fields.reader import Fields
from trilogue.protocols.responses.controls import given
from trilogue.protocols.responses.wire import EFFORTS


def decode_thinking(fields: Fields) -> Thinking | None:
    """Return the settings of the `reasoning` object. Raises `BadRequest` for an unknown effort."""
    reasoning = fields.fields("reasoning")
    if reasoning is None:
        return None
    effort = reasoning.text("effort")
    if effort is not None and effort not in EFFORTS:
        raise BadRequest(f"reasoning.effort cannot be {effort!r}", path="reasoning.effort")
    thinking = Thinking(effort=EFFORTS[effort] if effort is not None else None, visibility=reasoning.text("summary"))
    fields.keep("reasoning", reasoning)
    return thinking


def encode_thinking(thinking: Thinking, out: EncodingContext) -> dict[str, Json]:
    """Return the `reasoning` object as a field of the body."""
    summary = thinking.visibility if out.native or thinking.visibility != "omitted" else None
    written = given({"effort": thinking.effort and thinking.effort.value, "summary": summary})
    return {"reasoning": written} if written or out.native else {}
