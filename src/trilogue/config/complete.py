"""What a configuration leaves unsaid, filled in, so that nobody else has to know the defaults that depend on others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from msgspec.structs import replace

from trilogue.config.endpoint import OFFICIAL, is_azure
from trilogue.config.types import Auth, Config, Provider, VendorName
from trilogue.config.vendor import vendor_of
from trilogue.model import Protocol


def complete(config: Config, fallback: Mapping[str, Provider]) -> Config:
    """Names for keys and accounts, addresses, the way to show a key; `fallback`: the providers if there are none."""
    keys = tuple(replace(key, name=key.name or f"key-{number}") for number, key in enumerate(config.keys, 1))
    providers = {name: _complete(name, one) for name, one in (config.providers or fallback).items()}
    return replace(config, keys=keys, providers=providers)


def _complete(name: str, provider: Provider) -> Provider:
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
