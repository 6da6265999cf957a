"""Settings for the response, in both directions: sampling, output format, caching, tier, identity, thinking.

The encoding functions write what the target's profile accepts and declare the rest. They do not know turns or tools;
what they need of them comes as arguments.

Newer models take an effort and decide for themselves how much to think; older ones take a token budget. `fit.thinking`
decides which one is sent.

Clients of other protocols set no cache marks, because OpenAI caches without them and Anthropic does not. An agent sends
the same beginning with every request. `add_marks` marks the body as it is sent, because only there turns and results
are in their final place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from trilogue.errors import BadRequest, Unsupported
from trilogue.model import CacheMark, Caching, Extras, FormatKind, Json, OutputFormat, Request, Sampling, Thinking, Tier
from trilogue.protocols.codec import EncodingContext
from trilogue.protocols.fields import Fields, Readers, restore_extras
from trilogue.protocols.fit.thinking import with_effort
from trilogue.protocols.messages.wire import (
    CACHE_TTLS,
    DISPLAY,
    MAX_CACHE_MARKS,
    MAX_USER_LENGTH,
    REQUEST_TIERS,
    THINKING,
    THINKING_BLOCKS,
    Wire,
    reverse,
)
from trilogue.protocols.parts import short_user
from trilogue.protocols.sealed import objects

V = TypeVar("V")
_UNMARKABLE = frozenset({"thinking", "redacted_thinking"})
_LONG_TTL, _LONG_RETENTION = "12h", "24h"
"""the lifetimes in OpenAI's cache settings that are longer than the usual one"""


def take_cache(fields: Fields) -> CacheMark | None:
    """Return the cache mark of a block, tool or request. Its fields other than the lifetime go back to the rest."""
    control = fields.fields("cache_control")
    if control is None:
        return None
    kind = control.text("type")
    # The only type today; another one must go back unchanged.
    if kind != "ephemeral":
        control.put_back("type", kind)
        fields.put_back("cache_control", control.rest())
        return None
    seconds = take_enum(control, "ttl", CACHE_TTLS)
    fields.keep("cache_control", control)
    return CacheMark(seconds)


def take_enum(fields: Fields, name: str, table: dict[str, V]) -> V | None:
    """Return the meaning of a field with enumerated values; a value without a row in the table stays in the rest."""
    value = fields.text(name)
    if value is not None and value not in table:
        fields.put_back(name, value)
    return table.get(value or "")


def decode_sampling(fields: Fields, _: object) -> Sampling:
    """Return limits and randomness of a request."""
    return Sampling(**fields.given(_SAMPLING))


def _stop(fields: Fields, name: str) -> tuple[str, ...]:
    stops = fields.items(name) or []
    if not all(isinstance(stop, str) for stop in stops):
        raise BadRequest("stop_sequences must be an array of strings", path="stop_sequences")
    return tuple(stops)


_SAMPLING: Readers = {
    "stop_sequences": ("stop", _stop),
    "max_tokens": ("max_tokens", Fields.integer),
    "temperature": ("temperature", Fields.number),
    "top_p": ("top_p", Fields.number),
    "top_k": ("top_k", Fields.integer),
}
SAMPLING_FIELDS = tuple(_SAMPLING)


def decode_format(fields: Fields, config: Fields | None) -> OutputFormat | None:
    """Return the output format of `output_config.format`, or of its older name `output_format`."""
    # The format moved to output_config in January 2026; older clients still send output_format.
    for owner, name in ((config, "format"), (fields, "output_format")):
        given = owner.fields(name) if owner else None
        if owner is None or given is None:
            continue
        schema = given.mapping("schema")
        if given.text("type") == "json_schema" and schema is not None:
            fields.keep("output_config.format", given)
            return OutputFormat(kind=FormatKind.SCHEMA, schema=schema, path=given.path)
        raise BadRequest(f"{given.path} must be of type json_schema with a schema", path=given.path)
    return None


def decode_tier(fields: Fields) -> Tier | None:
    """Return the tier of `speed` or `service_tier`. There is one neutral field: the other stays an extra."""
    speed = fields.text("speed")
    # Fast mode is a separate field in Messages and a service tier at OpenAI.
    if speed == "fast":
        return Tier.FAST
    fields.put_back("speed", speed)
    return take_enum(fields, "service_tier", REQUEST_TIERS)


class Marks(Struct):
    """A writer for the cache marks of one request, which keeps them within the limit of the protocol."""

    out: EncodingContext
    written: list[tuple[Wire, str]] = field(default_factory=list)
    """the wire objects with a mark, and their paths"""
    left_out: bool = False
    """whether a block with a mark was left out"""

    def put(self, wire: Wire, cache: CacheMark | None, path: str, extras: Extras = None) -> None:
        """Put a cache mark on a block or tool, and restore its extras."""
        if cache is not None and (self.out.profile.cache_marks or self.out.native):
            wire["cache_control"] = self.control(cache, path)
            self.written.append((wire, path))
        elif cache is not None:
            self.out.ledger.add("cache.mark", path)
        if extras:
            restore_extras(wire, extras)

    def declare(self, cache: CacheMark | None, path: str) -> None:
        """Declare the cache mark of a block that is not written."""
        if cache is not None:
            self.left_out = True
            self.out.ledger.add("cache.mark", path)

    def control(self, cache: CacheMark, path: str) -> Wire:
        """Return a mark as a wire object, with the nearer of the two lifetimes."""
        if cache.ttl is None:
            return {"type": "ephemeral"}
        # OpenAI's lifetimes are 30 minutes and 12 hours.
        name = "5m" if cache.ttl <= 1800 else "1h"
        if CACHE_TTLS[name] != cache.ttl:
            self.out.ledger.add("cache.ttl", path, name)
        return {"type": "ephemeral", "ttl": name}

    def are_missing(self) -> bool:
        """Return whether marks are to be added: the client has set none, and the upstream accepts them."""
        profile = self.out.profile
        return profile.adds_caching and profile.cache_marks and not (self.written or self.left_out)

    def trim(self) -> None:
        """Remove the marks above the limit: the first ones, which have the shortest prefixes."""
        # Anthropic refuses more than four marks.
        for wire, path in self.written[:-MAX_CACHE_MARKS]:
            del wire["cache_control"]
            self.out.ledger.add("cache.mark", path, f"at most {MAX_CACHE_MARKS} are allowed")


def encode_format(request: Request, out: EncodingContext) -> tuple[Wire | None, str | None]:
    """Return the `format` of `output_config`, and an instruction for a format that it cannot express."""
    wanted = request.format
    if wanted is None or wanted.kind is FormatKind.TEXT:
        return None, None
    path = wanted.path or request.where("format")
    if wanted.kind is FormatKind.JSON:
        out.ledger.add("format.json_object", path)
        return None, "Answer with one JSON object and nothing else."
    if wanted.description is not None:
        out.ledger.add("format.details", path)
    return {"type": "json_schema", "schema": wanted.schema if wanted.schema is not None else {}}, None


def encode_sampling(request: Request, out: EncodingContext) -> Wire:
    """Return the fields for sampling parameters and stop sequences."""
    sampling = request.sampling
    wire = _randomness(sampling)
    if not out.native:
        _declare_sampling(request, out)
    return {**wire, "stop_sequences": list(sampling.stop)} if sampling.stop else wire


def _declare_sampling(request: Request, out: EncodingContext) -> None:
    """Refuse or declare the parameters that the protocol has no field for."""
    given = request.sampling
    refused: tuple[tuple[str, Json, str], ...] = (
        ("logprobs", given.logprobs, "the target gives no token probabilities"),
        ("top_logprobs", given.top_logprobs, "the target gives no token probabilities"),
        # Clients read all choices, so dropping some would change the result silently.
        ("choices", given.choices != 1 and given.choices, "the target gives one response per request"),
    )
    dropped: tuple[tuple[str, Json], ...] = (
        ("frequency_penalty", given.frequency_penalty),
        ("presence_penalty", given.presence_penalty),
        ("logit_bias", given.logit_bias),
        ("max_tool_calls", given.max_tool_calls),
        # 0 is a seed like any other, unlike a penalty of 0.
        ("seed", given.seed is not None),
    )
    for name, value, reason in refused:
        if value:
            raise Unsupported(request.where(name), reason)
    for name, value in dropped:
        if value:
            out.ledger.add("param.dropped", request.where(name))


def _randomness(sampling: Sampling) -> Wire:
    names = ("temperature", "top_p", "top_k")
    return {name: value for name in names if (value := getattr(sampling, name)) is not None}


_TIERS: dict[Tier, Wire] = {
    Tier.DEFAULT: {"service_tier": "standard_only"},
    # Messages has no cheaper tier.
    Tier.FLEX: {"service_tier": "standard_only"},
    Tier.FAST: {"speed": "fast"},
    Tier.ULTRAFAST: {"speed": "fast"},
}
_EXACT_TIERS = (Tier.AUTO, Tier.DEFAULT)


def encode_tier(tier: Tier, request: Request, out: EncodingContext) -> Wire:
    """Return the field for the tier: `service_tier` or `speed`."""
    if out.native:
        return {"service_tier": "auto"} if tier is Tier.AUTO else _TIERS.get(tier, {})
    if tier not in _EXACT_TIERS:
        out.ledger.add("tier", request.where("tier"), tier.value)
    return _TIERS.get(tier, {})


def encode_identity(user: str, request: Request, out: EncodingContext) -> Wire:
    """Return `metadata` with the end user's id."""
    if out.native:
        return {"metadata": {"user_id": user}}
    return {"metadata": {"user_id": short_user(user, MAX_USER_LENGTH, request.where("user"), out.ledger)}}


def declare_rest(request: Request, out: EncodingContext) -> None:
    """Declare the settings of other protocols that this one has no field for.

    Raises `Unsupported` for a request that continues a stored response.
    """
    caching = request.caching
    if request.previous_response is not None:
        raise Unsupported(request.where("previous_response"), "the target keeps no responses")
    if request.verbosity not in (None, "medium"):
        out.ledger.add("verbosity", request.where("verbosity"))
    if request.metadata:
        out.ledger.add("metadata.kept", request.where("metadata"))
    if request.moderation is not None:
        out.ledger.add("param.dropped", request.where("moderation"))
    if request.store:
        out.ledger.add("store.ignored", request.where("store"))
    if caching is not None and caching.key is not None:
        out.ledger.add("cache.key", request.where("cache_key"))
    if caching is not None and caching.options:
        out.ledger.add("cache.options", request.where("cache_options"))
    if caching is not None and caching.retention is not None:
        out.ledger.add("cache.options", request.where("cache_retention"))


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


def add_marks(body: Wire, caching: Caching | None) -> None:
    """Mark the beginning and end of the prompt, the last user message, and the one before the last assistant message.

    The beginning, the instructions, outlasts what clients add to the prompt or take away, as at a compaction. The last
    user message is where the next request finds everything so far. The one before is where the last request had that
    mark: Anthropic looks back at most 20 blocks for an earlier write, and a turn may have more. A request with neither
    tools nor an assistant message is not part of a session: nothing would be read again.
    """
    messages: list[Wire] = body["messages"]
    replies = [position for position, message in enumerate(messages) if message["role"] == "assistant"]
    if (not replies and "tools" not in body) or _has_own_rules(caching):
        return
    control = {"type": "ephemeral", **({"ttl": "1h"} if _asks_for_long(caching) else {})}
    # Tools come before the system prompt, so a mark there includes them.
    prompt: list[Json] = body.get("system") or body.get("tools") or []
    _mark_last(prompt[:1] if "system" in body else [], control)
    _mark_last(prompt, control)
    _mark_user(messages, control)
    if replies:
        _mark_user(messages[: replies[-1]], control)


def _has_own_rules(caching: Caching | None) -> bool:
    """Return whether the client wants nothing cached but what it marks itself."""
    return caching is not None and (caching.options or {}).get("mode") == "explicit"


def _asks_for_long(caching: Caching | None) -> bool:
    if caching is None:
        return False
    return caching.retention == _LONG_RETENTION or (caching.options or {}).get("ttl") == _LONG_TTL


def _mark_user(messages: list[Wire], control: Wire) -> None:
    """Mark the last user message. A system message after it is not part of what the next request has there."""
    for message in reversed(messages):
        if message["role"] == "user":
            _mark_last(message["content"], control)
            return


def _mark_last(blocks: Iterable[Json], control: Wire) -> None:
    """Mark the last block or tool that may have a mark."""
    for block in reversed(list(blocks)):
        if _is_markable(block):
            block["cache_control"] = dict(control)
            return


def _is_markable(block: Wire) -> bool:
    """Return whether Anthropic accepts a mark: not on thinking, empty text, or a tool that is loaded later."""
    kind = block.get("type")
    if kind == "text":
        return bool(block["text"].strip())
    return kind not in _UNMARKABLE and not block.get("defer_loading")
