"""An upstream, ready to be called: its address, its accounts, and their transports.

Which account a request uses is decided in `pool`; what is sent is built in `gateway.request.outbound`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial

from trilogue.config import ProviderSettings as ProviderConfig
from trilogue.config import ProviderTimeouts as Clocks
from trilogue.config import Secret
from trilogue.config.network import endpoint, official_urls
from trilogue.errors import UpstreamError, UpstreamFailure
from trilogue.gateway.log.redaction import Redactor
from trilogue.gateway.setup.headers import HOPS
from trilogue.model import Failure, FailureKind, Protocol
from trilogue.pool import AccountRequest, Pool
from trilogue.pool.health.classify import classify
from trilogue.profiles import Profile
from trilogue.protocols.registry import CODECS
from trilogue.state import steady_time
from trilogue.upstream import HeaderPairs, Transport, UpstreamTimeouts

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

    __slots__ = ("headers", "name", "official", "posting", "redactor", "ways")

    def __init__(self, name: str, secret: Secret | None, ways: Sequence[Transport], config: ProviderConfig) -> None:
        private = [value.reveal() for value in config.headers.values() if not value.literal]
        self.name = name
        self.redactor = Redactor([secret.reveal(), *private] if secret else private)
        """masks its key and the secret header values in errors"""
        self.headers = {header.lower(): value.reveal() for header, value in config.headers.items()}
        """those of every request: the provider's, and the one that carries the key, if there is one"""
        if secret:
            self.headers |= _credentials(secret.reveal(), config.auth)
        self.official = config.base_url.startswith(tuple(url.removesuffix("/v1") for url in official_urls()))
        self.posting = lru_cache(KNOWN_HEADERS)(self._posting)
        """returns all headers of a POST: the client's and ours, and the API version unless the client sends one"""
        self.ways = ways

    def _posting(self, headers: HeaderPairs, stream: bool, version: Version | None) -> HeaderPairs:
        complete = dict(headers)
        if self.official:
            complete.pop(HOPS, None)  # no circle of gateways includes the vendor's own API
        if version is not None:
            complete.setdefault(*version)
        ours = {"content-type": "application/json", "accept": _STREAM if stream else "application/json"}
        return tuple({**complete, **ours, **self.headers}.items())

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
        self.clocks = clocks
        between = max(clocks.first_event, clocks.between_events) + GRACE_SECONDS
        self.timeouts = UpstreamTimeouts(connect=clocks.connect, first_byte=clocks.first_byte, between=between)
        self.stream_timeouts = UpstreamTimeouts(connect=clocks.connect, first_byte=clocks.first_byte, between=None)
        """for streams, whose events have their own time limits"""
        self.is_demo = config.is_demo
        self.summarizes = config.compaction == "model" or config.is_demo
        """whether its models may write the summary when a client asks for a compaction"""
        self.profile: Callable[[str, Protocol], Profile] = lru_cache(KNOWN_MODELS)(config.profile_for)
        """what one of its models accepts in a protocol"""
        self.own_profile: Callable[[str, Protocol], Profile | None] = lru_cache(KNOWN_MODELS)(config.own_profile)
        """what passed-through requests are adapted to; None: they are sent unchanged"""
        self.url: Callable[[Protocol, str], str] = lru_cache(partial(endpoint, config.base_url))
        """returns the URL of one of its endpoints"""
        self._pool = pool

        def transports(own: tuple[Secret, ...]) -> list[Transport]:
            proxies = own or config.proxies
            return [transport_for(config, proxy.reveal()) for proxy in proxies] or [transport_for(config, None)]

        listed = [UpstreamAccount(one.name, one.key, transports(one.proxies), config) for one in config.accounts]
        if not listed:
            listed = [UpstreamAccount(name, None, transports(()), config)]
        self.accounts = {account.name: account for account in listed}
        """by name: the pool chooses one of them"""

    def version(self, model: str, protocol: Protocol) -> Version | None:
        """Return the header with the version of the API that a model needs; None if the protocol has no versions."""
        header = CODECS[protocol].endpoint.version_header
        return (header, self.profile(model, protocol).version) if header else None

    @contextmanager
    def borrow(self, model: str = "") -> Iterator[tuple[UpstreamAccount, Transport]]:
        """Reserve an account for a request that is not a completion. Raises UpstreamFailure if none is available."""
        now = steady_time()
        lease = self._pool.choose(now, AccountRequest(model=model), include_failing=True)
        if lease is None:
            text = "no upstream account can be used now"
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


def _credentials(secret: str, auth: str) -> dict[str, str]:
    if not secret:
        return {}
    return {"authorization": f"Bearer {secret}"} if auth == "bearer" else {auth: secret}
