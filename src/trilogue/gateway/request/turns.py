"""What a request refers to: the stored turn that it continues, for every endpoint that takes such ids.

An id that the gateway does not know may be known to an upstream that keeps state. It is passed on only where it cannot
be another client's: the upstream cannot tell the client keys of a gateway apart.
"""

from __future__ import annotations

from trilogue.errors import BadRequest
from trilogue.gateway.conversations.request_fields import StateFields, may_refer, read_state_fields
from trilogue.gateway.conversations.turn import LookUp, StoredTurn, begin_connection_turn, begin_turn, unknown_reference
from trilogue.gateway.request.large_bodies import in_thread
from trilogue.gateway.request.ownership import has_doubles, is_guarded
from trilogue.gateway.request.request import RequestContext, watching
from trilogue.protocols.registry import CODECS


async def stored_turn(
    context: RequestContext, body: bytes, fields: StateFields | None = None, *, locks: bool = True
) -> StoredTurn | None:
    """Return what a request refers to and what is to be kept of its response; None if there is neither.

    `fields`: those of the request, if they were read. `locks`: whether a conversation is taken. Raises BadRequest,
    ClientError, StoreError, and ClientGone.
    """
    gateway, connection, guarded = context.entry.gateway, context.entry.connection, is_guarded(context)
    if gateway.store is None and connection is None and not guarded:
        return None
    if fields is None:
        fields = read_state_fields(body)
    if guarded and (_may_refer(context, body) or fields.has_references) and await in_thread(has_doubles, body):
        raise BadRequest("the request has a field twice, so it is not clear what it refers to")
    if gateway.store is not None and (fields.need_store or connection is not None):
        # The boundary of the request gives the conversation back, whatever becomes of the request.
        begun = context.turn = begin_turn(gateway.store, context.owner, body, fields, connection)
        with watching(context):
            await begun.look_up(LookUp(passes_unknown=not guarded, locks=locks))
        return begun
    if gateway.store is None and connection is not None:
        turn = begin_connection_turn(gateway.stores.volatile, context.owner, body, fields, connection)
        if turn is not None:
            return turn
    unknown = unknown_reference(fields) if gateway.store is None and guarded else None
    if unknown is not None:
        raise unknown
    return None


def _may_refer(context: RequestContext, body: bytes) -> bool:
    """Return whether a request has a field that refers to something, whatever the value that a parser would take."""
    names = CODECS[context.entry.client].endpoint.state_fields
    return any(body.find(b'"%b"' % name.encode()) >= 0 for name in names) or may_refer(body)
