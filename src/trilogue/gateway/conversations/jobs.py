"""A background response while it runs: what the request's machinery writes for a client is stored instead.

In: the bytes of a stream, in pieces, as a client would get them. Out: its events in the store, in groups, with the id
of the job and numbers of their own, and the response itself with the last of them. Clients read both from the store.
The module does not know upstreams; which status a job ends with if there was no end of the stream is up to its caller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress

import msgspec
import structlog
from msgspec import Raw, Struct

from trilogue.base.json_text import DECODE_ERRORS, dump
from trilogue.base.sse import SseParser
from trilogue.gateway.conversations.objects import store_failure
from trilogue.gateway.conversations.store.jobs import JobKey
from trilogue.gateway.conversations.store.types import (
    WORKER_DIED,
    CommitUnsure,
    JobEnded,
    StoreDamaged,
    StoredResponse,
    StoreError,
    StoreUnavailable,
)
from trilogue.gateway.conversations.turn import StoredTurn
from trilogue.model import Json

GROUP_SECONDS = 0.05
RETRY_SECONDS = 1.0
MOST_WAITING = 1024 * 1024
"""Bytes of events that may wait for a slow store before the upstream is not read any more."""
MOST_EVENT_BYTES = 64 * 1024 * 1024
"""The last event repeats everything."""
CANCELLED, FAILED = "response.cancelled", "response.failed"
_TERMINAL = frozenset({"response.completed", "response.incomplete", FAILED, CANCELLED})
_ANNOUNCED = frozenset({"response.created", "response.queued", "response.in_progress"})
"""events that are stored when the job starts, before an upstream has sent them"""
_KEPT = ("id", "created_at", "background", "store", "previous_response_id", "conversation")
"""fields that an upstream does not know, or has other values for"""

log = structlog.get_logger("trilogue.gateway")

_decode_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_type = msgspec.json.Decoder(str).decode


class BackgroundJob:
    """One background response. `opening`: the response object as the client first gets it.

    It is also the `ClientLink` of the request's `Responder`. `on_stop` is called if the job was cancelled or deleted.
    """

    peer = ""

    def __init__(self, turn: StoredTurn, opening: Mapping[str, Json]) -> None:
        self.turn = turn
        self.opening = dict(opening)
        self.key: JobKey = (turn.owner, str(opening["id"]))
        self.on_stop: Callable[[], None] | None = None
        self.keep_alive = True
        self.paused = False
        self.on_flow: Callable[[bool], None] = _ignore
        self._kept = {name: Raw(dump(opening[name])) for name in _KEPT if name in opening}
        self._parser = SseParser(MOST_EVENT_BYTES)
        self._waiting: list[bytes] = []
        """events that are not stored yet"""
        self._size = 0
        self._stored = 0
        """how many events are stored"""
        self._final: bytes | None = None
        self._refused = False
        """whether the end could not be stored, so that a failure takes its place"""
        self._dirty = asyncio.Event()
        self._ended = False
        self._room = asyncio.Event()
        self._writing: asyncio.Task[None] | None = None
        self._jobs = turn.store.jobs
        self._service, self._store = turn.store.service, turn.store.store.jobs

    @property
    def number(self) -> int:
        """The number of the next event."""
        return self._stored + len(self._waiting)

    def response(self, status: str, **fields: Json) -> bytes:
        """Return the response object with another status."""
        return dump({**self.opening, "status": status, **fields})

    async def start(self) -> None:
        """Store the job with its first events. Raises StoreError."""
        running, _ = self.turn.stored(self.response("in_progress"))
        for kind, status in zip(("created", "queued", "in_progress"), ("queued", "queued", "in_progress"), strict=True):
            self._add(f"response.{kind}", {"response": Raw(self.response(status))})
        # In this order, and in one commit.
        await asyncio.gather(
            self._service.write(self._store.start, running, self._jobs.worker),
            self._service.write(self._store.add_events, self.key, self._jobs.worker, tuple(self._waiting)),
        )
        self._jobs.add(self.key, self.stop)
        self._note_stored(len(self._waiting))
        self._writing = asyncio.get_running_loop().create_task(self._write())

    def stop(self) -> None:
        """End the request: the response was cancelled or deleted, or another worker took this one for dead."""
        on_stop, self.on_stop = self.on_stop, None
        if on_stop is not None and not self._ended:
            on_stop()

    # --- the client's side of the request ---

    def put(self, data: bytes) -> None:
        """Take a piece of the stream."""
        for event in self._parser.feed(data):
            with suppress(*DECODE_ERRORS):
                fields = _decode_fields(event.data)
                self._take(event.event or _decode_type(fields.get("type", Raw(b'""'))), fields)

    def response_ended(self) -> None:
        """Do nothing at the end of the stream: `finish` stores it."""

    async def drained(self) -> None:
        """Wait until the store has taken what waits."""
        while self.paused:
            await self._room.wait()

    def _take(self, kind: str, fields: dict[str, Raw]) -> None:
        if kind in _ANNOUNCED or self._final is not None:
            return
        if "response" in fields:
            body = dump({**_decode_fields(fields["response"]), **self._kept})
            fields["response"] = Raw(body)
            if kind in _TERMINAL:
                self._final = body
        self._add(kind, fields)
        if self._size > MOST_WAITING and not self.paused:
            self.paused = True
            self._room.clear()
            self.on_flow(True)

    def _add(self, kind: str, fields: Mapping[str, Json]) -> None:
        numbered = {"type": kind, **fields, "sequence_number": self.number}
        frame = b"event: %b\ndata: %b\n\n" % (kind.encode(), dump(numbered))
        self._waiting.append(frame)
        self._size += len(frame)
        self._dirty.set()

    # --- the store ---

    async def _write(self) -> None:
        """Store events as they come, a group at a time. The last ones are stored by `finish`."""
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            # Wait a little: a fast model sends hundreds of events per second.
            await asyncio.sleep(GROUP_SECONDS)
            if self._is_over():
                return
            try:
                await self._store_waiting()
            except JobEnded:
                self.stop()
                return
            except StoreError as error:
                log.warning("events of a background response wait for the store", id=self.key[1], error=str(error))
                await asyncio.sleep(RETRY_SECONDS)
                self._dirty.set()

    def _is_over(self) -> bool:
        return self._ended or self._final is not None

    async def _store_waiting(self) -> None:
        group = tuple(self._waiting)
        if not group:
            return
        try:
            await self._service.write(self._store.add_events, self.key, self._jobs.worker, group)
        except CommitUnsure:
            found = await self._service.read(self._store.get, *self.key)
            group = group[: found.last_event + 1 - self._stored]
        self._note_stored(len(group))
        self._jobs.changed(self.key)

    def _note_stored(self, count: int) -> None:
        self._size -= sum(map(len, self._waiting[:count]))
        del self._waiting[:count]
        self._stored += count
        if self.paused and self._size <= MOST_WAITING:
            self.paused = False
            self._room.set()
            self.on_flow(False)

    async def finish(self, kind: str, otherwise: bytes) -> None:
        """Store the end: the one that came, or else an event of this kind with this response. Returns once it is done.

        A store that is away is tried again until the process ends; the job then counts as one whose worker died.
        """
        self._ended = True
        self._dirty.set()
        if self._writing is not None:
            await self._writing
        try:
            await self._save_end(kind, otherwise)
        finally:
            self._jobs.remove(self.key)

    async def _save_end(self, kind: str, otherwise: bytes) -> None:
        if self._final is None:
            self._end_with(kind, otherwise)
        while True:
            try:
                return await self._save(self._final or otherwise)
            except JobEnded:
                return None
            except StoreUnavailable as error:
                log.warning("a background response waits for the store", id=self.key[1], error=str(error))
                await asyncio.sleep(RETRY_SECONDS)
            except StoreDamaged:
                log.error("a background response is lost: the store is damaged", id=self.key[1])
                return None
            except StoreError as error:
                self._refuse(error)

    async def _save(self, body: bytes) -> None:
        response, append = self.turn.stored(body)
        events = tuple(self._waiting)
        failed = response.status in ("failed", "cancelled")
        await self._service.write(self._store.save, response, self._jobs.worker, events, None if failed else append)
        if append is not None and not failed:
            self.turn.appended()

    def _refuse(self, error: StoreError) -> None:
        """Replace an end that cannot be stored by a failure. Raises the error if that cannot be stored either."""
        if self._refused:
            raise error
        self._refused = True
        failure = store_failure(error)
        self._waiting.pop()
        body = self.response("failed", error={"code": failure.code, "message": failure.message})
        self._end_with(FAILED, body)

    def _end_with(self, kind: str, body: bytes) -> None:
        self._add(kind, {"response": Raw(body)})
        self._final = body


class _Background(Struct):
    background: bool | None = None


_decode_background = msgspec.json.Decoder(_Background).decode


def is_background(response: StoredResponse) -> bool:
    """Return whether a response was asked for in the background."""
    try:
        return bool(_decode_background(response.body).background)
    except DECODE_ERRORS:
        return False


def shown(response: StoredResponse) -> bytes:
    """Return the response object that clients get. One whose worker has died is a failed one."""
    if response.failure != WORKER_DIED:
        return response.body
    message = "The worker that ran this response has died. Please send the request again."
    fields = _decode_fields(response.body)
    return dump({**fields, "status": "failed", "error": {"code": "server_error", "message": message}})


def died_event(response: StoredResponse, number: int) -> bytes:
    """Return the last event of the stream of a response whose worker has died."""
    event = {"type": FAILED, "response": Raw(shown(response)), "sequence_number": number}
    return b"event: %b\ndata: %b\n\n" % (FAILED.encode(), dump(event))


def _ignore(paused: bool) -> None:
    """Ignore that the store is slow: there is no upstream yet."""
