"""`reasoning`: settings for thinking, and for how much of it is shown, in both directions."""

from __future__ import annotations

from msgspec.structs import replace

from trilogue.model import Json, Thinking
from trilogue.protocols.codec import EncodingContext
from trilogue.protocols.content.effort import with_effort
from trilogue.protocols.fields.reader import Fields
from trilogue.protocols.responses.controls import given


def decode_thinking(fields: Fields) -> Thinking | None:
    """Return the settings of the `reasoning` object."""
    reasoning = fields.fields("reasoning")
    if reasoning is None:
        return None
    thinking = replace(with_effort(reasoning.text("effort")), visibility=reasoning.text("summary"))
    fields.keep("reasoning", reasoning)
    return thinking


def encode_thinking(thinking: Thinking, out: EncodingContext) -> dict[str, Json]:
    """Return the `reasoning` object as a field of the body."""
    summary = thinking.visibility if out.native or thinking.visibility != "omitted" else None
    written = given({"effort": thinking.level, "summary": summary})
    return {"reasoning": written} if written or out.native else {}
