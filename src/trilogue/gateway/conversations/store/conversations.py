"""Conversations and their items, in an order that never changes.

A request that will append takes a lease on the conversation first. Until it appends, gives the lease back or lets it
expire, others are refused: what a model was asked always includes what was appended before.
"""

from __future__ import annotations

from collections.abc import Sequence

from trilogue.gateway.conversations.store.storage import (
    CONVERSATION,
    OVERHEAD,
    DatabaseTransaction,
    StorePart,
    delete_row,
    is_storable,
    reading,
    writing,
)
from trilogue.gateway.conversations.store.types import (
    Append,
    ConversationItem,
    ConversationLease,
    ConversationLocked,
    ItemPage,
    NotFound,
    NotStorable,
    OriginAccount,
    PageRequest,
    StoredConversation,
    StoredItem,
)
from trilogue.storage.database import Row

COLUMNS = "owner, id, provider, account, created, expires, content, seq, size"
ITEM_COLUMNS = "trl_conversation.owner, trl_conversation.id, number, item.id, item.size, item.content"
_ITEMS_FROM = "FROM trl_conversation JOIN trl_conversation_item AS item ON conversation = seq "
_GET = "SELECT COLUMNS FROM trl_conversation WHERE owner = ? AND id = ? AND expires > ?".replace("COLUMNS", COLUMNS)
_CREATE = (
    "INSERT INTO trl_conversation (owner, id, provider, account, created, used, expires, size, content) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING seq"
)
_UPDATE = "UPDATE trl_conversation SET content = ?, size = size + ?, used = ?, expires = ? WHERE seq = ?"
# Each of these is one statement, so that of two requests only one can succeed, on every engine.
_LOCK = (
    "UPDATE trl_conversation SET holder = ?, held_until = ? "
    "WHERE owner = ? AND id = ? AND expires > ? AND (held_until <= ? OR holder = ?) RETURNING seq"
)
_UNLOCK = "UPDATE trl_conversation SET holder = '', held_until = 0 WHERE owner = ? AND id = ? AND holder = ?"
_APPEND = (
    "UPDATE trl_conversation SET next_number = next_number + ?, used = ?, expires = ?, holder = '', held_until = 0 "
    "WHERE owner = ? AND id = ? AND expires > ? AND (CASE WHEN ? = '' THEN held_until <= ? ELSE holder = ? END) "
    "RETURNING seq, next_number"
)
_GROW = "UPDATE trl_conversation SET size = size + ? WHERE seq = ?"
_PUT_ITEM = (
    "INSERT INTO trl_conversation_item (conversation, number, owner, id, size, content) VALUES (?, ?, ?, ?, ?, ?)"
)
_ITEM = (
    f"SELECT {ITEM_COLUMNS} {_ITEMS_FROM}"
    "WHERE trl_conversation.owner = ? AND trl_conversation.id = ? AND item.id = ? AND expires > ? "
    "ORDER BY number DESC LIMIT 1"
)
_FIND_ITEM = (
    f"SELECT {ITEM_COLUMNS} {_ITEMS_FROM}"
    "WHERE item.owner = ? AND item.id = ? AND expires > ? ORDER BY seq DESC, number DESC LIMIT 1"
)
_PAGE = {
    descending: f"SELECT {ITEM_COLUMNS} {_ITEMS_FROM}"
    f"WHERE seq = ? AND number {'<' if descending else '>'} ? ORDER BY number {'DESC' if descending else ''} LIMIT ?"
    for descending in (True, False)
}
_FAR = 2**62
LEASE_SECONDS = 60.0
"""How long a request has a conversation unless it extends that."""


class Conversations(StorePart):
    """The conversations of all owners. An id of another owner is unknown, as is one that has expired."""

    @writing
    def create(
        self, transaction: DatabaseTransaction, conversation: StoredConversation, items: Sequence[StoredItem] = ()
    ) -> None:
        """Store a new conversation with its first items. Raise NotStorable, also if the id is taken."""
        owner, identifier = conversation.owner, conversation.id
        if not is_storable(owner) or not is_storable(identifier):
            raise NotStorable("the conversation has an id that cannot be stored")
        self._check(items, len(conversation.metadata) + OVERHEAD)
        origin = conversation.origin
        content = self._encrypt_metadata(owner, identifier, conversation.metadata)
        now, expires = transaction.now, transaction.now + self._limits.seconds
        named = (owner, identifier, origin.provider if origin else None, origin.account if origin else None)
        if not transaction.rows(_CREATE, *named, now, now, expires, len(content), content):
            raise NotStorable("a conversation with this id exists")
        transaction.charge(owner, len(content))
        self._append(transaction, ConversationLease(owner, identifier, ""), items)

    @reading
    def get(self, transaction: DatabaseTransaction, owner: str, identifier: str) -> StoredConversation:
        """Return a conversation. Raise NotFound or ContentUnreadable."""
        return self.export(self._row(transaction, owner, identifier))

    @writing
    def update(
        self, transaction: DatabaseTransaction, owner: str, identifier: str, metadata: bytes
    ) -> StoredConversation:
        """Replace the metadata of a conversation and return it. Raise NotFound."""
        row = self._row(transaction, owner, identifier)
        content = self._encrypt_metadata(owner, identifier, metadata)
        grown = len(content) - len(row[6])
        expires = transaction.now + self._limits.seconds
        transaction.rows(_UPDATE, content, grown, transaction.now, expires, row[7])
        transaction.charge(owner, grown)
        return self.export((*row[:5], expires, content, *row[7:]))

    @writing
    def delete(self, transaction: DatabaseTransaction, owner: str, identifier: str) -> None:
        """Delete a conversation and its items; responses stay. Raise NotFound."""
        delete_row(transaction, CONVERSATION, self._row(transaction, owner, identifier)[7])

    @writing
    def lock(
        self, transaction: DatabaseTransaction, owner: str, identifier: str, holder: str, seconds: float
    ) -> ConversationLease:
        """Take a conversation for one request, or extend that. `holder`: a name that no other request has.

        Raise NotFound, or ConversationLocked if another request has it.
        """
        now = transaction.now
        values = (holder, now + seconds, owner, identifier, now, now, holder)
        if not is_storable(identifier) or not transaction.rows(_LOCK, *values):
            self._row(transaction, owner, identifier)
            raise ConversationLocked("another request is using the conversation")
        return ConversationLease(owner, identifier, holder)

    @writing
    def unlock(self, transaction: DatabaseTransaction, lease: ConversationLease) -> None:
        """Give a lease back. Nothing happens if it has ended."""
        transaction.rows(_UNLOCK, lease.owner, lease.conversation, lease.holder)

    @writing
    def append(
        self, transaction: DatabaseTransaction, owner: str, identifier: str, items: Sequence[StoredItem]
    ) -> None:
        """Add items at the end. Raise NotFound, NotStorable, or ConversationLocked if a request has a lease."""
        self._append(transaction, ConversationLease(owner, identifier, ""), items)

    @writing
    def append_with(self, transaction: DatabaseTransaction, append: Append) -> None:
        """Add items at the end and give the lease back. Raise ConversationLocked if another request has it now."""
        self._append(transaction, append.lease, append.items)

    @reading
    def items(self, transaction: DatabaseTransaction, owner: str, identifier: str, page: PageRequest) -> ItemPage:
        """Return a part of the items. Raise NotFound, also if the item to begin after is unknown."""
        seq = self._row(transaction, owner, identifier)[7]
        start = _FAR if page.descending else -1
        if page.after is not None:
            start = self._item_row(transaction, owner, identifier, page.after)[2]
        rows = transaction.rows(_PAGE[page.descending], seq, start, page.limit + 1)
        found = tuple(self.export_item(row).item for row in rows[: page.limit])
        return ItemPage(found, has_more=len(rows) > page.limit)

    @reading
    def all_items(self, transaction: DatabaseTransaction, owner: str, identifier: str) -> tuple[StoredItem, ...]:
        """Return all items in order, for a request that continues the conversation. Raise NotFound."""
        seq = self._row(transaction, owner, identifier)[7]
        return tuple(self.export_item(row).item for row in transaction.rows(_PAGE[False], seq, -1, _FAR))

    @reading
    def item(self, transaction: DatabaseTransaction, owner: str, identifier: str, item: str) -> StoredItem:
        """Return one item of a conversation. Raise NotFound."""
        return self.export_item(self._item_row(transaction, owner, identifier, item)).item

    @reading
    def find_item(self, transaction: DatabaseTransaction, owner: str, item: str) -> StoredItem:
        """Return an item of any conversation of an owner. Raise NotFound."""
        row = transaction.first(_FIND_ITEM, owner, item, transaction.now)
        if row is None:
            raise NotFound(item)
        return self.export_item(row).item

    @writing
    def delete_item(
        self, transaction: DatabaseTransaction, owner: str, identifier: str, item: str
    ) -> StoredConversation:
        """Delete an item; the others keep their order. Return the conversation. Raise NotFound."""
        conversation = self._row(transaction, owner, identifier)
        row = self._item_row(transaction, owner, identifier, item)
        seq, number, size = conversation[7], row[2], row[4]
        for _ in transaction.rows(
            "DELETE FROM trl_conversation_item WHERE conversation = ? AND number = ? RETURNING number", seq, number
        ):
            transaction.rows(_GROW, -size, seq)
            transaction.charge(owner, -size)
        return self.export(conversation)

    def export(self, row: Row) -> StoredConversation:
        """Return the conversation in a row of `COLUMNS`. Raise ContentUnreadable."""
        owner, identifier, provider, account, created, expires, content, *_ = row
        return StoredConversation(
            owner=owner,
            id=identifier,
            metadata=self._contents.decrypt(content, owner, "conversation", identifier),
            origin=None if provider is None else OriginAccount(provider, account),
            created=created,
            expires=expires,
        )

    def export_item(self, row: Row) -> ConversationItem:
        """Return the item in a row of `ITEM_COLUMNS`. Raise ContentUnreadable."""
        owner, conversation, number, identifier, _, content = row
        data = self._contents.decrypt(content, owner, "item", conversation, number, identifier)
        return ConversationItem(conversation, number, StoredItem(identifier, data))

    def _append(self, transaction: DatabaseTransaction, lease: ConversationLease, items: Sequence[StoredItem]) -> None:
        if not items and not lease.holder:
            return
        self._check(items, self._row(transaction, lease.owner, lease.conversation)[8])
        seq, first = self._reserve(transaction, lease, len(items))
        rows = []
        for number, item in enumerate(items, first):
            names = ("item", lease.conversation, number, item.id)
            content = self._contents.encrypt(item.data, lease.owner, *names)
            rows.append((seq, number, lease.owner, item.id, len(content), content))
        if rows:
            added = sum(row[4] for row in rows)
            transaction.each(_PUT_ITEM, rows)
            transaction.rows(_GROW, added, seq)
            transaction.charge(lease.owner, added)

    def _check(self, items: Sequence[StoredItem], size: int) -> None:
        """Raise NotStorable, before anything is written, if a conversation of this size cannot take the items."""
        if any(not is_storable(item.id) for item in items):
            raise NotStorable("an item of a conversation needs an id that can be stored")
        grown = size + sum(len(item.data) + OVERHEAD for item in items)
        limit = self._limits.owner_bytes
        if limit is not None and grown > limit:
            raise NotStorable(f"the conversation would have {grown} bytes, and the limit of its key is {limit}")

    def _reserve(self, transaction: DatabaseTransaction, lease: ConversationLease, count: int) -> tuple[int, int]:
        """Reserve numbers for new items; return the conversation's row and the first number."""
        now, holder = transaction.now, lease.holder
        key = (lease.owner, lease.conversation, now)
        row = None
        if is_storable(lease.conversation):
            row = transaction.first(_APPEND, count, now, now + self._limits.seconds, *key, holder, now, holder)
        if row is None:
            self._row(transaction, lease.owner, lease.conversation)
            raise ConversationLocked("another request is using the conversation")
        return row[0], row[1] - count

    def _row(self, transaction: DatabaseTransaction, owner: str, identifier: str) -> Row:
        row = transaction.first(_GET, owner, identifier, transaction.now) if is_storable(identifier) else None
        if row is None:
            raise NotFound(identifier)
        return row

    def _item_row(self, transaction: DatabaseTransaction, owner: str, identifier: str, item: str) -> Row:
        self._row(transaction, owner, identifier)
        row = transaction.first(_ITEM, owner, identifier, item, transaction.now) if is_storable(item) else None
        if row is None:
            raise NotFound(item)
        return row

    def _encrypt_metadata(self, owner: str, identifier: str, metadata: bytes) -> bytes:
        return self._contents.encrypt(metadata, owner, "conversation", identifier)
