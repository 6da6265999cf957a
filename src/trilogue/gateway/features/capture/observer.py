"""The observer that records requests, as long as something is to be captured."""

from __future__ import annotations

from functools import lru_cache
from random import SystemRandom
from typing import Protocol as Interface

from trilogue.gateway.features.capture.filters import CaptureFilter, has_failed
from trilogue.gateway.features.capture.recording import Memory, Recording
from trilogue.gateway.observer import ByteObserver, Observer
from trilogue.gateway.record import BACKGROUND, INTERNAL, RequestRecord
from trilogue.model import Failure
from trilogue.net.server.request import Head
from trilogue.protocols.registry import CODECS
from trilogue.routing.pool.decision import Attempt

_random = SystemRandom().random


class Wanted(Interface):
    """What is to be captured now."""

    memory: Memory
    most_bytes: int
    sample: float
    filter: CaptureFilter
    """the requests of which the configuration wants a share"""

    def session_for(self, record: RequestRecord) -> str:
        """Return the id of the session that may want a request; "" if there is none, or enough have begun."""

    def reserve(self, session_id: str, count: int) -> None:
        """Note that so many more requests are recorded for a session; a negative number for fewer."""

    def may_match(self, session_id: str, record: RequestRecord) -> bool:
        """Return whether a session wants a request with this model."""

    def keep(self, recording: Recording, standing: bool, session_id: str) -> None:
        """Write a request that has ended, if it is wanted. `standing`: the configuration wants it."""


class _Running:
    """A recording, and for whom it is made. `session_id`: empty if no session may want it."""

    __slots__ = ("is_reserved", "recording", "session_id", "standing")

    def __init__(self, recording: Recording, standing: bool, session_id: str) -> None:
        self.recording = recording
        self.standing = standing
        self.session_id = session_id
        self.is_reserved = bool(session_id)


class CaptureObserver(Observer):
    """Records the requests that may be wanted, and hands over those that are when they end."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._running: dict[RequestRecord, _Running] = {}

    def bytes_observer(self, record: RequestRecord, head: Head) -> ByteObserver | None:
        """Return a recording, unless it is clear that nobody wants the request."""
        wanted = self._wanted
        if not _asks_for_output(record.path):
            return None
        standing = wanted.sample > 0 and wanted.filter.has_key(record) and _random() < wanted.sample
        session_id = wanted.session_for(record)
        if not standing and not session_id:
            return None
        if session_id:
            wanted.reserve(session_id, 1)
        recording = Recording(record, head, wanted.memory, wanted.most_bytes)
        self._running[record] = _Running(recording, standing, session_id)
        return recording

    def attempt_began(self, record: RequestRecord, attempt: Attempt) -> None:
        """Let another request take the place of one whose model is not wanted, unless a later attempt has another."""
        running = self._running.get(record)
        if running is not None and running.is_reserved and not self._wanted.may_match(running.session_id, record):
            self._release(running)

    def attempt_ended(self, record: RequestRecord, attempt: Attempt, failure: Failure | None) -> None:
        """Record why an attempt has no response."""
        running = self._running.get(record)
        if running is not None:
            running.recording.attempt_ended(attempt, failure)

    def request_ended(self, record: RequestRecord) -> None:
        """Hand over the recording if it can be of use."""
        running = self._running.pop(record, None)
        if running is None:
            return
        recording = running.recording
        self._release(running)
        standing = running.standing and self._wanted.filter.matches(record, recording.failed_attempts)
        if _is_of_use(recording) and (standing or running.session_id):
            self._wanted.keep(recording, standing, running.session_id)
        else:
            recording.discard()

    def _release(self, running: _Running) -> None:
        if running.is_reserved:
            running.is_reserved = False
            self._wanted.reserve(running.session_id, -1)


@lru_cache
def _asks_for_output(path: str) -> bool:
    """Return whether requests to this path get a model's output: not token counts, lists and other endpoints."""
    path = path.removesuffix(BACKGROUND).removesuffix(INTERNAL)
    for one in CODECS.values():
        endpoint = one.endpoint
        if path and path in (endpoint.path, endpoint.compaction):
            return True
        head = endpoint.in_url.read(path) if endpoint.in_url is not None else None
        if head is not None:
            return not head.counts
    return False


def _is_of_use(recording: Recording) -> bool:
    """Return whether a request was sent to an upstream, or failed before that with a body that shows why.

    The first response to a background request is neither.
    """
    record = recording.record
    return record.decision is not None or (recording.has_body and has_failed(record))
