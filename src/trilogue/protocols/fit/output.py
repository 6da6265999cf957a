"""Fit the output limit, the verbosity and the output format to the model."""

from __future__ import annotations

from msgspec.structs import replace

from trilogue.base.json_text import dump_text
from trilogue.errors import Unsupported
from trilogue.model import FormatKind, OutputFormat, Protocol, Request, Role, Text, Turn
from trilogue.protocols.codec import EncodingContext
from trilogue.protocols.fit.tools import close_objects, strict_form

_LIMIT_NAMES = ("max_tokens", "max_completion_tokens")
"""the names of the output limit in Chat Completions; servers accept one or both of them"""
_PROMPTS = (Role.SYSTEM, Role.DEVELOPER)
_JSON = "Answer with one JSON object and nothing else."
_BY_SCHEMA = "Answer with JSON that follows this JSON Schema, and nothing else:\n"


def fit_limit(request: Request, out: EncodingContext) -> Request:
    """Return the request with an output limit in the model's range.

    Raises `Unsupported` for a limit of 0, which only warms the cache, if the model cannot do that.
    """
    limit, profile = request.sampling.max_tokens, out.profile
    if limit is None:
        return request
    path = request.where("max_tokens")
    if out.native and path in _LIMIT_NAMES and profile.max_tokens_field not in ("", path):
        # The encoder writes a request of its own protocol with the field names of the client.
        request = replace(request, paths={**(request.paths or {}), "max_tokens": profile.max_tokens_field})
    # In Messages, 0 only warms the prompt cache; Responses has `prewarm` for it since gpt-5.6.
    if limit == 0 and request.protocol.traits.zero_limit_warms_cache:
        if not profile.prewarm:
            raise Unsupported(path, "the model cannot only warm its cache")
        return request
    # Responses refuses fewer than 16 output tokens.
    fitted = max(limit, profile.least_output)
    if profile.output_limit is not None:
        fitted = min(fitted, profile.output_limit)
    if fitted == limit:
        return request
    out.ledger.add("max_tokens.raised" if fitted > limit else "max_tokens.lowered", path, f"{limit} to {fitted}")
    return replace(request, sampling=replace(request.sampling, max_tokens=fitted))


def fit_verbosity(request: Request, out: EncodingContext) -> Request:
    """Return the request without a verbosity that the model does not accept."""
    if out.profile.verbosity:
        return request
    if request.verbosity != "medium":
        out.ledger.add("verbosity", request.where("verbosity"))
    return replace(request, verbosity=None)


def fit_format(request: Request, out: EncodingContext, target: Protocol) -> Request:
    """Return the request with an output format that the model accepts; others are requested in the prompt."""
    form, profile = request.format, out.profile
    if form is None or form.kind is FormatKind.TEXT:
        return request
    if form.kind is FormatKind.SCHEMA:
        if profile.json_schema:
            fitted = _fit_schema(form, request, out)
            return request if fitted is form else replace(request, format=fitted)
        out.ledger.add("format.schema_in_words", form.path or request.where("format"))
        # Messages has no JSON mode: its encoder would add a second prompt.
        has_json_mode = profile.json_mode and target.traits.json_mode
        fallback = replace(form, kind=FormatKind.JSON, schema=None, strict=None) if has_json_mode else None
        return _with_prompt(replace(request, format=fallback), _BY_SCHEMA + dump_text(form.schema))
    if not profile.json_mode:
        out.ledger.add("format.json_object", form.path or request.where("format"))
        return _with_prompt(replace(request, format=None), _JSON)
    # OpenAI and DeepSeek refuse json_object if the messages do not mention JSON.
    if profile.json_word and not _says_json(request, target):
        out.ledger.add("format.json_word", form.path or request.where("format"))
        return _with_prompt(request, _JSON)
    return request


def _fit_schema(form: OutputFormat, request: Request, out: EncodingContext) -> OutputFormat:
    path = form.path or request.where("format")
    # Anthropic refuses open objects and limits of numbers, lengths and counts in schemas.
    if out.profile.closed_schemas and form.schema is not None:
        closed = close_objects(form.schema)
        if closed is not form.schema:
            out.ledger.add("schema.transformed", path)
            form = replace(form, schema=closed)
    if form.strict and out.profile.strict_schemas:
        schema = strict_form(form.schema)
        if schema is None:
            out.ledger.add("format.details", path, "sent as not strict")
            form = replace(form, strict=False)
        elif schema is not form.schema:
            out.ledger.add("schema.transformed", path)
            form = replace(form, schema=schema)
    return form


def _says_json(request: Request, target: Protocol) -> bool:
    """Return whether the beginning of the conversation has the word JSON. `instructions` do not count.

    Later turns are not searched: a prompt that appears and disappears with them would defeat prefix caching.
    """
    for turn in request.turns:
        # Codex's backend refuses json_object if only the instructions have the word, not the input.
        counts = not (turn.leading and target.traits.prompt_apart)
        if counts and any(type(block) is Text and "json" in block.text.lower() for block in turn.blocks):
            return True
        if turn.role not in _PROMPTS:
            break
    return False


def _with_prompt(request: Request, text: str) -> Request:
    """Return the request with one more system message after those at the beginning, where it stays in every turn."""
    turns = request.turns
    place = next((place for place, turn in enumerate(turns) if turn.role not in _PROMPTS), len(turns))
    path = request.where("format")
    prompt = Turn(role=Role.SYSTEM, blocks=(Text(text=text, path=path),), path=path, plain=True)
    return replace(request, turns=(*turns[:place], prompt, *turns[place:]))
