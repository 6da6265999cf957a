"""A configuration, put to work: routes, keys, providers with their transports. Made at start-up and on every reload.

Running requests keep the `Services` they began with; a reload only changes what new requests get.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from msgspec import Struct

from trilogue.config import Config, Secret, endpoint
from trilogue.config import Provider as ProviderConfig
from trilogue.gateway.auth import ClientKey, KeyRing
from trilogue.model import Protocol
from trilogue.protocols.profile import Profile, profile_for
from trilogue.routing import Router
from trilogue.translate.seal import Sealer
from trilogue.upstream import Timeouts, Transport


class Limits(Struct, frozen=True):
    """What the gateway takes and how long it waits."""

    max_body_bytes: int
    keepalive_seconds: float
    first_event_seconds: float
    total_seconds: float


class Account:
    """A credential of a provider."""

    __slots__ = ("_secret", "name")

    def __init__(self, name: str, secret: Secret | None) -> None:
        self.name = name
        self._secret = secret

    def secret(self) -> str:
        """The key in clear, for the one header that carries it; empty if the upstream wants none."""
        return self._secret.reveal() if self._secret else ""

    def __repr__(self) -> str:
        return f"Account({self.name})"


class Provider:
    """An upstream, ready to be called."""

    def __init__(self, name: str, config: ProviderConfig, timeouts: Timeouts, transport: Transport) -> None:
        self.name = name
        self.protocol = config.protocol
        self.models = config.models
        self.transport = transport
        self.timeouts = timeouts
        self.auth = config.auth
        self.headers = {header.lower(): value.reveal() for header, value in config.headers.items()}
        self._config = config
        self._accounts = [
            Account(account.name or f"{name}-{number}", account.key)
            for number, account in enumerate(config.accounts, 1)
        ] or [Account(name, None)]
        self._turn = count()

    def url(self, path: str) -> str:
        """The address of one of its endpoints."""
        return endpoint(self._config.base_url, self.protocol, path)

    def profile(self, model: str) -> Profile:
        """What one of its models can do."""
        return self._config.profile_for(model)

    def account(self) -> Account:
        """The account whose turn it is."""
        return self._accounts[next(self._turn) % len(self._accounts)]


class Services:
    """Everything that a request needs."""

    def __init__(self, config: Config, transport_for: Callable[[ProviderConfig], Transport], sealer: Sealer) -> None:
        server = config.server
        self.config = config
        self.router: Router = config.router()
        self.sealer = sealer
        self.keys = KeyRing(
            [(ClientKey(key.name or f"key-{n}", key.mode), key.key.reveal()) for n, key in enumerate(config.keys, 1)]
        )
        self.limits = Limits(
            server.max_body_bytes,
            server.keepalive_seconds,
            server.timeouts.first_event,
            server.timeouts.total,
        )
        self.providers = {
            name: Provider(name, provider, _timeouts(config, name), transport_for(provider))
            for name, provider in config.providers.items()
        }

    async def aclose(self) -> None:
        """Close every connection of this configuration."""
        for provider in self.providers.values():
            await provider.transport.aclose()


def _timeouts(config: Config, name: str) -> Timeouts:
    clocks = config.timeouts(name)
    return Timeouts(connect=clocks.connect, first_byte=clocks.first_byte, between=clocks.between_events)


def version_for(protocol: Protocol, model: str) -> str:
    """The API version that a model of Messages wants."""
    return profile_for(protocol, model).version
