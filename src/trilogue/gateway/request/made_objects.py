"""Objects that a model's hosted tools make: containers, and the files in them. Their ids are in the model's responses.

They belong to the client key of the request, like those that it makes itself. Only requests that offer such a tool are
watched, and only where several client keys share an account.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

import msgspec
import structlog

from trilogue.base.json_text import DECODE_ERRORS, LARGE_BYTES, at_path
from trilogue.base.sse import SseParser
from trilogue.gateway.conversations.store.types import ObjectOwner
from trilogue.gateway.request.ownership import is_guarded, keeps_owners
from trilogue.gateway.request.request import RequestContext
from trilogue.protocols.registry import CODECS
from trilogue.storage.database import StoreError

MOST_BYTES = 16 * LARGE_BYTES
"""of a response that is not a stream"""
_MARKS = (b"container", b"file_id", b"message_start", b'"message"', b'"audio"')
"""what is in every text with such an id; most events of a stream have none of it"""
_decode = msgspec.json.Decoder().decode

log = structlog.get_logger("trilogue.gateway")


def watch_made_objects(context: RequestContext, body: bytes) -> None:
    """Note whose the objects are that the response to a request names, if its tools may make any."""
    tools = CODECS[context.entry.client].endpoint.making_tools
    if any(body.find(name) >= 0 for name in tools) and is_guarded(context) and keeps_owners(context):
        watch, shown = _Watch(context), context.responder.on_body

        def on_body(data: bytes, now: float) -> None:
            if shown is not None:
                shown(data, now)
            watch.feed(data)

        context.responder.on_body = on_body


class _Watch:
    """The ids in one response. They are written while the rest of it is on its way."""

    def __init__(self, context: RequestContext) -> None:
        self._context = context
        self._paths = CODECS[context.entry.client].endpoint.made_objects
        self._parser: SseParser | None = None
        self._whole = bytearray()
        self._noted: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def feed(self, data: bytes) -> None:
        """Look at a part of the response."""
        if not self._whole and self._parser is None:
            if data.lstrip()[:1] == b"{":
                self._whole += data
            else:
                self._parser = SseParser()
        elif self._parser is None and len(self._whole) <= MOST_BYTES:
            self._whole += data
        if self._parser is not None:
            for event in self._parser.feed(data):
                self._look(event.data)
        else:
            self._look(bytes(self._whole))

    def _look(self, text: bytes) -> None:
        if not any(text.find(mark) >= 0 for mark in _MARKS):
            return
        with suppress(*DECODE_ERRORS):
            found = _decode(text)
            ids = {value for path in self._paths for value in at_path(found, path) if isinstance(value, str)}
            new = ids - self._noted
            if new:
                self._noted |= new
                task = asyncio.get_running_loop().create_task(self._note(new))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _note(self, ids: set[str]) -> None:
        store, key = self._context.entry.gateway.store, self._context.entry.key
        if store is None or key is None:
            return
        owner = ObjectOwner(self._context.record.provider, self._context.owner, key.options.owner)
        try:
            await store.service.write(store.store.objects.note, ids, owner)
        except StoreError as error:
            # Nobody can use them then, which does not concern the response.
            log.warning("owners cannot be noted", error=str(error), request_id=self._context.request_id)
