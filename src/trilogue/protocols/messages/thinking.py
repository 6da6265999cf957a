"""Settings for thinking, and for how much of it is shown, in both directions.

Newer models take an effort and decide for themselves; older ones take a token budget. `fit.thinking` decides which one
is sent.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from trilogue.model import Request, Thinking
from trilogue.protocols.codec import EncodingContext
from trilogue.protocols.content.effort import with_effort
from trilogue.protocols.content.sealed import objects
from trilogue.protocols.fields.reader import Fields
from trilogue.protocols.messages.controls import take_enum
from trilogue.protocols.messages.wire import DISPLAY, THINKING, THINKING_BLOCKS, Wire, reverse


def decode_thinking(fields: Fields, config: Fields | None) -> Thinking | None:
    """Return the settings of `thinking`, with the effort from `config`, which is `output_config`."""
    known = with_effort(config.text("effort") if config else None)
    thinking = fields.fields("thinking")
    if thinking is None:
        return None if known == Thinking() else known
    result = replace(
        known,
        mode=take_enum(thinking, "type", THINKING),
        budget=thinking.integer("budget_tokens"),
        visibility=take_enum(thinking, "display", DISPLAY),
    )
    fields.keep("thinking", thinking)
    return result


_MODE_NAMES = reverse(THINKING)
_DISPLAY_NAMES = {"auto": "summarized", "concise": "summarized", "detailed": "summarized", "omitted": "omitted"}


def encode_thinking(wanted: Thinking | None, request: Request, out: EncodingContext) -> tuple[Wire | None, Wire]:
    """Return `thinking`, and its part of `output_config`, for settings that already fit the model."""
    if wanted is None:
        return None, {}
    config = {} if wanted.level is None else {"effort": wanted.level}
    thinking: Wire = {}
    if wanted.mode is not None:
        thinking["type"] = _MODE_NAMES[wanted.mode]
    if wanted.budget is not None:
        thinking["budget_tokens"] = wanted.budget
    if wanted.visibility is not None:
        # Messages has one kind of summary.
        if wanted.visibility in ("concise", "detailed"):
            out.ledger.add("reasoning.visibility", request.where("visibility"))
        thinking["display"] = _DISPLAY_NAMES.get(wanted.visibility, "summarized")
    return thinking or None, config


def loop_without_thinking(messages: Sequence[Wire]) -> int | None:
    """Return the position of the assistant message that begins the open tool loop, if it does not begin with thinking.

    None if it does, or if the conversation does not end in tool results. With a thinking budget, Anthropic requires
    thinking there: a turn goes on over all of its calls and results. Later messages of the loop may lack it, because
    many models think only once per turn. So the answer is the same for all requests of a loop.
    """
    first: int | None = None
    for position in range(len(messages) - 1, -1, -1):
        message = messages[position]
        role = message.get("role")
        if role == "assistant":
            first = position
        elif role == "user" and "tool_result" not in _kinds(message):
            break
    if first is None or messages[-1].get("role") == "assistant":
        return None
    return None if THINKING_BLOCKS.intersection(_kinds(messages[first])[:1]) else first


def _kinds(message: Wire) -> list[str | None]:
    content = message.get("content")
    return [block.get("type") for _, block in objects(content)]
