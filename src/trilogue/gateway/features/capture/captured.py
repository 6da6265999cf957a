"""One captured request in a few words, for lists of captures and for the progress of a session."""

from __future__ import annotations

import os
import time
from pathlib import Path

from msgspec import Struct

from trilogue.base.json_text import parse_object
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
