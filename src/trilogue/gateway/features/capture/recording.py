"""What happens to one request, kept in memory until it ends.

On the event loop, bytes are only collected. Masking credentials, redaction and writing are done in a thread, from the
steps that a `Recording` has when its request is over.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from random import SystemRandom
from typing import Protocol as Interface

from msgspec import to_builtins
from msgspec.structs import replace

from trilogue.capture import CaptureHead, CapturePhase, CaptureWriter, Sent
from trilogue.capture.format import VERSION, WITHOUT_POLICIES
from trilogue.capture.redaction import redact_text
from trilogue.gateway.features.capture.session import CaptureFilter, has_failed
from trilogue.gateway.observer import ByteObserver, Observer
from trilogue.gateway.record import BACKGROUND, INTERNAL, RequestRecord
from trilogue.model import Failure, FailureKind, Json, Protocol
from trilogue.net.server.request import Head
from trilogue.net.server.responder import Headers
from trilogue.protocols.registry import CODECS
from trilogue.routing.pool.decision import Attempt

BLOCK_BYTES = 32 * 1024
"""memory is reserved in blocks of this size, so that most pieces need not ask for it"""
STEP_BYTES = 200
"""about what a step takes in memory besides its data"""

_OURS = frozenset(
    {
        FailureKind.TIMEOUT,
        FailureKind.UNAVAILABLE,
        FailureKind.UPSTREAM_CONNECT,
        FailureKind.UPSTREAM_PROTOCOL,
        FailureKind.UPSTREAM_TRUNCATED,
    }
)
"""failures that the bytes of the upstream do not show"""
_NOT_SHOWN = frozenset({"began_at", "content_at", "ended_at", "loss_codes", "failure", "policies"})
"""fields of the record that mean nothing without its clock, or that have lines of their own"""
_RELEASED = "released"
_CANCELLED = "the request was cancelled"

Step = tuple[Callable[..., None], float, tuple[object, ...]]


class Memory:
    """The bytes that all recordings of a worker may keep together, those that wait to be written included."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.used = 0
        self._lock = threading.Lock()

    def take(self, size: int) -> bool:
        """Reserve bytes, and return whether there was room for them."""
        with self._lock:
            if self.used + size > self.most:
                return False
            self.used += size
            return True

    def give_back(self, size: int) -> None:
        """Make room for others."""
        with self._lock:
            self.used -= size


class Recording(ByteObserver):
    """One request so far. `most_bytes`: how much of its responses is kept."""

    def __init__(self, record: RequestRecord, head: Head, memory: Memory, most_bytes: int) -> None:
        self.record = record
        self.failed_attempts = 0
        self.has_body = False
        self.out_of_memory = False
        self._head = head
        self._memory = memory
        self._room = most_bytes
        self._clock = time.time() - time.monotonic()
        self._steps: list[Step] = []
        self._size = 0
        """bytes that are reserved, and how many of them are not used yet"""
        self._free = 0
        self._left_out: Counter[CapturePhase] = Counter()
        self._body = b""
        self._attempt: Attempt | None = None
        """the one that was sent last, and the status of its response"""
        self._status = 0
        self._has_head = False

    # --- on the event loop ---

    def inbound_request(self, body: bytes) -> None:
        """Keep the client's request."""
        head = self._head
        query = f"?{head.query.decode('latin-1')}" if head.query else ""
        target = (head.method, f"{head.path}{query}")
        self.has_body, self._body = True, body
        self._add(len(body), CaptureWriter.inbound, Protocol.parse(self.record.client), target, head.headers, body)

    def provider_request(self, attempt: Attempt, sent: Sent) -> None:
        """Keep the request of an attempt, or the one that continues the response of the same attempt."""
        continues, self._attempt, self._status = attempt is self._attempt, attempt, 0
        if sent.input == self._body:
            sent = replace(sent, input=b"")
        self._add(len(sent.body) + len(sent.input), CaptureWriter.attempt, sent, continues)

    def upstream_head(self, attempt: Attempt, status: int, headers: Sequence[tuple[str, str]]) -> None:
        """Keep the status and headers of an upstream's response."""
        self._status = status
        self._add(0, CaptureWriter.upstream_start, status, tuple(headers))

    def upstream_response(self, attempt: Attempt, data: bytes, at: float) -> None:
        """Keep a piece of an upstream's response."""
        if self._has_room(CapturePhase.UPSTREAM_RESPONSE, len(data)):
            self._steps.append((CaptureWriter.upstream_chunk, at, (data,)))

    def outbound_head(self, status: int, headers: Headers) -> None:
        """Keep the status and headers of the response to the client."""
        self._has_head = True
        shown = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in headers)
        self._add(0, CaptureWriter.outbound_start, status, shown)

    def outbound_response(self, data: bytes, at: float) -> None:
        """Keep a piece of the response to the client."""
        if not self._has_head:
            # The stream of a background job goes to the store, without an HTTP response.
            self.outbound_head(200, [])
        if self._has_room(CapturePhase.OUTBOUND_RESPONSE, len(data)):
            self._steps.append((CaptureWriter.outbound_chunk, at, (data,)))

    def attempt_ended(self, attempt: Attempt, failure: Failure | None) -> None:
        """Keep why an attempt has no complete response."""
        if failure is not None:
            self.failed_attempts += 1
        if attempt is not self._attempt or self._status >= 400:
            return  # nothing was sent, or the response says what failed
        if failure is not None and failure.kind in _OURS:
            self._add(0, CaptureWriter.upstream_failed, failure.message)
        elif failure is None and attempt.action == _RELEASED:
            self._add(0, CaptureWriter.upstream_failed, _CANCELLED)

    def discard(self) -> None:
        """Forget everything, also what is still to come."""
        self._memory.give_back(self._size)
        self._steps, self._size, self._free, self._room, self._body = [], 0, 0, -1, b""

    def _add(self, size: int, step: Callable[..., None], *facts: object) -> None:
        if self._reserve(size + STEP_BYTES):
            self._steps.append((step, time.monotonic(), facts))

    def _has_room(self, phase: CapturePhase, size: int) -> bool:
        """Return whether a piece of a response is to be kept. Count it if it is not."""
        if size > self._room:
            self._left_out[phase] += size
            return False
        self._room -= size
        return self._reserve(size + STEP_BYTES)

    def _reserve(self, size: int) -> bool:
        """Take memory for something, and return whether it is to be kept. Without memory, everything is forgotten."""
        self._free -= size
        if self._free >= 0:
            return self._room >= 0
        block = max(BLOCK_BYTES, -self._free)
        if self._room < 0 or not self._memory.take(block):
            self.out_of_memory = self.out_of_memory or self._room >= 0
            self.discard()
            return False
        self._size += block
        self._free += block
        return True

    # --- in the thread that writes ---

    def file(self, *, redact: bool, most_bytes: int, version: str) -> bytes:
        """Return the bytes of the capture."""
        record = self.record
        started = record.began_at + self._clock
        form = VERSION if record.policies else WITHOUT_POLICIES
        head = CaptureHead(version=form, request_id=record.request_id, started=started, trilogue=version)
        writer = CaptureWriter(head, redact=redact, most_bytes=most_bytes)
        for step, at, facts in self._steps:
            step(writer, at + self._clock, *facts)
        ended = record.ended_at + self._clock
        for phase, size in self._left_out.items():
            writer.left_out(ended, phase, size)
        for one in record.policies:
            writer.policy(one.at + self._clock, one)
        writer.finished(ended, _outcome(record, redact=redact))
        return writer.take()


def _outcome(record: RequestRecord, *, redact: bool) -> dict[str, Json]:
    """Return what is known about a request that is over, with the names that the log uses."""
    plain: dict[str, Json] = to_builtins(record)
    began, failure = record.began_at, record.failure
    known = {name: value for name, value in plain.items() if name not in _NOT_SHOWN}
    known["ttft_ms"] = None if record.content_at is None else round((record.content_at - began) * 1000, 1)
    known["duration_ms"] = round((record.ended_at - began) * 1000, 1)
    # The words of an error may repeat some of the prompt.
    known["reason"] = None if failure is None else redact_text(failure.message) if redact else failure.message
    return known


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
