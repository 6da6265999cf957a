"""Settings for the response, in both directions: sampling, output format, caching, tier, identity, thinking.

In: top-level fields of a Chat request, including extensions of compatible servers. Out: the neutral settings, and back.
If several fields mean the same, the first one in the tables here wins and the others stay extras.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

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
from trilogue.protocols.chat.wire import MAX_USER_LENGTH, NEAREST_TIER, TIERS
from trilogue.protocols.codec import EncodingContext
from trilogue.protocols.fields import Fields, LooseFields, Readers
from trilogue.protocols.fit.thinking import with_effort
from trilogue.protocols.openai.cache import declare_cache_lifetime
from trilogue.protocols.openai.schema import FORMAT_NAME, FORMAT_NAMES, FORMATS, can_be_strict
from trilogue.protocols.parts import short_user

Paths = dict[str, str]
_Read = tuple[Thinking | None, Fields | None]
"""the settings of a spelling, or None if it has none, and its reader with the unread fields"""


def decode_sampling(fields: Fields, paths: Paths) -> Sampling:
    """Return limits and randomness, and record the paths of renamed fields."""
    limit = fields.integer("max_completion_tokens") if "max_completion_tokens" in fields.left else None
    # OpenAI deprecated max_tokens; its reasoning models accept only max_completion_tokens.
    if limit is not None:
        paths["max_tokens"] = "max_completion_tokens"
    elif "max_tokens" in fields.left:
        limit = fields.integer("max_tokens")
    known = fields.given(_SAMPLING)
    if "choices" in known and known["choices"] is not None:
        paths["choices"] = "n"
    return Sampling(max_tokens=limit, **known)


def _stop(fields: Fields, name: str) -> tuple[str, ...]:
    value = fields.any(name)
    if value is None:
        return ()
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not all(isinstance(item, str) for item in values):
        raise BadRequest("stop must be a string or an array of strings", path="stop")
    return tuple(values)


_SAMPLING: Readers = {
    "n": ("choices", Fields.integer),
    "temperature": ("temperature", Fields.number),
    "top_p": ("top_p", Fields.number),
    "top_k": ("top_k", Fields.integer),
    "frequency_penalty": ("frequency_penalty", Fields.number),
    "presence_penalty": ("presence_penalty", Fields.number),
    "logit_bias": ("logit_bias", Fields.mapping),
    "seed": ("seed", Fields.integer),
    "stop": ("stop", _stop),
    "logprobs": ("logprobs", Fields.flag),
    "top_logprobs": ("top_logprobs", Fields.integer),
}
SAMPLING_FIELDS = ("max_completion_tokens", "max_tokens", *_SAMPLING)


def encode_sampling(request: Request, out: EncodingContext) -> dict[str, Json]:
    """Return the sampling fields of the body, under the names that the upstream accepts."""
    sampling = request.sampling
    body: dict[str, Json] = {}
    if sampling.max_tokens is not None:
        # The profile knows which of the two names the server accepts.
        name = request.where("max_tokens") if out.native else out.profile.max_tokens_field
        body[name] = sampling.max_tokens
    settings = (
        ("temperature", sampling.temperature),
        ("top_p", sampling.top_p),
        ("frequency_penalty", sampling.frequency_penalty),
        ("presence_penalty", sampling.presence_penalty),
        ("logit_bias", sampling.logit_bias),
        ("seed", sampling.seed),
        ("logprobs", sampling.logprobs),
        ("top_logprobs", sampling.top_logprobs),
        ("n", sampling.choices),
    )
    for name, value in settings:
        if value is not None:
            body[name] = value
    if sampling.stop:
        body["stop"] = list(sampling.stop)
    if sampling.top_k is not None:
        body["top_k"] = sampling.top_k
    if not out.native:
        _fit_sampling(request, body, out)
    return body


def _fit_sampling(request: Request, body: dict[str, Json], out: EncodingContext) -> None:
    """Refuse, or drop and declare, what Chat cannot express."""
    sampling = request.sampling
    if sampling.max_tokens is not None and sampling.max_tokens < 1:
        raise Unsupported(request.where("max_tokens"), "Chat Completions cannot only warm a cache")
    if sampling.top_logprobs is not None and sampling.logprobs is None:
        # Chat needs the flag; Responses only has the number.
        body["logprobs"] = True
    if sampling.max_tool_calls is not None:
        out.ledger.add("param.dropped", request.where("max_tool_calls"))


def decode_format(fields: Fields, _: Paths) -> OutputFormat | None:
    """Return the output format of `response_format`; kinds that only some servers have stay extras."""
    value = fields.mapping("response_format")
    if value is None:
        return None
    inner = Fields(value, "response_format")
    kind = FORMATS.get(str(inner.any("type")))
    if kind is None:
        # Some servers have further kinds.
        fields.put_back("response_format", value)
        return None
    if kind is not FormatKind.SCHEMA:
        fields.keep("response_format", inner)
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
    inner.keep("json_schema", schema)
    fields.keep("response_format", inner)
    return result


def encode_format(form: OutputFormat, out: EncodingContext) -> dict[str, Json]:
    """Return `response_format`, with a default name for schemas from Messages, which have none."""
    body: dict[str, Json] = {"type": FORMAT_NAMES[form.kind]}
    if form.kind is FormatKind.SCHEMA:
        strict = form.strict
        if out.source is Protocol.MESSAGES:
            strict = can_be_strict(form, out.ledger)
        # OpenAI requires a name.
        name = form.name if out.native else form.name or FORMAT_NAME
        fields = {"name": name, "description": form.description, "schema": form.schema, "strict": strict}
        body["json_schema"] = {name: value for name, value in fields.items() if value is not None}
    return {"response_format": body}


CACHING_FIELDS = ("prompt_cache_key", "prompt_cache_retention", "prompt_cache_options")
_CACHE_PATHS = {
    "cache_key": "prompt_cache_key",
    "cache_options": "prompt_cache_options",
    "cache_retention": "prompt_cache_retention",
}


def decode_caching(fields: Fields, paths: Paths) -> Caching | None:
    """Return the cache settings of the whole request; None if there are none."""
    key, retention = fields.text("prompt_cache_key"), fields.text("prompt_cache_retention")
    options = fields.mapping("prompt_cache_options")
    # Caching is implicit at OpenAI: a request without these fields is cached as well.
    if key is None and retention is None and options is None:
        return None
    paths.update(_CACHE_PATHS)
    return Caching(key=key, options=options, retention=retention)


def encode_caching(caching: Caching, request: Request, out: EncodingContext) -> dict[str, Json]:
    """Return the cache fields of the body. Automatic caching is the default here.

    Options that only Responses has are dropped and declared.
    """
    declare_cache_lifetime(request, out.ledger)
    known = out.native or out.profile.openai_fields
    body: dict[str, Json] = {}
    if caching.key is not None:
        set_or_declare(body, "prompt_cache_key", caching.key, known, out, "cache.key")
    if caching.retention is not None:
        set_or_declare(body, "prompt_cache_retention", caching.retention, known, out, "cache.options")
    if caching.options is not None:
        options = caching.options if out.native else _cache_options(caching.options, out)
        body["prompt_cache_options"] = options
    return body


def _cache_options(options: dict[str, Json], out: EncodingContext) -> dict[str, Json]:
    """Return the cache options that Chat has: one lifetime, and neither prewarming nor diagnostics."""
    accepted = {name: value for name, value in options.items() if (name == "mode" or (name, value) == ("ttl", "30m"))}
    for name in options.keys() - accepted.keys():
        out.ledger.add("cache.options", f"prompt_cache_options.{name}")
    return accepted


def set_or_declare(body: dict[str, Json], name: str, value: Json, known: bool, out: EncodingContext, loss: str) -> None:
    """Write a field that the upstream accepts; declare one that it does not."""
    if known:
        body[name] = value
    else:
        out.ledger.add(loss, name)


def decode_tier(fields: Fields) -> Tier | None:
    """Return the service tier of a request; names of other servers stay extras."""
    name = fields.text("service_tier")
    tier = TIERS.get(name or "")
    if name and tier is None:
        fields.put_back("service_tier", name)
    return tier


def encode_tier(tier: Tier, request: Request, out: EncodingContext) -> dict[str, Json]:
    """Return the service tier as a field of the body, or the nearest one that Chat has."""
    path = request.where("tier")
    if not (out.native or out.profile.openai_fields):
        if tier is not Tier.AUTO:
            out.ledger.add("tier", path)
        return {}
    if tier in NEAREST_TIER:
        out.ledger.add("tier", path)
        tier = NEAREST_TIER[tier]
    return {"service_tier": tier.value}


def encode_identity(request: Request, out: EncodingContext) -> dict[str, Json]:
    """Return the fields for the end user, metadata, verbosity, moderation and storage."""
    body: dict[str, Json] = {}
    known = out.native or out.profile.openai_fields
    if request.user is not None:
        # safety_identifier replaced `user` at OpenAI; compatible servers have only the old field.
        name = request.where("user") if out.native else ("safety_identifier" if known else "user")
        body[name] = _user(request.user, request, out)
    if request.metadata is not None and (request.metadata or out.native):
        set_or_declare(body, "metadata", request.metadata, known, out, "metadata.kept")
    if request.verbosity is not None:
        if known:
            body["verbosity"] = request.verbosity
        else:
            out.ledger.add("verbosity", request.where("verbosity"))
    if request.moderation is not None:
        set_or_declare(body, "moderation", request.moderation, known, out, "param.dropped")
    # False is the default in Chat, and compatible servers do not have the field.
    if request.store is not None and (out.native or (request.store and known)):
        body["store"] = request.store
    elif request.store:
        out.ledger.add("store.ignored", request.where("store"))
    return body


USER_FIELDS = ("safety_identifier", "user")


def decode_user(fields: Fields, paths: Paths) -> str | None:
    """Return the end user's id from `safety_identifier`, or from the older `user`."""
    identifier = fields.text("safety_identifier")
    if identifier is not None:
        paths["user"] = "safety_identifier"
        return identifier
    return fields.text("user")


def _user(user: str, request: Request, out: EncodingContext) -> str:
    return user if out.native else short_user(user, MAX_USER_LENGTH, request.where("user"), out.ledger)


def decode_thinking(fields: Fields, paths: Paths) -> Thinking | None:
    """Return the settings for thinking, from the first of their spellings that is present."""
    for name, reader in _THINKING_READERS.items():
        value = fields.any(name) if name in fields.left else None
        if value is None:
            continue
        thinking, rest = reader(value)
        if thinking is not None:
            paths |= {"thinking": name, "effort": name, "visibility": name}
            fields.keep(name, rest)
            return thinking
        # The upstream may know what it means.
        fields.put_back(name, value)
    return None


def _read_effort(value: Json) -> _Read:
    if not isinstance(value, str):
        raise BadRequest("reasoning_effort must be a string", path="reasoning_effort")
    return with_effort(value), None


def _read_reasoning(value: Json) -> _Read:
    """Read OpenRouter's {effort, max_tokens, enabled, exclude}."""
    if not isinstance(value, dict):
        return None, None
    fields = LooseFields(value)
    known = with_effort(fields.text("effort"))
    budget, enabled, exclude = fields.integer("max_tokens"), fields.flag("enabled"), fields.flag("exclude")
    # False is the default; it is kept so that the request goes out unchanged.
    if exclude is False:
        fields.put_back("exclude", False)
    mode = ThinkingMode.BUDGET if budget is not None else _SWITCH_MODES.get(enabled)
    if budget is not None and enabled is not None:
        fields.put_back("enabled", enabled)
    visibility = "omitted" if exclude else None
    read = replace(known, mode=mode, budget=budget, visibility=visibility)
    return (None, None) if read == Thinking() else (read, fields)


def _read_thinking(value: Json) -> _Read:
    """Read {type: enabled | disabled, budget_tokens} of Moonshot, Z.ai and Anthropic's own OpenAI layer."""
    if not isinstance(value, dict):
        return None, None
    fields = LooseFields(value)
    kind, budget = fields.text("type"), fields.integer("budget_tokens")
    mode = {"enabled": ThinkingMode.ADAPTIVE, "disabled": ThinkingMode.DISABLED}.get(kind or "")
    if mode is None:
        return None, None
    if budget is not None and mode is ThinkingMode.ADAPTIVE:
        mode = ThinkingMode.BUDGET
    return Thinking(mode=mode, budget=budget), fields


def _read_switch(value: Json) -> _Read:
    """Read Qwen's `enable_thinking`, which is true or false."""
    return (Thinking(mode=_SWITCH_MODES[value]), None) if isinstance(value, bool) else (None, None)


_SWITCH_MODES: dict[bool | None, ThinkingMode | None] = {
    True: ThinkingMode.ADAPTIVE,
    False: ThinkingMode.DISABLED,
    None: None,
}
_THINKING_READERS: dict[str, Callable[[Json], _Read]] = {
    "reasoning_effort": _read_effort,
    "reasoning": _read_reasoning,
    "thinking": _read_thinking,
    "enable_thinking": _read_switch,
}
THINKING_FIELDS = tuple(_THINKING_READERS)


def encode_thinking(thinking: Thinking, request: Request, out: EncodingContext) -> dict[str, Json]:
    """Return the settings in their own spelling, or as `reasoning_effort` and the on/off switch of some servers."""
    if out.native:
        # Settings that the gateway added have no name in the client's request, or one that they cannot be written to.
        name = (request.paths or {}).get("thinking")
        if name is None or (name == "reasoning_effort" and thinking.level is None):
            name = "reasoning_effort" if thinking.level else out.profile.thinking_switch or "reasoning_effort"
        return {name: _THINKING_WRITERS[name](thinking)}
    if thinking.visibility not in (None, "omitted"):
        out.ledger.add("reasoning.visibility", request.where("thinking"))
    body: dict[str, Json] = {}
    if thinking.effort is not None:
        body["reasoning_effort"] = thinking.effort.value
    if thinking.mode is not None and out.profile.thinking_switch:
        body[out.profile.thinking_switch] = _THINKING_WRITERS[out.profile.thinking_switch](thinking)
    return body


def _is_off(thinking: Thinking) -> bool:
    return thinking.mode is ThinkingMode.DISABLED or thinking.effort is Effort.NONE


def _write_reasoning(thinking: Thinking) -> dict[str, Json]:
    enabled = {ThinkingMode.ADAPTIVE: True, ThinkingMode.DISABLED: False}.get(thinking.mode or ThinkingMode.BUDGET)
    body = {"effort": thinking.level, "max_tokens": thinking.budget, "enabled": enabled}
    if thinking.visibility == "omitted":
        body["exclude"] = True
    return {name: value for name, value in body.items() if value is not None}


def _write_thinking(thinking: Thinking) -> dict[str, Json]:
    body: dict[str, Json] = {"type": "disabled" if _is_off(thinking) else "enabled"}
    if thinking.budget is not None:
        body["budget_tokens"] = thinking.budget
    return body


_THINKING_WRITERS: dict[str, Callable[[Thinking], Json]] = {
    "reasoning_effort": lambda thinking: thinking.level,
    "reasoning": _write_reasoning,
    "thinking": _write_thinking,
    "enable_thinking": lambda thinking: not _is_off(thinking),
}
