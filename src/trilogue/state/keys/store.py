"""Client keys in a database: made, changed, rotated, revoked and listed. Every change is in the audit log.

Every method may block; use it from threads. Texts of keys are never stored.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from trilogue.keys import KeyOptions, ManagedKey, key_digest, new_key_id, new_key_text, shown_end
from trilogue.model import Json
from trilogue.state.database import Database, Row
from trilogue.state.database.transactions import SqlTransaction, Transactions
from trilogue.state.keys.audit import Actor, AuditEntry, AuditLog
from trilogue.state.keys.schema import SCHEMA
from trilogue.state.store import StoreError

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
_CHANGED = "UPDATE trl_key_revision SET number = number + 1"
_REVISION = "SELECT number FROM trl_key_revision"


class NoSuchKey(StoreError):
    """A key that does not exist."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no client key {name}")


class KeyExists(StoreError):
    """A name that another key has."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is a client key {name} already; choose another name, or rotate it")


class KeyStore:
    """The keys in one database. `actor` of the changing methods: who makes the change."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._transactions = Transactions(database, SCHEMA, SqlTransaction)
        self.audit = AuditLog(self._transactions)
        self.close = self._transactions.close

    @property
    def name(self) -> str:
        """Where the keys are, for messages; no password."""
        return self.database.name

    def revision(self) -> int:
        """Return a number that grows with every change of a key."""
        row = self._transactions.read(lambda transaction: transaction.first(_REVISION))
        return int(row[0]) if row is not None else 0

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
        return self._changed(
            name, "revoke key", actor, lambda key, now: replace(key, revoked=now, stops_streams=stop_streams)
        )

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
        transaction.rows(_CHANGED)
        before, after = values
        self.audit.add(
            AuditEntry(who=actor.who, via=actor.via, what=what, subject=key.name, before=before, after=after)
        )


def _found(transaction: SqlTransaction, name: str) -> ManagedKey:
    row = transaction.first(_ONE, name, name)
    if row is None:
        raise NoSuchKey(name)
    return _key(row)


def _key(row: Row) -> ManagedKey:
    identifier, name, options, digests, shown, created, expires, revoked, stops = row
    return ManagedKey(
        id=identifier,
        name=name,
        # A newer version may have written options that this one does not know: it ignores them.
        options=msgspec.convert(_known_options(options), KeyOptions),
        digests=tuple((digest, until) for digest, until in json.loads(digests)),
        shown=shown,
        created=created,
        expires=expires,
        revoked=revoked,
        stops_streams=bool(stops),
    )


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
