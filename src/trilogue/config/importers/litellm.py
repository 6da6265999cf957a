"""LiteLLM's `config.yaml`.

In LiteLLM, a model group is a list of deployments with one public name. Here, deployments with the same address and the
same keys are a provider with several accounts, and a group is an alias, or a route with its targets in order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from trilogue.config.importers.draft import Draft, settings_of
from trilogue.config.importers.source import NotCarried, Reasons, Section
from trilogue.config.importers.vendors import (
    IMPOSSIBLE,
    generic_protocols,
    is_known,
    preset_named,
    vendor_without_prefix,
)
from trilogue.vendors.vendor import CHAT, MESSAGES, RESPONSES

_MILLION = 1_000_000
_MODES = frozenset({"", "chat", "responses"})
_PASSED_MODES = frozenset(
    {
        "completion",
        "embedding",
        "rerank",
        "moderation",
        "image_generation",
        "image_edit",
        "audio_transcription",
        "audio_speech",
        "video_generation",
    }
)
"""kinds of models whose requests pass through, to providers that speak a protocol of OpenAI"""
_RESPONSES_PREFIX = "responses/"

_DEFAULT = "Trilogue does not add parameters to requests: set it in the client"
_ONLY_LITELLM = "only LiteLLM uses it"
_RETRIES = "Trilogue retries with other accounts before the first byte, within pool.retry_budget"
_DATABASE = "Trilogue keeps its state in files"
_FITS = "not needed: requests are adjusted to what each model accepts, and losses are declared"
_IN_ORDER = "it is carried over, but deployments at different addresses are tried in order, not in turns"
_WATCH = "Trilogue has its own log, metrics and traces"

PARAMETERS: Reasons = {
    **dict.fromkeys(("temperature", "max_tokens", "top_p", "stop", "seed", "frequency_penalty", "n", "user"), _DEFAULT),
    **dict.fromkeys(("reasoning_effort", "thinking", "response_format", "tools", "extra_body", "metadata"), _DEFAULT),
    **dict.fromkeys(("max_retries", "num_retries"), _RETRIES),
    **dict.fromkeys(("drop_params", "additional_drop_params", "allowed_openai_params"), _FITS),
    "stream_timeout": "streams have the limits first_event and between_events in server.timeouts",
    "azure_ad_token": "set auth: bearer and an account with file:token instead",
    "mock_response": "use the built-in demo models",
}
SETTINGS: Reasons = {
    **dict.fromkeys(("drop_params", "modify_params", "additional_drop_params"), _FITS),
    **dict.fromkeys(("num_retries", "allowed_fails", "cooldown_time", "retry_policy", "retry_after"), _RETRIES),
    **dict.fromkeys(("callbacks", "success_callback", "failure_callback", "service_callback", "set_verbose"), _WATCH),
    **dict.fromkeys(("cache", "cache_params"), "Trilogue does not cache responses"),
    **dict.fromkeys(("database_url", "store_model_in_db", "redis_host", "redis_port", "redis_password"), _DATABASE),
    "context_window_fallbacks": "a request that is too long for its model is an error of the client",
    "content_policy_fallbacks": "a refusal is a response, not a failure",
    "default_fallbacks": "add them as targets of the routes that need them",
    "routing_strategy": "targets of a route are tried in order; accounts of a provider by pool.strategy",
    "environment_variables": "set them in the environment of the gateway",
    "guardrails": "write them as policies, see docs/from-other-policies.md",
    "mcp_servers": "Trilogue is not an MCP gateway",
}


_Found = tuple[str, str, dict[str, Any]]
"""the name of a provider, the upstream's model, and the provider's settings"""


class _Deployment(Struct, frozen=True):
    """One entry of `model_list` that can be carried over."""

    group: str
    vendor: str
    model: str
    settings: dict[str, Any]
    account: dict[str, Any]
    price: dict[str, float]
    path: str


def carry_over(file: Section, draft: Draft) -> None:
    """Put everything that a LiteLLM file says into the draft."""
    deployments = [one for entry in file.sections("model_list") if (one := _deployment(entry, draft))]
    router, settings = file.section("router_settings"), file.section("litellm_settings")
    # `openai/gpt-5.5` would mean the provider of that name, so no provider gets such a name.
    draft.reserved = {one.group.partition("/")[0] for one in deployments if "/" in one.group}
    targets = _targets(deployments, draft)
    fallbacks = _fallbacks(router) | _fallbacks(settings)
    for group, own in targets.items():
        _serve(group, own, _chain(fallbacks.get(group, ()), targets), draft)
    _aliases(router, targets, draft)
    general = file.section("general_settings")
    if master := general.text("master_key"):
        draft.keys.append(draft.reference(master, "general_settings.master_key"))
    if seconds := settings.number("request_timeout") or router.number("timeout"):
        draft.server["timeouts"] = {"total": seconds}
    for section in (general, router, settings, file):
        draft.dropped.extend(section.rest(SETTINGS))


def _deployment(entry: Section, draft: Draft) -> _Deployment | None:
    """Return an entry of `model_list`, or None and the reason in the draft."""
    group, parameters, info = entry.text("model_name"), entry.section("litellm_params"), entry.section("model_info")
    vendor, model = _vendor_and_model(parameters)
    mode = info.text("mode")
    reason = IMPOSSIBLE.get(vendor) or ("" if mode in _MODES | _PASSED_MODES else f"mode {mode} is not served")
    reason = reason or ("" if group and model else "has no model")
    found = None if reason else _settings(vendor, model, parameters, draft)
    if found is not None and mode in _PASSED_MODES and found[2]["protocol"] == MESSAGES.value:
        found, reason = None, f"mode {mode} is for providers that speak Chat or Responses"
    if found is None:
        draft.drop(entry.path, reason or f"the provider {vendor} has no known address: it needs api_base")
        return None
    vendor, model, settings = found
    account = _account(parameters, vendor, draft)
    price = _price(parameters) or _price(info)
    draft.dropped.extend(parameters.rest(PARAMETERS))
    draft.dropped.extend(_unused_info(info))
    draft.dropped.extend(entry.rest({}))
    return _Deployment(group, vendor, model, settings, account, price, entry.path)


def _unused_info(info: Section) -> Iterable[NotCarried]:
    return [NotCarried(one.path, _ONLY_LITELLM) for one in info.rest({})]


def _vendor_and_model(parameters: Section) -> tuple[str, str]:
    """Return the provider and the upstream's model: `groq/llama-3` has both, `gpt-4o` only the latter."""
    model, given = parameters.text("model"), parameters.text("custom_llm_provider")
    first, slash, rest = model.partition("/")
    if slash and (is_known(first) or first == given):
        return given or first, rest
    if given:
        return given, model
    # An address without a provider is that of an OpenAI-compatible server.
    return ("openai_like" if slash else vendor_without_prefix(model)), model


def _settings(vendor: str, model: str, parameters: Section, draft: Draft) -> _Found | None:
    """Return a provider's name, the model and the provider's settings; None if its address is not known."""
    base_url = _address(parameters.text("api_base") or parameters.text("base_url"), parameters, draft)
    responses = model.startswith(_RESPONSES_PREFIX)
    model = model.removeprefix(_RESPONSES_PREFIX)
    more = _more(parameters)
    if vendor in ("azure", "azure_ai"):
        return _azure(model, base_url, parameters, more)
    preset, generic = preset_named(vendor), generic_protocols(vendor)
    if preset is None or (base_url and vendor == "openai"):
        # `openai/` with another address is any server that speaks Chat.
        protocols = generic or ([RESPONSES] if responses else [CHAT])
        name = "openai-compatible" if vendor in ("openai", "openai_like", "custom_openai") else vendor
        return (name, model, settings_of(protocols, base_url, **more)) if base_url else None
    protocol = RESPONSES if responses and RESPONSES in preset.urls else preset.protocol
    url = preset.urls[protocol]
    protocols = [protocol, *(one for one, other in preset.urls.items() if one is not protocol and other == url)]
    return preset.name, model, settings_of(protocols, base_url or url, **more)


def _address(text: str, parameters: Section, draft: Draft) -> str:
    """Return an address, unless it is a reference to a variable: Trilogue has these for secrets only."""
    if text.startswith("os.environ/"):
        draft.drop(f"{parameters.path}.api_base", "addresses cannot refer to variables: write the address")
        return ""
    return text.rstrip("/")


def _azure(
    model: str, base_url: str, parameters: Section, more: dict[str, Any]
) -> tuple[str, str, dict[str, Any]] | None:
    """Return Azure's address: one per deployment and API version, or the new one without versions."""
    version = parameters.text("api_version")
    if not base_url:
        return None
    if "/openai" in base_url or not version or version in ("preview", "latest", "v1"):
        url = base_url if "/openai" in base_url else f"{base_url}/openai/v1"
        return "azure", model, settings_of([RESPONSES, CHAT], url, **more)
    url = f"{base_url}/openai/deployments/{model}?api-version={version}"
    return "azure", model, settings_of([CHAT], url, **more)


def _more(parameters: Section) -> dict[str, Any]:
    headers: dict[str, str] = {}
    for name in ("extra_headers", "headers"):
        value = parameters.take(name)
        headers |= {str(key): str(one) for key, one in value.items()} if isinstance(value, dict) else {}
    if organization := parameters.text("organization"):
        headers["openai-organization"] = organization
    referred = {name: _header(value) for name, value in headers.items()}
    more: dict[str, Any] = {"headers": referred}
    if seconds := parameters.number("timeout"):
        more["timeouts"] = {"total": seconds}
    if parameters.take("ssl_verify") is False:
        more["verify_tls"] = False
    return more


def _header(value: str) -> str:
    return f"env:{value.removeprefix('os.environ/')}" if value.startswith("os.environ/") else value


def _account(parameters: Section, vendor: str, draft: Draft) -> dict[str, Any]:
    """Return the account of a deployment; empty if it has no key and its provider needs none."""
    preset, key = preset_named(vendor), parameters.text("api_key")
    account: dict[str, Any] = {}
    if key:
        account["key"] = draft.reference(key, f"{parameters.path}.api_key", vendor)
    elif preset is not None and preset.variable:
        account["key"] = f"env:{preset.variable}"
    limits = {
        "requests_per_minute": parameters.number("rpm"),
        "tokens_per_minute": parameters.number("tpm"),
        "concurrency": parameters.number("max_parallel_requests"),
    }
    if any(limits.values()):
        account["limits"] = {name: int(value) for name, value in limits.items() if value}
    if weight := parameters.number("weight"):
        account["weight"] = weight
    if order := parameters.number("order"):
        account["priority"] = int(order)
    return account


def _price(section: Section) -> dict[str, float]:
    """Return the price of a million tokens."""
    names = {
        "input": "input_cost_per_token",
        "output": "output_cost_per_token",
        "cached": "cache_read_input_token_cost",
        "cache_write": "cache_creation_input_token_cost",
    }
    found = {ours: section.number(theirs) for ours, theirs in names.items()}
    return {ours: round(value * _MILLION, 6) for ours, value in found.items() if value}


_Target = tuple[str, str]
"""provider and model"""


def _targets(deployments: list[_Deployment], draft: Draft) -> dict[str, list[_Target]]:
    """Add the providers of all deployments, and return the targets of each group, in order."""
    targets: dict[str, list[_Target]] = {}
    for group in dict.fromkeys(one.group for one in deployments):
        members = [one for one in deployments if one.group == group]
        targets[group] = []
        for first in _distinct(members):
            provider = _provider(first, [one for one in members if _place(one) == _place(first)], draft)
            targets[group].append((provider, first.model))
        if len(targets[group]) > 1:
            draft.drop(members[0].path, _IN_ORDER)
    return targets


def _place(deployment: _Deployment) -> tuple[str, str, str]:
    return deployment.vendor, deployment.model, repr(deployment.settings)


def _distinct(members: list[_Deployment]) -> list[_Deployment]:
    return list({_place(one): one for one in reversed(members)}.values())[::-1]


def _provider(first: _Deployment, alike: list[_Deployment], draft: Draft) -> str:
    """Return the provider of deployments that differ only in their accounts."""
    accounts: list[dict[str, Any]] = []
    for one in alike:
        if one.account and one.account not in accounts:
            accounts.append(one.account)
    settings = {**first.settings}
    if accounts:
        settings["accounts"] = accounts
    if any("weight" in account for account in accounts):
        settings["pool"] = {"strategy": "weighted"}
    name = draft.provider(first.vendor, settings)
    if first.price and "*" not in first.model:
        draft.providers[name].setdefault("prices", {})[first.model] = first.price
    return name


def _fallbacks(section: Section) -> dict[str, list[str]]:
    """Return the groups to which each group falls back."""
    found: dict[str, list[str]] = {}
    for one in section.take("fallbacks") or []:
        for group, others in one.items() if isinstance(one, dict) else ():
            found[str(group)] = [str(other) for other in others] if isinstance(others, list) else []
    return found


def _chain(groups: Iterable[str], targets: dict[str, list[_Target]]) -> list[_Target]:
    return [target for group in groups for target in targets.get(group, [])]


def _serve(group: str, own: list[_Target], others: list[_Target], draft: Draft) -> None:
    """Add an alias or a route for a group."""
    chain = list(dict.fromkeys([*own, *others]))
    provider, model = chain[0]
    if "*" in group:
        _serve_pattern(group, chain, draft)
    elif len(chain) == 1:
        draft.aliases[group] = f"{provider}/{model}"
    else:
        targets = [{"provider": one, "model": name.replace("$", "$$")} for one, name in chain]
        draft.routes.append({"match": group, "kind": "exact", "targets": targets})


def _serve_pattern(group: str, chain: list[_Target], draft: Draft) -> None:
    """Add a route for a group such as `anthropic/*`, whose models have the same pattern without the prefix."""
    provider, model = chain[0]
    if group == model == "*":
        draft.default_provider = draft.default_provider or provider
        return
    if not group.endswith(model) or group.count("*") != 1 or any(name != model for _, name in chain):
        draft.drop(f"model_list ({group})", f"the pattern is not the one of the upstream's model, {model}")
        return
    prefix = group.removesuffix(model)
    pattern = re.escape(model).replace(r"\*", ".+")
    targets = [{"provider": one, "model": "$1"} for one, _ in chain]
    draft.routes.append({"match": f"^{re.escape(prefix)}({pattern})$", "targets": targets})


def _aliases(router: Section, targets: dict[str, list[_Target]], draft: Draft) -> None:
    aliases = router.section("model_group_alias")
    for alias, section in aliases.items():
        group = section.text("model") or str(aliases.take(alias) or "")
        if group in targets:
            draft.aliases[alias] = group
        else:
            draft.drop(f"router_settings.model_group_alias.{alias}", "its group is not in the result")
