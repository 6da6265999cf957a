"""A configuration, put to work: routes, keys, providers with their transports. Made at start-up and on every reload.

Running requests keep the `Services` they began with; a reload only changes what new requests get.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from trilogue.config import Config
from trilogue.config import Provider as ProviderConfig
from trilogue.gateway.auth import ClientKey, KeyRing
from trilogue.gateway.catalog import Catalog
from trilogue.gateway.provider import Provider
from trilogue.routing import Router
from trilogue.translate.seal import Sealer
from trilogue.upstream import Timeouts, Transport


class Limits(Struct, frozen=True):
    """What the gateway takes and how long it waits."""

    max_body_bytes: int
    keepalive_seconds: float
    first_event_seconds: float
    total_seconds: float


class Services:
    """Everything that a request needs."""

    def __init__(self, config: Config, transport_for: Callable[[ProviderConfig], Transport], sealer: Sealer) -> None:
        server = config.server
        self.config = config
        self.catalog = Catalog()
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
