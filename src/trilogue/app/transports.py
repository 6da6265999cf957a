"""How a process reaches the network: its event loop, and the transports of its providers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from importlib import import_module
from typing import Any, TypeVar

from trilogue.net.client.interface import Transport
from trilogue.net.client.transport import HttpTransport
from trilogue.upstreams.demo.transport import DemoTransport
from trilogue.upstreams.provider import TransportFor
from trilogue.upstreams.settings import ProviderSettings

Result = TypeVar("Result")


def event_loop() -> Callable[[Coroutine[Any, Any, Result]], Result]:
    """Return what runs a gateway: uvloop, or asyncio's own loop on platforms and interpreters that have no uvloop."""
    try:
        run: Callable[[Coroutine[Any, Any, Result]], Result] = import_module("uvloop").run
    except ModuleNotFoundError:
        return asyncio.run
    return run


def transports() -> TransportFor:
    """Return a function that gives each provider its transport: the built-in model, or the network.

    Call this inside the worker. Providers with the same proxy and TLS setting share a transport and its connections.
    """
    network: dict[tuple[str | None, bool], Transport] = {}

    def transport_for(provider: ProviderSettings, proxy: str | None) -> Transport:
        if provider.is_demo:
            return DemoTransport()
        key = (proxy, provider.verify_tls)
        if key not in network:
            network[key] = HttpTransport(proxy=proxy, verify=provider.verify_tls)
        return network[key]

    return transport_for
