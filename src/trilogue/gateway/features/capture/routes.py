"""The part of the admin interface that starts capture sessions, and shows captures.

A session belongs to all workers. Whichever of them gets a request changes the session, and then tells the others.
"""

from __future__ import annotations

import asyncio
from collections import Counter

import msgspec
import structlog
from msgspec import Struct

from trilogue.base.clock import steady_time
from trilogue.gateway.admin.audit import audited
from trilogue.gateway.admin.routes import AdminCall, AdminError, AdminRoute, RawReply, Reply
from trilogue.gateway.admin.settings import AdminRole
from trilogue.gateway.admin.worker_group import OtherWorkers
from trilogue.gateway.features.capture.session import CaptureSession, SessionRequest, captured_requests
from trilogue.gateway.features.capture.worker_capture import WorkerCapture
from trilogue.model import Json

QUESTION = "capture"
LATEST = 1_000

log = structlog.get_logger("trilogue.admin")


class CaptureCounts(Struct, frozen=True, kw_only=True):
    """What one worker has captured since it started."""

    written: int = 0
    dropped: dict[str, int] = {}
    last_error: str = ""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(CaptureCounts).decode


def routes(capture: WorkerCapture | None, workers: OtherWorkers) -> tuple[AdminRoute, ...]:
    """Return the routes of captures, and let other workers tell this one that the session has changed."""
    if capture is None:
        return ()
    part = _CapturesPart(capture, workers)
    workers.register(QUESTION, part.for_others)
    return (
        AdminRoute("GET", "capture", part.status, AdminRole.VIEWER),
        AdminRoute("POST", "capture", part.start, AdminRole.OPERATOR),
        AdminRoute("DELETE", "capture/{session}", part.stop, AdminRole.OPERATOR),
        AdminRoute("GET", "captures", part.list, AdminRole.VIEWER),
        AdminRoute("GET", "captures/{request}", part.show, AdminRole.OPERATOR),
    )


class _CapturesPart:
    """The captures of this worker and of all others."""

    def __init__(self, capture: WorkerCapture, workers: OtherWorkers) -> None:
        self._capture = capture
        self._workers = workers

    async def status(self, call: AdminCall) -> Reply:
        """Return what is captured now. Whoever names its session keeps it from being abandoned."""
        named = call.query.get("session")
        if named is not None and call.may(AdminRole.OPERATOR):
            await asyncio.to_thread(self._capture.renew, named)
        return await self._status()

    async def start(self, call: AdminCall) -> Reply:
        """Start a session."""
        try:
            asked = msgspec.convert(await call.body(), SessionRequest)
        except msgspec.ValidationError as error:
            raise AdminError(400, f"this session cannot be started: {error}", "bad_capture") from None
        most = self._capture.settings.max_files
        if asked.requests > most:
            text = f"{asked.requests} requests are more than the folder may have files (capture.max_files: {most})"
            raise AdminError(400, text, "bad_capture")
        if asked.key and asked.key not in call.gateway.access.keys.names:
            raise AdminError(400, "key must be the name of a client key", "no_such_key")
        session, is_new = await asyncio.to_thread(self._capture.start, asked)
        if not is_new:
            raise AdminError(409, "another capture session is running", "capture_running")
        await self._audit_start(call, session)
        return await self._status()

    async def stop(self, call: AdminCall) -> Reply:
        """End a session, if it is the latest one."""
        latest = self._capture.latest_session
        if latest is None or latest.id != call.ids[0]:
            raise AdminError(404, "there is no such capture session", "no_such_session")
        state = latest.state(steady_time())
        if state == "running":
            await audited(call, "stop capture", latest.id, before={"state": state}, after={"state": "stopped"})
        await asyncio.to_thread(self._capture.stop, latest.id)
        log.info("capture session", action="stop", session=latest.id, by=call.actor.who)
        return await self._status()

    async def _audit_start(self, call: AdminCall, session: CaptureSession | None) -> None:
        """Write a session into the audit log, or stop it. Its id is not known before it starts."""
        if session is None:
            return
        try:
            await audited(call, "start capture", session.id, after=msgspec.to_builtins(session.asked))
        except AdminError:
            await asyncio.to_thread(self._capture.stop, session.id)
            raise
        log.info("capture session", action="start", session=session.id, by=call.actor.who)

    async def list(self, call: AdminCall) -> Reply:
        """Return the captures in the folder, the newest first."""
        folder = self._capture.folder
        found = await asyncio.to_thread(captured_requests, folder, LATEST)
        return {"folder": str(folder.folder), "captures": msgspec.to_builtins(found)}

    async def show(self, call: AdminCall) -> Reply:
        """Return the file of one request."""
        data = await asyncio.to_thread(self._capture.folder.read, call.ids[0])
        if data is None:
            raise AdminError(404, "there is no capture of this request", "no_such_capture")
        return RawReply("application/jsonl", data)

    def for_others(self, _: str) -> bytes:
        """Read the session again for another worker, and return what this worker has captured."""
        self._capture.refresh()
        return _encode(self._counts())

    def _counts(self) -> CaptureCounts:
        capture = self._capture
        return CaptureCounts(written=capture.written, dropped=dict(capture.dropped), last_error=capture.last_error)

    async def _status(self) -> Reply:
        """Let all workers read the session again, and return what they capture."""
        self._capture.refresh()
        others = [_decode(reply) for reply in await self._workers.ask(QUESTION)]
        counts, dropped = [self._counts(), *others], Counter[str]()
        for one in counts:
            dropped.update(one.dropped)
        settings, session = self._capture.settings, self._capture.latest_session
        return {
            "active": self._capture.is_on,
            "sample": settings.sample,
            "redact": settings.redact,
            "folder": str(self._capture.folder.folder),
            "written": sum(one.written for one in counts),
            "dropped": dict(dropped),
            "last_error": next((one.last_error for one in counts if one.last_error), ""),
            "session": None if session is None else _shown(session),
        }


def _shown(session: CaptureSession) -> dict[str, Json]:
    asked: dict[str, Json] = msgspec.to_builtins(session.asked)
    return {
        "id": session.id,
        "state": session.state(steady_time()),
        **asked,
        "captured": msgspec.to_builtins(session.captured),
    }
