"""The router and the pools of a configuration, made from the sections that say which upstreams there are."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Protocol

from trilogue.base.secrets import Secret
from trilogue.model import Usage
from trilogue.routing.pool.pools import Pools
from trilogue.routing.pool.settings import AccountSpec, PoolsSettings, ProviderSpec
from trilogue.routing.router import Router
from trilogue.routing.routes import RoutableProvider, Route
from trilogue.upstreams.settings import AccountSettings, ProviderSettings
from trilogue.vendors.table import PRESETS

_MAKERS = frozenset({"", "openai", "anthropic", "azure"})
"""presets of those who serve GPT or Claude under the names that clients know, and of none"""


class UpstreamSections(Protocol):
    """The sections of a configuration that say which upstreams there are, and which models go where."""

    @property
    def providers(self) -> Mapping[str, ProviderSettings]:
        """All providers by name."""

    @property
    def served(self) -> Mapping[str, ProviderSettings]:
        """The providers without those that are optional and lack their keys."""

    @property
    def aliases(self) -> Mapping[str, str]:
        """Other names for models."""

    @property
    def routes(self) -> Sequence[Route]:
        """Which models go where; the first match wins."""

    @property
    def default_provider(self) -> str | None:
        """The provider for models that nothing else matches."""

    @property
    def pool(self) -> PoolsSettings:
        """The settings for the accounts of all providers."""


def router_of(sections: UpstreamSections) -> Router:
    """Return a router for the providers, aliases and routes of a configuration."""
    absent = {name: one.absence for name, one in sections.providers.items() if one.absence}
    return Router(
        [routable(name, one) for name, one in sections.served.items()],
        sections.aliases,
        sections.routes,
        sections.default_provider,
        absent=absent,
        needs={name: preset.needs for name, preset in PRESETS.items() if name not in sections.providers},
    )


def pools_of(sections: UpstreamSections, rng: Random, workers: int) -> Pools:
    """Return the account pools of all providers, for one of several workers, which gets its share of the limits."""
    specs = [_spec(name, provider) for name, provider in sections.served.items()]
    return Pools(specs, sections.pool, rng=rng, share=1.0 / workers)


def routable(name: str, provider: ProviderSettings) -> RoutableProvider:
    """Return what routing needs to know of a provider."""
    own_names = provider.is_demo or provider.preset not in _MAKERS
    return RoutableProvider(name, provider.protocols, provider.models, own_names)


def _spec(name: str, provider: ProviderSettings) -> ProviderSpec:
    """Return what the pool needs to know of a provider. Without accounts it gets one that has its own name."""
    return ProviderSpec(
        name=name,
        accounts=tuple(_account(account) for account in provider.accounts) or (AccountSpec(name=name),),
        settings=provider.pool,
        cost=_cost(provider),
        proxies=len(provider.proxies),
    )


def _cost(provider: ProviderSettings) -> Callable[[Usage, str], float | None] | None:
    """Return a function for the cost of a response in dollars; None if no balance could depend on it."""
    has_balance = any(account.balance is not None for account in provider.accounts)
    return provider.price_book().spending(time.time) if provider.prices or has_balance else None


def _account(account: AccountSettings) -> AccountSpec:
    return AccountSpec(
        name=account.name,
        weight=account.weight,
        priority=account.priority,
        limits=account.limits,
        balance=account.balance,
        proxies=len(account.proxies),
        credential=_fingerprint(account.key),
        of_clients=account.is_clients,
    )


def _fingerprint(key: Secret | None) -> str | None:
    """Return a fingerprint of the key, "" if there is no key, or None if the key could not be found."""
    if key is None:
        return ""
    return key.fingerprint() if key else None
