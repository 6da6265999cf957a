"""What gateways have counted, once all of them have stopped."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.machines.nodes import Cluster
from trilogue.gateway.features.usage.ledger.live_file import Counts
from trilogue.gateway.features.usage.ledger.tables import LedgerTables, UsageQuery, read_usage
from trilogue.storage.postgresql import PostgresqlDatabase


def counted(url: str) -> Counts:
    """Return the sums of the table, which gateways add to every second."""
    tables = LedgerTables(PostgresqlDatabase(url))
    try:
        lines = read_usage(tables, Path("/nonexistent"), UsageQuery())
        return lines[0].counts if lines else Counts()
    finally:
        tables.close()


def live_files(running: Cluster) -> list[Path]:
    """Return the files with usage that may not be in the table yet."""
    return [file for node in running.nodes for file in node.folder.glob("trilogue/usage*.live/*.counts")]


async def settled(url: str, running: Cluster) -> Counts:
    """Stop all gateways, and return what they have counted. Nothing may be left in their files."""
    for node in running.nodes:
        assert await asyncio.to_thread(node.stop) == 0
    assert live_files(running) == []
    return counted(url)
