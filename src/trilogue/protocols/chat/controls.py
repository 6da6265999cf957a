"""How to answer: sampling, reasoning, output format, caching, tier.

In: top-level fields of a Chat request, with the extensions that compatible servers take. Out: the neutral settings,
and back. Where several fields say the same, the first in the tables here wins and the others stay extras.
"""

from __future__ import annotations

from collections.abc import Callable

from trilogue.errors import BadRequest, Unsupported
from trilogue.model import (
    Caching,
    Effort,
    FormatKind,
    Json,
    OutputFormat,
    Protocol,
    Request,
    Sampling,
    Thinking,
    ThinkingMode,
    Tier,
)
from trilogue.protocols.chat.content import Writer
from trilogue.protocols.chat.tools import fits_strict
from trilogue.protocols.chat.wire import EFFORTS, MAX_STOPS, NEAREST_TIER, TIERS
from trilogue.protocols.fields import Fields, LooseFields

Paths = dict[str, str]

_SAMPLING_NAMES = {
    "temperature": "temperature",
    "top_p": "top_p",
    "frequency_penalty": "frequency_penalty",
    "presence_penalty": "presence_penalty",
    "logit_bias": "logit_bias",
    "seed": "seed",
    "logprobs": "logprobs",
    "top_logprobs": "top_logprobs",
    "choices": "n",
}
_RANDOMNESS = ("temperature", "top_p")

_BUDGETS = (
    (1_536, Effort.MINIMAL),
    (4_096, Effort.LOW),
    (16_384, Effort.MEDIUM),
    (28_672, Effort.HIGH),
    (49_152, Effort.XHIGH),
)
"""thinking budgets up to which each effort is the nearest; the middle of the budgets that Messages gets for them"""

_EFFORT_LOSS = {Effort.NONE: "effort.none", Effort.MINIMAL: "effort.minimal"}
_ORDER = tuple(Effort)


def decode_sampling(fields: Fields, paths: Paths) -> Sampling:
    """Limits and randomness."""
    limit = fields.integer("max_completion_tokens")
    if limit is not None:
        paths["max_tokens"] = "max_completion_tokens"
    else:
        limit = fields.integer("max_tokens")
    choices = fields.integer("n")
    if choices is not None:
        paths["choices"] = "n"
    return Sampling(
        max_tokens=limit,
        temperature=fields.number("temperature"),
        top_p=fields.number("top_p"),
        top_k=fields.integer("top_k"),
        frequency_penalty=fields.number("frequency_penalty"),
        presence_penalty=fields.number("presence_penalty"),
        logit_bias=fields.mapping("logit_bias"),
        seed=fields.integer("seed"),
        stop=_stop(fields.any("stop")),
        logprobs=fields.flag("logprobs"),
        top_logprobs=fields.integer("top_logprobs"),
        choices=choices,
    )


def _stop(value: Json) -> tuple[str, ...]:
    if value is None:
        return ()
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not all(isinstance(item, str) for item in values):
        raise BadRequest("stop must be a string or an array of strings", path="stop")
    return tuple(values)


def encode_sampling(request: Request, out: Writer) -> dict[str, Json]:
    """The same fields back, under the names that the upstream takes."""
    sampling = request.sampling
    body: dict[str, Json] = {}
    if sampling.max_tokens is not None:
        name = request.where("max_tokens") if out.native else out.profile.max_tokens_field
        body[name] = _limit(sampling.max_tokens, request, out)
    for name, wire in _SAMPLING_NAMES.items():
        value = getattr(sampling, name)
        if value is not None:
            body[wire] = value
    if sampling.stop:
        body["stop"] = list(sampling.stop)
    if sampling.top_k is not None and (out.native or out.profile.top_k):
        body["top_k"] = sampling.top_k
    if not out.native:
        _fit_sampling(request, body, out)
    return body


def _limit(value: int, request: Request, out: Writer) -> int:
    if value < 1 and not out.native:
        raise Unsupported(request.where("max_tokens"), "Chat Completions cannot only warm a cache")
    return value


def _fit_sampling(request: Request, body: dict[str, Json], out: Writer) -> None:
    """What the upstream does not take is refused, or dropped and declared."""
    sampling = request.sampling
    if len(sampling.stop) > MAX_STOPS:
        raise Unsupported(request.where("stop"), f"Chat Completions takes {MAX_STOPS} stop sequences")
    if sampling.top_logprobs is not None and sampling.logprobs is None:
        body["logprobs"] = True
    if not out.profile.sampling:
        for name in _RANDOMNESS:
            if body.pop(name, None) is not None:
                out.ledger.add("sampling.dropped", request.where(name))
    for name in ("top_k", "max_tool_calls"):
        if getattr(sampling, name) is not None and name not in body:
            out.ledger.add("param.dropped", request.where(name))


def decode_thinking(fields: Fields, paths: Paths) -> Thinking | None:
    """Reasoning controls, in the first of their spellings that is there."""
    for name, reader in _THINKING_READERS.items():
        value = fields.any(name)
        if value is None:
            continue
        thinking, rest = reader(value)
        if rest is not None:
            fields.put_back(name, rest)
        if thinking is not None:
            paths["thinking"] = name
            return thinking
    return None


def _read_effort(value: Json) -> tuple[Thinking | None, Json]:
    if not isinstance(value, str):
        raise BadRequest("reasoning_effort must be a string", path="reasoning_effort")
    effort = EFFORTS.get(value)
    return (Thinking(effort=effort), None) if effort is not None else (None, value)


def _read_reasoning(value: Json) -> tuple[Thinking | None, Json]:
    """OpenRouter: {effort, max_tokens, enabled, exclude}."""
    if not isinstance(value, dict):
        return None, value
    fields = LooseFields(value)
    effort = EFFORTS.get(fields.text("effort") or "")
    budget, enabled, exclude = fields.integer("max_tokens"), fields.flag("enabled"), fields.flag("exclude")
    if effort is None and value.get("effort") is not None:
        fields.put_back("effort", value["effort"])
    if exclude is False:
        fields.put_back("exclude", False)
    mode = ThinkingMode.BUDGET if budget is not None else _MODES.get(enabled)
    if budget is not None and enabled is not None:
        fields.put_back("enabled", enabled)
    visibility = "omitted" if exclude else None
    if effort is None and mode is None and visibility is None:
        return None, value
    return Thinking(effort=effort, mode=mode, budget=budget, visibility=visibility), fields.rest()


def _read_thinking(value: Json) -> tuple[Thinking | None, Json]:
    """Moonshot, Z.ai, Anthropic's own layer: {type: enabled | disabled, budget_tokens}."""
    if not isinstance(value, dict):
        return None, value
    fields = LooseFields(value)
    kind, budget = fields.text("type"), fields.integer("budget_tokens")
    mode = {"enabled": ThinkingMode.ADAPTIVE, "disabled": ThinkingMode.DISABLED}.get(kind or "")
    if mode is None:
        return None, value
    if budget is not None and mode is ThinkingMode.ADAPTIVE:
        mode = ThinkingMode.BUDGET
    return Thinking(mode=mode, budget=budget), fields.rest()


def _read_switch(value: Json) -> tuple[Thinking | None, Json]:
    """Qwen: enable_thinking."""
    return (Thinking(mode=_MODES[value]), None) if isinstance(value, bool) else (None, value)


_MODES: dict[bool | None, ThinkingMode | None] = {
    True: ThinkingMode.ADAPTIVE,
    False: ThinkingMode.DISABLED,
    None: None,
}
_THINKING_READERS: dict[str, Callable[[Json], tuple[Thinking | None, Json]]] = {
    "reasoning_effort": _read_effort,
    "reasoning": _read_reasoning,
    "thinking": _read_thinking,
    "enable_thinking": _read_switch,
}


def encode_thinking(request: Request, out: Writer) -> dict[str, Json]:
    """Reasoning controls: in their own spelling, or as the nearest `reasoning_effort`."""
    thinking = request.thinking
    if thinking is None:
        return {}
    if out.native:
        name = request.where("thinking")
        return {name: _THINKING_WRITERS[name](thinking)}
    path = request.where("thinking")
    if thinking.visibility not in (None, "omitted"):
        out.ledger.add("reasoning.visibility", path)
    wanted = _wanted(thinking, path, out)
    effort = None if wanted is None else _nearest(wanted, path, out)
    return {} if effort is None else {"reasoning_effort": effort.value}


def _write_reasoning(thinking: Thinking) -> dict[str, Json]:
    enabled = {ThinkingMode.ADAPTIVE: True, ThinkingMode.DISABLED: False}.get(thinking.mode or ThinkingMode.BUDGET)
    body = {"effort": thinking.effort, "max_tokens": thinking.budget, "enabled": enabled}
    if thinking.visibility == "omitted":
        body["exclude"] = True
    return {name: value for name, value in body.items() if value is not None}


def _write_thinking(thinking: Thinking) -> dict[str, Json]:
    body: dict[str, Json] = {"type": "disabled" if thinking.mode is ThinkingMode.DISABLED else "enabled"}
    if thinking.budget is not None:
        body["budget_tokens"] = thinking.budget
    return body


_THINKING_WRITERS: dict[str, Callable[[Thinking], Json]] = {
    "reasoning_effort": lambda thinking: thinking.effort,
    "reasoning": _write_reasoning,
    "thinking": _write_thinking,
    "enable_thinking": lambda thinking: thinking.mode is ThinkingMode.ADAPTIVE,
}


def _wanted(thinking: Thinking, path: str, out: Writer) -> Effort | None:
    """The effort that these controls mean; None = the model's default."""
    if thinking.effort is not None:
        return thinking.effort
    if thinking.mode is ThinkingMode.BUDGET and thinking.budget is not None:
        out.ledger.add("thinking.budget", path)
        return next((effort for limit, effort in _BUDGETS if thinking.budget <= limit), Effort.MAX)
    if thinking.mode in (ThinkingMode.DISABLED, ThinkingMode.BETWEEN_TOOLS):
        return Effort.NONE
    return None


def _nearest(wanted: Effort, path: str, out: Writer) -> Effort | None:
    """The nearest effort that the model takes. Thinking is never switched off that way."""
    efforts = out.profile.efforts
    if wanted in efforts:
        return wanted
    if not efforts:
        if wanted is not Effort.NONE:
            out.ledger.add("param.dropped", path)
        return None
    out.ledger.add(_EFFORT_LOSS.get(wanted, "effort.clamped"), path)
    place = _ORDER.index(wanted)
    thinking = tuple(effort for effort in efforts if effort is not Effort.NONE)
    return min(thinking or efforts, key=lambda effort: abs(_ORDER.index(effort) - place))


def decode_format(fields: Fields) -> OutputFormat | None:
    """`response_format`; kinds that only some servers know stay extras."""
    value = fields.mapping("response_format")
    if value is None:
        return None
    inner = Fields(value, "response_format")
    kind = _FORMATS.get(str(inner.any("type")))
    if kind is None:
        fields.put_back("response_format", value)
        return None
    if kind is not FormatKind.SCHEMA:
        _keep_format(fields, inner.rest())
        return OutputFormat(kind=kind, path="response_format")
    schema = Fields(inner.any("json_schema"), "response_format.json_schema")
    result = OutputFormat(
        kind=kind,
        name=schema.text("name"),
        schema=schema.mapping("schema"),
        strict=schema.flag("strict"),
        description=schema.text("description"),
        path="response_format",
    )
    rest = schema.rest()
    _keep_format(fields, {**(inner.rest() or {}), **({"json_schema": rest} if rest else {})})
    return result


def _keep_format(fields: Fields, rest: dict[str, Json] | None) -> None:
    if rest:
        fields.put_back("response_format", rest)


_FORMATS = {"text": FormatKind.TEXT, "json_object": FormatKind.JSON, "json_schema": FormatKind.SCHEMA}
_FORMAT_NAMES = {kind: name for name, kind in _FORMATS.items()}


def encode_format(request: Request, out: Writer) -> dict[str, Json]:
    """`response_format`, with a name where Messages has none."""
    form = request.format
    if form is None:
        return {}
    body: dict[str, Json] = {"type": _FORMAT_NAMES[form.kind]}
    if form.kind is FormatKind.SCHEMA:
        strict = form.strict
        if out.source is Protocol.MESSAGES:
            strict = fits_strict(form.schema)
            if not strict:
                out.ledger.add("format.details", form.path, "sent as not strict")
        name = form.name if out.native else form.name or "structured_output"
        fields = {"name": name, "description": form.description, "schema": form.schema, "strict": strict}
        body["json_schema"] = {name: value for name, value in fields.items() if value is not None}
    return {"response_format": body}


def decode_caching(fields: Fields) -> Caching | None:
    """Cache settings of the whole request."""
    key, retention = fields.text("prompt_cache_key"), fields.text("prompt_cache_retention")
    options = fields.mapping("prompt_cache_options")
    if key is None and retention is None and options is None:
        return None
    return Caching(key=key, options=options, retention=retention)


def encode_caching(request: Request, out: Writer) -> dict[str, Json]:
    """The same back. Automatic caching is the default here; options of Responses alone are dropped."""
    caching = request.caching
    if caching is None:
        return {}
    known = out.native or out.profile.openai_fields
    body: dict[str, Json] = {}
    if caching.key is not None:
        set_or_lose(body, "prompt_cache_key", caching.key, known, out, "cache.key")
    if caching.retention is not None:
        set_or_lose(body, "prompt_cache_retention", caching.retention, known, out, "cache.options")
    if caching.options is not None:
        options = caching.options if out.native else _cache_options(caching.options, out)
        set_or_lose(body, "prompt_cache_options", options, out.native or out.profile.cache_marks, out, "cache.options")
    return body


def _cache_options(options: dict[str, Json], out: Writer) -> dict[str, Json]:
    """Chat has one lifetime, and neither prewarming nor diagnosis."""
    kept = {name: value for name, value in options.items() if (name == "mode" or (name, value) == ("ttl", "30m"))}
    for name in options.keys() - kept.keys():
        out.ledger.add("cache.options", f"prompt_cache_options.{name}")
    return kept


def set_or_lose(body: dict[str, Json], name: str, value: Json, known: bool, out: Writer, loss: str) -> None:
    """Write a field that the upstream knows; declare one that it does not."""
    if known:
        body[name] = value
    else:
        out.ledger.add(loss, name)


def decode_tier(fields: Fields) -> Tier | None:
    """`service_tier`, of a request or an answer; names of other servers stay extras."""
    name = fields.text("service_tier")
    tier = TIERS.get(name or "")
    if name and tier is None:
        fields.put_back("service_tier", name)
    return tier


def encode_tier(request: Request, out: Writer) -> dict[str, Json]:
    """The tier, or the nearest that Chat has."""
    tier = request.tier
    if tier is None:
        return {}
    path = request.where("tier")
    if not (out.native or out.profile.openai_fields):
        if tier not in (Tier.AUTO, Tier.DEFAULT):
            out.ledger.add("tier", path)
        return {}
    if tier in NEAREST_TIER:
        out.ledger.add("tier", path)
        tier = NEAREST_TIER[tier]
    return {"service_tier": tier.value}
