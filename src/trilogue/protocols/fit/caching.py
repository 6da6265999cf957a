"""Fit prompt caching, service tier, end user and provider-specific settings to the model."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from trilogue.errors import Unsupported
from trilogue.model import Caching, Protocol, Request, Tier
from trilogue.protocols.codec import EncodingContext, Target
from trilogue.protocols.parts import digest

# OpenAI's APIs refuse a longer prompt_cache_key.
MAX_KEY = 64
_SESSION_BYTES = 16


def takes_session(target: Target) -> bool:
    """Return whether translated requests get a cache key, because the upstream has one and is known to accept it."""
    profile = target.profile
    return profile.adds_caching and profile.openai_fields and target.protocol.traits.cache_key


def with_session(request: Request, session: str, target: Target) -> Request:
    """Return the request with a cache key for its session; the same if the client has set one.

    OpenAI sends requests with one key and one beginning to one machine; without a key, hits are a matter of luck. The
    key is a hash: it is the same on every machine, and nobody can read the session from it.
    """
    caching = request.caching or Caching()
    if caching.key:
        return request
    return replace(request, caching=replace(caching, key=digest(f"{session}\0{target.model}", _SESSION_BYTES)))


def fit_caching(request: Request, out: EncodingContext, target: Protocol) -> Request:
    """Return the request with the cache settings and the tier that the model accepts.

    Cache marks are part of the content; see `fit_content`.
    """
    changes: dict[str, Any] = {}
    if request.caching is not None:
        # Only OpenAI's protocols have a cache key with a maximum length.
        keyed = out.profile.openai_fields and target.traits.cache_key
        caching = _with_short_key(request.caching, request, out) if keyed else request.caching
        caching = _without_refused_options(caching, request, out)
        if caching is not request.caching:
            changes["caching"] = None if caching == Caching() else caching
    if request.tier is not None and request.tier not in out.profile.tiers:
        if request.tier not in (Tier.AUTO, Tier.DEFAULT):
            out.ledger.add("tier", request.where("tier"), request.tier.value)
        changes["tier"] = None
    return replace(request, **changes) if changes else request


def _with_short_key(caching: Caching, request: Request, out: EncodingContext) -> Caching:
    if caching.key is None or len(caching.key) <= MAX_KEY:
        return caching
    out.ledger.add("cache.key_hashed", request.where("cache_key"))
    return replace(caching, key=digest(caching.key, MAX_KEY // 2))


def _without_refused_options(caching: Caching, request: Request, out: EncodingContext) -> Caching:
    if caching.retention is not None and not out.profile.cache_retention:
        out.ledger.add("cache.options", request.where("cache_retention"))
        # gpt-5.6 removed prompt_cache_retention, and Azure never had it; both return 400.
        caching = replace(caching, retention=None)
    if caching.options is not None and not out.profile.cache_marks:
        out.ledger.add("cache.options", request.where("cache_options"))
        caching = replace(caching, options=None)
    if out.native and not out.profile.prewarm and (caching.options or {}).get("prewarm"):
        raise Unsupported(request.where("cache_options"), "the model cannot only warm its cache")
    if caching.automatic is not None and out.native and not out.profile.cache_marks:
        out.ledger.add("cache.mark", request.where("caching"))
        caching = replace(caching, automatic=None)
    return caching


def fit_identity(request: Request, out: EncodingContext) -> Request:
    """Return the request without an end user if the model accepts none."""
    if out.profile.user:
        return request
    out.ledger.add("param.dropped", request.where("user"))
    return replace(request, user=None)


_ENCRYPTED = "reasoning.encrypted_content"


def fit_include(request: Request, out: EncodingContext) -> Request:
    """Return a Responses request that is passed through, without `include` values that the model refuses."""
    profile = out.profile
    # OpenAI refuses to include encrypted reasoning for models that do not reason.
    if _ENCRYPTED not in request.include or (profile.encrypted_reasoning and profile.reasons != "never"):
        return request
    out.ledger.add("param.dropped", "include", _ENCRYPTED)
    return replace(request, include=tuple(one for one in request.include if one != _ENCRYPTED))


_ONLY_OPENAI = {
    "metadata": "metadata.kept",
    "store": "store.ignored",
    "verbosity": "verbosity",
    "moderation": "param.dropped",
    "tier": "tier",
    "caching": "cache.options",
    "obfuscation": "param.dropped",
}
"""settings that only OpenAI's servers accept, and the loss code for leaving each out"""


def fit_compatible(request: Request, out: EncodingContext) -> Request:
    """Return a Chat request that is passed through, without settings that the server does not accept."""
    changes: dict[str, Any] = {}
    if not out.profile.openai_fields:
        if request.user is not None and request.where("user") == "safety_identifier":
            # Compatible servers have only the older name.
            request = replace(request, paths={**(request.paths or {}), "user": "user"})
        changes = dict.fromkeys(name for name in _ONLY_OPENAI if getattr(request, name) is not None)
        for name in changes:
            out.ledger.add(_ONLY_OPENAI[name], request.where(name))
    if request.include_usage is not None and not out.profile.stream_usage:
        out.ledger.add("param.dropped", "stream_options.include_usage")
        changes["include_usage"] = None
    return replace(request, **changes) if changes else request
