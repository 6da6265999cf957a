"""A capture session: an administrator asks for the next so many requests, and all workers capture them together.

The session is one small file that the workers share, or memory if there is only one worker. Changes are made under a
lock, so that all workers together capture exactly as many requests as were asked for. A session ends when it has them,
when it is stopped, or when nobody has asked for its progress for a while: then whoever started it is gone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from trilogue.base.json_text import DECODE_ERRORS, dumps
from trilogue.base.posix import fcntl
from trilogue.gateway.features.capture.captured import CapturedRequest
from trilogue.gateway.features.capture.filters import CaptureFilter

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
