"""Client keys in a database: made, changed, rotated, revoked and listed. Every change is in the audit log.

Every method may block; use it from threads. Texts of keys are never stored.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec.structs import replace

from trilogue.gateway.access.audit_log import SESSION, Actor, AuditEntry, AuditLog
from trilogue.gateway.access.client_keys import ManagedKey, key_digest, new_key_id, new_key_text, shown_end
from trilogue.gateway.access.settings import KeyOptions
from trilogue.model import Json
from trilogue.storage.database import Database, Row, StoreDamaged, StoreError, StoreUnavailable
from trilogue.storage.migrations import Migration, TableSchema
from trilogue.storage.transactions import SqlTransaction, Transactions

_KEYS = (
    """CREATE TABLE trl_key (
        id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, options TEXT NOT NULL, digests TEXT NOT NULL,
        shown TEXT NOT NULL, created {real} NOT NULL, expires {real}, revoked {real},
        stop_streams INTEGER NOT NULL DEFAULT 0
    )""",
    "CREATE TABLE trl_key_revision (id INTEGER PRIMARY KEY, number BIGINT NOT NULL)",
    "INSERT INTO trl_key_revision (id, number) VALUES (1, 0)",
    """CREATE TABLE trl_audit (
        seq {serial}, made {real} NOT NULL, who TEXT NOT NULL, what TEXT NOT NULL, subject TEXT NOT NULL,
        before TEXT NOT NULL, after TEXT NOT NULL
    )""",
)
_SIGN_ON = (
    "ALTER TABLE trl_audit ADD COLUMN via TEXT NOT NULL DEFAULT ''",
    "CREATE INDEX trl_audit_subject ON trl_audit (subject, seq)",
    "CREATE TABLE trl_once (digest TEXT PRIMARY KEY, ends {real} NOT NULL)",
)
_WITHOUT_REVOKED = ("UPDATE trl_key SET digests = '[]' WHERE revoked IS NOT NULL",)
"""a revoked key needs no digests, and without them no damage can make it work again"""
SCHEMA = TableSchema(
    versions="trl_key_migration",
    migrations=(
        Migration(1, _KEYS),
        Migration(2, _SIGN_ON, append_only=("trl_audit",)),
        Migration(3, _WITHOUT_REVOKED),
    ),
)


_ALL = (
    "SELECT id, name, options, digests, shown, created, expires, revoked, stop_streams FROM trl_key "
    "ORDER BY created, id"
)
_ONE = (
    "SELECT id, name, options, digests, shown, created, expires, revoked, stop_streams FROM trl_key "
    "WHERE id = ? OR name = ?"
)
_INSERT = (
    "INSERT INTO trl_key (id, name, options, digests, shown, created, expires) VALUES (?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (name) DO NOTHING RETURNING id"
)
_UPDATE = (
    "UPDATE trl_key SET options = ?, digests = ?, shown = ?, expires = ?, revoked = ?, stop_streams = ? WHERE id = ?"
)
_CHANGED = "UPDATE trl_key_revision SET number = number + 1 RETURNING number"
_REVISION = "SELECT number FROM trl_key_revision"
_MARK = (
    "A client key was made for this gateway. While this file is here, requests need a client key, whatever has become "
    "of the database of keys. See docs/keys.md.\n"
)


class KeyMark:
    """A file that says that a client key was ever made, whatever becomes of the database. `None`: nowhere."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def is_set(self) -> bool:
        """Return whether a key was ever made. Raise StoreUnavailable if that cannot be known."""
        return self._path is not None and exists(self._path)

    def set(self) -> None:
        """Remember that a key was made. Raise StoreUnavailable."""
        if self._path is None or exists(self._path):
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with os.fdopen(os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as file:
                file.write(_MARK)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise StoreUnavailable(f"cannot write {self._path}: {error.strerror}") from None


def exists(path: Path) -> bool:
    """Return whether there is a file. Raise StoreUnavailable if nobody can tell."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise StoreUnavailable(f"cannot look for {path}: {error.strerror}") from None
    return True


class NoSuchKey(StoreError):
    """A key that does not exist."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no client key {name}")


class KeyExists(StoreError):
    """A name that another key has."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is a client key {name} already; choose another name, or rotate it")


class KeyStore:
    """The keys in one database. `actor` of the changing methods: who makes the change.

    `mark`: where it is remembered that there were keys, before the first one works.
    """

    def __init__(self, database: Database, mark: Path | None = None) -> None:
        self.database = database
        self.mark = KeyMark(mark)
        self._transactions = Transactions(database, SCHEMA, SqlTransaction)
        self.audit = AuditLog(self._transactions)
        self.check = self._transactions.check
        self.close = self._transactions.close

    @property
    def name(self) -> str:
        """Where the keys are, for messages; no password."""
        return self.database.name

    def revision(self) -> int:
        """Return a number that grows with every change of a key, and with every session that is ended."""
        row = self._transactions.read(lambda transaction: transaction.first(_REVISION))
        if row is None or not isinstance(row[0], int):
            # Without it, nobody would learn of a key that is revoked.
            raise StoreDamaged(f"{self.name} is damaged: it has lost the number of its changes")
        return row[0]

    def all(self) -> list[ManagedKey]:
        """Return all keys, also expired and revoked ones, in the order in which they were made."""
        return [_key(row) for row in self._transactions.read(lambda transaction: transaction.rows(_ALL))]

    def find(self, name: str) -> ManagedKey:
        """Return the key of this id or name. Raises NoSuchKey."""
        return self._transactions.read(lambda transaction: _found(transaction, name))

    def create(self, name: str, options: KeyOptions, expires: float | None, actor: Actor) -> tuple[ManagedKey, str]:
        """Make a key, and return it with its text. Raises KeyExists."""
        text = new_key_text()

        def work(transaction: SqlTransaction) -> ManagedKey:
            key = ManagedKey(
                id=new_key_id(),
                name=name,
                options=options,
                digests=((key_digest(text), None),),
                shown=shown_end(text),
                created=transaction.now,
                expires=expires,
            )
            made = transaction.first(
                _INSERT, key.id, name, _json(options), json.dumps(key.digests), key.shown, key.created, expires
            )
            if made is None:
                raise KeyExists(name)
            self._note(transaction, actor, "create key", key, None, _shown(key))
            # Before the commit: a key that works must not be forgotten.
            self.mark.set()
            return key

        return self._transactions.write(work), text

    def change(self, name: str, options: KeyOptions, expires: float | None, actor: Actor) -> ManagedKey:
        """Give a key other options, and return it."""
        return self._changed(name, "change key", actor, lambda key, now: replace(key, options=options, expires=expires))

    def rotate(self, name: str, overlap: float, actor: Actor) -> tuple[ManagedKey, str]:
        """Give a key a new text, and return both. Texts before it work for `overlap` more seconds."""
        text = new_key_text()

        def work(key: ManagedKey, now: float) -> ManagedKey:
            kept = [
                (digest, now + overlap if until is None else min(until, now + overlap))
                for digest, until in key.digests
                if overlap > 0 and (until is None or until > now)
            ]
            return replace(key, digests=((key_digest(text), None), *kept), shown=shown_end(text))

        return self._changed(name, "rotate key", actor, work), text

    def revoke(self, name: str, actor: Actor, *, stop_streams: bool = False) -> ManagedKey:
        """Make a key stop working for good. `stop_streams`: also end the requests that run with it."""
        # Without its digests, no damage of the database can make it work again.
        return self._changed(
            name,
            "revoke key",
            actor,
            lambda key, now: replace(key, revoked=now, stops_streams=stop_streams, digests=()),
        )

    def end_session(self, digest: str, ends: float) -> None:
        """Remember that a session of the console was ended, until it would have ended by itself."""

        def work(transaction: SqlTransaction) -> None:
            self.audit.use_once(f"{SESSION}{digest}", ends)
            self._count_change(transaction)

        self._transactions.write(work)

    def _changed(
        self, name: str, what: str, actor: Actor, work: Callable[[ManagedKey, float], ManagedKey]
    ) -> ManagedKey:
        # Two machines may change a key at the same time, and neither change may undo the other.
        one = _ONE + self._transactions.database.dialect.for_update

        def change(transaction: SqlTransaction) -> ManagedKey:
            row = transaction.first(one, name, name)
            if row is None:
                raise NoSuchKey(name)
            old = _key(row)
            new = work(old, transaction.now)
            transaction.rows(
                _UPDATE,
                _json(new.options, row[2]),
                json.dumps(new.digests),
                new.shown,
                new.expires,
                new.revoked,
                int(new.stops_streams),
                new.id,
            )
            self._note(transaction, actor, what, new, _shown(old), _shown(new))
            return new

        return self._transactions.write(change)

    def _note(self, transaction: SqlTransaction, actor: Actor, what: str, key: ManagedKey, *values: Json) -> None:
        self._count_change(transaction)
        before, after = values
        self.audit.add(
            AuditEntry(who=actor.who, via=actor.via, what=what, subject=key.name, before=before, after=after)
        )

    def _count_change(self, transaction: SqlTransaction) -> None:
        """Let all gateways know that they must read again."""
        if not transaction.rows(_CHANGED):
            raise StoreDamaged(f"{self.name} is damaged: it has lost the number of its changes")


def _found(transaction: SqlTransaction, name: str) -> ManagedKey:
    row = transaction.first(_ONE, name, name)
    if row is None:
        raise NoSuchKey(name)
    return _key(row)


def _key(row: Row) -> ManagedKey:
    """Return the key of a row. Raise StoreDamaged if it is not what was written: the database checks no types."""
    identifier, name, options, digests, shown, created, expires, revoked, stops = row
    try:
        fields = {
            "id": identifier,
            "name": name,
            # A newer version may have written options that this one does not know: it ignores them.
            "options": _known_options(options),
            "digests": json.loads(digests),
            "shown": shown,
            "created": created,
            "expires": expires,
            "revoked": revoked,
            "stops_streams": {0: False, 1: True}[stops],
        }
        return msgspec.convert(fields, ManagedKey)
    except (ValueError, TypeError, KeyError, AttributeError, msgspec.ValidationError):
        raise StoreDamaged("a client key in the database is not what was written") from None


def _known_options(text: str) -> dict[str, Json]:
    return {name: value for name, value in json.loads(text).items() if name in KeyOptions.__struct_fields__}


def _json(options: KeyOptions, before: str = "{}") -> str:
    """Return options as text. `before`: the text that they replace; what a newer version has added to it stays."""
    added = {name: value for name, value in json.loads(before).items() if name not in KeyOptions.__struct_fields__}
    return json.dumps({**msgspec.to_builtins(options), **added})


def _shown(key: ManagedKey) -> Json:
    """Return what the audit log shows of a key: no digests."""
    return {
        "options": msgspec.to_builtins(key.options),
        "expires": key.expires,
        "revoked": key.revoked,
        "shown": key.shown,
    }
