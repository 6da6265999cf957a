"""The audit log: who changed what, and what it was before. Entries are only ever added."""

from __future__ import annotations

import json

from msgspec import Struct

from trilogue.model import Json
from trilogue.state.database.transactions import SqlTransaction, Transactions

_INSERT = "INSERT INTO trl_audit (made, who, what, subject, before, after) VALUES (?, ?, ?, ?, ?, ?)"
_LATEST = "SELECT seq, made, who, what, subject, before, after FROM trl_audit WHERE seq < ? ORDER BY seq DESC LIMIT ?"
_NEWEST = 2**62


class AuditEntry(Struct, frozen=True, kw_only=True):
    """One change. `before` and `after`: the values that changed, without secrets."""

    number: int = 0
    at: float = 0.0
    who: str
    what: str
    subject: str
    before: Json = None
    after: Json = None


class AuditLog:
    """The log in a database. Every method may block."""

    def __init__(self, transactions: Transactions[SqlTransaction]) -> None:
        self._transactions = transactions

    def add(self, entry: AuditEntry) -> None:
        """Add an entry, in the transaction of the change that it is about if there is one."""
        values = entry.who, entry.what, entry.subject, json.dumps(entry.before), json.dumps(entry.after)
        self._transactions.write(lambda transaction: transaction.rows(_INSERT, transaction.now, *values))

    def latest(self, count: int, before: int = _NEWEST) -> list[AuditEntry]:
        """Return the latest entries, newest first. `before`: only those with a smaller number."""
        rows = self._transactions.read(lambda transaction: transaction.rows(_LATEST, before, count))
        return [
            AuditEntry(
                number=number,
                at=at,
                who=who,
                what=what,
                subject=subject,
                before=json.loads(old),
                after=json.loads(new),
            )
            for number, at, who, what, subject, old, new in rows
        ]
