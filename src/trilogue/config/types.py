"""The configuration file as types: every setting, its default and its limits.

The JSON Schema, the reader and the list of settings in the documentation come from these types. Secrets are resolved
when a file is read; a `Config` in memory is complete and never changes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from trilogue.base.secrets import Secret
from trilogue.gateway.access.settings import ClientKeySettings
from trilogue.gateway.admin.settings import AdminSettings
from trilogue.gateway.conversations.settings import StateSettings
from trilogue.gateway.features.capture.settings import CaptureSettings
from trilogue.gateway.features.cluster.settings import ClusterSettings
from trilogue.gateway.features.tracing.settings import TracingSettings
from trilogue.gateway.features.usage.settings import UsageSettings
from trilogue.gateway.limits.settings import NO_BUDGET, NO_LIMITS, BudgetSettings, RateLimits, SharedLimits
from trilogue.gateway.limits.webhook_settings import WebhookSettings
from trilogue.gateway.log.settings import Log
from trilogue.model import Severity, Usage
from trilogue.routing.pool.pools import Pools
from trilogue.routing.pool.settings import AccountSpec, PoolsSettings, ProviderSpec
from trilogue.routing.router import Router
from trilogue.routing.routes import RoutableProvider, Route
from trilogue.upstreams.settings import AccountSettings, ProviderSettings, ProviderTimeouts, Seconds
from trilogue.vendors.presets import PRESETS

Port = Annotated[int, Meta(ge=0, le=65535)]
Workers = Annotated[int, Meta(ge=1, le=256)]
Bytes = Annotated[int, Meta(ge=1024, le=1024**3)]
Mode = Literal["declare", "strict"]


class Server(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the gateway listens and behaves."""

    host: str = "127.0.0.1"
    """address to bind; anything other than loopback requires client keys"""
    port: Port = 4000
    """port to bind; 0 picks any free port"""
    workers: Workers = 1
    """number of worker processes"""
    max_body_bytes: Bytes = 32 * 1024 * 1024
    """largest request, and largest response that is not streamed, in bytes"""
    max_upload_bytes: Annotated[int, Meta(ge=1024, le=2**40)] = 512 * 1024 * 1024
    """largest file or form that is passed on while it arrives, in bytes"""
    shared_objects: Literal["key", "owner", "all"] = "key"
    """who may use files, batches and other objects, and reasoning that the gateway has sealed: the client key that made
    them, all keys with its `owner`, or all keys"""
    open_objects: tuple[str, ...] = ()
    """ids of files, vector stores and the like that every client key may look at and name in requests, whoever made
    them"""
    unjudged_endpoints: tuple[str, ...] = ()
    """other endpoints that may be used although policies apply that cannot judge them, by path such as `/files`"""
    keepalive_seconds: Annotated[float, Meta(gt=0, le=15)] = 10.0
    """silence after which a streaming client gets a keep-alive"""
    max_continuations: Annotated[int, Meta(ge=0, le=100)] = 10
    """how often a response that Anthropic pauses is continued for clients whose protocol has no pauses"""
    drain_seconds: Seconds = 30.0
    """how long running requests may take to finish when the server stops"""
    timeouts: ProviderTimeouts = ProviderTimeouts()
    """time limits for upstreams, in seconds"""
    policies: tuple[str, ...] = ()
    """policies for all requests, by name"""
    log: Log = Log()
    """the access log"""


class RouteSettings(Route, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sends models whose name matches to a provider, or to the first available of several targets."""

    limits: RateLimits = RateLimits()
    """limits for requests, tokens and concurrent requests of this route"""
    budget: BudgetSettings = BudgetSettings()
    """what requests of this route may cost"""

    @property
    def has_rules(self) -> bool:
        """Whether the route has more than targets: rules that hold for all requests that may go to one of them."""
        return super().has_rules or self.limits != NO_LIMITS or self.budget != NO_BUDGET


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of a configuration file, checked and with defaults."""

    server: Server = Server()
    """how the gateway listens and behaves"""
    keys: tuple[ClientKeySettings, ...] = ()
    """client keys; without any, only this machine may connect"""
    require_keys: bool = False
    """refuse requests without a client key also if `keys` is empty, for gateways whose keys are all made with
    `trilogue keys`"""
    owners: dict[str, SharedLimits] = field(default_factory=dict)
    """limits and budgets for all keys of an owner together, by owner"""
    model_limits: dict[str, SharedLimits] = field(default_factory=dict)
    """limits and budgets for models, by name or pattern such as `claude-*`, as clients name them; all matches apply"""
    providers: dict[str, ProviderSettings] = field(default_factory=dict)
    """upstreams by name; default: those that the environment has keys for, and the demo"""
    aliases: dict[str, str] = field(default_factory=dict)
    """other names for models: name → provider/model, or another name"""
    routes: tuple[RouteSettings, ...] = ()
    """which models go where; the first match wins"""
    default_provider: str | None = None
    """provider for models that nothing else matches; without it, they are an error"""
    policies: dict[str, Any] = field(default_factory=dict)
    """policies by name: what judges requests and responses, and its settings; a plain string is short for `use`"""
    model_policies: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """policies for models, by name or pattern such as `claude-*`, as clients or upstreams name them; all matches
    apply"""
    mode: Mode = "declare"
    """declare: carry on and declare what a translation lost; strict: refuse requests that would lose something"""
    strict_from: Severity = Severity.DEGRADED
    """the least severe losses that strict mode refuses; notice: all losses"""
    repair_history: bool | Literal["auto"] = "auto"
    """give tool calls that the history left without a result an error result, and drop results without a call, because
    most upstreams refuse such a history. `auto`: in translated requests, and in those that are passed through to models
    known to refuse it, but without dropping results that the model has not responded to; true: in all; false: in none,
    and requests that would be translated are refused"""
    env_proxies: bool = False
    """providers without `proxies` use the proxies of the environment: HTTPS_PROXY, HTTP_PROXY and ALL_PROXY, except for
    hosts in NO_PROXY"""
    pool: PoolsSettings = PoolsSettings()
    """settings for the accounts of all providers"""
    state: StateSettings = StateSettings()
    """what is kept of responses and conversations, and where; `none` to keep nothing"""
    usage: UsageSettings = UsageSettings()
    """what is kept of usage and cost, and where; `none` to count nothing"""
    webhook: WebhookSettings = WebhookSettings()
    """where warnings about budgets are sent, besides the log"""
    cluster: ClusterSettings = ClusterSettings()
    """several machines that behave as one gateway; off by default"""
    price_file: str = ""
    """a YAML file with prices by provider or vendor, and by model, in the form of `prices`; relative to the folder of
    the configuration file"""
    admin: AdminSettings = AdminSettings()
    """the admin interface, which shows requests, accounts and metrics"""
    tracing: TracingSettings = TracingSettings()
    """traces for OpenTelemetry; off by default"""
    capture: CaptureSettings = CaptureSettings()
    """captures of requests; off by default"""
    seal_keys: tuple[Secret, ...] = ()
    """secrets that seal reasoning on its way through clients: the first one seals, all of them can open; default: one
    is generated"""

    def router(self) -> Router:
        """Return a router for the providers, aliases and routes of this configuration."""
        absent = {name: one.absence for name, one in self.providers.items() if one.absence}
        return Router(
            [routable(name, one) for name, one in self.served.items()],
            self.aliases,
            self.routes,
            self.default_provider,
            absent=absent,
            needs={name: preset.needs for name, preset in PRESETS.items() if name not in self.providers},
        )

    @property
    def served(self) -> dict[str, ProviderSettings]:
        """The providers without those that are optional and lack their keys."""
        return {name: one for name, one in self.providers.items() if not one.absence}

    def pools(self, rng: Random) -> Pools:
        """Return the account pools of all providers, for one worker, which gets its share of the limits."""
        specs = [_spec(name, provider) for name, provider in self.served.items()]
        return Pools(specs, self.pool, rng=rng, share=1.0 / self.server.workers)

    def timeouts(self, provider: str) -> ProviderTimeouts:
        """Return the time limits of a provider, with those of the server where it sets none."""
        return self.providers[provider].timeouts.over(self.server.timeouts)


_MAKERS = frozenset({"", "openai", "anthropic", "azure"})
"""presets of those who serve GPT or Claude under the names that clients know, and of none"""


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
