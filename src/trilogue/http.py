"""HTTP clients for the official SDKs that translate inside the process, and the gateway as an ASGI application.

    from openai import OpenAI
    client = OpenAI(api_key="unused", http_client=trilogue.http_client("anthropic/claude-sonnet-5"))

Needs `httpx2` or `httpx`, which the SDKs bring along. They are loaded when the first client is made, so that this
module costs nothing to import. The work is done in `trilogue.app.embed.sdk`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypedDict, Unpack
from typing import Protocol as Interface

from msgspec import Struct

from trilogue.model import Failure, Loss, Protocol, Strictness, Usage
from trilogue.translate.reasoning.seal import Sealer

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    import httpx2

_CLIENTS = "trilogue.app.embed.sdk.clients"
_ASGI = "trilogue.app.embed.asgi"


class Report(Struct, frozen=True, kw_only=True):
    """What became of one request of an SDK, known once its response is complete, has failed or was given up.

    `model`: as the upstream knows it. `complete`: the client got all of a response. `losses`: of request and response.
    """

    client: Protocol
    upstream: Protocol
    model: str
    losses: tuple[Loss, ...] = ()
    usage: Usage | None = None
    failure: Failure | None = None
    complete: bool = False


class Tally:
    """A count of reports: pass an instance as `observe` and read its attributes at any time."""

    def __init__(self) -> None:
        self.requests = 0
        self.failures = 0
        self.losses: Counter[str] = Counter()
        """how often each loss code was declared"""
        self.last: Report | None = None

    def __call__(self, report: Report) -> None:
        """Add one report to the counts and keep it as `last`."""
        self.requests += 1
        self.failures += report.failure is not None
        self.losses.update(loss.code for loss in report.losses)
        self.last = report


class HttpSettings(TypedDict, total=False):
    """Options of `http_client` and `async_http_client`.

    `api_key`: the upstream's key; by default the variable of the provider. `base_url`: the upstream's address; required
    for a provider that is not a preset. `protocol`: what the upstream speaks, chat, messages or responses; by default
    what the provider does. `headers`: added to every request. `strict`: refuse a request instead of losing something;
    a severity refuses losses from that one on. `repair`: repair a history whose tool calls have no results. `sealer`:
    seals reasoning of another protocol; by default with a key of this process. `observe`: called with a `Report` of
    each request. `timeout`: in seconds, if the SDK sets none. `library`: `httpx2` or `httpx`; by default the first that
    is installed.
    """

    api_key: str
    base_url: str
    protocol: Protocol | str
    headers: Mapping[str, str]
    strict: Strictness
    repair: bool
    sealer: Sealer
    observe: Callable[[Report], None]
    timeout: float
    library: str


def http_client(model: str, **settings: Unpack[HttpSettings]) -> httpx2.Client:
    """Return an HTTP client for `OpenAI(http_client=…)` or `Anthropic(http_client=…)` whose requests go to this model.

    `model`: `provider/model`, for example `anthropic/claude-sonnet-5`; or only the provider, and then each request
    names its model. The API key that the SDK was given is never sent to the upstream.

    Raises `ClientError` if the provider is not known or has no key, or if neither `httpx2` nor `httpx` is installed.
    """
    client: httpx2.Client = _clients().sync_client(model, settings)
    return client


def async_http_client(model: str, **settings: Unpack[HttpSettings]) -> httpx2.AsyncClient:
    """Return the same as `http_client` for `AsyncOpenAI` and `AsyncAnthropic`."""
    client: httpx2.AsyncClient = _clients().async_client(model, settings)
    return client


class AsgiApp(Interface):
    """An ASGI application with a life of its own, which servers start and stop unless it is mounted."""

    def __call__(
        self,
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
        send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ) -> Awaitable[None]:
        """Serve one connection."""
        ...

    def lifespan(self, app: object = None) -> AbstractAsyncContextManager[None]:
        """Start it, and stop it at the end: pass this as `lifespan` to the application that mounts it."""
        ...


def asgi(config: str | Path | Mapping[str, Any] | None = None, *, trust_callers: bool = False) -> AsgiApp:
    """Return the gateway as an ASGI application, to run under any ASGI server or to mount in another application.

    `config`: the path of a configuration file, or its settings; by default what `trilogue serve` would use.
    `trust_callers`: let every request in, without a key, because the application around it checks them.

    Raises `ConfigError`, a `TrilogueError`, if the configuration cannot be used.
    """
    app: AsgiApp = import_module(_ASGI).make_asgi(config, trust_callers=trust_callers)
    return app


def _clients() -> Any:
    return import_module(_CLIENTS)
