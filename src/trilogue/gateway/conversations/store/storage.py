"""The database of the store of responses, and what its parts share: encryption, limits, and usage per owner."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from heapq import merge
from operator import itemgetter
from typing import Concatenate, ParamSpec, TypeVar

import msgspec

from trilogue.base.cipher import KEY_BYTES, NONCE_BYTES, TAG_BYTES, Changed, Cipher
from trilogue.gateway.conversations.store.types import ContentUnreadable, StoreLimits
from trilogue.storage.database import Database, DatabaseConnection
from trilogue.storage.migrations import Migration, TableSchema
from trilogue.storage.transactions import SqlTransaction, Transactions

_RESPONSES = (
    """CREATE TABLE trl_response (
        seq {serial}, owner TEXT NOT NULL, id TEXT NOT NULL, previous TEXT, conversation TEXT, status TEXT NOT NULL,
        failure TEXT NOT NULL DEFAULT '', provider TEXT, account TEXT, used {real} NOT NULL, expires {real} NOT NULL,
        size BIGINT NOT NULL, content {blob} NOT NULL
    )""",
    "CREATE UNIQUE INDEX trl_response_id ON trl_response (owner, id)",
    "CREATE INDEX trl_response_used ON trl_response (owner, used)",
    "CREATE INDEX trl_response_expires ON trl_response (expires)",
    # Which responses hold an item, for references to it.
    """CREATE TABLE trl_response_item (
        owner TEXT NOT NULL, id TEXT NOT NULL, response BIGINT NOT NULL REFERENCES trl_response (seq) ON DELETE CASCADE,
        PRIMARY KEY (owner, id, response)
    {clustered}""",
    "CREATE INDEX trl_response_item_response ON trl_response_item (response)",
    "CREATE TABLE trl_usage (owner TEXT PRIMARY KEY, bytes BIGINT NOT NULL)",
)
_CONVERSATIONS = (
    """CREATE TABLE trl_conversation (
        seq {serial}, owner TEXT NOT NULL, id TEXT NOT NULL, provider TEXT, account TEXT, created {real} NOT NULL,
        used {real} NOT NULL, expires {real} NOT NULL, size BIGINT NOT NULL, next_number BIGINT NOT NULL DEFAULT 0,
        holder TEXT NOT NULL DEFAULT '', held_until {real} NOT NULL DEFAULT 0, content {blob} NOT NULL
    )""",
    "CREATE UNIQUE INDEX trl_conversation_id ON trl_conversation (owner, id)",
    "CREATE INDEX trl_conversation_used ON trl_conversation (owner, used)",
    "CREATE INDEX trl_conversation_expires ON trl_conversation (expires)",
    """CREATE TABLE trl_conversation_item (
        conversation BIGINT NOT NULL REFERENCES trl_conversation (seq) ON DELETE CASCADE, number BIGINT NOT NULL,
        owner TEXT NOT NULL, id TEXT NOT NULL, size BIGINT NOT NULL, content {blob} NOT NULL,
        PRIMARY KEY (conversation, number)
    )""",
    "CREATE INDEX trl_conversation_item_id ON trl_conversation_item (owner, id)",
)
_JOBS = (
    """CREATE TABLE trl_job (
        response BIGINT PRIMARY KEY REFERENCES trl_response (seq) ON DELETE CASCADE, owner TEXT NOT NULL,
        id TEXT NOT NULL, worker TEXT NOT NULL, seen {real} NOT NULL, cancel INTEGER NOT NULL DEFAULT 0,
        ended INTEGER NOT NULL DEFAULT 0, last_event BIGINT NOT NULL DEFAULT -1, size BIGINT NOT NULL DEFAULT 0
    )""",
    "CREATE UNIQUE INDEX trl_job_id ON trl_job (owner, id)",
    "CREATE INDEX trl_job_worker ON trl_job (worker) WHERE ended = 0",
    "CREATE INDEX trl_job_seen ON trl_job (seen) WHERE ended = 0",
    # One row holds the events that were written together, from `first` to `last`.
    """CREATE TABLE trl_job_event (
        response BIGINT NOT NULL REFERENCES trl_job (response) ON DELETE CASCADE, last BIGINT NOT NULL,
        first BIGINT NOT NULL, content {blob} NOT NULL, PRIMARY KEY (response, last)
    )""",
)
_REASONING = (
    """CREATE TABLE trl_reasoning (
        seq {serial}, owner TEXT NOT NULL, id TEXT NOT NULL, used {real} NOT NULL, expires {real} NOT NULL,
        size BIGINT NOT NULL, content {blob} NOT NULL
    )""",
    "CREATE UNIQUE INDEX trl_reasoning_id ON trl_reasoning (owner, id)",
    "CREATE INDEX trl_reasoning_used ON trl_reasoning (owner, used)",
    "CREATE INDEX trl_reasoning_expires ON trl_reasoning (expires)",
)
_OBJECTS = (
    """CREATE TABLE trl_object (
        provider TEXT NOT NULL, id TEXT NOT NULL, owner TEXT NOT NULL, team TEXT NOT NULL DEFAULT '',
        made {real} NOT NULL, PRIMARY KEY (provider, id)
    {clustered}""",
    # A request names an object by its id alone.
    "CREATE INDEX trl_object_id ON trl_object (id)",
    "CREATE INDEX trl_object_owner ON trl_object (owner)",
)
MIGRATIONS = (
    Migration(1, _RESPONSES),
    Migration(2, _CONVERSATIONS),
    Migration(3, _JOBS),
    Migration(4, _REASONING),
    Migration(5, _OBJECTS),
)
SCHEMA = TableSchema("trl_migration", MIGRATIONS)


VERSION = b"\x01"
KEY_ID_BYTES = 4
CACHED_OWNERS = 4_096
_NONCE_AT = len(VERSION) + KEY_ID_BYTES
_TEXT_AT = _NONCE_AT + NONCE_BYTES
OVERHEAD = _TEXT_AT + TAG_BYTES
"""How much longer ciphertext is than what was encrypted."""


class Contents:
    """Encryption for one store. `keys`: 32 bytes each; the first encrypts, and all of them decrypt."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        if not keys or any(len(key) != KEY_BYTES for key in keys):
            raise ValueError(f"a store needs keys of {KEY_BYTES} bytes")
        self._keys = {_key_id(key): key for key in reversed(keys)}
        self._newest = _key_id(keys[0])
        self._cipher = lru_cache(CACHED_OWNERS)(self._derive)

    def encrypt(self, data: bytes, owner: str, *names: str | int | None) -> bytes:
        """Return the ciphertext of a row's content."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        text = self._cipher(self._newest, owner).encrypt(nonce, data, _bound(names))
        return b"".join((VERSION, self._newest, nonce, text))

    def decrypt(self, data: bytes, owner: str, *names: str | int | None) -> bytes:
        """Return a row's content. Raise ContentUnreadable."""
        key_id = data[len(VERSION) : _NONCE_AT]
        if data[: len(VERSION)] != VERSION or key_id not in self._keys:
            raise ContentUnreadable("stored content was encrypted with a key that this gateway does not have")
        try:
            return self._cipher(key_id, owner).decrypt(data[_NONCE_AT:_TEXT_AT], data[_TEXT_AT:], _bound(names))
        except Changed:
            raise ContentUnreadable("stored content was changed, or moved from another row") from None

    def _derive(self, key_id: bytes, owner: str) -> Cipher:
        return Cipher(hmac.digest(self._keys[key_id], b"trilogue stored content\0" + owner.encode(), "sha256"))


def _key_id(key: bytes) -> bytes:
    return hashlib.sha256(b"trilogue key id\0" + key).digest()[:KEY_ID_BYTES]


def _bound(names: tuple[str | int | None, ...]) -> bytes:
    # MessagePack and not a separator: upstreams choose ids, and two lists of ids must never look the same.
    return msgspec.msgpack.encode(names)


T = TypeVar("T")
P = ParamSpec("P")

MAX_ID = 256


class DatabaseTransaction(SqlTransaction):
    """The statements of one thread. `charges`: bytes added or freed per owner."""

    def __init__(self, connection: DatabaseConnection, now: float) -> None:
        super().__init__(connection, now)
        self.charges: dict[str, int] = {}

    def charge(self, owner: str, size: int) -> None:
        """Count bytes that were added, or freed if negative."""
        self.charges[owner] = self.charges.get(owner, 0) + size


class Storage(Transactions[DatabaseTransaction]):
    """A database with its encryption and limits. `settle` applies `charges` and the limits."""

    def __init__(self, database: Database, contents: Contents, limits: StoreLimits) -> None:
        super().__init__(database, SCHEMA, DatabaseTransaction)
        self.contents = contents
        self.limits = limits


class StorePart:
    """A part of the store: responses, conversations, jobs, reasoning or owners."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._contents = storage.contents
        self._limits = storage.limits

    def run_read(self, work: Callable[[DatabaseTransaction], T]) -> T:
        """Run a function that only reads and return its result, as `Storage.read` does."""
        return self._storage.read(work)

    def run_write(self, work: Callable[[DatabaseTransaction], T]) -> T:
        """Run a function in a transaction and return its result, as `Storage.write` does."""
        return self._storage.write(work)


S = TypeVar("S", bound=StorePart)


def reading(method: Callable[Concatenate[S, DatabaseTransaction, P], T]) -> Callable[Concatenate[S, P], T]:
    """Make a method that takes a transaction into one that runs in a transaction of its own, to read."""

    @wraps(method)
    def run(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.run_read(lambda transaction: method(self, transaction, *args, **kwargs))

    return run


def writing(method: Callable[Concatenate[S, DatabaseTransaction, P], T]) -> Callable[Concatenate[S, P], T]:
    """Make a method that takes a transaction into one that joins the current transaction or commits its own."""

    @wraps(method)
    def run(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.run_write(lambda transaction: method(self, transaction, *args, **kwargs))

    return run


def is_storable(identifier: str) -> bool:
    """Return whether an id can be a key in every engine: no NUL, no surrogates, and short enough for an index."""
    return 0 < len(identifier) <= MAX_ID and identifier.isprintable()


RESPONSE, CONVERSATION, REASONING = TABLES = ("trl_response", "trl_conversation", "trl_reasoning")
BATCH = 100
"""Rows that one transaction looks at: others wait for it."""


def per_table(statement: str) -> dict[str, str]:
    """Return a statement for each of the tables that count."""
    return {table: statement.replace("TABLE", table) for table in TABLES}


_DELETE = per_table("DELETE FROM TABLE WHERE seq = ? RETURNING owner, size")
_OLDEST = per_table("SELECT used, 'TABLE', seq, size FROM TABLE WHERE owner = ? ORDER BY used, seq LIMIT ?") | {
    # A running job is never deleted to make room: its response is being paid for.
    RESPONSE: "SELECT used, 'trl_response', seq, size FROM trl_response WHERE owner = ? "
    "AND status NOT IN ('queued', 'in_progress') ORDER BY used, seq LIMIT ?"
}
_EXPIRED = per_table("SELECT seq FROM TABLE WHERE expires <= ? ORDER BY expires LIMIT ?")
_NEXT_TO_EXPIRE = per_table("SELECT expires, 'TABLE', seq, size FROM TABLE ORDER BY expires LIMIT ?")
_CHARGE = (
    "INSERT INTO trl_usage (owner, bytes) VALUES (?, ?) "
    "ON CONFLICT (owner) DO UPDATE SET bytes = trl_usage.bytes + excluded.bytes RETURNING bytes"
)


def settle(transaction: DatabaseTransaction, limits: StoreLimits) -> None:
    """Add what a transaction has written to the sums of its owners, and delete the oldest of those above the limit.

    Owners come in order, so that two machines never wait for each other's.
    """
    charges, transaction.charges = transaction.charges, {}
    for owner, size in sorted(charges.items()):
        total = _charge(transaction, owner, size)
        if limits.owner_bytes is not None and size > 0 and total > limits.owner_bytes:
            _free(transaction, owner, total - limits.owner_bytes)
    for owner, size in sorted(transaction.charges.items()):
        _charge(transaction, owner, size)
    transaction.charges = {}


def delete_row(transaction: DatabaseTransaction, table: str, seq: int) -> None:
    """Delete a row and all that belongs to it, and count what that frees."""
    if table == RESPONSE:
        # The response takes its job along, but the job's events were counted as well.
        for owner, size in transaction.rows("DELETE FROM trl_job WHERE response = ? RETURNING owner, size", seq):
            transaction.charge(owner, -size)
    for owner, size in transaction.rows(_DELETE[table], seq):
        transaction.charge(owner, -size)


def prune(transaction: DatabaseTransaction, limits: StoreLimits) -> int:
    """Delete some of what has expired, and some of the oldest if all owners together have too much.

    Return how many rows were deleted: more may be left unless it is 0.
    """
    expired = [(table, seq) for table in TABLES for (seq,) in transaction.rows(_EXPIRED[table], transaction.now, BATCH)]
    for table, seq in expired:
        delete_row(transaction, table, seq)
    return len(expired) or _prune_total(transaction, limits)


def _prune_total(transaction: DatabaseTransaction, limits: StoreLimits) -> int:
    row = transaction.first("SELECT coalesce(sum(bytes), 0) FROM trl_usage")
    if limits.total_bytes is None or row is None or row[0] <= limits.total_bytes:
        return 0
    excess, deleted = int(row[0]) - limits.total_bytes, 0
    for _, table, seq, size in merge(
        *(transaction.rows(_NEXT_TO_EXPIRE[table], BATCH) for table in TABLES), key=itemgetter(0)
    ):
        if excess <= 0:
            break
        delete_row(transaction, table, seq)
        excess, deleted = excess - size, deleted + 1
    return deleted


def _free(transaction: DatabaseTransaction, owner: str, excess: int) -> None:
    while excess > 0:
        rows = list(merge(*(transaction.rows(_OLDEST[table], owner, BATCH) for table in TABLES), key=itemgetter(0, 2)))[
            :BATCH
        ]
        for _, table, seq, size in rows:
            if excess <= 0:
                return
            delete_row(transaction, table, seq)
            excess -= size
        if not rows:
            return


def _charge(transaction: DatabaseTransaction, owner: str, size: int) -> int:
    row = transaction.first(_CHARGE, owner, size)
    return int(row[0]) if row else 0
