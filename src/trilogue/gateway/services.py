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
from trilogue.model import Protocol
from trilogue.routing import NoRoute, Router, Upstream
from trilogue.translate.seal import Sealer
from trilogue.upstream import Transport


class Limits(Struct, frozen=True):
    """What the gateway takes, and how often a client hears from it."""

    max_body_bytes: int
    keepalive_seconds: float


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
        self.limits = Limits(server.max_body_bytes, server.keepalive_seconds)
        self.providers = {
            name: Provider(name, provider, config.timeouts(name), transport_for(provider))
            for name, provider in config.providers.items()
        }

    async def resolve(self, model: str, client: Protocol) -> tuple[Upstream, ...]:
        """Where a model goes: as the routes say, else to a provider that lists it, one that speaks like the client
        first. Raises NoRoute.
        """
        try:
            return self.router.resolve(model, client).targets
        except NoRoute:
            offering = await self.catalog.offering(model, self.providers.values())
            if not offering:
                raise
            return (Upstream(min(offering, key=lambda one: one.protocol is not client).name, model),)

    async def aclose(self) -> None:
        """Close every connection of this configuration."""
        for provider in self.providers.values():
            await provider.transport.aclose()
