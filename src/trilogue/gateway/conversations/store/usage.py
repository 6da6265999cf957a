"""Limits: how many bytes each owner has, what is deleted when that is too much, and what has expired.

Three tables count: responses (with the events of their jobs), conversations (with their items) and reasoning. Sums are
kept per owner, in the transaction that changes them, so that a limit costs the same with a million rows as with ten.
"""

from __future__ import annotations

from heapq import merge
from operator import itemgetter

from trilogue.gateway.conversations.store.interface import StoreLimits
from trilogue.gateway.conversations.store.storage import DatabaseTransaction

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
