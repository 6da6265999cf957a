"""The audit log: who changed what, and what it was before.

Entries are only ever added: there is no method that changes or deletes one, and the database refuses both.
"""

from __future__ import annotations

import json

from msgspec import Struct

from trilogue.model import Json
from trilogue.storage.database import Row, StoreDamaged
from trilogue.storage.transactions import SqlTransaction, Transactions

_INSERT = "INSERT INTO trl_audit (made, who, via, what, subject, before, after) VALUES (?, ?, ?, ?, ?, ?, ?)"
_SELECT = "SELECT seq, made, who, via, what, subject, before, after FROM trl_audit"
_USE_ONCE = "INSERT INTO trl_once (digest, ends) VALUES (?, ?) ON CONFLICT (digest) DO NOTHING RETURNING digest"
_ENDED = "SELECT digest FROM trl_once WHERE digest >= 'session:' AND digest < 'session;' AND ends > ?"
_FORGET_USED = "DELETE FROM trl_once WHERE ends < ?"
SESSION = "session:"
"""how the digest of a session that was ended begins, among those of what must not be used again"""
COMMAND_LINE = "command line"
"""`via` of a change by a command"""


class Actor(Struct, frozen=True):
    """Who makes a change. `via`: how they are known, such as key, session, proxy or the command line."""

    who: str
    via: str = ""


class AuditEntry(Struct, frozen=True, kw_only=True):
    """One change. `before` and `after`: the values that changed, without secrets."""

    number: int = 0
    at: float = 0.0
    who: str
    via: str = ""
    what: str
    subject: str
    before: Json = None
    after: Json = None


class AuditQuery(Struct, frozen=True, kw_only=True):
    """Which entries are asked for. `before`: only those with a smaller number, for the next page.

    `since` and `until`: in seconds since 1970, the first one included.
    """

    limit: int = 100
    before: int | None = None
    who: str = ""
    what: str = ""
    subject: str = ""
    since: float | None = None
    until: float | None = None


_CONDITIONS = {
    "before": "seq < ?",
    "who": "who = ?",
    "what": "what = ?",
    "subject": "subject = ?",
    "since": "made >= ?",
    "until": "made < ?",
}
"""by the field of `AuditQuery`"""


class AuditLog:
    """The log in a database. Every method may block."""

    def __init__(self, transactions: Transactions[SqlTransaction]) -> None:
        self._transactions = transactions

    def add(self, entry: AuditEntry) -> None:
        """Add an entry, in the transaction of the change that it is about if there is one."""
        values = json.dumps(entry.before), json.dumps(entry.after)
        self._transactions.write(
            lambda transaction: transaction.rows(
                _INSERT, transaction.now, entry.who, entry.via, entry.what, entry.subject, *values
            )
        )

    def find(self, query: AuditQuery) -> list[AuditEntry]:
        """Return the entries that a query asks for, newest first."""
        given = {name: getattr(query, name) for name in _CONDITIONS}
        wanted = {name: value for name, value in given.items() if value not in ("", None)}
        where = ["WHERE", " AND ".join(_CONDITIONS[name] for name in wanted)] if wanted else []
        statement = " ".join([_SELECT, *where, "ORDER BY seq DESC LIMIT ?"])
        rows = self._transactions.read(lambda transaction: transaction.rows(statement, *wanted.values(), query.limit))
        return [_entry(row) for row in rows]

    def use_once(self, digest: str, ends: float) -> bool:
        """Return whether this digest is used for the first time, on any machine. It is remembered until `ends`."""

        def work(transaction: SqlTransaction) -> bool:
            transaction.rows(_FORGET_USED, transaction.now)
            return transaction.first(_USE_ONCE, digest, ends) is not None

        return self._transactions.write(work)

    def ended_sessions(self) -> frozenset[str]:
        """Return the digests of sessions that were ended and would not have ended by themselves yet."""
        rows = self._transactions.read(lambda transaction: transaction.rows(_ENDED, transaction.now))
        return frozenset(str(row[0]).removeprefix(SESSION) for row in rows)


def _entry(row: Row) -> AuditEntry:
    number, at, who, via, what, subject, before, after = row
    try:
        values = json.loads(before), json.loads(after)
    except (ValueError, TypeError):
        raise StoreDamaged(f"entry {number} of the audit log is not what was written") from None
    return AuditEntry(
        number=number,
        at=at,
        who=who,
        via=via,
        what=what,
        subject=subject,
        before=values[0],
        after=values[1],
    )
