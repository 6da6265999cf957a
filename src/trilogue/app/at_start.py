"""What a gateway needs before it can be built: a store that works, and transports. For its keys see `sealing`.

Commands and programs that run a gateway inside of themselves use the same functions. Problems are returned, and the
caller says them in its own way.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from trilogue.gateway.conversations.settings import StateSettings
from trilogue.gateway.conversations.store.interface import StoreAway, StoreError
from trilogue.gateway.conversations.store.store import ResponseStore
from trilogue.gateway.conversations.stores import FILE_NAME, MEMORY, limits_of, place_of
from trilogue.net.client.interface import Transport
from trilogue.net.client.transport import HttpTransport
from trilogue.storage.database import check_database, database_of
from trilogue.storage.database.sqlite import SqliteDatabase
from trilogue.storage.folders import state_file
from trilogue.upstreams.demo.transport import DemoTransport
from trilogue.upstreams.provider import TransportFor
from trilogue.upstreams.settings import ProviderSettings

Result = TypeVar("Result")


def default_store(config_file: Path | None) -> Path:
    """Return the file that is used if the configuration names no store: each configuration file has its own."""
    return state_file(os.environ, FILE_NAME, config_file)


def store_fault(settings: StateSettings, keys: tuple[bytes, ...], config_file: Path | None) -> StoreError | None:
    """Return why the store of a configuration cannot be used; None if it can. A default file is not created yet.

    A default file that is damaged is set aside. One that the configuration names is left as it is.
    """
    default = default_store(config_file)
    where = place_of(settings, default)
    if not settings.kept or where == MEMORY:
        return None
    if settings.store is None and not default.exists():
        reason = unwritable(default)
        return StoreAway(f"cannot write {where}: {reason}") if reason else None
    database = database_of(where)
    store = ResponseStore(database, keys, limits_of(settings))
    try:
        if settings.store is None:
            check_database(database, store.check)
        else:
            store.check()
    except StoreError as error:
        return error
    finally:
        # Connections must not be shared with the workers, which are forked from this process.
        store.close()
    return None


def is_file(settings: StateSettings) -> bool:
    """Return whether a configuration keeps things in a file."""
    return isinstance(database_of(place_of(settings, default_store(None))), SqliteDatabase)


def unwritable(file: Path) -> str:
    """Return why a file or a folder cannot be written or created, or ""."""
    found = next(path for path in (file, *file.parents) if path.exists())
    if found != file and not found.is_dir():
        return f"{found} is not a folder"
    return "" if os.access(found, os.W_OK) else f"{found} is not writable"


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
