"""Reading a capture file: bytes in, one `Capture` out, or a `CaptureError` that says what is wrong."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec import Struct, field

from trilogue.base.json_text import DECODE_ERRORS, parse_object
from trilogue.capture.format import (
    FORMAT,
    POLICY,
    VERSION,
    CaptureError,
    CaptureHead,
    CapturePhase,
    End,
    Line,
    Plan,
    PolicyLine,
)
from trilogue.model import Json, Protocol

Kind = TypeVar("Kind", CaptureHead, Line, End, Plan, PolicyLine)


class Exchanged(Struct, kw_only=True):
    """A request or a response: its head, and its body in the pieces in which it was sent, each with its time."""

    at: float = 0.0
    protocol: Protocol | None = None
    method: str = ""
    url: str = ""
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    pieces: list[tuple[float, bytes]] = field(default_factory=list)
    omitted: int = 0
    error: str = ""

    @property
    def body(self) -> bytes:
        """The whole body, joined from the pieces in which it arrived."""
        return b"".join(data for _, data in self.pieces)


class CapturedAttempt(Struct, kw_only=True):
    """One attempt: what was sent to the upstream, and what came back."""

    request: Exchanged
    plan: Plan
    input: bytes = b""
    """the request that was translated; empty if it is the client's body"""
    response: Exchanged = field(default_factory=Exchanged)


class Capture(Struct, kw_only=True):
    """A capture file. `complete`: it was written to its end."""

    head: CaptureHead
    inbound: Exchanged | None = None
    attempts: list[CapturedAttempt] = field(default_factory=list)
    outbound: Exchanged = field(default_factory=Exchanged)
    policies: list[PolicyLine] = field(default_factory=list)
    """what policies decided, in the order in which they did"""
    record: Json = None
    complete: bool = False
    omitted: int = 0
    """bytes that were left out because the file had reached its largest size"""


def is_capture(data: bytes) -> bool:
    """Return whether a file says that it is a capture, of any version."""
    first = parse_object(data.partition(b"\n")[0])
    return first is not None and first.get("format") == FORMAT


def read_capture(data: bytes) -> Capture:
    """Return the capture. Raises `CaptureError` if it is not one, is damaged, or has a newer version.

    A file that ends in the middle of a line is read up to there: the gateway was stopped while it wrote the file.
    """
    first, _, rest = data.partition(b"\n")
    capture = Capture(head=_head(first))
    lines = rest.split(b"\n")
    for number, line in enumerate(lines, 2):
        if not line.strip():
            continue
        is_cut = number == len(lines) + 1
        try:
            _add(capture, line, number)
        except CaptureError:
            if not is_cut:
                raise
    return capture


def _head(line: bytes) -> CaptureHead:
    first = parse_object(line)
    if first is None or first.get("format") != FORMAT:
        raise CaptureError(f"this is not a capture file: its first line must be a JSON object with format {FORMAT}")
    version = first.get("version")
    if not isinstance(version, int) or version < 1:
        raise CaptureError("line 1: version must be a positive number")
    if version > VERSION:
        raise CaptureError(f"the file has version {version}, and this Trilogue reads versions up to {VERSION}: upgrade")
    return _converted(first, CaptureHead, 1)


def _add(capture: Capture, data: bytes, number: int) -> None:
    fields = parse_object(data)
    if fields is None:
        raise CaptureError(f"line {number} is not a JSON object")
    if fields.get("end") is True:
        end = _converted(fields, End, number)
        capture.complete, capture.record, capture.omitted = True, end.record, end.omitted
        return
    if fields.get("phase") == POLICY:
        capture.policies.append(_converted(fields, PolicyLine, number))
        return
    if fields.get("phase") not in tuple(CapturePhase):
        return
    line = _converted(fields, Line, number)
    try:
        _ADD[line.phase](capture, line, number)
    except ValueError:
        raise CaptureError(f"line {number}: base64 is not valid") from None


def _add_inbound(capture: Capture, line: Line, _: int) -> None:
    if capture.inbound is None:
        capture.inbound = Exchanged()
    _extend(capture.inbound, line)


def _add_attempt(capture: Capture, line: Line, number: int) -> None:
    if line.attempt != len(capture.attempts) + 1:
        raise CaptureError(f"line {number}: attempt {line.attempt} follows attempt {len(capture.attempts)}")
    request = Exchanged()
    _extend(request, line)
    plan = _converted(line.plan or {}, Plan, number)
    capture.attempts.append(CapturedAttempt(request=request, plan=plan, input=line.input.encode("utf-8", "replace")))


def _add_upstream(capture: Capture, line: Line, number: int) -> None:
    if not 1 <= line.attempt <= len(capture.attempts):
        raise CaptureError(f"line {number}: there is no provider_request of attempt {line.attempt}")
    _extend(capture.attempts[line.attempt - 1].response, line)


def _add_outbound(capture: Capture, line: Line, _: int) -> None:
    _extend(capture.outbound, line)


_ADD = {
    CapturePhase.INBOUND_REQUEST: _add_inbound,
    CapturePhase.PROVIDER_REQUEST: _add_attempt,
    CapturePhase.UPSTREAM_RESPONSE: _add_upstream,
    CapturePhase.OUTBOUND_RESPONSE: _add_outbound,
}


def _extend(exchanged: Exchanged, line: Line) -> None:
    """Add a line to a request or a response: its head, or more of its body."""
    if line.protocol is not msgspec.UNSET:
        exchanged.protocol = line.protocol
    exchanged.method, exchanged.url = line.method or exchanged.method, line.url or exchanged.url
    if line.status or line.headers:
        exchanged.at, exchanged.status, exchanged.headers = line.at, line.status, line.headers
    exchanged.error = line.error or exchanged.error
    exchanged.omitted += line.omitted
    body = line.body()
    if body:
        exchanged.pieces.append((line.at, body))


def _converted(fields: Json, kind: type[Kind], number: int) -> Kind:
    try:
        return msgspec.convert(fields, kind)
    except (msgspec.ValidationError, *DECODE_ERRORS) as error:
        raise CaptureError(f"line {number}: {error}") from None
