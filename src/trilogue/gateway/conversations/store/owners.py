"""What is kept for whom: statistics, export and deletion by owner, and removal of what has expired."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from trilogue.gateway.conversations.store import conversations, reasoning, responses
from trilogue.gateway.conversations.store.conversations import Conversations
from trilogue.gateway.conversations.store.reasoning import ReasoningTable
from trilogue.gateway.conversations.store.responses import Responses
from trilogue.gateway.conversations.store.storage import (
    BATCH,
    TABLES,
    DatabaseTransaction,
    Storage,
    StorePart,
    delete_row,
    is_storable,
    per_table,
    prune,
    reading,
    writing,
)
from trilogue.gateway.conversations.store.types import (
    ConversationItem,
    ObjectOwner,
    OwnerStatistics,
    StoredConversation,
    StoredReasoning,
    StoredResponse,
)
from trilogue.storage.database import Row

Exported = StoredResponse | StoredConversation | ConversationItem | StoredReasoning

_COUNT = per_table("SELECT owner, count(*), min(used), max(used) FROM TABLE GROUP BY owner")
_OF_OWNER = per_table("SELECT seq FROM TABLE WHERE owner = ? ORDER BY used LIMIT ?")
_EXPORT_RESPONSES = (
    "SELECT COLUMNS, seq FROM trl_response WHERE owner = ? AND seq > ? AND expires > ? ORDER BY seq LIMIT ?"
).replace("COLUMNS", responses.COLUMNS)
_EXPORT_CONVERSATIONS = (
    "SELECT COLUMNS, seq FROM trl_conversation WHERE owner = ? AND seq > ? AND expires > ? ORDER BY seq LIMIT ?"
).replace("COLUMNS", conversations.COLUMNS)
_EXPORT_REASONING = (
    "SELECT COLUMNS, seq FROM trl_reasoning WHERE owner = ? AND seq > ? AND expires > ? ORDER BY seq LIMIT ?"
).replace("COLUMNS", reasoning.COLUMNS)
_EXPORT_ITEMS = (
    "SELECT COLUMNS FROM trl_conversation JOIN trl_conversation_item AS item ON conversation = seq "
    "WHERE seq = ? ORDER BY number"
).replace("COLUMNS", conversations.ITEM_COLUMNS)


class Owners(StorePart):
    """All owners. These operations read or delete many rows, each in small transactions: call them in a thread."""

    def __init__(self, storage: Storage, parts: tuple[Responses, Conversations, ReasoningTable]) -> None:
        super().__init__(storage)
        self._responses, self._conversations, self._reasoning = parts

    @reading
    def statistics(self, transaction: DatabaseTransaction) -> tuple[OwnerStatistics, ...]:
        """Return what is kept for each owner, the largest first."""
        counted = {table: {row[0]: row[1:] for row in transaction.rows(_COUNT[table])} for table in TABLES}
        sizes: dict[str, int] = dict(transaction.rows("SELECT owner, bytes FROM trl_usage"))
        owners = sorted(
            {owner for table in TABLES for owner in counted[table]}, key=lambda one: (-sizes.get(one, 0), one)
        )
        return tuple(_statistics(owner, sizes.get(owner, 0), counted) for owner in owners)

    def export(self, owner: str) -> Iterator[Exported]:
        """Yield everything that is kept for an owner. Raise ContentUnreadable."""
        for row in self._pages(_EXPORT_RESPONSES, owner):
            yield self._responses.export(row[:-1])
        for row in self._pages(_EXPORT_CONVERSATIONS, owner):
            yield self._conversations.export(row[:-1])
            yield from map(self._conversations.export_item, self._rows(_EXPORT_ITEMS, row[-1]))
        for row in self._pages(_EXPORT_REASONING, owner):
            yield self._reasoning.export(row[:-1])

    def delete(self, owner: str) -> int:
        """Delete everything that is kept for an owner, and return how many responses, conversations and so on."""
        return self._repeat(lambda: self.delete_some(owner))

    def prune(self) -> int:
        """Delete everything that has expired or is over the limit of all owners, and return how many rows."""
        return self._repeat(self.prune_some)

    @writing
    def prune_some(self, transaction: DatabaseTransaction) -> int:
        """Delete some of it, in one short transaction. Return how many rows; 0 means that nothing is left to do."""
        return prune(transaction, self._limits)

    @writing
    def delete_some(self, transaction: DatabaseTransaction, owner: str) -> int:
        """Delete some of what is kept for an owner, in one short transaction. Return how many; 0 means none is left."""
        found = [(table, seq) for table in TABLES for (seq,) in transaction.rows(_OF_OWNER[table], owner, BATCH)]
        for table, seq in found:
            delete_row(transaction, table, seq)
        if not found:
            transaction.rows("DELETE FROM trl_usage WHERE owner = ?", owner)
            # What a vendor still keeps for the key stays out of reach for all others: nobody is known to own it.
            transaction.rows("DELETE FROM trl_object WHERE owner = ?", owner)
        return len(found)

    @reading
    def _rows(self, transaction: DatabaseTransaction, statement: str, *values: object) -> list[Row]:
        return transaction.rows(statement, *values)

    def _pages(self, statement: str, owner: str) -> Iterator[Row]:
        after = -1
        while rows := self._rows(statement, owner, after, self._storage.database.now(), BATCH):
            yield from rows
            after = rows[-1][-1]

    def _repeat(self, step: Callable[[], int]) -> int:
        total = 0
        while deleted := step():
            total += deleted
        return total


def _statistics(owner: str, size: int, counted: dict[str, dict[str, tuple[Any, ...]]]) -> OwnerStatistics:
    counts = [counted[table].get(owner, (0, None, None)) for table in TABLES]
    oldest = min((count[1] for count in counts if count[1] is not None), default=0.0)
    newest = max((count[2] for count in counts if count[2] is not None), default=0.0)
    return OwnerStatistics(owner, counts[0][0], counts[1][0], counts[2][0], size, oldest, newest)


_NOTE = "INSERT INTO trl_object (provider, id, owner, team, made) VALUES (?, ?, ?, ?, ?) ON CONFLICT (provider, id) DO "
_KEPT = _NOTE + "NOTHING"
_REPLACED = _NOTE + "UPDATE SET owner = excluded.owner, team = excluded.team, made = excluded.made"
_FIND = "SELECT id, provider, owner, team FROM trl_object WHERE id IN (LIST)"
_FORGET = "DELETE FROM trl_object WHERE provider = ? AND id = ?"
_AT_ONCE = 100


class Objects(StorePart):
    """The owners of all objects."""

    @writing
    def note(
        self, transaction: DatabaseTransaction, ids: Iterable[str], owner: ObjectOwner, *, made: bool = False
    ) -> None:
        """Remember whose objects are. Ids that cannot be stored are ignored.

        `made`: they were made just now, so that what was known of these ids is out of date. Otherwise an object that
        has an owner keeps it.
        """
        rows = [
            (owner.provider, identifier, owner.key, owner.team, transaction.now)
            for identifier in sorted(set(ids))
            if is_storable(identifier)
        ]
        if rows:
            transaction.each(_REPLACED if made else _KEPT, rows)

    @reading
    def owners(self, transaction: DatabaseTransaction, ids: Sequence[str]) -> dict[str, tuple[ObjectOwner, ...]]:
        """Return who owns the objects with these ids, at each provider; those that are not known are left out."""
        wanted = [one for one in dict.fromkeys(ids) if is_storable(one)]
        found: dict[str, tuple[ObjectOwner, ...]] = {}
        for start in range(0, len(wanted), _AT_ONCE):
            some = wanted[start : start + _AT_ONCE]
            for identifier, provider, key, team in transaction.rows(
                _FIND.replace("LIST", ", ".join("?" * len(some))), *some
            ):
                found[identifier] = (*found.get(identifier, ()), ObjectOwner(provider, key, team))
        return found

    @writing
    def forget(self, transaction: DatabaseTransaction, provider: str, identifier: str) -> None:
        """Forget whose an object was that is not there any more."""
        transaction.rows(_FORGET, provider, identifier)
