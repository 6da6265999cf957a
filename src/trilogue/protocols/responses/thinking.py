"""`reasoning`: how much to think, and how much of it to show, both ways."""

from __future__ import annotations

from trilogue.errors import BadRequest
from trilogue.model import (
    Effort,
    Json,
    Request,
    Thinking,
    ThinkingMode,
)
from trilogue.protocols.effort import effort_of_budget, lose_beside_effort, nearest_effort
from trilogue.protocols.fields import Fields
from trilogue.protocols.outgoing import Outgoing
from trilogue.protocols.responses.controls import given
from trilogue.protocols.responses.wire import EFFORTS

_SUMMARIES = frozenset({"auto", "concise", "detailed"})


def decode_thinking(fields: Fields) -> Thinking | None:
    """The `reasoning` object."""
    reasoning = fields.fields("reasoning")
    if reasoning is None:
        return None
    effort = reasoning.text("effort")
    if effort is not None and effort not in EFFORTS:
        raise BadRequest(f"reasoning.effort cannot be {effort!r}", path="reasoning.effort")
    thinking = Thinking(effort=EFFORTS[effort] if effort is not None else None, visibility=reasoning.text("summary"))
    fields.keep("reasoning", reasoning)
    return thinking


def encode_thinking(thinking: Thinking, request: Request, out: Outgoing) -> dict[str, Json]:
    """The `reasoning` object."""
    if out.native:
        reasoning = {"effort": thinking.effort and thinking.effort.value, "summary": thinking.visibility}
        return {"reasoning": given(reasoning)}
    effort = _effort(thinking, request, out)
    if effort is not None:
        effort = nearest_effort(effort, out.profile.efforts, request.where("thinking"), out.ledger)
    reasoning = {"effort": effort and effort.value, "summary": _summary(thinking, request, out)}
    written = given(reasoning)
    return {"reasoning": written} if written else {}


def _effort(thinking: Thinking, request: Request, out: Outgoing) -> Effort | None:
    """A given effort counts; else it follows from the mode. Without thinking there is none."""
    path = request.where("thinking")
    if thinking.effort is not None:
        lose_beside_effort(thinking, path, out.ledger)
        return thinking.effort
    if thinking.mode is ThinkingMode.BETWEEN_TOOLS:
        out.ledger.add("thinking.mode", path, thinking.mode.value)
    if thinking.mode in (ThinkingMode.DISABLED, ThinkingMode.BETWEEN_TOOLS):
        return Effort.NONE
    if thinking.budget is None:
        return None
    return effort_of_budget(thinking.budget, path, out.ledger)


def _summary(thinking: Thinking, request: Request, out: Outgoing) -> str | None:
    """Thinking that a Messages client asked for is shown in summary unless it said otherwise."""
    wanted = thinking.visibility
    if wanted in _SUMMARIES:
        return wanted
    if wanted not in (None, "omitted"):
        out.ledger.add("reasoning.visibility", request.where("thinking"), wanted or "")
        return "auto"
    shows = wanted is None and thinking.mode in (ThinkingMode.BUDGET, ThinkingMode.ADAPTIVE)
    return "auto" if shows else None
