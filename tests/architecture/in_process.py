"""A gateway in this process, made of its parts, whose calls can be watched.

The only module of these tests that knows classes of the gateway: it changes when a gateway is made in another way.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from structlog.testing import capture_logs

from trilogue import Sealer
from trilogue.app.worker import Worker
from trilogue.config.load import load
from trilogue.gateway.endpoints.app import GatewayApp, not_http
from trilogue.gateway.features.usage.ledger.ledger import UsageLedger
from trilogue.gateway.features.usage.ledger.tables import LedgerTables
from trilogue.gateway.features.usage.observer import UsageObserver
from trilogue.gateway.log.lines import journal
from trilogue.net.client.transport import HttpTransport
from trilogue.net.server.listener import Listener
from trilogue.storage.sqlite import MemoryDatabase
from trilogue.upstreams.build import router_of


class Watched(NamedTuple):
    """A running gateway: where it listens, and whether no request is running."""

    url: str
    is_idle: Callable[[], bool]


@asynccontextmanager
async def gateway_in_process(folder: Path, config: str) -> AsyncIterator[Watched]:
    """Provide a gateway with this configuration, with the observers that most gateways have."""
    file = folder / "trilogue.yaml"
    file.write_text(config)
    # A file of the log would be written 50 ms after a line, which some requests do not take.
    journal.open(None)
    settings = load(file, {})
    usage = UsageObserver(UsageLedger(LedgerTables(MemoryDatabase()), folder / "usage.live", 30))
    usage.configure(router_of(settings), {name: one.price_book() for name, one in settings.providers.items()})
    worker = Worker(
        folder / "pool.db", lambda: lambda _, proxy: HttpTransport(proxy=proxy), Sealer.ephemeral(), observers=[usage]
    )
    app = GatewayApp(worker.gateway(settings))
    listener = Listener(app, not_http)
    with socket.create_server(("127.0.0.1", 0)) as sock, capture_logs():
        await listener.open(sock)
        try:
            yield Watched(f"http://127.0.0.1:{sock.getsockname()[1]}", lambda: not app.running.requests)
        finally:
            await listener.drain(0)
            await app.gateway.upstreams.aclose()
            await worker.aclose()
            usage.close()
