"""An upstream, ready to be called: its address, its accounts, its ways out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial

from trilogue.config import ProviderSettings as ProviderConfig
from trilogue.config import ProviderTimeouts as Clocks
from trilogue.config import Secret
from trilogue.config.network import OFFICIAL, endpoint
from trilogue.errors import UpstreamFailure
from trilogue.gateway.log.redaction import Redactor
from trilogue.gateway.setup.headers import HOPS
from trilogue.model import Failure, FailureKind, Protocol
from trilogue.pool import AccountRequest, Pool
from trilogue.profiles import Profile
from trilogue.state import steady_time
from trilogue.upstream import HeaderPairs, Transport, UpstreamTimeouts

GRACE_SECONDS = 0.5
KNOWN_MODELS = 256
"""profiles that are kept: clients may ask for any name"""
KNOWN_HEADERS = 32
"""headers of clients that are kept with those of an account: a client sends the same ones with every request"""

_STREAM = "text/event-stream"
_OFFICIAL = tuple({url.removesuffix("/v1") for url in OFFICIAL.values()})

TransportFor = Callable[[ProviderConfig, str | None], Transport]
"""the way out of a provider: directly, or through the egress proxy with this URL"""


class UpstreamAccount:
    """A credential of a provider, and how to get to it: one transport per egress proxy, or a direct one."""

    __slots__ = ("blank", "headers", "name", "official", "posting", "ways")

    def __init__(self, name: str, secret: Secret | None, ways: Sequence[Transport], config: ProviderConfig) -> None:
        private = [value.reveal() for value in config.headers.values() if not value.literal]
        self.name = name
        self.blank = Redactor([secret.reveal(), *private] if secret else private)
        """for what goes wrong with it: its key and these values are nobody else's business"""
        self.headers = {header.lower(): value.reveal() for header, value in config.headers.items()}
        """those of every request: of its provider, and the one that carries the key if the upstream wants one"""
        if secret:
            self.headers |= _credentials(secret.reveal(), config.auth)
        self.official = config.base_url.startswith(_OFFICIAL)
        self.posting = lru_cache(KNOWN_HEADERS)(self._posting)
        """all headers of a POST: those from the client, and ours; Anthropic's `version` unless the client names one"""
        self.ways = ways

    def _posting(self, headers: HeaderPairs, stream: bool, version: str) -> HeaderPairs:
        complete = dict(headers)
        if self.official:
            complete.pop(HOPS, None)  # no circle goes through there
        if version:
            complete.setdefault("anthropic-version", version)
        ours = {"content-type": "application/json", "accept": _STREAM if stream else "application/json"}
        return tuple({**complete, **ours, **self.headers}.items())

    def __repr__(self) -> str:
        return f"Account({self.name})"


class UpstreamProvider:
    """An upstream, ready to be called."""

    def __init__(
        self, name: str, config: ProviderConfig, clocks: Clocks, transport_for: TransportFor, pool: Pool
    ) -> None:
        self.name = name
        self.protocol = config.protocol
        self.protocols = config.protocols
        """all that it speaks; `protocol` is the first"""
        self.models = config.models
        self.clocks = clocks
        waits = max(clocks.first_event, clocks.between_events) + GRACE_SECONDS
        self.timeouts = UpstreamTimeouts(connect=clocks.connect, first_byte=clocks.first_byte, between=waits)
        self.stream_timeouts = UpstreamTimeouts(connect=clocks.connect, first_byte=clocks.first_byte, between=None)
        """of streams, whose events have a clock of their own"""
        self.is_demo = config.is_demo
        self.profile: Callable[[str, Protocol], Profile] = lru_cache(KNOWN_MODELS)(config.profile_for)
        """what one of its models takes in a protocol"""
        self.own_profile: Callable[[str, Protocol], Profile | None] = lru_cache(KNOWN_MODELS)(config.own_profile)
        """what requests are made to fit that are passed through; None: nothing"""
        self.url: Callable[[Protocol, str], str] = lru_cache(partial(endpoint, config.base_url))
        """the address of one of its endpoints"""
        self._pool = pool

        def ways(own: tuple[Secret, ...]) -> list[Transport]:
            proxies = own or config.proxies
            return [transport_for(config, proxy.reveal()) for proxy in proxies] or [transport_for(config, None)]

        listed = [UpstreamAccount(one.name, one.key, ways(one.proxies), config) for one in config.accounts]
        if not listed:
            listed = [UpstreamAccount(name, None, ways(()), config)]
        self.accounts = {account.name: account for account in listed}
        """those that the pool chooses from"""

    @contextmanager
    def borrow(self, model: str = "") -> Iterator[tuple[UpstreamAccount, Transport]]:
        """An account for what is no completion: one that can be used now, for one attempt. UpstreamFailure if none."""
        now = steady_time()
        lease = self._pool.choose(now, AccountRequest(model=model), desperate=True)
        if lease is None:
            text = "no upstream account can be used now"
            raise UpstreamFailure(Failure(kind=FailureKind.UNAVAILABLE, message=text, code="no_account", status=503))
        proxies = lease.account.proxies
        account = self.accounts[lease.account.name]
        try:
            yield account, account.ways[0 if proxies is None else proxies.choose(now)]
        finally:
            self._pool.released(lease)


def _credentials(secret: str, auth: str) -> dict[str, str]:
    if not secret:
        return {}
    return {"authorization": f"Bearer {secret}"} if auth == "bearer" else {auth: secret}
