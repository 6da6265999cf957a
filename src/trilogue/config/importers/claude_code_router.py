"""The `config.json` of claude-code-router: providers, and a router that sends Claude Code's requests to their models.

Claude Code asks for models of the Claude family: its small model has `haiku` in its name. What the router decides by
content (thinking, long context, images) has no equivalent, because Trilogue routes by model name.
"""

from __future__ import annotations

from typing import Any

from trilogue.config.importers.draft import Draft, settings_of
from trilogue.config.importers.source import Reasons, Section
from trilogue.model import Protocol
from trilogue.protocols.registry import CODECS, DEFAULT
from trilogue.vendors.table import PRESETS

_BY_CONTENT = "Trilogue routes by model name, not by content"
_WATCH = "Trilogue writes its own log"
ROUTER: Reasons = dict.fromkeys(("think", "longContext", "longContextThreshold", "webSearch", "image"), _BY_CONTENT)
SETTINGS: Reasons = {
    **dict.fromkeys(("LOG", "LOG_LEVEL"), _WATCH),
    "CUSTOM_ROUTER_PATH": _BY_CONTENT,
    "NON_INTERACTIVE_MODE": "it concerns how the router starts Claude Code",
    "transformers": "they are written for the router; requests are translated without them",
}
PROVIDER: Reasons = {
    "transformer": "not needed: requests are translated, and adjusted to what each model accepts",
    "transformers": "not needed: requests are translated, and adjusted to what each model accepts",
}

_GOOGLE = "generativelanguage.googleapis.com"
_SMALL, _CLAUDE = "claude-*haiku*", "claude-*"


def carry_over(file: Section, draft: Draft) -> None:
    """Put everything that a file of claude-code-router says into the draft."""
    proxy = file.text("PROXY_URL")
    names = {}
    for provider in file.sections("Providers"):
        wanted, url = provider.text("name"), provider.text("api_base_url")
        if not wanted or not url:
            draft.drop(provider.path, "it has no name or no address")
            continue
        names[wanted] = draft.provider(wanted, _settings(wanted, provider, proxy, draft))
        draft.dropped.extend(provider.rest(PROVIDER))
    router = file.section("Router")
    for rule, pattern in (("background", _SMALL), ("default", _CLAUDE)):
        _route(rule, pattern, router, names, draft)
    if key := file.text("APIKEY"):
        draft.keys.append(draft.reference(key, "APIKEY"))
    if host := file.text("HOST"):
        draft.server["host"] = host
    if port := file.number("PORT"):
        draft.server["port"] = int(port)
    if milliseconds := file.number("API_TIMEOUT_MS"):
        draft.server["timeouts"] = {"total": milliseconds / 1000}
    draft.dropped.extend(router.rest(ROUTER))
    draft.dropped.extend(file.rest(SETTINGS))


def _settings(name: str, provider: Section, proxy: str, draft: Draft) -> dict[str, Any]:
    url, key = provider.text("api_base_url"), provider.text("api_key")
    if _GOOGLE in url:
        # The router speaks Gemini's own protocol; Google also has an endpoint for Chat.
        url = PRESETS["gemini"].urls[PRESETS["gemini"].protocol]
    accounts = [{"key": draft.reference(key, f"{provider.path}.api_key", name)}] if key else []
    models = provider.take("models")
    listed = [str(model) for model in models] if isinstance(models, list) else []
    return settings_of([_protocol(url)], url, accounts=accounts, models=listed, proxies=[proxy] if proxy else [])


def _protocol(url: str) -> Protocol:
    """Return the protocol by the endpoint: the router's addresses are complete."""
    path = url.partition("?")[0].rstrip("/")
    endpoints = {one.endpoint.path: one.protocol for one in CODECS.values() if one.endpoint.path}
    return next((protocol for end, protocol in endpoints.items() if path.endswith(end)), DEFAULT)


def _route(rule: str, pattern: str, router: Section, names: dict[str, str], draft: Draft) -> None:
    """Add a route for a rule such as `deepseek,deepseek-chat`."""
    target = router.text(rule)
    provider, comma, model = (part.strip() for part in target.partition(","))
    if not target:
        return
    if not comma or provider not in names:
        draft.drop(f"Router.{rule}", "it does not name a provider and a model of this file")
        return
    draft.routes.append({"match": pattern, "provider": names[provider], "model": model.replace("$", "$$")})
