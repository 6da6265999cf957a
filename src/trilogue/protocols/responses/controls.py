"""Settings for the response, in both directions: sampling, output format, caching, tier, identity, thinking.

Decoding takes fields out of the request; encoding returns a part of the body for each group. The profile of a model
says what it does not accept, never its name.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from trilogue.errors import BadRequest, Unsupported
from trilogue.model import Caching, FormatKind, Json, OutputFormat, Protocol, Request, Sampling, Thinking, Tier
from trilogue.protocols.codec import EncodingContext
from trilogue.protocols.fields import Fields, Readers
from trilogue.protocols.fit.thinking import with_effort
from trilogue.protocols.openai.cache import declare_cache_lifetime
from trilogue.protocols.openai.schema import FORMAT_NAME, FORMAT_NAMES, FORMATS, can_be_strict
from trilogue.protocols.parts import short_user
from trilogue.protocols.responses.wire import MAX_USER_LENGTH, TIERS


def decode_sampling(fields: Fields) -> Sampling:
    """Return limits and randomness of a request."""
    return Sampling(**fields.given(_SAMPLING))


_SAMPLING: Readers = {
    "max_output_tokens": ("max_tokens", Fields.integer),
    "temperature": ("temperature", Fields.number),
    "top_p": ("top_p", Fields.number),
    "top_logprobs": ("top_logprobs", Fields.integer),
    "max_tool_calls": ("max_tool_calls", Fields.integer),
}
SAMPLING_FIELDS = tuple(_SAMPLING)


def decode_text(fields: Fields) -> tuple[OutputFormat | None, str | None]:
    """Return the output format and the verbosity of the `text` object."""
    text = fields.fields("text")
    if text is None:
        return None, None
    form = _decode_format(text)
    verbosity = text.text("verbosity")
    fields.keep("text", text)
    return form, verbosity


def _decode_format(text: Fields) -> OutputFormat | None:
    form = text.fields("format")
    if form is None:
        return None
    kind = form.text("type")
    if kind not in FORMATS:
        raise BadRequest(f"text.format.type cannot be {kind!r}", path="text.format.type")
    decoded = OutputFormat(
        kind=FORMATS[kind],
        name=form.text("name"),
        schema=form.mapping("schema"),
        strict=form.flag("strict"),
        description=form.text("description"),
        path=form.path,
    )
    text.keep("format", form)
    return decoded


CACHING_FIELDS = ("prompt_cache_key", "prompt_cache_options", "prompt_cache_retention")


def decode_caching(fields: Fields) -> Caching | None:
    """Return the settings for prompt caching of the whole request; cache marks are on the parts."""
    key = fields.text("prompt_cache_key")
    options = fields.mapping("prompt_cache_options")
    retention = fields.text("prompt_cache_retention")
    if key is None and options is None and retention is None:
        return None
    return Caching(key=key, options=options, retention=retention)


def decode_tier(fields: Fields) -> Tier | None:
    """Return the service tier; an unknown one stays an extra."""
    value = fields.text("service_tier")
    # OpenAI adds tiers from time to time.
    if value is not None and value not in TIERS:
        fields.put_back("service_tier", value)
    return TIERS.get(value or "")


def decode_user(fields: Fields) -> tuple[str | None, str]:
    """Return the end user's id and the field that it is in.

    `safety_identifier` wins; an older `user` next to it stays an extra.
    """
    identifier = fields.text("safety_identifier")
    if identifier is not None:
        return identifier, "safety_identifier"
    return fields.text("user"), "user"


def encode_sampling(request: Request, out: EncodingContext) -> dict[str, Json]:
    """Return the fields for limits and randomness; settings that have no field are declared or refused."""
    sampling = request.sampling
    if not out.native:
        _declare_sampling(request, out)
    settings = (
        ("max_output_tokens", _limit(request)),
        ("temperature", sampling.temperature),
        ("top_p", sampling.top_p),
        ("top_logprobs", sampling.top_logprobs),
        ("max_tool_calls", sampling.max_tool_calls),
    )
    body: dict[str, Json] = {}
    for name, value in settings:
        if value is not None:
            body[name] = value
    return body


def _limit(request: Request) -> int | None:
    """Return the output limit; None for a Messages request with a limit of 0, which only warms the cache."""
    limit = request.sampling.max_tokens
    # Responses refuses a limit below 16.
    return None if limit == 0 and request.protocol is Protocol.MESSAGES else limit


def _declare_sampling(request: Request, out: EncodingContext) -> None:
    sampling = request.sampling
    if sampling.choices is not None and sampling.choices > 1:
        raise Unsupported(request.where("choices"), "the Responses protocol gives one response")
    dropped = (
        ("top_k", sampling.top_k),
        ("frequency_penalty", sampling.frequency_penalty),
        ("presence_penalty", sampling.presence_penalty),
        ("logit_bias", sampling.logit_bias),
        ("seed", sampling.seed is not None),
    )
    for name, value in dropped:
        if value:
            out.ledger.add("param.dropped", request.where(name))
    if sampling.stop:
        out.ledger.add("stop.emulated", request.where("stop"))


def encode_text(request: Request, out: EncodingContext) -> dict[str, Json]:
    """Return the `text` object as a field of the body."""
    text: dict[str, Any] = {}
    if request.format is not None:
        text["format"] = _encode_format(request.format, out)
    if request.verbosity is not None:
        text["verbosity"] = request.verbosity
    return {"text": text} if text else {}


def _encode_format(form: OutputFormat, out: EncodingContext) -> dict[str, Json]:
    entry: dict[str, Json] = {
        "type": FORMAT_NAMES[form.kind],
        "name": form.name,
        "schema": form.schema,
        "strict": form.strict,
        "description": form.description,
    }
    if form.kind is FormatKind.SCHEMA and out.source is Protocol.MESSAGES:
        # OpenAI requires a name; Messages has none.
        entry["name"] = form.name or FORMAT_NAME
        entry["strict"] = can_be_strict(form, out.ledger)
    return given(entry)


def encode_caching(request: Request, out: EncodingContext) -> dict[str, Json]:
    """Return cache key, options and retention. A Messages request with a limit of 0 becomes `prewarm`."""
    warms = request.protocol is Protocol.MESSAGES and request.sampling.max_tokens == 0
    if request.caching is None:
        return {"prompt_cache_options": {"prewarm": True}} if warms else {}
    caching = request.caching
    declare_cache_lifetime(request, out.ledger)
    body = {
        "prompt_cache_key": caching.key,
        "prompt_cache_options": {"prewarm": True} if warms else caching.options,
        "prompt_cache_retention": caching.retention,
    }
    return given(body)


def encode_tier(tier: Tier, request: Request, out: EncodingContext) -> dict[str, Json]:
    """Return the service tier as a field of the body; one that OpenAI does not have is declared."""
    if tier.value not in TIERS:
        out.ledger.add("tier", request.where("tier"), tier.value)
        return {}
    return {"service_tier": tier.value}


def encode_user(user: str, request: Request, out: EncodingContext) -> dict[str, Json]:
    """Return the end user's id, hashed if it is longer than the protocol allows."""
    if out.native:
        return {request.where("user"): user}
    # `user` is deprecated at OpenAI.
    return {"safety_identifier": short_user(user, MAX_USER_LENGTH, request.where("user"), out.ledger)}


def given(body: dict[str, Json]) -> dict[str, Json]:
    """Return the fields that have a value."""
    return {name: value for name, value in body.items() if value is not None}


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
