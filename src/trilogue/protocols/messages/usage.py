"""Usage and stop reasons, in both directions.

Input tokens exclude those that were read from or written to the cache, so this protocol's split is the neutral one.
"""

from __future__ import annotations

from msgspec.structs import replace

from trilogue.model import Json, Ledger, Stop, StopReason, Tier, Usage, UsedBesides
from trilogue.protocols.fields import Kinds, LooseFields, TokenFigure, sort_fields
from trilogue.protocols.messages.wire import PROTOCOL, STOPS, USAGE_TIERS, Wire, reverse
from trilogue.protocols.stream.response_context import ResponseContext

INPUT_COUNTS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


def decode_usage(value: Json) -> tuple[Usage | None, Tier | None]:
    """Return usage from a complete object or one merged from several events, and the tier, which is part of it.

    Both are None if there is no usage. It is `estimated` if the count of input or output tokens is missing.
    """
    if not isinstance(value, dict):
        return None, None
    known, rest = sort_fields(value, _USAGE)
    tier = _take_tier(rest) if "service_tier" in rest or "speed" in rest else None
    tools, split, details = known["server_tool_use"], known["cache_creation"], known["output_tokens_details"]
    write = known["cache_creation_input_tokens"]
    searches, fetches = (None, None) if tools is None else _server_tools(tools, rest)
    besides = _besides(rest["iterations"]) if rest.get("iterations") else ()
    usage = Usage(
        fresh=known["input_tokens"] or 0,
        cache_read=known["cache_read_input_tokens"],
        cache_write=write,
        cache_write_long=None if split is None else _long_write(split, write, rest),
        output=known["output_tokens"] or 0,
        reasoning=None if details is None else _thinking_tokens(details, rest),
        searches=searches,
        fetches=fetches,
        besides=besides,
        estimated=known["input_tokens"] is None
        or known["output_tokens"] is None
        or _is_doubtful(value, known)
        or any([one.usage.estimated for one in besides]),
        extras=rest or None,
    )
    return usage.fitted(), tier


_USAGE: Kinds = {
    "cache_creation_input_tokens": TokenFigure,
    "input_tokens": TokenFigure,
    "cache_read_input_tokens": TokenFigure,
    "output_tokens": TokenFigure,
    "server_tool_use": object,
    "cache_creation": object,
    "output_tokens_details": object,
}
_LIFETIMES: Kinds = {"ephemeral_5m_input_tokens": TokenFigure, "ephemeral_1h_input_tokens": TokenFigure}
_DETAILS: Kinds = {"thinking_tokens": TokenFigure}
_TOOLS: Kinds = {"web_search_requests": TokenFigure, "web_fetch_requests": TokenFigure}
_COUNTED_STEPS = ("message", "fallback_message")
"""the types of steps that are part of the other figures"""
_CACHED = ("cache_read_input_tokens", "cache_creation_input_tokens")


def _besides(iterations: Json) -> tuple[UsedBesides, ...]:
    """Return what was used for steps that the other figures leave out, such as a compaction, or asking an advisor."""
    entries = iterations if isinstance(iterations, list) else []
    steps = [one for one in entries if isinstance(one, dict) and one.get("type") not in _COUNTED_STEPS]
    found = []
    for step in steps:
        usage, _ = decode_usage({name: value for name, value in step.items() if name in _USAGE})
        model = step.get("model")
        if usage is not None:
            named = model if isinstance(model, str) else ""
            found.append(UsedBesides(usage=replace(usage, extras=None), model=named))
    return tuple(found)


def _is_doubtful(value: Wire, known: Wire) -> bool:
    """Return whether tokens that are counted besides the input are there and are no counts."""
    return any([known[name] is None and value.get(name) is not None for name in _CACHED])


def _long_write(given: Json, write: int | None, rest: Wire) -> int | None:
    """Return the tokens with the long lifetime. The split by lifetime stays an extra if it does not add up."""
    known, more = sort_fields(given, _LIFETIMES)
    short: int | None = known["ephemeral_5m_input_tokens"]
    long: int | None = known["ephemeral_1h_input_tokens"]
    if short is None or long is None or short + long != write or more:
        rest["cache_creation"] = given
        return None if write is None else long
    return long


def _thinking_tokens(given: Json, rest: Wire) -> int | None:
    known, more = sort_fields(given, _DETAILS)
    count: int | None = known["thinking_tokens"]
    if count is None or more:
        rest["output_tokens_details"] = given
    return count


def _server_tools(given: Json, rest: Wire) -> tuple[int | None, int | None]:
    known, more = sort_fields(given, _TOOLS)
    searches, fetches = known.values()
    if more or (searches is None and fetches is None):
        rest["server_tool_use"] = given
    return searches, fetches


def _take_tier(rest: Wire) -> Tier | None:
    """Return the tier of the response and remove it from the rest; an unknown name stays there."""
    # A fast response has a service tier as well, which stays in the rest.
    if rest.get("speed") == "fast":
        del rest["speed"]
        return Tier.FAST
    name = rest.get("service_tier")
    tier = USAGE_TIERS.get(name) if type(name) is str else None
    if tier is not None:
        del rest["service_tier"]
    return tier


_TIER_NAMES = reverse(USAGE_TIERS)


def encode_usage(usage: Usage | None, tier: Tier | None, native: bool, ledger: Ledger) -> Wire:
    """Return the usage object of a complete response, or of the start of a stream."""
    known = usage or Usage()
    wire: Wire = {"input_tokens": known.fresh, **_cache_counts(known, native), "output_tokens": known.output}
    if known.cache_write_long is not None and known.cache_write is not None:
        if native:
            wire["cache_creation"] = _split_writes(known.cache_write, known.cache_write_long)
        else:
            ledger.add("usage.cache_ttl", "usage")
    if known.reasoning is not None or known.searches is not None or known.fetches is not None:
        wire |= _details(known, native)
    if tier is not None:
        wire |= _tier(tier, ledger)
    if native and known.extras:
        wire |= known.extras
    return wire


def _split_writes(write: int, long: int) -> Wire:
    return {"ephemeral_5m_input_tokens": max(write - long, 0), "ephemeral_1h_input_tokens": long}


def encode_final_usage(usage: Usage | None, start: Usage | None, native: bool, ledger: Ledger) -> Wire:
    """Return the usage object of a message_delta; `start` is the usage of message_start.

    Unknown figures are left out: clients replace the figures of message_start, and a zero would replace a real one.
    """
    # message_delta must have usage: Anthropic's SDK crashes without it.
    if usage is None:
        return {"output_tokens": start.output if start else 0}
    if start is not None and start.estimated and not usage.fresh:
        usage = _with_fresh(usage, ledger)
    wire: Wire = {"input_tokens": usage.fresh, **_cache_counts(usage, native), "output_tokens": usage.output}
    wire |= _details(usage, native)
    if native:
        at_start = (start.extras if start else None) or {}
        wire |= {name: value for name, value in (usage.extras or {}).items() if at_start.get(name) != value}
    elif usage.cache_write_long is not None and usage.cache_write is not None:
        ledger.add("usage.cache_ttl", "usage")
    return wire


def _with_fresh(usage: Usage, ledger: Ledger) -> Usage:
    """Return usage in which one of the cached tokens counts as fresh, so that it replaces an estimate of them.

    The official SDKs take every figure of message_delta, Claude Code only those above zero: it would add the estimate
    to the cached tokens.
    """
    read, write = usage.cache_read or 0, usage.cache_write or 0
    if not read and not write:
        return usage
    ledger.add("usage.moved", "usage")
    if read >= write:
        return replace(usage, fresh=1, cache_read=read - 1)
    return replace(usage, fresh=1, cache_write=write - 1)


def _cache_counts(usage: Usage, native: bool) -> Wire:
    write, read = usage.cache_write, usage.cache_read
    if not native:
        return {"cache_creation_input_tokens": write or 0, "cache_read_input_tokens": read or 0}
    counts = {"cache_creation_input_tokens": write, "cache_read_input_tokens": read}
    return {name: count for name, count in counts.items() if count is not None}


def _details(usage: Usage, native: bool) -> Wire:
    wire: Wire = {}
    if usage.reasoning is not None:
        wire["output_tokens_details"] = {"thinking_tokens": min(usage.reasoning, usage.output)}
    if usage.searches is not None or usage.fetches is not None:
        given = {"web_search_requests": usage.searches, "web_fetch_requests": usage.fetches}
        counts = {name: count for name, count in given.items() if count is not None}
        wire["server_tool_use"] = counts if native else {**dict.fromkeys(given, 0), **counts}
    return wire


def _tier(tier: Tier, ledger: Ledger) -> Wire:
    if tier is Tier.FAST:
        return {"speed": "fast"}
    if tier not in _TIER_NAMES:
        ledger.add("tier", "service_tier", tier.value)
    return {"service_tier": _TIER_NAMES.get(tier, "standard")}


_CHAT_NAMES = {
    "stop": StopReason.END,
    "length": StopReason.LENGTH,
    "tool_calls": StopReason.TOOL_CALLS,
    "content_filter": StopReason.REFUSAL,
}
"""stop reasons of Chat Completions, from servers that use it behind this protocol"""


def decode_stop(reason: Json, sequence: Json, details: Json, has_calls: bool) -> Stop:
    """Return why a response ended. An unknown name is a normal end with that name as its detail."""
    known = STOPS.get(reason) or _CHAT_NAMES.get(reason) if type(reason) is str else None
    result = known or StopReason.END
    # Some servers report end_turn for responses with calls.
    if has_calls and result is StopReason.END:
        result = StopReason.TOOL_CALLS
    stop = Stop(
        reason=result,
        sequence=sequence if type(sequence) is str else None,
        detail=reason if known is None and type(reason) is str else None,
    )
    return stop if details is None else _with_details(stop, LooseFields(details))


def _with_details(stop: Stop, fields: LooseFields) -> Stop:
    kind = fields.text("type")
    if kind not in (None, "refusal"):
        fields.put_back("type", kind)
    category, explanation = fields.text("category"), fields.text("explanation")
    return replace(stop, category=category, explanation=explanation, path="stop_details", extras=fields.rest())


_STOP_NAMES = reverse(STOPS)


def encode_stop(stop: Stop, *, called: bool, refused: bool, context: ResponseContext) -> Wire:
    """Return `stop_reason`, `stop_sequence` and `stop_details`.

    `called`: there is a tool_use block. `refused`: the model refused in its own words.
    """
    native = context.source is PROTOCOL
    reason = stop.reason
    # vLLM and SGLang report the sequence but finish with `stop`.
    if reason is StopReason.END and stop.sequence is not None and stop.sequence in _client_stops(context.body):
        reason = StopReason.STOP_SEQUENCE
    if reason is StopReason.STOP_SEQUENCE and stop.sequence is None and not native:
        context.ledger.add("stop.which", context.stop_path(stop))
        reason = StopReason.END
    # Anthropic has no refusals in the model's words: one in a response of its own comes from a policy.
    if reason in (StopReason.END, StopReason.TOOL_CALLS) and (refused or not native):
        # tool_use must mean that there is a call, and a call must be reported as tool_use.
        reason = StopReason.TOOL_CALLS if called else StopReason.REFUSAL if refused else StopReason.END
    name = _STOP_NAMES[reason]
    if stop.detail is not None and native:
        name = stop.detail
    elif stop.detail is not None:
        context.ledger.add("stop.detail", context.stop_path(stop), stop.detail)
    sequence = stop.sequence if reason is StopReason.STOP_SEQUENCE else None
    extras = stop.extras if native else None
    details = _stop_details(stop, reason, extras or {}) if extras or reason is StopReason.REFUSAL else None
    return {"stop_reason": name, "stop_sequence": sequence, "stop_details": details}


def _client_stops(body: Wire) -> list[Json]:
    stops = body.get("stop_sequences")
    return stops if isinstance(stops, list) else []


def _stop_details(stop: Stop, reason: StopReason, extras: Wire) -> Wire:
    if reason is not StopReason.REFUSAL:
        return extras
    return {"type": "refusal", "category": stop.category, "explanation": stop.explanation, **extras}
