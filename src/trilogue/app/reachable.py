"""Whether the stores and servers of a configuration can be used now, without a change to any of them.

A gateway starts while some of them are away, because they may come back; `stops_start` says which of them it needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from trilogue.app.at_start import unwritable
from trilogue.app.sealing import has_keys_here
from trilogue.base.secrets import Secret
from trilogue.config.types import Config
from trilogue.gateway.conversations.stores import MEMORY
from trilogue.gateway.features.cluster.server import ClusterUnavailable, RedisServer, faults, reason_of
from trilogue.gateway.features.usage.place import NOWHERE
from trilogue.storage.database import database_of
from trilogue.storage.store import StoreAway, StoreError


class Fault(NamedTuple):
    """What cannot be used: the setting, why, and whether the gateway does not start because of it."""

    path: str
    text: str
    stops_start: bool


def server_faults(config: Config) -> Iterator[Fault]:
    """Yield which of the stores and servers that a configuration names cannot be used. Waits for each some seconds."""
    places: dict[str, str] = {}
    named = (("cluster.postgresql", config.cluster.postgresql), ("state.store", config.state.store))
    for path, store in (*named, ("usage.store", config.usage.store)):
        where = _place(store)
        if where:
            places.setdefault(where, path)
    for where, path in places.items():
        fault = _file_fault(path, where) if where.startswith("/") else _database_fault(path, where, config)
        if fault is not None:
            yield fault
    if config.cluster.redis:
        reason = _redis_fault(RedisServer(config.cluster.redis.reveal(), config.cluster.prefix))
        if reason:
            yield Fault("cluster.redis", reason, stops_start=False)


def _place(store: Secret | None) -> str:
    where = store.reveal() if store is not None else ""
    return "" if where in (MEMORY, NOWHERE) else where


def _file_fault(path: str, where: str) -> Fault | None:
    reason = unwritable(Path(where))
    return Fault(path, f"cannot write {where}: {reason}", stops_start=True) if reason else None


def _database_fault(path: str, where: str, config: Config) -> Fault | None:
    try:
        database_of(where).connect().close()
    except StoreAway as error:
        return Fault(path, str(error), stops_start=not has_keys_here(config))
    except StoreError as error:
        return Fault(path, str(error), stops_start=True)
    return None


def _redis_fault(server: RedisServer) -> str:
    """Return why a server does not respond, or ""."""
    try:
        client = server.connect()
    except ClusterUnavailable as error:
        return str(error)
    try:
        client.time()
    except faults() as error:
        return f"cannot use {server.name}: {reason_of(error)}"
    finally:
        client.close()
    return ""
