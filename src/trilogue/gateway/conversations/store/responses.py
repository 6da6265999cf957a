"""Stored responses: put, get, walk the chain of earlier ones, find an item, delete."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from trilogue.gateway.conversations.store.conversations import Conversations
from trilogue.gateway.conversations.store.storage import (
    RESPONSE,
    DatabaseTransaction,
    Storage,
    StorePart,
    delete_row,
    is_storable,
    reading,
    writing,
)
from trilogue.gateway.conversations.store.types import (
    Append,
    ChainBroken,
    ItemPage,
    NotFound,
    NotStorable,
    OriginAccount,
    PageRequest,
    StoredItem,
    StoredResponse,
    output_items,
    paginate,
)
from trilogue.storage.database import Row

MAX_CHAIN = 10_000
COLUMNS = (
    "trl_response.owner, trl_response.id, trl_response.previous, conversation, status, failure, provider, account, "
    "used, expires, content"
)
_PUT = (
    "INSERT INTO trl_response (owner, id, previous, conversation, status, provider, account, used, expires, size, "
    "content) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING seq"
)
_REPLACE = (
    "UPDATE trl_response SET previous = ?, conversation = ?, status = ?, failure = '', provider = ?, account = ?, "
    "expires = ?, size = ?, content = ? WHERE seq = ?"
)
_PLACE = "INSERT INTO trl_response_item (owner, id, response) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
_FIND = "SELECT seq, size FROM trl_response WHERE owner = ? AND id = ?"
_GET = "SELECT COLUMNS FROM trl_response WHERE owner = ? AND id = ? AND expires > ?".replace("COLUMNS", COLUMNS)
# One query for the whole chain: the walk is by index, and the content of each response is read once.
_CHAIN = """
WITH RECURSIVE chain (seq, owner, previous, depth) AS (
    SELECT seq, owner, previous, 0 FROM trl_response WHERE owner = ? AND id = ? AND expires > ?
    UNION ALL
    SELECT earlier.seq, earlier.owner, earlier.previous, chain.depth + 1
    FROM chain JOIN trl_response AS earlier ON earlier.owner = chain.owner AND earlier.id = chain.previous
    WHERE earlier.expires > ? AND chain.depth < ?
)
SELECT COLUMNS FROM chain JOIN trl_response ON trl_response.seq = chain.seq ORDER BY chain.depth DESC
""".replace("COLUMNS", COLUMNS)
_HOLDER = """
SELECT COLUMNS FROM trl_response_item JOIN trl_response ON trl_response.seq = trl_response_item.response
WHERE trl_response_item.owner = ? AND trl_response_item.id = ? AND expires > ?
ORDER BY trl_response_item.response DESC LIMIT 1
""".replace("COLUMNS", COLUMNS)


class _Content(Struct, array_like=True):
    model: str
    body: bytes
    input: tuple[StoredItem, ...]
    request: bytes
    made_by: OriginAccount | None = None
    """missing in what earlier versions have stored"""


_CONTENT = msgspec.msgpack.Decoder(_Content)


class Responses(StorePart):
    """The responses of all owners. An id of another owner is unknown, as is one that has expired."""

    def __init__(self, storage: Storage, conversations: Conversations) -> None:
        super().__init__(storage)
        self._conversations = conversations

    @writing
    def put(self, transaction: DatabaseTransaction, response: StoredResponse, append: Append | None = None) -> None:
        """Store a response, or replace the one with its id, and append to its conversation, all or nothing.

        Raise NotStorable; for `append` also NotFound and ConversationLocked.
        """
        content = self._encrypt(response)
        if append is not None:
            self._conversations.append_with(append)
        seq = self._write(transaction, response, content)
        items = {item.id for item in (*response.input, *output_items(response.body)) if is_storable(item.id)}
        if items:
            transaction.each(_PLACE, [(response.owner, identifier, seq) for identifier in sorted(items)])

    @reading
    def get(self, transaction: DatabaseTransaction, owner: str, identifier: str) -> StoredResponse:
        """Return a response. Raise NotFound or ContentUnreadable."""
        row = self._row(transaction, owner, identifier)
        if row is None:
            raise NotFound(identifier)
        return self._decrypt(row)

    @reading
    def origin(self, transaction: DatabaseTransaction, owner: str, identifier: str) -> OriginAccount | None:
        """Return the account that knows a response upstream; None if only the store has it. Raise NotFound."""
        row = self._row(transaction, owner, identifier)
        if row is None:
            raise NotFound(identifier)
        return to_origin(row[6], row[7])

    @reading
    def chain(self, transaction: DatabaseTransaction, owner: str, identifier: str) -> tuple[StoredResponse, ...]:
        """Return a response and all that came before it, the first one first.

        Raise NotFound if it is unknown, and ChainBroken if an earlier one is: a shorter history would be another one.
        """
        if not is_storable(identifier):
            raise NotFound(identifier)
        now = transaction.now
        rows = transaction.rows(_CHAIN, owner, identifier, now, now, MAX_CHAIN)
        if not rows:
            raise NotFound(identifier)
        if rows[0][2] is not None:
            raise ChainBroken(rows[0][2])
        return tuple(self._decrypt(row) for row in rows)

    @reading
    def input_items(self, transaction: DatabaseTransaction, owner: str, identifier: str, page: PageRequest) -> ItemPage:
        """Return a part of the input of a response. Raise NotFound."""
        row = self._row(transaction, owner, identifier)
        if row is None:
            raise NotFound(identifier)
        return paginate(self._decrypt(row).input, page)

    @reading
    def item(self, transaction: DatabaseTransaction, owner: str, identifier: str) -> StoredItem:
        """Return an item of any response or conversation of an owner. Raise NotFound."""
        if not is_storable(identifier):
            raise NotFound(identifier)
        row = transaction.first(_HOLDER, owner, identifier, transaction.now)
        if row is None:
            return self._conversations.find_item(owner, identifier)
        response = self._decrypt(row)
        items = (*output_items(response.body), *response.input)
        return next(item for item in items if item.id == identifier)

    @writing
    def delete(self, transaction: DatabaseTransaction, owner: str, identifier: str) -> None:
        """Delete a response, with its job if it has one. Raise NotFound."""
        if self._row(transaction, owner, identifier) is None:
            raise NotFound(identifier)
        for seq, _ in transaction.rows(_FIND, owner, identifier):
            delete_row(transaction, RESPONSE, seq)

    def export(self, row: Row) -> StoredResponse:
        """Return the response in a row of `COLUMNS`. Raise ContentUnreadable."""
        return self._decrypt(row)

    def _row(self, transaction: DatabaseTransaction, owner: str, identifier: str) -> Row | None:
        return transaction.first(_GET, owner, identifier, transaction.now) if is_storable(identifier) else None

    def _write(self, transaction: DatabaseTransaction, response: StoredResponse, content: bytes) -> int:
        """Write the row and return its number."""
        expires = transaction.now + self._limits.seconds
        origin = (response.origin.provider, response.origin.account) if response.origin else (None, None)
        links = (response.previous, response.conversation, response.status, *origin)
        named = (response.owner, response.id, *links)
        new = transaction.first(_PUT, *named, transaction.now, expires, len(content), content)
        if new is not None:
            transaction.charge(response.owner, len(content))
            return int(new[0])
        seq, size = transaction.rows(_FIND, response.owner, response.id)[0]
        transaction.rows(_REPLACE, *links, expires, len(content), content, seq)
        transaction.rows("DELETE FROM trl_response_item WHERE response = ?", seq)
        transaction.charge(response.owner, len(content) - size)
        return int(seq)

    def _encrypt(self, response: StoredResponse) -> bytes:
        if not is_storable(response.id) or not is_storable(response.owner) or response.id == response.previous:
            raise NotStorable("the response has an id that cannot be stored")
        try:
            plain = msgspec.msgpack.encode(
                _Content(response.model, response.body, response.input, response.request, response.made_by)
            )
        except UnicodeEncodeError:
            raise NotStorable("the response has an item with an id that cannot be stored") from None
        content = self._contents.encrypt(plain, response.owner, "response", response.id, response.previous)
        limit = self._limits.owner_bytes
        if limit is not None and len(content) > limit:
            raise NotStorable(f"the response has {len(content)} bytes, and the limit of its key is {limit}")
        return content

    def _decrypt(self, row: Row) -> StoredResponse:
        owner, identifier, previous, conversation, status, failure, provider, account, used, expires, content = row
        plain = _CONTENT.decode(self._contents.decrypt(content, owner, "response", identifier, previous))
        return StoredResponse(
            owner=owner,
            id=identifier,
            status=status,
            body=plain.body,
            input=plain.input,
            request=plain.request,
            model=plain.model,
            previous=previous,
            conversation=conversation,
            origin=to_origin(provider, account),
            made_by=plain.made_by,
            created=used,
            expires=expires,
            failure=failure,
        )


def to_origin(provider: str | None, account: str | None) -> OriginAccount | None:
    """Return the origin in two columns."""
    return None if provider is None or account is None else OriginAccount(provider, account)
