"""Fit randomness, token probabilities and stop sequences to the model."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from trilogue.errors import Unsupported
from trilogue.model import Protocol, Request, Sampling
from trilogue.protocols.codec import EncodingContext
from trilogue.protocols.fit.thinking import will_reason
from trilogue.vendors.profile import Profile

_RANDOMNESS = ("temperature", "top_p", "top_k")
_PENALTIES = ("frequency_penalty", "presence_penalty", "logit_bias")


def fit_sampling(request: Request, out: EncodingContext, target: Protocol) -> Request:
    """Return the request with the sampling parameters that the model accepts.

    Raises `Unsupported` for several choices or token probabilities that the model does not return.
    """
    sampling, profile = request.sampling, out.profile
    changes: dict[str, Any] = {}
    if sampling.temperature is not None or sampling.top_p is not None or sampling.top_k is not None:
        _fit_randomness(request, changes, out, target)
    if sampling.logprobs is not None or sampling.top_logprobs is not None:
        _fit_logprobs(request, changes, out, target)
    if sampling.choices is not None and sampling.choices > 1 and not profile.several_choices:
        raise Unsupported(request.where("choices"), "the model gives one choice")
    if not profile.penalties:
        _drop(_PENALTIES, "param.dropped", request, changes, out)
    if sampling.seed is not None and not profile.seed:
        _drop(("seed",), "param.dropped", request, changes, out)
    return replace(request, sampling=replace(sampling, **changes)) if changes else request


def _fit_randomness(request: Request, changes: dict[str, Any], out: EncodingContext, target: Protocol) -> None:
    sampling, profile = request.sampling, out.profile
    accepts_sampling = profile.sampling
    if accepts_sampling and not profile.sampling_with_reasoning:
        # OpenAI's models refuse temperature and top_p while they reason, and accept them otherwise.
        accepts_sampling = not will_reason(request.thinking, profile, target)
    # Claude refuses sampling parameters from 4.7 on.
    if not accepts_sampling:
        _drop(_RANDOMNESS, "sampling.dropped", request, changes, out)
        return
    if sampling.temperature is not None:
        _fit_temperature(sampling, request, changes, out)
    if sampling.top_k is not None and not profile.top_k:
        _drop(("top_k",), "param.dropped", request, changes, out)


def _fit_logprobs(request: Request, changes: dict[str, Any], out: EncodingContext, target: Protocol) -> None:
    """Refuse token probabilities that the model does not return, because the client reads them in the response.

    An `include` of Responses without a number of them is only dropped.
    """
    gives = out.profile.logprobs and target.traits.logprobs
    only_included = out.source.traits.logprobs_by_include and not request.sampling.top_logprobs
    if only_included and not gives and not out.native and request.sampling.logprobs:
        out.ledger.add("logprobs.dropped", request.where("logprobs"))
        changes["logprobs"] = None
        return
    if out.profile.logprobs:
        return
    for name in ("logprobs", "top_logprobs"):
        if getattr(request.sampling, name):
            raise Unsupported(request.where(name), "the model gives no token probabilities")
    changes |= {"logprobs": None, "top_logprobs": None}


def _drop(names: tuple[str, ...], loss: str, request: Request, changes: dict[str, Any], out: EncodingContext) -> None:
    for name in names:
        value = getattr(request.sampling, name)
        if value is None or name in changes:
            continue
        changes[name] = None
        if value != _DEFAULTS.get(name):
            out.ledger.add(loss, request.where(name))


_DEFAULTS = {"temperature": 1, "top_p": 1, "frequency_penalty": 0, "presence_penalty": 0, "logit_bias": {}}
"""default values: leaving them out loses nothing"""


def _fit_temperature(sampling: Sampling, request: Request, changes: dict[str, Any], out: EncodingContext) -> None:
    most, given = out.profile.max_temperature, sampling.temperature
    if given is not None and not 0 <= given <= most:
        out.ledger.add("temperature.clamped", request.where("temperature"))
        most = int(most) if float(most).is_integer() else most  # write 1 and not 1.0, as clients do
        changes["temperature"] = min(max(given, 0), most)
    # Claude Opus 4.1 and Claude 4.5 and 4.6 accept temperature or top_p, not both.
    if sampling.top_p is not None and not out.profile.temperature_with_top_p:
        _drop(("top_p",), "sampling.dropped", request, changes, out)


def _accepted_stops(stops: tuple[str, ...], profile: Profile) -> tuple[str, ...]:
    """Return the stop sequences that the model accepts."""
    # Anthropic refuses stop sequences that are only whitespace.
    usable = tuple(stop for stop in stops if stop and (profile.blank_stops or stop.strip()))
    return usable if profile.max_stops is None else usable[: profile.max_stops]


def emulated_stops(stops: tuple[str, ...], profile: Profile, has_stops: bool) -> tuple[str, ...]:
    """Return the stop sequences that the upstream does not get, and at which the gateway cuts the response."""
    accepted = _accepted_stops(stops, profile) if has_stops else ()
    return tuple(stop for stop in stops if stop and stop not in accepted)


def fit_stops(request: Request, out: EncodingContext) -> Request:
    """Return the request with the stop sequences that the model accepts. Empty ones are left out."""
    stops, path = request.sampling.stop, request.where("stop")
    accepted = _accepted_stops(stops, out.profile)
    if accepted == stops:
        return request
    # An empty sequence would end every response at once, so there is nothing to emulate.
    if "" in stops:
        out.ledger.add("param.dropped", path, "empty stop sequences")
    if len(accepted) < len(stops) - stops.count(""):
        out.ledger.add("param.dropped" if out.native else "stop.emulated", path)
    return replace(request, sampling=replace(request.sampling, stop=accepted))
