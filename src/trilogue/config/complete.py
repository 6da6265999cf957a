"""What a configuration leaves unsaid, filled in, so that nobody else has to know the defaults that depend on others.

Whose API an upstream is, by its address.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import get_args
from urllib.parse import urlsplit

from msgspec.structs import replace

from trilogue.config.network import OFFICIAL, is_azure
from trilogue.config.types import Auth, Config, ProviderSettings, VendorName
from trilogue.model import Protocol
from trilogue.profiles import vendor_named

_HOSTS = (
    (r"(\w+\.)?api\.openai\.com|chatgpt\.com", "openai"),
    (r".*\.(openai\.azure|services\.ai\.azure|cognitiveservices\.azure)\.com", "azure"),
    (r"api\.anthropic\.com", "anthropic"),
    (r"api\.deepseek\.com", "deepseek"),
    (r".*\.mistral\.ai", "mistral"),
    (r"api\.(moonshot|kimi)\.(cn|ai|com)", "moonshot"),
    (r"api\.groq\.com", "groq"),
    (r"api\.x\.ai", "xai"),
    (r"generativelanguage\.googleapis\.com|.*aiplatform\.googleapis\.com", "gemini"),
    (r"openrouter\.ai", "openrouter"),
)
_HOST_PATTERNS = tuple((re.compile(pattern), vendor) for pattern, vendor in _HOSTS)
_OLLAMA_PORT = 11434


def vendor_of(base_url: str, provider: str = "") -> str:
    """Return the vendor that an upstream's address or its name in the configuration tells; "" if neither does."""
    parts = urlsplit(base_url)
    host = parts.hostname or ""
    for pattern, vendor in _HOST_PATTERNS:
        if pattern.fullmatch(host):
            return vendor
    if parts.netloc.endswith(f":{_OLLAMA_PORT}"):
        return "ollama"
    return vendor_named(provider)


def complete(config: Config, fallback: Mapping[str, ProviderSettings]) -> Config:
    """Names for keys and accounts, addresses, the way to show a key; `fallback`: the providers if there are none."""
    keys = tuple(replace(key, name=key.name or f"key-{number}") for number, key in enumerate(config.keys, 1))
    providers = {name: _complete(name, one) for name, one in (config.providers or fallback).items()}
    return replace(config, keys=keys, providers=providers)


def _complete(name: str, provider: ProviderSettings) -> ProviderSettings:
    base_url = provider.base_url or OFFICIAL[provider.protocol]
    accounts = tuple(
        replace(account, name=account.name or f"{name}-{number}") for number, account in enumerate(provider.accounts, 1)
    )
    auth = _auth(provider.protocol, base_url) if provider.auth == "auto" else provider.auth
    vendor = provider.vendor or _vendor(base_url, name)
    return replace(provider, accounts=accounts, base_url=base_url, auth=auth, vendor=vendor)


def _vendor(base_url: str, name: str) -> VendorName | None:
    found = vendor_of(base_url, name)
    return next((vendor for vendor in get_args(VendorName) if vendor == found), None)


def _auth(protocol: Protocol, base_url: str) -> Auth:
    if protocol is Protocol.MESSAGES:
        return "x-api-key"
    return "api-key" if is_azure(base_url) else "bearer"
