"""Bifrost's `config.json`: providers by name with weighted keys. Models are called `provider/model`, as in Trilogue."""

from __future__ import annotations

from typing import Any

from trilogue.config.importers.draft import Draft, settings_of
from trilogue.config.importers.source import Reasons, Section
from trilogue.config.importers.vendors import IMPOSSIBLE, preset_named
from trilogue.model import Protocol
from trilogue.vendors.table import PRESETS
from trilogue.vendors.vendor import CHAT, MESSAGES, RESPONSES

_RETRIES = "Trilogue retries with other accounts before the first byte, within pool.retry_budget"
_LOCAL = "Trilogue keeps its state in files"
SETTINGS: Reasons = {
    "client": "settings of Bifrost's own server",
    "config_store": _LOCAL,
    "logs_store": _LOCAL,
    "vector_store": "Trilogue does not cache responses",
    "encryption_key": "keys are not copied",
    "governance": "virtual keys and budgets have to be set up again: see keys, with limits and budget",
    "mcp": "Trilogue is not an MCP gateway",
    "plugins": "they are written for Bifrost",
    "$schema": "it describes Bifrost's files",
}
NETWORK: Reasons = dict.fromkeys(
    ("max_retries", "retry_backoff_initial", "retry_backoff_max", "retry_backoff_initial_ms", "retry_backoff_max_ms"),
    _RETRIES,
)
_BASE_TYPES = {"openai": [RESPONSES, CHAT], "anthropic": [MESSAGES]}
_EVERY_MODEL = "every account serves all models of its provider"


def carry_over(file: Section, draft: Draft) -> None:
    """Put everything that a file of Bifrost says into the draft."""
    for name, provider in file.section("providers").items():
        _provider(name, provider, draft)
    draft.dropped.extend(file.rest(SETTINGS))


def _provider(name: str, provider: Section, draft: Draft) -> None:
    network, custom = provider.section("network_config"), provider.section("custom_provider_config")
    kind = custom.text("base_provider_type") or name
    keys = provider.sections("keys")
    base_url = network.text("base_url").rstrip("/")
    protocols, url = _address(kind, base_url, keys)
    if not url:
        draft.drop(provider.path, IMPOSSIBLE.get(kind, "its address is not known: it needs network_config.base_url"))
        return
    concurrency = provider.section("concurrency_and_buffer_size")
    limit = concurrency.number("concurrency") if len(keys) == 1 else None
    accounts = [_account(name, key, limit, draft) for key in keys]
    more: dict[str, Any] = {"accounts": accounts, "headers": _headers(network), "models": _models(keys, draft)}
    if any("weight" in account for account in accounts):
        more["pool"] = {"strategy": "weighted"}
    if seconds := network.number("default_request_timeout_in_seconds"):
        more["timeouts"] = {"total": seconds}
    if proxy := _proxy(provider, draft):
        more["proxies"] = [proxy]
    draft.provider(name, settings_of(protocols, url, **more))
    for section, reasons in ((network, NETWORK), (custom, {}), (concurrency, {}), (provider, {})):
        draft.dropped.extend(section.rest(reasons))


def _address(kind: str, base_url: str, keys: list[Section]) -> tuple[list[Protocol], str]:
    """Return the protocols and the address of a provider; no address if it cannot be carried over."""
    if kind == "azure":
        endpoint = next((found for key in keys if (found := key.section("azure_key_config").text("endpoint"))), "")
        return [RESPONSES, CHAT], f"{endpoint.rstrip('/')}/openai/v1" if endpoint else ""
    preset = PRESETS.get("moonshot") if kind == "kimi" else preset_named(kind)
    if kind in IMPOSSIBLE:
        return [CHAT], ""
    if kind in _BASE_TYPES and base_url:
        return _BASE_TYPES[kind], base_url
    if preset is None:
        return [CHAT], base_url
    url = preset.urls[preset.protocol]
    return [one for one, other in preset.urls.items() if other == url], base_url or url


def _account(provider: str, key: Section, limit: float | None, draft: Draft) -> dict[str, Any]:
    account: dict[str, Any] = {}
    if value := key.text("value"):
        account["key"] = draft.reference(value, f"{key.path}.value", provider)
    if name := key.text("name"):
        account["name"] = name
    weight = key.number("weight")
    if weight and weight != 1:
        account["weight"] = weight
    if limit:
        account["limits"] = {"concurrency": int(limit)}
    key.take("models")
    key.take("id")
    azure = key.section("azure_key_config")
    azure.text("endpoint")
    draft.dropped.extend(azure.rest({"api_version": "not needed with /openai/v1"}))
    draft.dropped.extend(key.rest({}))
    return account


def _models(keys: list[Section], draft: Draft) -> list[str]:
    """Return the models of all keys. Keys that serve different models are reported."""
    lists = [[str(model) for model in value] if isinstance(value := key.take("models"), list) else [] for key in keys]
    if any(one != lists[0] for one in lists):
        for key in keys:
            draft.drop(f"{key.path}.models", _EVERY_MODEL)
    return list(dict.fromkeys(model for one in lists for model in one if "*" not in model))


def _headers(network: Section) -> dict[str, str]:
    value = network.take("extra_headers")
    given = value if isinstance(value, dict) else {}
    return {str(name): _header(str(one)) for name, one in given.items()}


def _header(value: str) -> str:
    return f"env:{value.removeprefix('env.')}" if value.startswith("env.") else value


def _proxy(provider: Section, draft: Draft) -> str:
    proxy = provider.section("proxy_config")
    url = proxy.text("url")
    proxy.text("type")
    draft.dropped.extend(proxy.rest({"password": "write it into the proxy's URL, as env:NAME"}))
    return url
