"""Whose the objects are that a vendor keeps for the gateway's account, such as files and batches: by provider and id.

Only who may use them is kept here, not what they are. An object belongs to the client key that made it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trilogue.gateway.conversations.store.interface import ObjectOwner
from trilogue.gateway.conversations.store.storage import DatabaseTransaction, StorePart, is_storable, reading, writing

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
