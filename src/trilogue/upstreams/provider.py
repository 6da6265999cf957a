"""An upstream, ready to be called: its address, its accounts, and their transports.

Which account a request uses is decided in `pool`; what is sent is built in `gateway.request.outbound`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from weakref import WeakKeyDictionary

import structlog

from trilogue.base.clock import steady_time
from trilogue.base.secrets import Secret
from trilogue.capture.credentials import url_secrets
from trilogue.errors import UpstreamError, UpstreamFailure
from trilogue.model import Failure, FailureKind, Protocol
from trilogue.net.client.interface import HeaderPairs, Transport, UpstreamTimeouts
from trilogue.protocols.registry import CODECS
from trilogue.routing.pool.account import AccountRequest
from trilogue.routing.pool.classify import classify
from trilogue.routing.pool.pool import Pool
from trilogue.upstreams.addresses import endpoint, official_urls
from trilogue.upstreams.headers import HOPS, ClientKeyHeader, NoClientKey, with_betas
from trilogue.upstreams.live_keys import PLACEHOLDER, LiveTransport, live_key
from trilogue.upstreams.redaction import Redactor
from trilogue.upstreams.settings import AccountSettings
from trilogue.upstreams.settings import ProviderSettings as ProviderConfig
from trilogue.upstreams.settings import ProviderTimeouts as Clocks
from trilogue.vendors.addresses import vendor_of_host
from trilogue.vendors.profile import Profile

log = structlog.get_logger("trilogue.server")

GRACE_SECONDS = 0.5
KNOWN_MODELS = 256
"""Models whose profiles are cached: clients may ask for any name."""
KNOWN_HEADERS = 32
"""Client headers that are cached per account: a client sends the same ones with every request."""

_STREAM = "text/event-stream"

TransportFor = Callable[[ProviderConfig, str | None], Transport]
"""Makes the transport of a provider: direct, or through the egress proxy with this URL."""


Version = tuple[str, str]
"""the header with the version of an API, and the version"""


class UpstreamAccount:
    """A credential of a provider and its transports: one per egress proxy, or a direct one."""

    __slots__ = (
        "_betas",
        "_config",
        "_of_clients",
        "_settings",
        "headers",
        "key",
        "name",
        "official",
        "posting",
        "redactor",
        "ways",
    )

    def __init__(self, settings: AccountSettings, ways: Sequence[Transport], config: ProviderConfig) -> None:
        private = [value.reveal() for value in config.headers.values() if not value.literal]
        private += [secret for one in config.protocols for secret in url_secrets(config.url_for(one))]
        self._settings, self._config = settings, config
        self._betas = ""
        self._of_clients: WeakKeyDictionary[ClientKeyHeader, UpstreamAccount] = WeakKeyDictionary()
        """if it stands for clients: the accounts that send their keys"""
        secret = settings.key
        self.name = settings.name
        self.redactor = Redactor([secret.reveal(), *private] if secret else private)
        """masks its key, the secret header values and what the query of the address may hold in errors"""
        common = {header.lower(): value.reveal() for header, value in config.headers.items()}
        self.key = live_key(secret, settings.lifetime_seconds, self.redactor)
        """its key, if that can change while the gateway runs"""
        key = PLACEHOLDER if self.key is not None else secret.reveal() if secret else ""
        self.headers = {one: common | _credentials(key, config.auth_for(one)) for one in config.protocols}
        """those of every request, by protocol: the provider's, and the one that carries the key, if there is one"""
        self.official = config.base_url.startswith(tuple(url.removesuffix("/v1") for url in official_urls()))
        self.posting = lru_cache(KNOWN_HEADERS)(self._posting)
        """returns all headers of a POST: the client's and ours, and the API version unless the client sends one"""
        self.ways = [LiveTransport(way, self.key) for way in ways] if self.key is not None else ways

    def for_client(self, key: ClientKeyHeader | None, client: Protocol) -> UpstreamAccount:
        """Return the account to use for a client: itself, or one that sends the client's own key.

        Raises NoClientKey if the client has sent none that may go to this provider.
        """
        config = self._config
        if not self._settings.is_clients:
            return self
        vendor = vendor_of_host(config.base_url)
        if key is None:
            raise NoClientKey(
                f"this model is served by {vendor} with the key of the client, and the request has none; send it as "
                "x-api-key or Authorization, and the key of the gateway, if it has keys, as trilogue-key"
            )
        known = self._of_clients.get(key)
        if known is not None:
            return known
        key.check_vendor(vendor, native=client in config.protocols)
        account = UpstreamAccount(self._settings, self.ways, config)
        account.redactor.learn(key.reveal())
        account._betas = key.betas
        for protocol in config.protocols:
            account.headers[protocol] |= key.headers_for(protocol, config.auth_for(protocol))
        self._of_clients[key] = account
        return account

    def _posting(self, headers: HeaderPairs, stream: bool, version: Version | None, protocol: Protocol) -> HeaderPairs:
        ours = (("content-type", "application/json"), ("accept", _STREAM if stream else "application/json"))
        return self.passing((*headers, *ours), version, protocol)

    def passing(self, headers: HeaderPairs, version: Version | None, protocol: Protocol) -> HeaderPairs:
        """Return all headers of a request: these and ours, and the API version unless the client sends one."""
        complete = dict(headers)
        if self.official:
            complete.pop(HOPS, None)  # no circle of gateways includes the vendor's own API
        if version is not None:
            complete.setdefault(*version)
        complete |= self.headers[protocol]
        return tuple((with_betas(complete, self._betas) if self._betas else complete).items())

    def __repr__(self) -> str:
        return f"Account({self.name})"


class UpstreamProvider:
    """One provider of a configuration: how to reach it, its time limits, and its accounts."""

    def __init__(
        self, name: str, config: ProviderConfig, clocks: Clocks, transport_for: TransportFor, pool: Pool
    ) -> None:
        self.name = name
        self.protocol = config.protocol
        self.protocols = config.protocols
        """all protocols that it speaks; `protocol` is the first"""
        self.models = config.models
        self.other_endpoints = config.other_endpoints and [
            path.removeprefix("/v1").rstrip("/") for path in config.other_endpoints
        ]
        """the paths that it is preferred for and that it has; None: it may have any"""
        self.clocks = clocks
        between = max(clocks.first_event, clocks.between_events) + GRACE_SECONDS
        self.timeouts = UpstreamTimeouts(connect=clocks.connect, first_byte=clocks.first_byte, between=between)
        self.stream_timeouts = UpstreamTimeouts(connect=clocks.connect, first_byte=clocks.first_byte, between=None)
        """for streams, whose events have their own time limits"""
        self.is_demo = config.is_demo
        self.compacts_itself = config.compaction == "upstream"
        """whether an upstream that compacts does so even if another one may have to go on"""
        self.summarizes = config.compaction != "none"
        """whether its models may write the summary when a client asks for a compaction"""
        self.profile: Callable[[str, Protocol], Profile] = lru_cache(KNOWN_MODELS)(config.profile_for)
        """what one of its models accepts in a protocol"""
        self.facts = lru_cache(KNOWN_MODELS)(config.facts_for)
        """what is known of one of its models"""
        self.own_profile: Callable[[str, Protocol], Profile | None] = lru_cache(KNOWN_MODELS)(config.own_profile)
        """what passed-through requests are adapted to; None: they are sent unchanged"""
        self.url: Callable[[Protocol, str], str] = lru_cache(lambda one, path: endpoint(config.url_for(one), one, path))
        """returns the URL of one of its endpoints"""
        self.own_apis = frozenset(one for one in config.protocols if config.is_own_api(one))
        """protocols of which it is the vendor's own API: what that refuses is a mistake of the client"""
        self._pool = pool

        def transports(own: tuple[Secret, ...]) -> list[Transport]:
            proxies = own or config.proxies
            return [transport_for(config, proxy.reveal()) for proxy in proxies] or [transport_for(config, None)]

        settings = config.accounts or (AccountSettings(name=name),)
        listed = [UpstreamAccount(one, transports(one.proxies), config) for one in settings]
        self.accounts = {account.name: account for account in listed}
        """by name: the pool chooses one of them"""
        self._live = [account for account in listed if account.key is not None]
        self.passes_client_key = config.passes_client_key
        """whether its requests are sent with the keys of clients, so that it cannot be asked without one"""

    def version(self, model: str, protocol: Protocol) -> Version | None:
        """Return the header with the version of the API that a model needs; None if the protocol has no versions."""
        header = CODECS[protocol].endpoint.version_header
        return (header, self.profile(model, protocol).version) if header else None

    @property
    def official(self) -> bool:
        """Whether it is a vendor's own API, which has all of the vendor's endpoints."""
        return any(account.official for account in self.accounts.values())

    def may_have(self, path: str) -> bool:
        """Return whether it may be asked for an endpoint that is not translated."""
        if self.is_demo or self.other_endpoints is None:
            return not self.is_demo
        return any(f"{path}/".startswith(f"{listed}/") for listed in self.other_endpoints)

    @contextmanager
    def borrow(self, model: str = "") -> Iterator[tuple[UpstreamAccount, Transport]]:
        """Reserve an account for a request that is not a completion. Raises UpstreamFailure if none is available."""
        now = steady_time()
        lease = self._pool.choose(now, AccountRequest(model=model), include_failing=True)
        if lease is None:
            text = f"no account of {self.name} can be used now"
            raise UpstreamFailure(Failure(kind=FailureKind.UNAVAILABLE, message=text, code="no_account", status=503))
        proxies = lease.account.proxies
        account = self.accounts[lease.account.name]
        try:
            yield account, account.ways[0 if proxies is None else proxies.choose(now)]
        except UpstreamError as error:
            # It says nothing about completions, but a wrong address is often seen here first.
            self._pool.health.note_error(lease.account, steady_time(), classify(error))
            raise
        finally:
            self._pool.released(lease)

    async def reach(self, seconds: float) -> None:
        """Open a connection to the upstream, and keep it for a request. Raises UpstreamError.

        Nothing is sent, so nothing is known about keys and paths.
        """
        account = next(iter(self.accounts.values()))
        await account.ways[0].reach(self.url(self.protocols[0], ""), seconds)

    def look_at_keys(self) -> None:
        """Enable accounts whose refused keys have been replaced."""
        for account in self._live:
            own = self._pool.account(account.name)
            if account.key is not None and account.key.has_changed() and own is not None:
                if own.disabled_by == "upstream":
                    self._pool.health.enable(own)
                log.info("an account has a new key", provider=self.name, account=account.name)


def _credentials(secret: str, auth: str) -> dict[str, str]:
    if not secret:
        return {}
    return {"authorization": f"Bearer {secret}"} if auth == "bearer" else {auth: secret}
