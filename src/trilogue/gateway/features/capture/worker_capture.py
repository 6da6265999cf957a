"""The captures of one worker: switched on by the configuration, by a session, or by both; otherwise it costs nothing.

Requests only have an observer while something is to be captured: `switch` adds and removes it. A worker learns of a
session when another worker tells it to `refresh`, and that it has ended at the latest when its lease is over.
"""

from __future__ import annotations

import asyncio
import queue
import secrets
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import structlog
from msgspec.structs import replace

from trilogue.base.clock import steady_time
from trilogue.capture import CaptureFolder
from trilogue.gateway.features.capture.recording import CaptureObserver, Memory, Recording
from trilogue.gateway.features.capture.session import (
    CapturedRequest,
    CaptureFilter,
    CaptureSession,
    SessionRequest,
    SessionStore,
    captured_request,
)
from trilogue.gateway.features.capture.settings import CaptureSettings
from trilogue.gateway.observer import Observer
from trilogue.gateway.record import RequestRecord

MOST_WAITING = 64
Job = Callable[[], None]


class WriterThread:
    """Runs jobs one after the other. The thread is started with the first one, after the process was forked."""

    def __init__(self, most_waiting: int = MOST_WAITING) -> None:
        self._jobs: queue.Queue[Job | None] = queue.Queue(most_waiting)
        self._thread: threading.Thread | None = None

    def put(self, job: Job) -> bool:
        """Add a job, and return whether there was room for it."""
        try:
            self._jobs.put_nowait(job)
        except queue.Full:
            return False
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="captures", daemon=True)
            self._thread.start()
        return True

    def close(self, seconds: float) -> None:
        """Wait this long for the jobs so far, and end the thread. The next job starts another one."""
        if self._thread is None:
            return
        try:
            self._jobs.put(None, timeout=seconds)
        except queue.Full:
            return
        self._thread.join(seconds)
        self._thread = None

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except Exception as error:  # the boundary of a task: the next capture may still be written
                log.error("a capture failed", error=type(error).__name__, exc_info=True)


FOLDER_NAME = "captures"
LEAST_MEMORY = 64 * 1024 * 1024
"""bytes that all recordings of a worker may have together, or four times those of one file if that is more"""
CLOSE_SECONDS = 3.0
DISK, MEMORY, BUSY, BUG = DROP_REASONS = ("disk", "memory", "busy", "bug")
"""why a capture was not written: the folder, too many bytes in memory, too many captures at once, an error of ours"""

log = structlog.get_logger("trilogue.capture")


class _Finished(NamedTuple):
    """A recording that is to be written. `session_id`: the session that wants it; empty if none does."""

    recording: Recording
    standing: bool
    """whether the configuration wants it"""
    session_id: str
    redact: bool


class WorkerCapture:
    """All captures of this worker. It outlives reloads.

    `folder`: where captures go by default. `shared`: the folder that several workers share; None for a single worker.
    `version`: that of Trilogue, which captures name.
    """

    def __init__(self, folder: Path, shared: Path | None = None, version: str = "") -> None:
        self._version = version
        self._default_folder = folder
        self._store = SessionStore(shared)
        self.thread = WriterThread()
        self._observer = CaptureObserver(self)
        self._switch: Callable[[Observer | None], None] | None = None
        self.settings = CaptureSettings()
        """those in use"""
        self.sample = 0.0
        """the share of requests that the configuration wants"""
        self.most_bytes = self.settings.max_file_bytes
        """the largest size of a file"""
        self._session: CaptureSession | None = None
        """the one that is running, as far as this worker knows"""
        self._begun = 0
        """requests that are recorded for it"""
        self._is_stale = False
        """whether the thread has changed the session"""
        self._session_filter = CaptureFilter()
        self.filter = CaptureFilter()
        """the requests of which the configuration wants a share"""
        self.folder = CaptureFolder(folder)
        self.memory = Memory(LEAST_MEMORY)
        self.written = 0
        self.dropped: Counter[str] = Counter()
        self.last_error = ""
        """why the last capture was not written; empty if it was"""

    # --- what is on ---

    def configure(self, settings: CaptureSettings, switch: Callable[[Observer | None], None]) -> None:
        """Use the settings of a new configuration. `switch`: sets the observer of its requests."""
        self.settings, self._switch = settings, switch
        self.sample, self.most_bytes = settings.sample, settings.max_file_bytes
        self.filter = CaptureFilter(
            keys=settings.keys, models=settings.models, errors=settings.errors, losses=settings.losses
        )
        folder = Path(settings.folder).expanduser() if settings.folder else self._default_folder
        self.folder = CaptureFolder(folder, most_files=settings.max_files, most_bytes=settings.max_total_bytes)
        self.memory.most = max(LEAST_MEMORY, 4 * settings.max_file_bytes)
        self.refresh()

    def refresh(self) -> None:
        """Read which session is running, and switch captures on or off."""
        latest = self._store.read()
        is_running = latest is not None and latest.state(steady_time()) == "running"
        before, self._session = self._session, latest if is_running else None
        self._session_filter = CaptureFilter() if self._session is None else self._session.filter
        self._is_stale = False
        if self._session is None or before is None or before.id != self._session.id:
            self._begun = 0
        if self._switch is not None:
            self._switch(self._observer if self.is_on else None)

    def tick(self) -> None:
        """Notice that a session has ended."""
        if self._session is not None and (self._is_stale or steady_time() >= self._session.leased_until):
            self.refresh()

    @property
    def is_on(self) -> bool:
        """Whether requests are recorded."""
        return self.sample > 0 or self._session is not None

    @property
    def latest_session(self) -> CaptureSession | None:
        """The session that is running, or the last one."""
        return self._store.read()

    # --- sessions; these wait for files, so they must not be called on the event loop ---

    def start(self, asked: SessionRequest) -> tuple[CaptureSession | None, bool]:
        """Start a session, unless one is running. Return the one that is running now, and whether it is new."""
        now = steady_time()
        new = CaptureSession(id=secrets.token_hex(8), asked=asked, leased_until=now + asked.lease_seconds)

        def started(latest: CaptureSession | None) -> CaptureSession:
            return new if latest is None or latest.state(now) != "running" else latest

        session = self._store.update(started)
        return session, session is new

    def renew(self, session_id: str) -> CaptureSession | None:
        """Keep a session from being abandoned, and return the latest one."""
        return self._store.update(partial(_with, session_id, lambda session: session.renewed(steady_time())))

    def stop(self, session_id: str) -> CaptureSession | None:
        """End a session, and return the latest one."""
        return self._store.update(partial(_with, session_id, lambda session: replace(session, is_stopped=True)))

    # --- requests ---

    def session_for(self, record: RequestRecord) -> str:
        """Return the id of the session that may want a request; "" if there is none, or enough have begun."""
        session, chosen = self._session, self._session_filter
        if session is None or not chosen.has_key(record):
            return ""
        # Which requests fail or lose something is only known at their end, so all of them are recorded.
        return session.id if chosen.is_decided_late or self._begun < session.missing else ""

    def reserve(self, session_id: str, count: int) -> None:
        """Note that so many more requests are recorded for a session; a negative number for fewer."""
        if self._session is not None and self._session.id == session_id:
            self._begun += count

    def may_match(self, session_id: str, record: RequestRecord) -> bool:
        """Return whether a session wants a request with this model."""
        session = self._session
        return session is not None and session.id == session_id and self._session_filter.has_model(record)

    def keep(self, recording: Recording, standing: bool, session_id: str) -> None:
        """Write a request that has ended, if it is wanted. `standing`: the configuration wants it."""
        session, redact = self._session, self.settings.redact
        if session is None or session.id != session_id or not self._matches(recording):
            session_id = ""
        else:
            redact = redact or session.asked.redact
        if not standing and not session_id:
            recording.discard()
        elif recording.out_of_memory:
            self._drop(MEMORY, "too many bytes in memory")
        elif not self.thread.put(partial(self._write, _Finished(recording, standing, session_id, redact))):
            recording.discard()
            self._drop(BUSY, "too many captures wait to be written")

    def _matches(self, recording: Recording) -> bool:
        return self._session_filter.matches(recording.record, recording.failed_attempts)

    async def aclose(self) -> None:
        """Write what waits, and end the thread."""
        await asyncio.to_thread(self.thread.close, CLOSE_SECONDS)

    # --- in the thread ---

    def _write(self, finished: _Finished) -> None:
        """Write a recording for the configuration, and for a session if that still wants it."""
        try:
            line = self._captured(finished) if finished.standing else None
            if finished.session_id:
                self._store.update(partial(_with, finished.session_id, partial(self._claimed, finished, line)))
                self._is_stale = True
        except OSError as error:
            self._drop(DISK, error.strerror or type(error).__name__)
        except BaseException:
            self._drop(BUG, "an error of the gateway")
            raise
        finally:
            finished.recording.discard()

    def _claimed(self, finished: _Finished, line: CapturedRequest | None, session: CaptureSession) -> CaptureSession:
        """Return a session with one more request, unless it has ended. Writes the capture if that was not done yet."""
        if session.state(steady_time()) != "running":
            return session
        line = line or self._captured(finished)
        return session if line is None else replace(session, captured=(*session.captured, line))

    def _captured(self, finished: _Finished) -> CapturedRequest | None:
        """Write the file of a recording. Return its line in the list; None if it was dropped."""
        record, folder = finished.recording.record, self.folder
        data = finished.recording.file(
            redact=finished.redact,
            most_bytes=self.most_bytes,
            version=self._version,
        )
        if folder.write(record.request_id, data) is None:
            self._drop(DISK, folder.last_error)
            return None
        self.written += 1
        self.last_error = ""
        return captured_request(record, len(data), redacted=finished.redact)

    def _drop(self, reason: str, error: str) -> None:
        if not self.last_error:
            log.warning("a capture was dropped", reason=error)
        self.dropped[reason] += 1
        self.last_error = error


def _with(
    session_id: str, change: Callable[[CaptureSession], CaptureSession], latest: CaptureSession | None
) -> CaptureSession | None:
    """Return the latest session with a change, if it is the one that is meant."""
    return change(latest) if latest is not None and latest.id == session_id else latest
