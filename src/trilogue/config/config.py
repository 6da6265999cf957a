"""The configuration file as types: every setting, its default and its limits.

The JSON Schema, the reader and the list of settings in the documentation come from these types. Secrets are resolved
when a file is read; a `Config` in memory is complete and never changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field, inspect

from trilogue.base.secrets import Secret
from trilogue.gateway.access.settings import ClientKeySettings
from trilogue.gateway.admin.settings import AdminSettings
from trilogue.gateway.conversations.settings import StateSettings
from trilogue.gateway.features.capture.settings import CaptureSettings
from trilogue.gateway.features.cluster.settings import ClusterSettings
from trilogue.gateway.features.tracing.settings import TracingSettings
from trilogue.gateway.features.usage.settings import UsageSettings
from trilogue.gateway.limits.settings import (
    NO_BUDGET,
    NO_LIMITS,
    BudgetSettings,
    RateLimits,
    SharedLimits,
    WebhookSettings,
)
from trilogue.gateway.log.settings import Log
from trilogue.model import Severity
from trilogue.routing.pool.settings import PoolsSettings
from trilogue.routing.routes import Route
from trilogue.upstreams.settings import ProviderSettings, ProviderTimeouts, Seconds

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

    @property
    def served(self) -> dict[str, ProviderSettings]:
        """The providers without those that are optional and lack their keys."""
        return {name: one for name, one in self.providers.items() if not one.absence}


def setting_paths() -> list[str]:
    """Return the path of every setting: `server.port`, `providers.NAME.accounts[].key`, …"""
    return list(_paths(inspect.type_info(Config), ""))


def short_form(struct: type[Struct]) -> str:
    """Return the field that a plain string is short for in settings of this type; "" if they have no short form."""
    name: str = getattr(struct, "short", "")
    return name


@cache
def settings_named(name: str) -> tuple[str, ...]:
    """Return the paths of all settings that end with this name, those with the fewest steps first."""
    found = [path for path in setting_paths() if path.rpartition(".")[2] == name]
    return tuple(sorted(found, key=lambda path: path.count(".")))


def inner_types(kind: inspect.Type) -> Iterator[tuple[str, inspect.Type]]:
    """Yield the types directly inside a type, each with the step that a path takes to it."""
    match kind:
        case inspect.StructType():
            yield from ((f".{field.name}", field.type) for field in kind.fields)
        case inspect.DictType():
            yield ".NAME", kind.value_type
        case inspect.VarTupleType():
            yield "[]", kind.item_type
        case inspect.UnionType():
            yield from (("", member) for member in kind.types)
        case inspect.Metadata():
            yield "", kind.type


def _paths(kind: inspect.Type, path: str) -> Iterator[str]:
    for step, inner in inner_types(kind):
        here = f"{path}{step}".removeprefix(".")
        if isinstance(kind, inspect.StructType):
            yield here
        yield from _paths(inner, here)
