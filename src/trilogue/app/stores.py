"""The stores of a configuration: where each is, and whether it can be used.

Commands and programs that run a gateway inside of themselves use the same functions. Problems are returned, and the
caller says them in its own way.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from trilogue.app.sealing import has_keys_here
from trilogue.base.secrets import Secret
from trilogue.config.config import Config
from trilogue.gateway.access.key_store import KeyStore
from trilogue.gateway.access.managed_keys import mark_file
from trilogue.gateway.conversations.settings import StateSettings
from trilogue.gateway.conversations.store.store import ResponseStore
from trilogue.gateway.conversations.stores import limits_of
from trilogue.gateway.features.cluster.server import ClusterUnavailable, RedisServer, faults, reason_of
from trilogue.gateway.features.usage.ledger.ledger import UsageLedger
from trilogue.gateway.features.usage.ledger.tables import LedgerTables
from trilogue.gateway.features.usage.observer import UsageObserver
from trilogue.storage.database import Database, StoreAway, StoreError
from trilogue.storage.engines import check_database, database_of
from trilogue.storage.locations import (
    ACCOUNTS_FILE,
    KEYS_FILE,
    MEMORY,
    NOWHERE,
    USAGE_FILE,
    Locations,
    is_postgresql,
    state_directory,
    state_file,
)
from trilogue.storage.records import RecordFile
from trilogue.storage.sqlite import SqliteDatabase

_OTHERS = f"{Path(ACCOUNTS_FILE).stem}-*{Path(ACCOUNTS_FILE).suffix}"


def locations_of(config: Config, config_file: Path | None) -> Locations:
    """Return where the state of a configuration is kept. `config_file`: each file has a state of its own."""
    return locations_at(config, state_file(os.environ, ACCOUNTS_FILE, config_file))


def locations_at(config: Config, accounts: Path) -> Locations:
    """Return where the state of a configuration is kept, next to the file with the state of accounts."""
    places = (config.state.store, config.usage.store, config.cluster.postgresql)
    state, usage, cluster = [None if one is None else one.reveal() for one in places]
    return Locations(accounts, state=state, usage=usage, cluster=cluster)


def accounts_file(config_file: Path | None) -> Path:
    """Return where the state of accounts is kept for this configuration file. The file may not exist yet.

    Earlier versions had one state file for all configuration files. The first configuration file that gets a state file
    of its own starts with a copy of that one, so that an upgrade does not forget disabled accounts and balances.
    """
    own = state_file(os.environ, ACCOUNTS_FILE, config_file)
    earlier = state_directory(os.environ) / ACCOUNTS_FILE
    if own != earlier and earlier.is_file() and not any(earlier.parent.glob(_OTHERS)):
        RecordFile(earlier).copy_to(own)
    return own


def key_store(places: Locations) -> KeyStore:
    """Return the store of client keys."""
    return KeyStore(database_of(places.keys), mark_file(places.file(KEYS_FILE)))


def counting(config: Config, config_file: Path | None) -> UsageObserver | None:
    """Return an observer that counts usage, or None if the configuration wants none. Call this inside the worker."""
    places = locations_of(config, config_file)
    if places.usage == NOWHERE:
        return None
    tables = LedgerTables(database_of(places.usage))
    return UsageObserver(UsageLedger(tables, live_folder(places), config.usage.days))


def live_folder(places: Locations) -> Path:
    """Return the folder of the live files of workers, which are added to the usage ledger."""
    return places.file(USAGE_FILE).with_suffix(".live")


def ledger_tables(places: Locations) -> LedgerTables | None:
    """Return the tables of the usage ledger; None if that is a file that does not exist yet, or nowhere."""
    if places.usage == NOWHERE or (not is_postgresql(places.usage) and not Path(places.usage).exists()):
        return None
    return LedgerTables(database_of(places.usage))


def store_fault(settings: StateSettings, keys: tuple[bytes, ...], places: Locations) -> StoreError | None:
    """Return why the store of responses cannot be used; None if it can. A default file is not created yet.

    A default file that is damaged is set aside. One that the configuration names is left as it is.
    """
    where, is_default = places.responses, settings.store is None
    if not settings.kept or where == MEMORY:
        return None
    if is_default and not Path(where).exists():
        reason = unwritable(Path(where))
        return StoreAway(f"cannot write {where}: {reason}") if reason else None
    database = database_of(where)
    store = ResponseStore(database, keys, limits_of(settings))
    # Connections must not be shared with the workers, which are forked from this process.
    return _fault(lambda: _check(database, store.check, is_default), store.close)


def usage_fault(config: Config, places: Locations) -> StoreError | None:
    """Return why the place that a configuration names for usage cannot be used; None if it can be, or may come back.

    The default file is set aside if it is damaged.
    """
    where = places.usage
    is_default = where == str(places.file(USAGE_FILE))
    if where == NOWHERE or (is_default and not Path(where).exists()) or (config.usage.store is None and not is_default):
        return None
    database = database_of(where)
    tables = LedgerTables(database)
    fault = _fault(lambda: _check(database, tables.check, is_default), tables.close)
    may_come_back = isinstance(fault, StoreAway) and not isinstance(database, SqliteDatabase)
    return None if may_come_back or is_default else fault


def _check(database: Database, check: Callable[[], None], is_default: bool) -> None:
    if is_default:
        check_database(database, check)
    else:
        check()


def _fault(check: Callable[[], None], close: Callable[[], None]) -> StoreError | None:
    try:
        check()
    except StoreError as error:
        return error
    finally:
        close()
    return None


def unwritable(file: Path) -> str:
    """Return why a file or a folder cannot be written or created, or ""."""
    found = next(path for path in (file, *file.parents) if path.exists())
    if found != file and not found.is_dir():
        return f"{found} is not a folder"
    return "" if os.access(found, os.W_OK) else f"{found} is not writable"


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
        where = _named(store)
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


def _named(store: Secret | None) -> str:
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
