"""Usage and stop reasons, in both directions.

In: the `usage` object and the `finish_reason` of any server that calls itself compatible. Out: `model.Usage`, whose
figures never count a token twice, and `model.Stop`; and back, as the official API would write them.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from trilogue.errors import UpstreamFailure
from trilogue.model import MOST_TOKENS, Failure, FailureKind, Json, Stop, StopReason, Usage
from trilogue.protocols.chat.wire import PROTOCOL
from trilogue.protocols.fields import add_extras, token_count
from trilogue.protocols.stream.response_context import ResponseContext, declare_doubts

_CACHE_READ = ("prompt_cache_hit_tokens", "cached_tokens", "num_cached_tokens", "cache_read_input_tokens")
"""other fields for cached tokens than prompt_tokens_details.cached_tokens: DeepSeek, vLLM, LiteLLM, …"""
_CACHE_WRITE = ("cache_creation_input_tokens", "created_cache_tokens")
_REASONING = ("reasoning_tokens",)
_REPEATED = ("prompt_cache_miss_tokens", "total_tokens")
"""figures that can be computed from the others"""
_PLAIN = {"prompt_tokens", "completion_tokens", "total_tokens"}
_COUNTS = (*_PLAIN, *_CACHE_READ, *_CACHE_WRITE, *_REASONING)
_OTHER_COUNTS = ("input_tokens", "output_tokens")
_DETAILS = {
    "prompt_tokens_details": ("cached_tokens", "cache_write_tokens"),
    "completion_tokens_details": ("reasoning_tokens",),
}

Figures = dict[str, int | None]

STOPS: dict[str, StopReason] = {
    "stop": StopReason.END,
    "eos": StopReason.END,
    "eos_token": StopReason.END,
    "end_turn": StopReason.END,
    "complete": StopReason.END,
    "stop_sequence": StopReason.STOP_SEQUENCE,
    "length": StopReason.LENGTH,
    "max_tokens": StopReason.LENGTH,
    # Compatible servers invent their own names.
    "repetition": StopReason.LENGTH,
    "model_length": StopReason.CONTEXT_WINDOW,
    "model_context_window_exceeded": StopReason.CONTEXT_WINDOW,
    "tool_calls": StopReason.TOOL_CALLS,
    "tool_call": StopReason.TOOL_CALLS,
    "tool_use": StopReason.TOOL_CALLS,
    "function_call": StopReason.TOOL_CALLS,
    "content_filter": StopReason.REFUSAL,
    "refusal": StopReason.REFUSAL,
    "sensitive": StopReason.REFUSAL,
    "safety": StopReason.REFUSAL,
    "recitation": StopReason.REFUSAL,
}

BROKEN: dict[str, FailureKind] = {
    "error": FailureKind.SERVER,
    "abort": FailureKind.SERVER,
    "network_error": FailureKind.SERVER,
    "insufficient_system_resource": FailureKind.OVERLOADED,
}
"""finish reasons of an incomplete response"""

_OFFICIAL = frozenset({"stop", "length", "tool_calls", "content_filter", "function_call"})

_FINISH: dict[StopReason, tuple[str, str | None]] = {
    StopReason.END: ("stop", None),
    StopReason.STOP_SEQUENCE: ("stop", "stop.which"),
    StopReason.LENGTH: ("length", None),
    StopReason.CONTEXT_WINDOW: ("length", "stop.detail"),
    StopReason.TOOL_CALLS: ("tool_calls", None),
    StopReason.PAUSE: ("length", "stop.pause_turn"),
    StopReason.REFUSAL: ("content_filter", None),
    StopReason.COMPACTION: ("stop", "stop.detail"),
}


def decode_usage(value: Json) -> Usage | None:
    """Return the figures of a usage object; None if there is none. It is `estimated` if input or output is missing."""
    if not isinstance(value, dict) or not value:
        return None
    known, rest = _figures(value, _COUNTS)
    prompt, completion, total = known["prompt_tokens"], known["completion_tokens"], known["total_tokens"]
    if prompt is None and completion is None:
        # Some servers use the names of the other two protocols.
        other, rest = _figures(rest, _OTHER_COUNTS)
        prompt, completion = other["input_tokens"], other["output_tokens"]
    # Any two of the three figures are enough.
    if prompt is None and completion is not None and total is not None:
        prompt = max(0, total - completion)
    elif completion is None and prompt is not None and total is not None:
        completion = max(0, total - prompt)
    if prompt is None and completion is None:
        return None
    partial = prompt is None or completion is None
    if not rest and value.keys() <= _PLAIN:
        return Usage(fresh=prompt or 0, output=completion or 0, estimated=partial)
    usage = _detailed(known, rest, prompt or 0, completion or 0)
    return replace(usage, estimated=True) if partial else usage


def _detailed(known: Figures, rest: dict[str, Json], prompt: int, completion: int) -> Usage:
    details: Figures = {}
    for name, names in _DETAILS.items():
        details |= _inner(rest, name, names)
    read = _first(details["cached_tokens"], known, _CACHE_READ)
    write = _first(details["cache_write_tokens"], known, _CACHE_WRITE)
    reasoning = _first(details["reasoning_tokens"], known, _REASONING)
    # Recorded: 291 prompt + 26 completion + 196 reasoning = 513 total.
    if reasoning and known["total_tokens"] == prompt + completion + reasoning:
        # xAI does not include reasoning in completion_tokens.
        completion += reasoning
    cached = (read or 0) + (write or 0)
    # With the field name of Messages, cached tokens above the prompt are counted in addition to it, as in Messages.
    has_messages_name = known["cache_read_input_tokens"] is not None or "cache_read_input_tokens" in rest
    in_addition = cached > prompt and has_messages_name and known["total_tokens"] != prompt + completion
    for name in _REPEATED:
        rest.pop(name, None)
    usage = Usage(
        fresh=prompt - (0 if in_addition else cached),
        cache_read=read,
        cache_write=write,
        output=completion,
        reasoning=reasoning,
        extras=rest or None,
    )
    return usage.fitted()


def _figures(value: dict[str, Json], names: Iterable[str]) -> tuple[Figures, dict[str, Json]]:
    """Return the counts with these names, None for absent ones, and the rest, including those that are not counts."""
    known: Figures = dict.fromkeys(names)
    rest: dict[str, Json] = {}
    for name, item in value.items():
        if name in known and type(item) is int and 0 <= item <= MOST_TOKENS:
            known[name] = item
        elif name in known and (count := token_count(item)) is not None:
            known[name] = count
        elif item is not None:
            rest[name] = item
    return known, rest


def _inner(rest: dict[str, Json], name: str, names: tuple[str, ...]) -> Figures:
    """Return the counts of an object among the rest, and leave its other fields there."""
    value = rest.get(name)
    if not isinstance(value, dict):
        return dict.fromkeys(names)
    del rest[name]
    known, left = _figures(value, names)
    if left:
        rest[name] = left
    return known


def _first(own: int | None, known: Figures, others: tuple[str, ...]) -> int | None:
    """Return the first figure that is present, of all its spellings."""
    for name in others:
        if own is None:
            own = known[name]
    return own


def encode_usage(usage: Usage, context: ResponseContext) -> dict[str, Json]:
    """Return usage in the official form. Figures of Chat upstreams without a neutral name are written back."""
    prompt, output = usage.input, usage.output
    input_details: dict[str, Json] = {"cached_tokens": usage.cache_read or 0}
    if usage.cache_write is not None:
        input_details["cache_write_tokens"] = usage.cache_write
    body: dict[str, Json] = {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
        "prompt_tokens_details": input_details,
        "completion_tokens_details": {"reasoning_tokens": min(usage.reasoning, output) if usage.reasoning else 0},
    }
    if context.source is PROTOCOL:
        add_extras(body, usage.extras or {})
        return body
    if usage.cache_write_long:
        context.ledger.add("usage.cache_ttl", "usage")
    if usage.searches or usage.fetches:
        context.ledger.add("usage.detail", "usage", "server tool counts")
    declare_doubts(usage, context.ledger)
    return body


def decode_stop(reason: str | None, calls: bool, extras: dict[str, Json] | None = None) -> Stop:
    """Return why a response ended. An unknown name is a normal end with that name as its detail.

    Raises `UpstreamFailure` for a finish reason that means failure.
    """
    name = reason or "stop"
    if name in BROKEN:
        message = f"the upstream ended the response with finish_reason {name}"
        raise UpstreamFailure(Failure(kind=BROKEN[name], message=message, status=502, code=name, protocol=PROTOCOL))
    # Some servers write the names in capitals.
    known = STOPS.get(name) or STOPS.get(name.lower(), StopReason.END)
    # Gemini, Ollama and SGLang report `stop` for responses with tool calls.
    if calls and known in (StopReason.END, StopReason.STOP_SEQUENCE):
        known = StopReason.TOOL_CALLS
    # Never report tool_calls without a call: agents would have nothing to run.
    elif known is StopReason.TOOL_CALLS and not calls:
        known = StopReason.END
    detail = None if name in _OFFICIAL else name
    if extras is None:
        return Stop(reason=known, detail=detail)
    return Stop(reason=known, sequence=_matched(extras), detail=detail, path="choices[0]", extras=extras)


def _matched(extras: dict[str, Json]) -> str | None:
    """Return the stop sequence that vLLM and SGLang report; the number of a token does not count.

    Others may use these names for anything, so it is only used if the client asked for that sequence.
    """
    for name in ("stop_reason", "matched_stop"):
        given = extras.get(name)
        if type(given) is str:
            return given
    return None


def encode_stop(stop: Stop, calls: bool, context: ResponseContext) -> str:
    """Return the finish_reason and declare what it cannot express.

    Calls, and nothing else, turn a stop into tool_calls.
    """
    name, loss = _FINISH[stop.reason]
    if name in ("stop", "tool_calls"):
        name = "tool_calls" if calls else "stop"
    if context.source is not PROTOCOL:
        if loss is not None:
            context.ledger.add(loss, context.stop_path(stop), stop.reason.value)
        if stop.category is not None:
            context.ledger.add("refusal.category", context.stop_path(stop), stop.category)
        if stop.detail is not None:
            context.ledger.add("stop.detail", context.stop_path(stop), stop.detail)
    return name
