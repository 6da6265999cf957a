"""The settings of a provider: its address, protocols, dialect, time limits and accounts.

`ProfileSettings` gets its fields from `trilogue.vendors.profiles.profile.Profile`, so that every field of a profile can
be set.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, get_type_hints

from msgspec import Meta, Struct, defstruct, field
from msgspec.structs import asdict, replace

from trilogue.base.secrets import Secret
from trilogue.model import Protocol
from trilogue.protocols.fit.request import FITTED
from trilogue.protocols.registry import CODECS
from trilogue.routing.pool.settings import AccountLimits, PoolSettings
from trilogue.upstreams.sources import ClientSource
from trilogue.vendors.addresses import KEY_HOSTS, vendor_of_host
from trilogue.vendors.common import CORE
from trilogue.vendors.price import FREE, Price
from trilogue.vendors.price_lookup import PriceBook
from trilogue.vendors.profile import UNCHANGED, UNKNOWN_VENDOR, Profile
from trilogue.vendors.profile_lookup import ModelFacts, facts_for, profile_for
from trilogue.vendors.table import PROFILED

Seconds = Annotated[float, Meta(gt=0, le=86_400)]
Weight = Annotated[float, Meta(gt=0, le=1_000_000)]
Priority = Annotated[int, Meta(ge=1, le=1_000)]
# A type checker cannot read names that are values.
if TYPE_CHECKING:
    VendorName = str
else:
    VendorName = Literal[(*PROFILED, UNKNOWN_VENDOR)]
Auth = Literal["auto", "bearer", "x-api-key", "api-key"]

_CACHE: dict[str, dict[str, Any]] = {
    "client": {"adds_caching": False},
    "off": {"adds_caching": False, "cache_marks": False},
}
"""the fields of profiles that the setting `cache` changes"""

_CREDENTIAL_HEADERS = frozenset({"authorization", "x-api-key", "api-key", "x-goog-api-key"})

DEMO_URL = "demo:"
"""the base URL of the built-in model"""

ProfileName = Literal["auto", "openai", "compatible", "deepseek", "reasoning", "think-tags"]

PROFILES: dict[str, dict[str, Any]] = {
    # Decided by the vendor and the model name alone.
    "auto": {},
    # OpenAI or Azure, whose deployments may have any name: the rows of OpenAI apply.
    "openai": {},
    # A server that accepts the common core of Chat Completions: vLLM, llama.cpp, LM Studio, most vendors.
    "compatible": CORE,
    # DeepSeek and Moonshot require earlier reasoning back as reasoning_content.
    "deepseek": {**CORE, "reasoning_field": "reasoning_content"},
    # OpenRouter, Ollama and Groq accept earlier reasoning as `reasoning`.
    "reasoning": {**CORE, "reasoning_field": "reasoning"},
    # The server writes its reasoning into the text, as <think>…</think>.
    "think-tags": {**CORE, "think_tags": True},
}
"""the fields that each named dialect sets"""

_VENDORS = {"openai": "openai", "compatible": UNKNOWN_VENDOR}
"""the vendor whose rows apply to a named dialect, if the provider's address and name do not show the vendor"""


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


class ProfileBase(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The dialect of an upstream. A plain string is short for `name`."""

    short: ClassVar[str] = "name"  # what a plain string is short for

    name: ProfileName = "auto"
    """a known dialect; auto: decided by the vendor and the model name"""

    def for_model(self, protocol: Protocol, model: str, vendor: str = "") -> Profile:
        """Return the profile of a vendor's model with these settings."""
        vendor = vendor or _VENDORS.get(self.name, "")
        # Any server may call a model gpt-5.5: its name does not show that the server can compact.
        unknown = {} if vendor else {"compacts": False}
        return replace(profile_for(protocol, model, vendor), **(unknown | PROFILES[self.name] | self.overrides()))

    def for_passthrough(self) -> Profile | None:
        """Return a profile that restricts requests only by the fields that are set, or None if no set field does."""
        given = {name: value for name, value in self.overrides().items() if name in FITTED}
        return replace(UNCHANGED, **given) if given else None

    def overrides(self) -> dict[str, Any]:
        """Return the individual fields that are set, by name."""
        return {name: value for name, value in asdict(self).items() if name != "name" and value is not None}


if TYPE_CHECKING:
    ProfileSettings = ProfileBase
else:
    ProfileSettings = defstruct(
        "ProfileSettings",
        [(name, kind | None, None) for name, kind in get_type_hints(Profile, include_extras=True).items()],
        bases=(ProfileBase,),
        module=__name__,
        namespace={"__doc__": ProfileBase.__doc__},
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
    )


class AccountSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A credential for an upstream. A plain string is short for `key`."""

    short: ClassVar[str] = "key"  # what a plain string is short for

    key: Secret | None = None
    """the key: `env:NAME`, `file:path`, `store:NAME`, `cmd:command`, `client` for the key that the client sends, or the
    text itself; none for servers that want none"""
    name: str = ""
    """name in the log; default: the provider's name and a number"""
    lifetime_seconds: Seconds = 300.0
    """`cmd:` how long a key is used before the command is run again, unless its output says it"""
    weight: Weight = 1.0
    """its share of the requests with the strategy `weighted`"""
    priority: Priority = 1
    """its tier; accounts with a higher number are used only when none with a lower number is available"""
    limits: AccountLimits = AccountLimits()
    """upper limits for its use"""
    balance: Annotated[float, Meta(ge=0, le=1_000_000_000)] | None = None
    """what it may spend, in US dollars; default: spending is not limited"""
    proxies: tuple[Secret, ...] = ()
    """egress proxies for this account only, in rotation: http, https, socks5 or socks5h URLs, or `env:NAME`"""

    @property
    def is_clients(self) -> bool:
        """Whether it stands for the keys of clients."""
        return self.key is not None and isinstance(self.key.source, ClientSource)

    @property
    def is_missing(self) -> bool:
        """Whether its key could not be found, in a provider that is optional."""
        return self.key is not None and bool(self.key.missing)


class ProviderSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An upstream: its address, its protocols and its accounts."""

    preset: str = ""
    """a known vendor or server, which gives everything that is not set here; default: the name of this provider, unless
    `protocol` and `base_url` are set"""
    protocol: Protocol
    """protocol that it speaks: its name, or chat, messages or responses; default: that of the preset"""
    also_speaks: tuple[Protocol, ...] = ()
    """further protocols at the same address; each request uses the one that loses the least"""
    base_url: str = ""
    """its address, with or without /v1; default: that of the preset, or the official address for the protocol; `demo:`
    is the built-in model"""
    base_urls: dict[Protocol, str] = field(default_factory=dict)
    """addresses of further protocols that have one of their own: `{messages: https://…}`"""
    resource: str = ""
    """part of the address of the preset `azure`: the name of the resource"""
    region: str = ""
    """part of the addresses of the presets `bedrock`, `bedrock-claude` and `vertex`"""
    project: str = ""
    """part of the address of the preset `vertex`: the id of the project"""
    optional: bool = False
    """start without this provider, or without single accounts, if their keys are missing"""
    accounts: tuple[AccountSettings, ...] = ()
    """its credentials; none for servers that want none"""
    vendor: VendorName | None = None
    """whose API it is, which determines what its models accept; default: derived from the address, the name of this
    provider, or the model name"""
    auth: Auth = "auto"
    """header that carries the key; auto: x-api-key for Messages, api-key for Azure, otherwise a bearer token"""
    profile: ProfileSettings = ProfileSettings()
    """its dialect: a name, or individual fields"""
    cache: Literal["auto", "client", "off"] = "auto"
    """prompt caching of translated requests: `auto` adds cache marks and a cache key where the client has set none,
    `client` sends only what the client has set, `off` sends no marks at all"""
    compaction: Literal["model", "upstream", "none"] = "model"
    """what to do when a client asks to compact a conversation and the upstream has no compaction: `model` to have the
    model write a summary, in one request, or `none` to refuse. With several accounts or targets, `model` does so even
    if the upstream has one, because only the account that has compacted can go on; `upstream` leaves it to that one"""
    fit_requests: bool = False
    """also adjust requests that are passed through to what the model accepts; by default only the fields set in
    `profile` apply to them"""
    headers: dict[str, Secret] = field(default_factory=dict)
    """headers to add to every request; values may be `env:NAME` or `file:path`"""
    timeouts: TimeoutSettings = TimeoutSettings()
    """time limits for this provider, in seconds; default: `server.timeouts`"""
    models: tuple[str, ...] = ()
    """ids of the models that it serves; they are listed and routed here without asking the upstream"""
    other_endpoints: tuple[str, ...] | None = None
    """which other endpoints it has, such as `/embeddings` or `/audio`; it is preferred for these and gets no others;
    default: any that no other provider lists"""
    verify_tls: bool = True
    """verify its certificate against the system's authorities, or those in the file that `SSL_CERT_FILE` names"""
    pool: PoolSettings = PoolSettings()
    """how its accounts are chosen and how long they cool down"""
    prices: dict[str, Price] = field(default_factory=dict)
    """price of a million tokens by model name or pattern such as `gpt-*`, in US dollars; other models have the price of
    `price_file` or of the vendor, if that is known"""
    proxies: tuple[Secret, ...] = ()
    """egress proxies for all its accounts, in rotation: http, https, socks5 or socks5h URLs, or `env:NAME`"""

    @property
    def is_demo(self) -> bool:
        """Whether this is the built-in model instead of a server."""
        return self.base_url == DEMO_URL

    @property
    def passes_client_key(self) -> bool:
        """Whether requests are sent with the key of the client."""
        return any(account.is_clients for account in self.accounts)

    @property
    def absence(self) -> str:
        """Why the gateway starts without it: its keys are missing and it is optional. Empty if it is served."""
        missing = [account.key.missing for account in self.accounts if account.key is not None and account.is_missing]
        return missing[0] if missing and len(missing) == len(self.accounts) else ""

    @property
    def price_vendor(self) -> str:
        """Whose prices its models have, if it states none."""
        return self.preset or self.vendor or ""

    def price_book(self) -> PriceBook:
        """Return the prices of its models. The built-in model is free."""
        return PriceBook({"*": FREE}) if self.is_demo else PriceBook(self.prices, self.price_vendor)

    @property
    def protocols(self) -> tuple[Protocol, ...]:
        """All protocols that it speaks, in order of preference."""
        return tuple(dict.fromkeys((self.protocol, *self.also_speaks, *self.base_urls)))

    def url_for(self, protocol: Protocol) -> str:
        """Return its base URL for a protocol."""
        return self.base_urls.get(protocol, self.base_url)

    def auth_for(self, protocol: Protocol) -> str:
        """Return the header that carries the key, or `bearer`. Only protocols with their own addresses differ in it."""
        return CODECS[protocol].endpoint.auth if self.auth == "auto" else self.auth

    def profile_for(self, model: str, protocol: Protocol | None = None) -> Profile:
        """Return what one of its models accepts, in its first protocol unless another is given."""
        profile = self.profile.for_model(protocol or self.protocol, model, self.vendor or "")
        return replace(profile, **_CACHE[self.cache]) if self.cache != "auto" else profile

    def facts_for(self, model: str) -> ModelFacts:
        """Return what is known of one of its models."""
        return facts_for(self.protocol, model, self.vendor or "", self.profile.overrides())

    def is_own_api(self, protocol: Protocol) -> bool:
        """Return whether this is the API of the vendor that makes a protocol: its official address, or its vendor."""
        made_by = CODECS[protocol].endpoint
        official = made_by.official_url.removesuffix("/v1")
        return bool(official) and (self.vendor == made_by.vendor or self.url_for(protocol).startswith(official))

    def own_profile(self, model: str, protocol: Protocol) -> Profile | None:
        """Return what passed-through requests must be adjusted to, or None to pass them through unchanged."""
        if self.fit_requests:
            return self.profile_for(model, protocol)
        return self.profile.for_passthrough()


def client_account_problems(provider: ProviderSettings) -> Iterator[tuple[str, str]]:
    """Yield what forbids passing on the keys of clients, as pairs of a setting of the provider and a text.

    A client's own key goes to the host of the vendor that issued it and nowhere else.
    """
    if not provider.passes_client_key:
        return
    if len(provider.accounts) > 1:
        yield "accounts", "client must be the only account: the key of a client is never used beside a configured one"
    if any(header.lower() in _CREDENTIAL_HEADERS for header in provider.headers):
        yield "headers", "must not hold a key if accounts is [client]"
    if not provider.verify_tls:
        yield "verify_tls", "must be true if accounts is [client]"
    vendors = {vendor_of_host(provider.url_for(protocol)) for protocol in provider.protocols}
    if len(vendors) != 1 or "" in vendors:
        yield "base_url", f"accounts: [client] passes on keys of clients, to https addresses of {_vendors()} only"


def _vendors() -> str:
    return ", ".join(dict.fromkeys(KEY_HOSTS.values()))
