"""The store in a PostgreSQL database, for several machines.

Each thread has one connection. A connection that is lost is replaced on next use, so a server that was away costs the
requests of that time and nothing else. All machines use the server's clock: leases and reports of workers are compared
between machines, whose own clocks may differ by more than the few seconds that these last.

`psycopg` is loaded on first use and comes with the extra `postgresql`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from trilogue.storage.database.connection import Database, DatabaseConnection, Row
from trilogue.storage.database.dialect import POSTGRESQL
from trilogue.storage.store import CommitUnsure, StoreAway, StoreBusy, StoreError, StoreUnavailable

if TYPE_CHECKING:
    import psycopg

CONNECT_SECONDS = 5
SILENCE_MILLISECONDS = 10_000
_WRITABLE = "target_session_attrs"
"""libpq's parameter for which of several servers to use; by default we want the one that can be written to"""
_REFUSALS = (
    (r"authentication failed", "the server does not accept the user or the password"),
    (r"no password supplied", "the server wants a password"),
    (r"no pg_hba\.conf entry", "the server does not accept connections from here"),
    (r'role ".*" does not exist', "the user does not exist"),
    (r'database ".*" does not exist', "the database does not exist"),
    (r"server does not support SSL", "the server has no TLS, but sslmode requires it"),
    (r"root certificate file", "the file with the root certificate (sslrootcert) cannot be read"),
    (r"certificate verify failed|does not match host name", "the certificate of the server is not trusted"),
    (r"invalid URI|invalid connection option|invalid port|invalid integer value|missing \"=\"", "the URL is not valid"),
)
"""Words in the errors of servers that refuse a connection, whenever it is tried. Other errors may pass."""
_PASSING: dict[str, type[StoreError]] = {
    "25006": StoreAway,  # read only: the server has become a standby, and another one is the primary
    "53300": StoreAway,  # too many connections
    "55P03": StoreBusy,  # another transaction has the lock
    "40001": StoreBusy,  # serialization failure
    "40P01": StoreBusy,  # deadlock
    "57014": StoreBusy,  # the server's time limit for statements
}
"""Errors by SQLSTATE after which the same statements may succeed soon. `StoreAway` also drops the connection: a new one
may lead to another server."""
_FULL = "53100"


class PostgresqlDatabase(Database):
    """A database by its URL, `postgresql://user:password@host/name`. `clock`: for tests, instead of the server's."""

    dialect = POSTGRESQL

    def __init__(self, url: str, clock: Callable[[], float] | None = None) -> None:
        self.name = _without_password(url)
        self._url = url
        self._clock = clock
        self._offset = 0.0
        """how far the server's clock is ahead of ours"""

    def connect(self) -> PostgresqlConnection:
        """Connect to the server. Raise StoreAway."""
        library = _library()
        try:
            raw = library.connect(
                self._url,
                autocommit=True,
                connect_timeout=CONNECT_SECONDS,
                tcp_user_timeout=SILENCE_MILLISECONDS,
                keepalives_idle=5,
                keepalives_interval=2,
                keepalives_count=3,
                application_name="trilogue",
                **({} if _WRITABLE in self._url else {_WRITABLE: "read-write"}),
            )
        except library.Error as error:
            raise self._not_connected(error) from None
        connection = PostgresqlConnection(raw, self.name)
        if self._clock is None:
            self._offset = connection.server_time() - time.time()
        return connection

    def _not_connected(self, error: Exception) -> StoreError:
        # The text may quote the URL, so only the reason that is recognised in it is shown.
        text = str(error)
        for words, reason in _REFUSALS:
            if re.search(words, text):
                return StoreUnavailable(f"{self.name} cannot be used: {reason}")
        return StoreAway(f"cannot connect to {self.name}: the server does not respond")

    def now(self) -> float:
        """Return the time of the server."""
        return time.time() + self._offset if self._clock is None else self._clock()


class PostgresqlConnection(DatabaseConnection):
    """A connection to the server."""

    def __init__(self, raw: psycopg.Connection[Row], name: str) -> None:
        self._raw = raw
        self._name = name
        self._error: type[Exception] = _library().Error

    def server_time(self) -> float:
        """Return the server's time in seconds since the epoch."""
        return float(self.execute("SELECT extract(epoch FROM clock_timestamp())::double precision")[0][0])

    def execute(self, statement: str, values: Sequence[object] = ()) -> list[Row]:
        """Run a statement and return its rows."""
        try:
            cursor = self._raw.execute(_spelled(statement), values, binary=True)
            return cursor.fetchall() if cursor.description else []
        except self._error as error:
            raise self._failure(error) from None

    def execute_many(self, statement: str, rows: Iterable[Sequence[object]]) -> None:
        """Run a statement once for each row of values, without waiting for each."""
        try:
            with self._raw.cursor() as cursor:
                cursor.executemany(_spelled(statement), rows)
        except self._error as error:
            raise self._failure(error) from None

    def begin(self) -> None:
        """Begin a transaction. Raise StoreError; StoreAway means that the connection is lost."""
        self.execute("BEGIN")

    def commit(self) -> None:
        """Commit. Raise CommitUnsure if the connection breaks meanwhile."""
        try:
            self.execute("COMMIT")
        except StoreAway:
            raise CommitUnsure(f"{self._name} was lost during a commit") from None

    def rollback(self) -> None:
        """Undo the transaction. Does nothing, and raises nothing, if the connection is lost."""
        with suppress(self._error):
            if not self._raw.broken and not self._raw.closed:
                self._raw.execute(b"ROLLBACK")

    def usable(self) -> bool:
        """Return False if the connection is known to be lost."""
        return not self._raw.broken and not self._raw.closed

    def close(self) -> None:
        """Close the connection. Errors of the server while closing are ignored."""
        with suppress(self._error):
            self._raw.close()

    def _failure(self, error: Exception) -> StoreError:
        # The text of an error of PostgreSQL may quote values; its class says what happened.
        if not self.usable():
            return StoreAway(f"{self._name} was lost: {type(error).__name__}")
        state = getattr(error, "sqlstate", None) or ""
        if state == _FULL:
            return StoreUnavailable(f"{self._name} cannot grow: the disk of the server is full")
        kind = _PASSING.get(state, StoreUnavailable)
        if kind is StoreAway:
            self.close()
        return kind(f"{self._name} cannot be used: {type(error).__name__}")


@lru_cache(1_024)
def _spelled(statement: str) -> bytes:
    return statement.replace("?", POSTGRESQL.placeholder).encode()


def _without_password(url: str) -> str:
    """Return the host and the database of a URL. A URL that is not valid may have its password anywhere."""
    with suppress(ValueError):
        parts = urlsplit(url)
        if "@" not in f"{parts.path}{parts.query}{parts.fragment}":
            return f"postgresql://{parts.hostname or ''}{parts.path}"
    return "postgresql://"


@cache
def _library() -> Any:
    try:
        return import_module("psycopg")
    except ImportError:
        raise StoreUnavailable(
            "a store in PostgreSQL needs the package psycopg: pip install 'trilogue[postgresql]'"
        ) from None
