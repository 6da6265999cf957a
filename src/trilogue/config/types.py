"""The configuration file as types: every setting, its default and its limits.

The JSON Schema, the reader and the list of settings in the documentation come from these types. Secrets are resolved
when a file is read; a `Config` in memory is complete and never changes.
"""

from __future__ import annotations

from random import Random
from typing import Annotated, Literal

from msgspec import Meta, Struct, field
from msgspec.structs import asdict, replace

from trilogue.config.profiles import ProfileSettings
from trilogue.config.secret import Secret
from trilogue.model import Protocol, Severity
from trilogue.pool import AccountLimits, AccountSpec, Pools, PoolSettings, PoolsSettings, Price, ProviderSpec
from trilogue.profiles import Profile
from trilogue.routing import RoutableProvider, Route, Router

Port = Annotated[int, Meta(ge=0, le=65535)]
Workers = Annotated[int, Meta(ge=1, le=256)]
Bytes = Annotated[int, Meta(ge=1024, le=1024**3)]
Seconds = Annotated[float, Meta(gt=0, le=86_400)]
Weight = Annotated[float, Meta(gt=0, le=1_000_000)]
Priority = Annotated[int, Meta(ge=1, le=1_000)]
Mode = Literal["declare", "strict"]
VendorName = Literal[
    "openai",
    "azure",
    "anthropic",
    "deepseek",
    "mistral",
    "moonshot",
    "groq",
    "xai",
    "gemini",
    "openrouter",
    "ollama",
    "none",
]
Auth = Literal["auto", "bearer", "x-api-key", "api-key"]

DEMO_URL = "demo:"
"""the base URL of the built-in model"""


class ProviderTimeouts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Time limits for an upstream, in seconds. Every limit but `total` restarts when there is progress."""

    connect: Seconds = 5.0
    """until the connection is open"""
    first_byte: Seconds = 600.0
    """until the response headers arrive; a response that is not streamed arrives all at once, so this is long"""
    first_event: Seconds = 300.0
    """from the response headers to the first event of a stream"""
    between_events: Seconds = 300.0
    """between two events of a stream"""
    total: Seconds = 3_600.0
    """the whole request"""


class TimeoutSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Time limits for one provider. Limits that are not set are taken from `server.timeouts`."""

    connect: Seconds | None = None
    """until the connection is open"""
    first_byte: Seconds | None = None
    """until the response headers arrive"""
    first_event: Seconds | None = None
    """from the response headers to the first event of a stream"""
    between_events: Seconds | None = None
    """between two events of a stream"""
    total: Seconds | None = None
    """the whole request"""

    def over(self, timeouts: ProviderTimeouts) -> ProviderTimeouts:
        """Return other time limits with those replaced that are set here."""
        return replace(timeouts, **{name: value for name, value in asdict(self).items() if value is not None})


class Log(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The access log: one line per request."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """lowest level that is logged"""
    format: Literal["auto", "json", "text"] = "auto"
    """json for programs, text for people; auto: text on a terminal, else json"""


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
    keepalive_seconds: Annotated[float, Meta(gt=0, le=15)] = 10.0
    """silence after which a streaming client gets a keep-alive"""
    max_continuations: Annotated[int, Meta(ge=0, le=100)] = 10
    """how often a response that Anthropic pauses is continued for clients whose protocol has no pauses"""
    drain_seconds: Seconds = 30.0
    """how long running requests may take to finish when the server stops"""
    timeouts: ProviderTimeouts = ProviderTimeouts()
    """time limits for upstreams, in seconds"""
    log: Log = Log()
    """the access log"""


class ClientKeySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key that clients may use. A plain string is short for `key`."""

    key: Secret
    """the key: `env:NAME`, `file:path`, or the text itself; at least 8 characters"""
    name: str = ""
    """name in the log; default: key-1, key-2, …"""
    mode: Mode | None = None
    """overrides the top-level `mode` for requests with this key"""


class AccountSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A credential for an upstream. A plain string is short for `key`."""

    key: Secret | None = None
    """the key: `env:NAME`, `file:path`, `store:NAME`, or the text itself; none for servers that want none"""
    name: str = ""
    """name in the log; default: the provider's name and a number"""
    weight: Weight = 1.0
    """its share of the requests with the strategy `weighted`"""
    priority: Priority = 1
    """its tier; accounts with a higher number are used only when none with a lower number is available"""
    limits: AccountLimits = AccountLimits()
    """upper limits for its use"""
    balance: Annotated[float, Meta(ge=0, le=1_000_000_000)] | None = None
    """what it may spend, in the unit of `prices`; default: spending is not tracked"""
    proxies: tuple[Secret, ...] = ()
    """egress proxies for this account only, in rotation: http, https, socks5 or socks5h URLs, or `env:NAME`"""


class ProviderSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An upstream: its address, its protocols and its accounts."""

    protocol: Protocol
    """protocol that it speaks"""
    also_speaks: tuple[Protocol, ...] = ()
    """further protocols at the same address; each request uses the one that loses the least"""
    base_url: str = ""
    """its address, with or without /v1; default: the official address for the protocol; `demo:` is the built-in
    model"""
    accounts: tuple[AccountSettings, ...] = ()
    """its credentials; none for servers that want none"""
    vendor: VendorName | None = None
    """whose API it is, which determines what its models accept; default: derived from the address, the name of this
    provider, or the model name"""
    auth: Auth = "auto"
    """header that carries the key; auto: x-api-key for Messages, api-key for Azure, otherwise a bearer token"""
    profile: ProfileSettings = ProfileSettings()
    """its dialect: a name, or individual fields"""
    compaction: Literal["none", "model"] = "none"
    """what to do when a client asks an upstream that has no compaction to compact a conversation: `none` to refuse, or
    `model` to have the model write a summary, in one request"""
    fit_requests: bool = False
    """also adjust requests that are passed through to what the model accepts; by default only the fields set in
    `profile` apply to them"""
    headers: dict[str, Secret] = field(default_factory=dict)
    """headers to add to every request; values may be `env:NAME` or `file:path`"""
    timeouts: TimeoutSettings = TimeoutSettings()
    """time limits for this provider, in seconds; default: `server.timeouts`"""
    models: tuple[str, ...] = ()
    """ids of the models that it serves; they are listed and routed here without asking the upstream"""
    verify_tls: bool = True
    """verify its certificate against the system's authorities, or those in the file that `SSL_CERT_FILE` names"""
    pool: PoolSettings = PoolSettings()
    """how its accounts are chosen and how long they cool down"""
    prices: dict[str, Price] = field(default_factory=dict)
    """price of a million tokens by model name or pattern such as `gpt-*`, in the unit of the balances"""
    proxies: tuple[Secret, ...] = ()
    """egress proxies for all its accounts, in rotation: http, https, socks5 or socks5h URLs, or `env:NAME`"""

    @property
    def is_demo(self) -> bool:
        """Whether this is the built-in model instead of a server."""
        return self.base_url == DEMO_URL

    @property
    def protocols(self) -> tuple[Protocol, ...]:
        """All protocols that it speaks, in order of preference."""
        return self.protocol, *(one for one in self.also_speaks if one is not self.protocol)

    def profile_for(self, model: str, protocol: Protocol | None = None) -> Profile:
        """Return what one of its models accepts, in its first protocol unless another is given."""
        return self.profile.for_model(protocol or self.protocol, model, self.vendor or "")

    def own_profile(self, model: str, protocol: Protocol) -> Profile | None:
        """Return what passed-through requests must be adjusted to, or None to pass them through unchanged."""
        if self.fit_requests:
            return self.profile_for(model, protocol)
        return self.profile.for_passthrough()


class StateSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the gateway keeps of responses and conversations. A plain string is short for `store`."""

    store: Secret | None = None
    """where: the path of an SQLite file, which begins with `/`, `postgresql://…`, `memory` until the gateway stops,
    `none`, or `env:NAME`; default: `responses.db` in the state folder"""
    days: Annotated[float, Meta(gt=0, le=3_650)] = 30.0
    """how long a response or conversation is kept after its last use"""
    key_bytes: Annotated[int, Meta(ge=1_000_000, le=2**50)] = 2 * 2**30
    """most bytes that are kept for one client key; the oldest responses are deleted first"""
    total_bytes: Annotated[int, Meta(ge=1_000_000, le=2**50)] = 20 * 2**30
    """most bytes that are kept for all client keys together"""
    reasoning_hours: Annotated[float, Meta(gt=0, le=720)] = 24.0
    """how long reasoning is kept for clients that cannot send it back"""

    @property
    def kept(self) -> bool:
        """Whether anything is kept at all."""
        return self.store is None or self.store.reveal() != "none"


class AdminSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The admin interface: a separate listener, off unless a key is set."""

    key: Secret | None = None
    """key for the admin interface, different from all client keys: `env:NAME` or `file:path`"""
    host: str = "127.0.0.1"
    """address to bind"""
    port: Port = 4001
    """port to bind; 0 picks any free port"""
    metrics: bool = True
    """count requests for `GET /metrics`"""


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of a configuration file, checked and with defaults."""

    server: Server = Server()
    """how the gateway listens and behaves"""
    keys: tuple[ClientKeySettings, ...] = ()
    """client keys; without any, only this machine may connect"""
    providers: dict[str, ProviderSettings] = field(default_factory=dict)
    """upstreams by name; default: those that the environment has keys for, and the demo"""
    aliases: dict[str, str] = field(default_factory=dict)
    """other names for models: name → provider/model, or another name"""
    routes: tuple[Route, ...] = ()
    """which models go where; the first match wins"""
    default_provider: str | None = None
    """provider for models that nothing else matches; without it, they are an error"""
    mode: Mode = "declare"
    """declare: carry on and declare what a translation lost; strict: refuse requests that would lose something"""
    strict_from: Severity = Severity.DEGRADED
    """the least severe losses that strict mode refuses; notice: all losses"""
    repair_history: bool = False
    """add results for tool calls that the history left without one, because many upstreams require them"""
    env_proxies: bool = False
    """providers without `proxies` use the proxies of the environment: HTTPS_PROXY, HTTP_PROXY and ALL_PROXY, except for
    hosts in NO_PROXY"""
    pool: PoolsSettings = PoolsSettings()
    """settings for the accounts of all providers"""
    state: StateSettings = StateSettings()
    """what is kept of responses and conversations, and where; `none` to keep nothing"""
    admin: AdminSettings = AdminSettings()
    """the admin interface; off by default"""
    seal_keys: tuple[Secret, ...] = ()
    """secrets that seal reasoning on its way through clients: the first one seals, all of them can open; default: one
    is generated"""

    def router(self) -> Router:
        """Return a router for the providers, aliases and routes of this configuration."""
        providers = [
            RoutableProvider(name, one.protocols, one.models, one.is_demo) for name, one in self.providers.items()
        ]
        return Router(providers, self.aliases, self.routes, self.default_provider)

    def pools(self, rng: Random) -> Pools:
        """Return the account pools of all providers, for one worker, which gets its share of the limits."""
        specs = [_spec(name, provider) for name, provider in self.providers.items()]
        return Pools(specs, self.pool, rng=rng, share=1.0 / self.server.workers)

    def timeouts(self, provider: str) -> ProviderTimeouts:
        """Return the time limits of a provider, with those of the server where it sets none."""
        return self.providers[provider].timeouts.over(self.server.timeouts)


def _spec(name: str, provider: ProviderSettings) -> ProviderSpec:
    """Return what the pool needs to know of a provider. Without accounts it gets one that has its own name."""
    return ProviderSpec(
        name=name,
        accounts=tuple(_account(account) for account in provider.accounts) or (AccountSpec(name=name),),
        settings=provider.pool,
        prices=provider.prices,
        proxies=len(provider.proxies),
    )


def _account(account: AccountSettings) -> AccountSpec:
    return AccountSpec(
        name=account.name,
        weight=account.weight,
        priority=account.priority,
        limits=account.limits,
        balance=account.balance,
        proxies=len(account.proxies),
        credential=_fingerprint(account.key),
    )


def _fingerprint(key: Secret | None) -> str | None:
    """Return a fingerprint of the key, "" if there is no key, or None if the key could not be found."""
    if key is None:
        return ""
    return key.fingerprint() if key else None
