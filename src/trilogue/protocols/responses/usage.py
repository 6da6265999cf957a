"""Usage and stop reasons, in both directions.

The protocol includes cached and written tokens in `input_tokens`, and reasoning in `output_tokens`. It has no stop
reason, only a status, so whether the model called a tool is read from the blocks.
"""

from __future__ import annotations

from trilogue.model import Block, Json, Ledger, Native, Stop, StopReason, ToolCall, Usage
from trilogue.protocols.fields import Kinds, LooseFields, TokenFigure, add_extras, sort_fields
from trilogue.protocols.responses.wire import PROTOCOL
from trilogue.protocols.stream.response_context import ResponseContext, declare_doubts

_INCOMPLETE = {
    "max_output_tokens": StopReason.LENGTH,
    "content_filter": StopReason.REFUSAL,
    "max_messages": StopReason.END,
    "steered": StopReason.END,
}
_EXACT = frozenset({"max_output_tokens", "content_filter"})
"""reasons that have an exact stop reason"""
_ENDED_EARLY = frozenset({"max_messages", "steered"})
_UNFINISHED = frozenset({"queued", "in_progress"})

_STATUS: dict[StopReason, tuple[str, str | None, str | None]] = {
    # status, why incomplete, what is lost
    StopReason.END: ("completed", None, None),
    StopReason.TOOL_CALLS: ("completed", None, None),
    StopReason.STOP_SEQUENCE: ("completed", None, "stop.which"),
    StopReason.PAUSE: ("incomplete", "max_output_tokens", "stop.pause_turn"),
    StopReason.COMPACTION: ("completed", None, "stop.detail"),
    StopReason.LENGTH: ("incomplete", "max_output_tokens", None),
    StopReason.CONTEXT_WINDOW: ("incomplete", "max_output_tokens", "stop.detail"),
    StopReason.REFUSAL: ("incomplete", "content_filter", None),
}


def awaits_client(block: Block) -> bool:
    """Return whether the turn ended so that the client can act on this block."""
    return type(block) is ToolCall or (type(block) is Native and block.awaits_client)


def decode_stop(status: str, incomplete: Json, calls: bool) -> Stop:
    """Return why a response ended. `calls`: some block awaits the client.

    A status that is not final (background responses) is a pause with its name as detail.
    """
    # Background responses.
    if status in _UNFINISHED:
        return Stop(reason=StopReason.PAUSE, detail=status)
    if status == "incomplete":
        fields = LooseFields(incomplete, "incomplete_details")
        reason = fields.text("reason")
        # Without a known reason, assume the output limit.
        known = _INCOMPLETE.get(reason or "", StopReason.LENGTH)
        detail = None if reason in _EXACT else reason
        return Stop(reason=known, detail=detail, path=fields.path, extras=fields.rest())
    return Stop(reason=StopReason.TOOL_CALLS if calls else StopReason.END)


def encode_stop(stop: Stop, context: ResponseContext) -> tuple[str, dict[str, Json] | None]:
    """Return status and incomplete_details, and declare what they cannot express."""
    native = context.source is PROTOCOL
    if native and stop.detail in _UNFINISHED:
        return stop.detail or "", None
    status, reason, loss = _STATUS[stop.reason]
    if native and stop.detail and (status == "incomplete" or stop.detail in _ENDED_EARLY):
        return "incomplete", {"reason": stop.detail, **(stop.extras or {})}
    if loss:
        context.ledger.add(loss, context.stop_path(stop), stop.sequence or stop.reason.value)
    elif stop.detail and not native:
        context.ledger.add("stop.detail", context.stop_path(stop), stop.detail)
    if stop.category is not None:
        context.ledger.add("refusal.category", context.stop_path(stop), stop.category)
    more = (stop.extras or {}) if native else {}
    return status, {"reason": reason, **more} if reason else None


def decode_usage(value: Json, tool_usage: Json = None) -> Usage | None:
    """Return usage, split so that no token is counted twice. Contradictory figures are reduced.

    It is `estimated` if the count of input or output tokens is missing.
    """
    if not isinstance(value, dict):
        return None
    known, rest = sort_fields(value, _USAGE)
    total_in, output = known["input_tokens"] or 0, known["output_tokens"] or 0
    input_given, output_given = known["input_tokens_details"], known["output_tokens_details"]
    read, write, long = _input_details(input_given, rest) if input_given else (None, None, None)
    usage = Usage(
        fresh=total_in - (read or 0) - (write or 0),
        cache_read=read,
        cache_write=write,
        cache_write_long=long,
        output=output,
        reasoning=_reasoning(output_given, rest) if output_given else None,
        searches=_searches(tool_usage) if tool_usage else None,
        estimated=known["input_tokens"] is None or known["output_tokens"] is None,
        extras=rest or None,
    )
    return usage.fitted()


_USAGE: Kinds = {
    "input_tokens": TokenFigure,
    "output_tokens": TokenFigure,
    "input_tokens_details": object,
    "output_tokens_details": object,
    "total_tokens": object,
}
_INPUT: Kinds = {"cached_tokens": TokenFigure, "cache_write_tokens": TokenFigure, "cache_write_tokens_details": dict}
_LIFETIMES: Kinds = {"ttl_12h_tokens": TokenFigure}
_OUTPUT: Kinds = {"reasoning_tokens": TokenFigure}
_TOOL_USAGE: Kinds = {"web_search": dict}
_SEARCHES: Kinds = {"num_requests": TokenFigure}


def _input_details(given: Json, rest: dict[str, Json]) -> tuple[int | None, int | None, int | None]:
    known, left = sort_fields(given, _INPUT)
    read, write, lifetimes = known.values()
    if left:
        rest["input_tokens_details"] = left
    return read, write, sort_fields(lifetimes, _LIFETIMES)[0]["ttl_12h_tokens"] if lifetimes else None


def _reasoning(given: Json, rest: dict[str, Json]) -> int | None:
    known, left = sort_fields(given, _OUTPUT)
    count: int | None = known["reasoning_tokens"]
    if left:
        rest["output_tokens_details"] = left
    return count


def _searches(tool_usage: Json) -> int | None:
    known, _ = sort_fields(tool_usage, _TOOL_USAGE)
    count: int | None = sort_fields(known["web_search"], _SEARCHES)[0]["num_requests"]
    return count


def encode_usage(usage: Usage | None, native: bool, ledger: Ledger) -> dict[str, Json] | None:
    """Return usage with every figure that the official types require; None if there is none."""
    if usage is None:
        return None
    total_in = usage.input
    details: dict[str, Json] = {
        # The SDK's types require both details, and Codex fails without cached_tokens.
        "cached_tokens": usage.cache_read or 0,
        "cache_write_tokens": usage.cache_write or 0,
    }
    if usage.cache_write_long is not None:
        _add_lifetimes(details, usage.cache_write or 0, usage.cache_write_long, native, ledger)
    body: dict[str, Json] = {
        "input_tokens": total_in,
        "input_tokens_details": details,
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": min(usage.reasoning, usage.output) if usage.reasoning else 0},
        "total_tokens": total_in + usage.output,
    }
    if native and usage.extras:
        add_extras(body, usage.extras)
    if usage.fetches:
        ledger.add("usage.detail", "usage", "web fetches")
    declare_doubts(usage, ledger)
    return body


def _add_lifetimes(details: dict[str, Json], write: int, long: int, native: bool, ledger: Ledger) -> None:
    if native:
        details["cache_write_tokens_details"] = {"ttl_30m_tokens": max(write - long, 0), "ttl_12h_tokens": long}
    elif long:
        ledger.add("usage.cache_ttl", "usage")
