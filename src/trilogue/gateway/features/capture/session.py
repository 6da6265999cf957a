"""Capture sessions: an administrator asks for the next so many requests that fit, and all workers capture them.

The session is one small file that the workers share, or memory if there is only one worker. Changes are made under a
lock, so that all workers together capture exactly as many requests as were asked for. A session ends when it has them,
when it is stopped, or when nobody has asked for its progress for a while: then whoever started it is gone.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from trilogue.base.json_text import DECODE_ERRORS, dumps, parse_object
from trilogue.base.posix import fcntl
from trilogue.capture import CaptureFolder
from trilogue.gateway.record import RequestRecord
from trilogue.model import Json

_END_BYTES = 256 * 1024
"""how much of the end of a file is read to find its last line"""


class CapturedRequest(Struct, frozen=True, kw_only=True):
    """One captured request. The fields have the names and meanings that they have in the log."""

    request_id: str
    at: float
    """when it began, in seconds since 1970"""
    bytes: int
    """the size of the file"""
    client: str = ""
    upstream: str = ""
    model: str = ""
    provider: str = ""
    upstream_model: str = ""
    key: str = ""
    status: int = 0
    error: str | None = None
    losses: tuple[str, ...] = ()
    duration_ms: float = 0.0
    redacted: bool = False


def captured_request(record: RequestRecord, size: int, *, redacted: bool) -> CapturedRequest:
    """Return what is shown of a request that has just been captured."""
    return CapturedRequest(
        request_id=record.request_id,
        at=time.time() - time.monotonic() + record.began_at,
        bytes=size,
        client=record.client,
        upstream=record.upstream,
        model=record.model,
        provider=record.provider,
        upstream_model=record.upstream_model,
        key=record.key,
        status=record.status,
        error=record.error,
        losses=record.loss_codes,
        duration_ms=round((record.ended_at - record.began_at) * 1000, 1),
        redacted=redacted,
    )


def captured_requests(folder: CaptureFolder, most: int) -> list[CapturedRequest]:
    """Return what is shown of the latest files in a folder, the newest first. Other files are left out."""
    found = [_of_file(path) for path in folder.files()[-most:]]
    return [one for one in reversed(found) if one is not None]


def _of_file(path: Path) -> CapturedRequest | None:
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            head = parse_object(file.readline(_END_BYTES))
            file.seek(-min(size, _END_BYTES), os.SEEK_END)
            end = parse_object(file.read().rstrip(b"\n").rpartition(b"\n")[2])
    except OSError:  # it was deleted in the meantime
        return None
    if head is None or end is None:
        return None
    record: dict[str, Json] = end.get("record") or {}
    shown = {name: record[name] for name in CapturedRequest.__struct_fields__ if name in record}
    losses = tuple(dict.fromkeys(loss["code"] for loss in record.get("losses") or ()))
    facts = {"request_id": path.stem, "at": head.get("started", 0.0), "redacted": bool(head.get("redacted"))}
    return CapturedRequest(**{**shown, **facts, "bytes": size, "losses": losses})


CLIENT_GONE = "client_gone"


class CaptureFilter(Struct, frozen=True, kw_only=True):
    """A choice of requests. What is not set does not matter; with `errors` and `losses`, one of the two is enough."""

    keys: tuple[str, ...] = ()
    """names of client keys"""
    models: tuple[str, ...] = ()
    """names or patterns of the model that the client asks for, or `provider/model` of one that it was sent to"""
    errors: bool = False
    """those that failed, or that an upstream failed to respond to before another one did"""
    losses: bool = False
    """those in which a loss was declared"""

    @property
    def is_decided_late(self) -> bool:
        """Whether only the end of a request shows that it is meant."""
        return self.errors or self.losses

    def has_key(self, record: RequestRecord) -> bool:
        """Return whether the client's key is one of those that are meant."""
        return not self.keys or record.key in self.keys

    def has_model(self, record: RequestRecord) -> bool:
        """Return whether the model is one of those that are meant, by the attempts so far."""
        if not self.models:
            return True
        attempts = record.decision.attempts if record.decision is not None else []
        names = [record.model, *(f"{attempt.provider}/{attempt.model}" for attempt in attempts)]
        return any(fnmatchcase(name, pattern) for name in names for pattern in self.models)

    def matches(self, record: RequestRecord, failed_attempts: int) -> bool:
        """Return whether a request that has ended is meant."""
        if not self.has_key(record) or not self.has_model(record):
            return False
        failed = self.errors and (failed_attempts > 0 or has_failed(record))
        return failed or (self.losses and bool(record.losses)) or not self.is_decided_late


def has_failed(record: RequestRecord) -> bool:
    """Return whether the client got an error. A client that disconnects is not one."""
    return record.failure is not None or (record.status >= 400 and record.error != CLIENT_GONE)


FILE_NAME = "capture-session.json"
MOST_REQUESTS = 1_000
LEASE_SECONDS = 15.0

State = Literal["running", "complete", "stopped", "abandoned"]


class SessionRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an administrator asks for."""

    requests: Annotated[int, Meta(ge=1, le=MOST_REQUESTS)]
    key: Annotated[str, Meta(max_length=200)] = ""
    model: Annotated[str, Meta(max_length=200)] = ""
    errors: bool = False
    losses: bool = False
    redact: bool = False
    lease_seconds: Annotated[float, Meta(ge=1, le=3_600)] = LEASE_SECONDS
    """how long the session lasts without anybody asking for its progress"""


class CaptureSession(Struct, frozen=True, kw_only=True):
    """A session so far. `leased_until`: a steady time, after which it is over if nobody renews it."""

    id: str
    asked: SessionRequest
    leased_until: float
    captured: tuple[CapturedRequest, ...] = ()
    is_stopped: bool = False

    @property
    def filter(self) -> CaptureFilter:
        """Which requests it wants."""
        asked = self.asked
        return CaptureFilter(
            keys=(asked.key,) if asked.key else (),
            models=(asked.model,) if asked.model else (),
            errors=asked.errors,
            losses=asked.losses,
        )

    @property
    def missing(self) -> int:
        """How many requests it still wants."""
        return self.asked.requests - len(self.captured)

    def state(self, now: float) -> State:
        """Return whether it is running, or why it has ended. `now`: a steady time."""
        if self.missing <= 0:
            return "complete"
        if self.is_stopped:
            return "stopped"
        return "running" if now < self.leased_until else "abandoned"

    def renewed(self, now: float) -> CaptureSession:
        """Return the session with a new lease, unless it has ended."""
        if self.state(now) != "running":
            return self
        return replace(self, leased_until=now + self.asked.lease_seconds)


_decode = msgspec.json.Decoder(CaptureSession).decode


class SessionStore:
    """The latest session of a gateway. `folder`: the one that workers share; None for a single worker.

    The methods block for a moment. `read` may be called on the event loop, `update` waits for files to be written.
    """

    def __init__(self, folder: Path | None) -> None:
        self._file = None if folder is None else folder / FILE_NAME
        self._lock = threading.Lock()
        self._kept: CaptureSession | None = None

    def read(self) -> CaptureSession | None:
        """Return the latest session, or None if there was none."""
        if self._file is None:
            return self._kept
        try:
            return _decode(self._file.read_bytes())
        except (OSError, *DECODE_ERRORS):
            return None

    def update(self, change: Callable[[CaptureSession | None], CaptureSession | None]) -> CaptureSession | None:
        """Replace the session by what `change` makes of it, and return that. Other workers wait meanwhile."""
        with self._lock, self._alone():
            before = self.read()
            after = change(before)
            if after is not None and after is not before:
                self._write(after)
            return after

    def _write(self, session: CaptureSession) -> None:
        if self._file is None:
            self._kept = session
            return
        part = self._file.with_suffix(".part")
        part.write_bytes(dumps(session))
        part.replace(self._file)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep the other workers from changing the session."""
        if self._file is None:
            yield
            return
        with self._file.with_suffix(".lock").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
