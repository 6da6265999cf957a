"""Reasoning that clients cannot return: kept by tool call or response, and found again for the next request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trilogue.gateway.conversations.store.storage import DatabaseTransaction, StorePart, is_storable, reading, writing
from trilogue.gateway.conversations.store.types import StoredReasoning
from trilogue.storage.database import Row

COLUMNS = "owner, id, content"
_OLD_SIZES = "SELECT size FROM trl_reasoning WHERE owner = ? AND id = ?"
_PUT = (
    "INSERT INTO trl_reasoning (owner, id, used, expires, size, content) VALUES (?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (owner, id) DO UPDATE SET used = excluded.used, expires = excluded.expires, size = excluded.size, "
    "content = excluded.content"
)
_FIND = "SELECT owner, id, content FROM trl_reasoning WHERE owner = ? AND expires > ? AND id IN (LIST)"
_AT_ONCE = 100


class ReasoningTable(StorePart):
    """The reasoning of all owners."""

    @writing
    def keep(self, transaction: DatabaseTransaction, pieces: Iterable[StoredReasoning]) -> None:
        """Keep reasoning, in place of what was kept under the same key. Keys that cannot be stored are ignored."""
        now, expires = transaction.now, transaction.now + self._limits.reasoning_seconds
        for piece in pieces:
            if not is_storable(piece.key):
                continue
            content = self._contents.encrypt(piece.data, piece.owner, "reasoning", piece.key)
            old = transaction.first(_OLD_SIZES, piece.owner, piece.key)
            transaction.rows(_PUT, piece.owner, piece.key, now, expires, len(content), content)
            transaction.charge(piece.owner, len(content) - (old[0] if old else 0))

    @reading
    def find(self, transaction: DatabaseTransaction, owner: str, keys: Sequence[str]) -> dict[str, bytes]:
        """Return what is kept under these keys. Raise ContentUnreadable."""
        wanted = [key for key in dict.fromkeys(keys) if is_storable(key)]
        found: dict[str, bytes] = {}
        for start in range(0, len(wanted), _AT_ONCE):
            some = wanted[start : start + _AT_ONCE]
            rows = transaction.rows(_FIND.replace("LIST", ", ".join("?" * len(some))), owner, transaction.now, *some)
            found.update((piece.key, piece.data) for piece in map(self.export, rows))
        return found

    def export(self, row: Row) -> StoredReasoning:
        """Return the reasoning in a row of `COLUMNS`. Raise ContentUnreadable."""
        owner, key, content = row
        return StoredReasoning(owner, key, self._contents.decrypt(content, owner, "reasoning", key))
