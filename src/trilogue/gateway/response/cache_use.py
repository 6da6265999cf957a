"""Notes what the prompt cache has saved for a request that has its response: see `conversations.cache_sessions`."""

from __future__ import annotations

import time

from trilogue.gateway.conversations.cache_sessions import SentRequest, Sessions, session_name, why_missed
from trilogue.gateway.record import CacheUse, RequestRecord
from trilogue.gateway.request.call import ModelCall
from trilogue.routing.pool.conversation import named_session, sticky_key

_TURNS = (b'"tools"', b'"assistant"', b'"function_call"')
"""what a request has that is one of several; one without, whose response cannot be continued, is a single shot"""


def note_cache_use(
    sessions: Sessions, call: ModelCall, record: RequestRecord, body: bytes, sticky: str, response_id: str
) -> None:
    """Note a request of a session. It may be called in a thread.

    `body`: as it went out. `sticky`: the key of its conversation, if it is known. `response_id`: that of the response,
    if the client can continue it.
    """
    name = _known_name(sessions, call, sticky)
    if not name and (call.turn is not None or any(body.find(mark) >= 0 for mark in _TURNS)):
        key = sticky_key(call.body, call.client, call.headers)
        name = session_name(call.key_name, key) if key else ""
    if not name:
        return
    usage = record.usage
    sent = SentRequest(
        request_id=record.request_id,
        body=body,
        provider=record.provider,
        account=record.account,
        input=usage.input if usage is not None else 0,
        at=time.monotonic(),
    )
    before, missed = sessions.before(name, record.upstream_model), ""
    if before is not None:
        read = usage.cache_read if usage is not None else None
        missed = why_missed(before, sent, read)
    use = CacheUse(session=name, before=before.request_id if before is not None else "", missed=missed)
    sessions.note(use, record, sent, response_id)


def _known_name(sessions: Sessions, call: ModelCall, sticky: str) -> str:
    """Return the name of a request's session if that is known without a look at its body; else ""."""
    session = named_session(call.headers)
    if session:
        # Agents of one session have prompts of their own.
        return session_name(call.key_name, session)
    previous = call.turn.fields.previous_response_id if call.turn is not None else None
    known = sessions.of_response(previous) if previous else ""
    return known or (session_name(call.key_name, sticky) if sticky else "")
