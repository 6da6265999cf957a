"""One turn of a conversation that the gateway remembers: what its request refers to, and what is kept of its response.

fields = read_state_fields(body)                        # fields.need_store: there is something to look up or keep
turn = begin_turn(store, owner, body, fields)
await turn.look_up()
turn.expanded                                           # the request with its whole history, for any upstream
await turn.keep(response, origin, made_by)              # before the end of the response leaves
turn.release()                                          # always, at the end, also if one of these has failed
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from trilogue.base.json_text import DECODE_ERRORS
from trilogue.base.sse import SseParser
from trilogue.errors import BadRequest, ClientError
from trilogue.gateway.conversations.history import (
    ConnectionResponses,
    HistoryItem,
    stored_items,
    unstored_items,
    without_foreign_reasoning,
)
from trilogue.gateway.conversations.request_fields import StateFields, input_items, reference_of, with_ids, with_input
from trilogue.gateway.conversations.store.types import (
    Append,
    ChainBroken,
    ConversationLease,
    ConversationLocked,
    NotFound,
    OriginAccount,
    StoredResponse,
    StoreError,
    output_items,
)
from trilogue.gateway.conversations.stores import GatewayStore
from trilogue.gateway.conversations.summaries import not_compacted
from trilogue.model import Json, Loss

RENEW_SECONDS = 20.0
_STATE_FIELDS = ("previous_response_id", "conversation")


class LockedConversation(ClientError):
    """Another request uses the conversation."""

    status = 409

    def __init__(self) -> None:
        super().__init__(
            "Another process is currently operating on this conversation. Please retry in a few seconds.",
            path="conversation",
            code="conversation_locked",
        )


class UnknownItem(ClientError):
    """A reference to an item that this client key does not have."""

    status = 404

    def __init__(self, identifier: str, position: int) -> None:
        super().__init__(f"Item with id '{identifier}' not found.", path=f"input[{position}].id", code="not_found")


class UnknownReference(Exception):
    """An id that the gateway does not know. `shown`: the error for the client, unless an upstream knows it."""

    def __init__(self, shown: ClientError) -> None:
        super().__init__(str(shown))
        self.shown = shown


class UnknownConversation(ClientError):
    """A conversation that this client key does not have."""

    status = 404

    def __init__(self, identifier: str) -> None:
        super().__init__(f"Conversation with id '{identifier}' not found.", path="conversation", code="not_found")


def unknown_response(identifier: str) -> BadRequest:
    """Return the error for a response that cannot be continued, in the words of the API."""
    return BadRequest(
        f"Previous response with id '{identifier}' not found.",
        path="previous_response_id",
        code="previous_response_not_found",
    )


class _ResponseHead(Struct):
    """What is read of a response to store it."""

    id: str = ""
    status: str = ""
    model: str = ""


_decode_head = msgspec.json.Decoder(_ResponseHead).decode


class LookUp(NamedTuple):
    """How ids are looked up."""

    passes_unknown: bool = False
    """ids that are not known here are for the upstream to judge, if it keeps state"""
    locks: bool = True
    """take the conversation, so that no other request can use it"""


_USUAL = LookUp()


class StoredTurn(Struct, kw_only=True, eq=False):
    """One turn. `history`: the items of earlier turns. `own`: those of this request, references resolved."""

    store: GatewayStore
    owner: str
    fields: StateFields
    body: bytes
    connection: ConnectionResponses | None = None
    """the responses of the client's connection, if clients can continue those by it alone"""
    continues_connection: bool = False
    """whether only the connection knows the history"""
    upstream_stores: bool = False
    """whether the upstream may store the response, although the gateway does not"""
    history: tuple[HistoryItem, ...] = ()
    own: tuple[bytes, ...] = ()
    previous: StoredResponse | None = None
    foreign: ClientError | None = None
    """the error for ids that only an upstream may know, where it does not; None if the gateway knows all of them"""
    refers_here: bool = False
    """whether some of its items are known to the gateway by their ids alone"""
    joined: bool = False
    """whether the request belongs to a conversation that the gateway knows"""
    lease: ConversationLease | None = None
    in_job: bool = False
    """whether a background job stores the response, with the events of its stream"""
    _renewing: asyncio.Task[None] | None = None
    _expanded: bytes | None = None
    made_by: OriginAccount | None = None
    """the account that has made the response"""
    changed: bytes | None = None
    """the whole request as policies have changed it; what is stored is the client's own"""

    @property
    def refers(self) -> bool:
        """Whether the request is not complete without what is stored."""
        known = self.previous or self.joined or self.history or self.refers_here
        return bool(known) or self.continues_connection

    @property
    def origin(self) -> OriginAccount | None:
        """The account that knows the response which the request continues, or None."""
        return self.previous.origin if self.previous is not None else None

    def is_complete_with(self, provider: str, account: str, keeps_state: bool) -> bool:
        """Return whether an upstream of the client's protocol must get the whole history.

        The account that made a response knows it. An upstream that keeps state may know what the gateway does not.
        """
        if self.changed is not None or self.refers_here:
            # What a key has stored may have the id of another one's item, which the upstream would look up.
            return True
        is_origin = self.origin == OriginAccount(provider, account)
        if self.foreign is not None:
            return not keeps_state or not (is_origin or self.origin is None)
        return self.refers and not (is_origin and keeps_state)

    def echoed(self, body: dict[str, Json]) -> dict[str, Json]:
        """Return a request as its response echoes it: with the references that the client sent."""
        conversation = self.fields.conversation_id
        if conversation is not None:
            body = {**body, "conversation": {"id": conversation}}
        previous = self.fields.previous_response_id
        return body if previous is None else {**body, "previous_response_id": previous}

    @property
    def expanded(self) -> bytes:
        """The request with its whole history, which refers to nothing that is stored.

        Raises the error for an unknown id if the history is at an upstream.
        """
        if self.foreign is not None:
            raise self.foreign
        if self.changed is not None:
            return self.changed
        if self._expanded is None:
            items = (*(item.data for item in self.history), *self.own)
            self._expanded = with_input(self.body, items, _STATE_FIELDS) if self.refers else self.body
        return self._expanded

    def expanded_for(self, provider: str, account: str) -> tuple[bytes, list[Loss]]:
        """Return the request with its history for an account of the client's protocol, and what it cannot read.

        Encrypted reasoning belongs to the account that made it: another one refuses the whole request.
        """
        here, body = OriginAccount(provider, account), self.expanded
        if self.changed is not None or all(item.origin is None or item.origin == here for item in self.history):
            return body, []
        readable, losses = without_foreign_reasoning(self.history, here)
        return with_input(self.body, (*readable, *self.own), _STATE_FIELDS), losses

    def with_expanded(self, body: bytes) -> StoredTurn:
        """Return the turn with another form of its whole request, for one attempt."""
        return replace(self, history=(), _expanded=body, changed=None)

    async def keep(self, body: bytes, origin: OriginAccount | None, made_by: OriginAccount | None = None) -> None:
        """Store the response and its items. Returns when they are durable. Raises StoreError.

        `origin`: the account that knows the response by its id. `made_by`: the account that has made it.
        """
        self.made_by = made_by
        if self.connection is not None and (not self.fields.stores or self.continues_connection):
            self._remember(self.connection, body, origin)
        if not self.fields.stores or self.in_job:
            return
        response, append = self.stored(body, origin)
        await self.store.service.write(self.store.store.responses.put, response, append)
        if append is not None:
            self.appended()

    def _remember(self, connection: ConnectionResponses, body: bytes, origin: OriginAccount | None) -> None:
        """Let the client continue the response for as long as its connection lasts."""
        own = tuple(HistoryItem(data) for data in self.own or input_items(self.fields.input))
        if self.fields.stores or self.upstream_stores:
            made = [HistoryItem(item.data, origin) for item in output_items(body)]
        else:
            made = unstored_items(body, origin)
        connection.put(_decode_head(body).id, (*self.history, *own, *made))

    def stored(self, body: bytes, origin: OriginAccount | None = None) -> tuple[StoredResponse, Append | None]:
        """Return a response as it is stored, and what it adds to its conversation."""
        head = _decode_head(body)
        own = with_ids(self.own or input_items(self.fields.input), head.id)
        response = StoredResponse(
            owner=self.owner,
            id=head.id,
            status=head.status or "completed",
            body=body,
            input=own,
            model=head.model,
            previous=self.fields.previous_response_id,
            conversation=self.fields.conversation_id if self.lease else None,
            origin=origin,
            made_by=None if origin is not None else self.made_by or self._maker_before,
        )
        return response, Append(self.lease, (*own, *output_items(body))) if self.lease else None

    @property
    def _maker_before(self) -> OriginAccount | None:
        """The account of the conversation until now, for a response that no upstream has made."""
        previous = self.previous
        return None if previous is None else previous.origin or previous.made_by

    @property
    def passes_background(self) -> bool:
        """Whether an upstream runs the response in the background, and not a job of the gateway."""
        return bool(self.fields.background) and not self.in_job

    async def keep_running(self, body: bytes, origin: OriginAccount | None) -> None:
        """Store a response that an upstream has begun to run in the background. Raises StoreError."""
        response, _ = self.stored(body, origin)
        await self.store.service.write(self.store.store.responses.put, response)

    def appended(self) -> None:
        """Note that the items are in the conversation, which ended the lease."""
        self._stop_renewing()
        self.lease = None

    async def look_up(self, how: LookUp = _USUAL) -> None:
        """Find what the request refers to. Raises BadRequest or ClientError for unknown ids, and StoreError.

        This may take a conversation: whoever began the turn must release it, whatever becomes of it.
        """
        fields = self.fields
        try:
            await _look_up(self, how.locks)
        except UnknownReference as error:
            both = isinstance(error.shown, UnknownItem) and (fields.previous_response_id or fields.conversation_id)
            if not how.passes_unknown or self.refers_here or both:
                raise error.shown from None
            self.foreign = error.shown

    def release(self) -> None:
        """Let other requests use the conversation, if this one still has it."""
        self._stop_renewing()
        lease, self.lease = self.lease, None
        if lease is not None:
            self.store.service.unlock(lease)

    def hold(self, lease: ConversationLease) -> None:
        """Keep the conversation for this request until it is released."""
        self.lease = lease
        self._renewing = asyncio.get_running_loop().create_task(_renew(self.store, lease))

    def _stop_renewing(self) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
            self._renewing = None


class _FinalEvent(Struct):
    """The last event of a stream, which repeats the whole response."""

    response: Raw = Raw()


_decode_event = msgspec.json.Decoder(_FinalEvent).decode


def final_response(data: bytes) -> bytes:
    """Return the response object in the last events of a stream. Raises StoreError if there is none."""
    parser = SseParser()
    for event in reversed([*parser.feed(data), *parser.close()]):
        with suppress(*DECODE_ERRORS):
            found = bytes(_decode_event(event.data).response)
            if found:
                return found
    raise StoreError("the stream did not end with a response that can be stored")


def begin_turn(
    store: GatewayStore,
    owner: str,
    body: bytes,
    fields: StateFields,
    connection: ConnectionResponses | None = None,
) -> StoredTurn:
    """Return the turn of a request with these fields. `look_up` comes next. Raises BadRequest.

    `connection`: the responses that the client's connection remembers, if it does.
    """
    if fields.background and not fields.stores:
        raise BadRequest("Background mode requires `store` to be true.", path="store")
    if fields.previous_response_id and fields.conversation_id:
        text = "previous_response_id and conversation cannot be used together"
        raise BadRequest(text, path="previous_response_id", code="mutually_exclusive_parameters")
    return StoredTurn(store=store, owner=owner, fields=fields, body=body, connection=connection)


async def _look_up(turn: StoredTurn, locks: bool) -> None:
    """Add to a turn what its request refers to. Raises UnknownReference."""
    fields, conversation = turn.fields, turn.fields.conversation_id
    if fields.has_references:
        turn.own = tuple(await _resolved(turn, input_items(fields.input)))
    elif fields.previous_response_id or conversation:
        turn.own = tuple(input_items(fields.input))
    if fields.previous_response_id:
        if not _continue_connection(turn):
            await _add_chain(turn, fields.previous_response_id)
    elif conversation:
        await _add_conversation(turn, conversation, locks)


def unknown_reference(fields: StateFields) -> ClientError | None:
    """Return the error for the first id in these fields, where nothing is known; None if there is no id."""
    if fields.previous_response_id:
        return unknown_response(fields.previous_response_id)
    if fields.conversation_id:
        return UnknownConversation(fields.conversation_id)
    named = [reference_of(data) for data in input_items(fields.input)] if fields.has_references else []
    position = next((number for number, one in enumerate(named) if one is not None), None)
    return None if position is None else UnknownItem(named[position] or "", position)


def begin_connection_turn(
    store: GatewayStore, owner: str, body: bytes, fields: StateFields, connection: ConnectionResponses
) -> StoredTurn | None:
    """Look up what a request refers to where nothing is stored, so that only the client's connection remembers.

    Returns None for ids that it does not know: an upstream may know them. `store` is not used. Raises BadRequest.
    """
    refers = fields.previous_response_id or fields.conversation_id or fields.has_references
    turn = StoredTurn(store=store, owner=owner, fields=fields, body=body, connection=connection)
    turn.upstream_stores, fields.store = fields.stores, False
    return turn if not refers or _continue_connection(turn) else None


def _continue_connection(turn: StoredTurn) -> bool:
    """Add the history that the client's connection remembers. Return whether it does."""
    previous = turn.fields.previous_response_id
    history = turn.connection.take(previous) if turn.connection is not None and previous is not None else None
    if history is None:
        return False
    turn.history, turn.continues_connection = _without_compacted(history), True
    turn.own = turn.own or tuple(input_items(turn.fields.input))
    return True


async def _add_chain(turn: StoredTurn, previous: str) -> None:
    """Add the items of all earlier responses of a chain, the oldest first."""
    store = turn.store
    try:
        chain = await store.service.read(store.store.responses.chain, turn.owner, previous)
    except ChainBroken:
        # Only the account that made the response may know what came before it.
        turn.previous = await store.service.read(store.store.responses.get, turn.owner, previous)
        raise UnknownReference(unknown_response(previous)) from None
    except NotFound:
        raise UnknownReference(unknown_response(previous)) from None
    items = [HistoryItem(item.data, one.origin) for one in chain for item in stored_items(one)]
    turn.history = _without_compacted(items)
    turn.previous = chain[-1]


async def _add_conversation(turn: StoredTurn, identifier: str, locks: bool) -> None:
    """Take the conversation for this request, if `locks` says so, and add its items."""
    store = turn.store
    try:
        if locks:
            turn.hold(await store.service.lock(turn.owner, identifier))
        else:
            await store.service.read(store.store.conversations.get, turn.owner, identifier)
        items = await store.service.read(store.store.conversations.all_items, turn.owner, identifier)
    except NotFound:
        raise UnknownReference(UnknownConversation(identifier)) from None
    except ConversationLocked:
        raise LockedConversation from None
    turn.joined = True
    turn.history = _without_compacted([HistoryItem(item.data) for item in items])


def _without_compacted(items: Sequence[HistoryItem]) -> tuple[HistoryItem, ...]:
    return tuple(items[position] for position in not_compacted([item.data for item in items]))


async def _resolved(turn: StoredTurn, items: Sequence[bytes]) -> list[bytes]:
    """Return items with every reference replaced by its item. Raises UnknownReference if one is not known."""
    found, unknown = await with_named_items(turn.store, turn.owner, items)
    turn.refers_here = found != list(items)
    if unknown:
        raise UnknownReference(unknown[0])
    return found


async def with_named_items(
    store: GatewayStore, owner: str, items: Sequence[bytes]
) -> tuple[list[bytes], list[UnknownItem]]:
    """Return items with every reference replaced by the item of this owner, and the errors for those of nobody."""
    found, unknown = list(items), []
    for position, data in enumerate(items):
        identifier = reference_of(data)
        if identifier is None:
            continue
        try:
            found[position] = (await store.service.read(store.store.responses.item, owner, identifier)).data
        except NotFound:
            unknown.append(UnknownItem(identifier, position))
    return found, unknown


async def _renew(store: GatewayStore, lease: ConversationLease) -> None:
    """Keep a lease for as long as its request runs."""
    while True:
        await asyncio.sleep(RENEW_SECONDS)
        with suppress(StoreError):
            await store.service.renew(lease)
