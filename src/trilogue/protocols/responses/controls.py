"""Sampling, reasoning, output format, caching, tier and identity of the Responses protocol, both ways.

Reading takes fields out of the request; writing gives a piece of the body for each group. What a target model cannot
do is said by its profile, never by its name.
"""

from __future__ import annotations

from typing import Any

from trilogue.errors import BadRequest, Unsupported
from trilogue.model import (
    Caching,
    Effort,
    FormatKind,
    Json,
    Ledger,
    OutputFormat,
    Protocol,
    Request,
    Sampling,
    Thinking,
    ThinkingMode,
    Tier,
)
from trilogue.protocols.codec import Target
from trilogue.protocols.fields import Fields
from trilogue.protocols.ids import digest
from trilogue.protocols.openai_schema import fits_strict
from trilogue.protocols.responses.usage import TIERS
from trilogue.protocols.responses.wire import LOGPROBS, MAX_USER, MIN_OUTPUT_TOKENS, PROTOCOL

_FORMATS = {"text": FormatKind.TEXT, "json_object": FormatKind.JSON, "json_schema": FormatKind.SCHEMA}
_FORMAT_NAMES = {kind: name for name, kind in _FORMATS.items()}
_SUMMARIES = frozenset({"auto", "concise", "detailed"})
_FOREIGN_FORMAT = "structured_output"
_EFFORTS = {effort.value: effort for effort in Effort}

_BUDGETS = (
    (1_536, Effort.MINIMAL),
    (4_096, Effort.LOW),
    (16_384, Effort.MEDIUM),
    (28_672, Effort.HIGH),
    (49_152, Effort.XHIGH),
)
"""Largest token budget of each effort; more than the last is MAX."""


def decode_sampling(fields: Fields, include: tuple[str, ...]) -> Sampling:
    """Limits and randomness."""
    return Sampling(
        max_tokens=fields.integer("max_output_tokens"),
        temperature=fields.number("temperature"),
        top_p=fields.number("top_p"),
        logprobs=True if LOGPROBS in include else None,
        top_logprobs=fields.integer("top_logprobs"),
        max_tool_calls=fields.integer("max_tool_calls"),
    )


def decode_thinking(fields: Fields, extras: dict[str, Json]) -> Thinking | None:
    """The `reasoning` object; what is left of it goes to `extras` under dotted names."""
    reasoning = fields.fields("reasoning")
    if reasoning is None:
        return None
    effort = reasoning.text("effort")
    if effort is not None and effort not in _EFFORTS:
        raise BadRequest(f"reasoning.effort cannot be {effort!r}", path="reasoning.effort")
    thinking = Thinking(effort=_EFFORTS[effort] if effort is not None else None, visibility=reasoning.text("summary"))
    extras.update({f"reasoning.{name}": value for name, value in (reasoning.rest() or {}).items()})
    return thinking


def decode_text(fields: Fields, extras: dict[str, Json]) -> tuple[OutputFormat | None, str | None]:
    """The `text` object: output format and verbosity."""
    text = fields.fields("text")
    if text is None:
        return None, None
    form = _decode_format(text, extras)
    verbosity = text.text("verbosity")
    extras.update({f"text.{name}": value for name, value in (text.rest() or {}).items()})
    return form, verbosity


def _decode_format(text: Fields, extras: dict[str, Json]) -> OutputFormat | None:
    form = text.fields("format")
    if form is None:
        return None
    kind = form.text("type")
    if kind not in _FORMATS:
        raise BadRequest(f"text.format.type cannot be {kind!r}", path="text.format.type")
    decoded = OutputFormat(
        kind=_FORMATS[kind],
        name=form.text("name"),
        schema=form.mapping("schema"),
        strict=form.flag("strict"),
        description=form.text("description"),
        path=form.path,
    )
    extras.update({f"text.format.{name}": value for name, value in (form.rest() or {}).items()})
    return decoded


def decode_caching(fields: Fields) -> Caching | None:
    """Prompt caching as a whole; marks are on the parts."""
    key = fields.text("prompt_cache_key")
    options = fields.mapping("prompt_cache_options")
    retention = fields.text("prompt_cache_retention")
    if key is None and options is None and retention is None:
        return None
    return Caching(key=key, options=options, retention=retention)


def decode_tier(fields: Fields) -> Tier | None:
    """The service tier; one that we do not know stays an extra."""
    value = fields.text("service_tier")
    if value is not None and value not in TIERS:
        fields.put_back("service_tier", value)
    return TIERS.get(value or "")


def decode_user(fields: Fields, paths: dict[str, str]) -> str | None:
    """The end user. `safety_identifier` wins; an older `user` beside it stays an extra."""
    identifier = fields.text("safety_identifier")
    if identifier is not None:
        paths["user"] = "safety_identifier"
        return identifier
    paths["user"] = "user"
    return fields.text("user")


def encode_sampling(request: Request, target: Target, ledger: Ledger) -> dict[str, Json]:
    """Limits and randomness; what the protocol has no field for is declared or refused."""
    sampling = request.sampling
    if request.protocol is not PROTOCOL:
        _declare_sampling(request, ledger)
    body: dict[str, Json] = {
        "max_output_tokens": _limit(request, ledger),
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_logprobs": sampling.top_logprobs,
        "max_tool_calls": sampling.max_tool_calls,
    }
    if not target.profile.sampling:
        for name in ("temperature", "top_p"):
            if body.pop(name) is not None:
                ledger.add("sampling.dropped", request.where(name))
    return _given(body)


def _limit(request: Request, ledger: Ledger) -> int | None:
    limit = request.sampling.max_tokens
    if limit is None or limit >= MIN_OUTPUT_TOKENS or request.protocol is PROTOCOL:
        return limit
    if limit == 0 and request.protocol is Protocol.MESSAGES:
        return None
    ledger.add("max_tokens.raised", request.where("max_tokens"), f"{limit} to {MIN_OUTPUT_TOKENS}")
    return MIN_OUTPUT_TOKENS


def _declare_sampling(request: Request, ledger: Ledger) -> None:
    sampling = request.sampling
    if sampling.choices is not None and sampling.choices > 1:
        raise Unsupported(request.where("choices"), "the Responses protocol gives one answer")
    for name in ("top_k", "frequency_penalty", "presence_penalty", "logit_bias"):
        if getattr(sampling, name):
            ledger.add("param.dropped", request.where(name))
    if sampling.seed is not None:
        ledger.add("param.dropped", request.where("seed"))
    if sampling.stop:
        ledger.add("stop.emulated", request.where("stop"))


def encode_thinking(request: Request, target: Target, ledger: Ledger) -> dict[str, Json]:
    """The `reasoning` object."""
    thinking = request.thinking
    if thinking is None:
        return {}
    if request.protocol is PROTOCOL:
        reasoning = {"effort": thinking.effort and thinking.effort.value, "summary": thinking.visibility}
        return {"reasoning": _given(reasoning)}
    effort = _effort(thinking, request, ledger)
    if effort is not None:
        effort = _clamp(effort, target.profile.efforts, request.where("thinking"), ledger)
    reasoning = {"effort": effort and effort.value, "summary": _summary(thinking, request, ledger)}
    given = _given(reasoning)
    return {"reasoning": given} if given else {}


def _effort(thinking: Thinking, request: Request, ledger: Ledger) -> Effort | None:
    """A given effort counts; else it follows from the mode. Without thinking there is none."""
    path = request.where("thinking")
    if thinking.mode is ThinkingMode.BETWEEN_TOOLS or (thinking.mode is ThinkingMode.DISABLED and thinking.effort):
        ledger.add("thinking.mode", path, thinking.mode.value)
    if thinking.effort is not None:
        return thinking.effort
    if thinking.mode in (ThinkingMode.DISABLED, ThinkingMode.BETWEEN_TOOLS):
        return Effort.NONE
    if thinking.budget is None:
        return None
    ledger.add("thinking.budget", path, str(thinking.budget))
    return next((effort for most, effort in _BUDGETS if thinking.budget <= most), Effort.MAX)


def _clamp(effort: Effort, allowed: tuple[Effort, ...], path: str, ledger: Ledger) -> Effort | None:
    """The nearest level that the model takes; the lower of two that are equally near."""
    if effort in allowed:
        return effort
    code = {Effort.NONE: "effort.none", Effort.MINIMAL: "effort.minimal"}.get(effort, "effort.clamped")
    ledger.add(code, path, effort.value)
    order = list(Effort)
    return min(allowed, key=lambda level: abs(order.index(level) - order.index(effort)), default=None)


def _summary(thinking: Thinking, request: Request, ledger: Ledger) -> str | None:
    """Thinking that a Messages client asked for is shown in summary unless it said otherwise."""
    wanted = thinking.visibility
    if wanted in _SUMMARIES:
        return wanted
    if wanted not in (None, "omitted"):
        ledger.add("reasoning.visibility", request.where("thinking"), wanted or "")
        return "auto"
    shows = wanted is None and thinking.mode in (ThinkingMode.BUDGET, ThinkingMode.ADAPTIVE)
    return "auto" if shows else None


def encode_text(request: Request, target: Target, ledger: Ledger) -> dict[str, Json]:
    """The `text` object."""
    text: dict[str, Any] = {}
    if request.format is not None:
        text["format"] = _encode_format(request.format, request.protocol, ledger)
    if request.verbosity is not None:
        text["verbosity"] = request.verbosity
    return {"text": text} if text else {}


def _encode_format(form: OutputFormat, source: Protocol, ledger: Ledger) -> dict[str, Json]:
    entry: dict[str, Json] = {
        "type": _FORMAT_NAMES[form.kind],
        "name": form.name,
        "schema": form.schema,
        "strict": form.strict,
        "description": form.description,
    }
    if form.kind is FormatKind.SCHEMA and source is Protocol.MESSAGES:
        entry["name"] = form.name or _FOREIGN_FORMAT
        entry["strict"] = fits_strict(form.schema)
        if not entry["strict"]:
            ledger.add("tool.strict_downgraded", form.path)
    return _given(entry)


def encode_caching(request: Request, target: Target, ledger: Ledger) -> dict[str, Json]:
    """Cache key, options and retention. A Messages request for no output is one that warms the cache."""
    caching = request.caching or Caching()
    body = {
        "prompt_cache_key": caching.key,
        "prompt_cache_options": caching.options,
        "prompt_cache_retention": caching.retention,
    }
    if request.protocol is Protocol.MESSAGES and request.sampling.max_tokens == 0:
        body["prompt_cache_options"] = {"prewarm": True}
    return _given(body)


def encode_tier(request: Request, target: Target, ledger: Ledger) -> dict[str, Json]:
    """The service tier."""
    if request.tier is None:
        return {}
    if request.tier.value not in TIERS:
        ledger.add("tier", request.where("tier"), request.tier.value)
        return {}
    return {"service_tier": request.tier.value}


def encode_user(request: Request, target: Target, ledger: Ledger) -> dict[str, Json]:
    """The end user, hashed where the id is longer than the protocol allows."""
    user = request.user
    if user is None:
        return {}
    if request.protocol is PROTOCOL:
        return {request.where("user"): user}
    if len(user) > MAX_USER:
        ledger.add("user.hashed", request.where("user"))
        user = digest(user, 32)
    return {"safety_identifier": user}


def _given(body: dict[str, Json]) -> dict[str, Json]:
    return {name: value for name, value in body.items() if value is not None}
