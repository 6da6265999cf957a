"""Writing a capture while its request runs: calls in, lines out.

The writer does no I/O: `take` returns the bytes of all lines since the last call, and the caller decides when and
where they are written. The file has a largest size; what no longer fits is counted and left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct, to_builtins

from trilogue.capture.credentials import CredentialFilter, mask_keys, shown_headers, shown_url, without_credentials
from trilogue.capture.format import CaptureHead, CapturePhase, End, Line, Plan, body_fields
from trilogue.capture.redaction import StreamRedactor, redact_body
from trilogue.jsontext.text import dumps
from trilogue.model import Json, Loss, Protocol
from trilogue.profiles import Profile

MOST_BYTES = 16 * 1024 * 1024
"""the default for the largest size of a file"""

Headers = Mapping[str, str] | Iterable[tuple[str, str]]
Mask = Callable[[bytes], bytes]
_DEFAULTS = to_builtins(Profile())


class Sent(Struct, frozen=True, kw_only=True):
    """What is captured of an attempt: the request to the upstream, and what its translation depended on."""

    protocol: Protocol
    url: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    provider: str = ""
    account: str = ""
    model: str = ""
    profile: Profile | None = None
    fitted: bool = False
    repair: bool = False
    losses: tuple[Loss, ...] = ()

    def plan(self) -> Plan:
        """Return the part that a replay needs."""
        return Plan(
            provider=self.provider,
            account=self.account,
            model=self.model,
            profile=changed_fields(self.profile) if self.profile is not None else {},
            fitted=self.fitted,
            repair=self.repair,
            losses=self.losses,
        )


def changed_fields(profile: Profile) -> dict[str, Json]:
    """Return the fields of a profile that are not defaults, as plain data."""
    plain: dict[str, Json] = to_builtins(profile)
    return {name: value for name, value in plain.items() if value != _DEFAULTS[name]}


class _Body:
    """A body that arrives in pieces, on its way into the file."""

    def __init__(self, redact: bool) -> None:
        self._credentials = CredentialFilter()
        self._redactor = StreamRedactor() if redact else None

    def feed(self, data: bytes) -> bytes:
        data = self._credentials.feed(data)
        return data if self._redactor is None else self._redactor.feed(data)

    def close(self) -> bytes:
        rest = self._credentials.close()
        return rest if self._redactor is None else self._redactor.feed(rest) + self._redactor.close()


class CaptureWriter:
    """The capture of one request. Times are seconds on the clock that `head.started` was taken from.

    `redact`: replace texts by placeholders. `most_bytes`: the largest size of the file. `mask`: removes further
    credentials from bodies, in addition to what looks like a key.
    """

    def __init__(
        self, head: CaptureHead, *, redact: bool = False, most_bytes: int = MOST_BYTES, mask: Mask | None = None
    ) -> None:
        self._started = head.started
        self._redact = redact
        self._room = most_bytes
        self._mask = mask
        self._lines: list[bytes] = []
        self._omitted = 0
        self._attempt = 0
        self._bodies: dict[CapturePhase, _Body] = {}
        self._put(
            CaptureHead(request_id=head.request_id, started=head.started, redacted=redact, trilogue=head.trilogue)
        )

    def take(self) -> bytes:
        """Return the lines since the last call."""
        lines, self._lines = self._lines, []
        return b"".join(lines)

    def inbound(self, time: float, protocol: Protocol, target: tuple[str, str], headers: Headers, body: bytes) -> None:
        """Add the client's request. `target`: its method and its path with query."""
        method, url = target
        line = Line(
            phase=CapturePhase.INBOUND_REQUEST,
            at=self._at(time),
            protocol=protocol,
            method=method,
            url=shown_url(url),
            headers=shown_headers(headers),
        )
        self._put_body(line, self._clean(body))

    def attempt(self, time: float, sent: Sent) -> None:
        """Add the request of the next attempt."""
        self._flush(CapturePhase.UPSTREAM_RESPONSE, time)
        self._attempt += 1
        line = Line(
            phase=CapturePhase.PROVIDER_REQUEST,
            at=self._at(time),
            attempt=self._attempt,
            protocol=sent.protocol,
            method="POST",
            url=shown_url(sent.url),
            headers=shown_headers(sent.headers),
            plan=to_builtins(sent.plan()),
        )
        self._put_body(line, self._clean(sent.body))

    def upstream_start(self, time: float, status: int, headers: Headers) -> None:
        """Add the head of the upstream's response to the current attempt."""
        self._start(CapturePhase.UPSTREAM_RESPONSE, time, status, headers)

    def upstream_chunk(self, time: float, data: bytes) -> None:
        """Add bytes of the upstream's response."""
        self._chunk(CapturePhase.UPSTREAM_RESPONSE, time, data)

    def upstream_failed(self, time: float, error: str) -> None:
        """Add why there is no response, or why it ended early. The text must be safe to show."""
        self._flush(CapturePhase.UPSTREAM_RESPONSE, time)
        text = mask_keys(error.encode("utf-8", "replace")).decode()
        self._put(Line(phase=CapturePhase.UPSTREAM_RESPONSE, at=self._at(time), attempt=self._attempt, error=text))

    def outbound_start(self, time: float, status: int, headers: Headers) -> None:
        """Add the head of the response that the client gets."""
        self._start(CapturePhase.OUTBOUND_RESPONSE, time, status, headers)

    def outbound_chunk(self, time: float, data: bytes) -> None:
        """Add bytes that the client gets."""
        self._chunk(CapturePhase.OUTBOUND_RESPONSE, time, data)

    def finished(self, time: float, record: Json = None) -> None:
        """Add the last line. `record`: the line of the access log, as plain data."""
        for phase in list(self._bodies):
            self._flush(phase, time)
        # The last line is always written: without it, a file looks damaged.
        self._lines.append(dumps(End(at=self._at(time), omitted=self._omitted, record=record)) + b"\n")

    def _start(self, phase: CapturePhase, time: float, status: int, headers: Headers) -> None:
        at, attempt = self._at(time), self._attempt_of(phase)
        self._put(Line(phase=phase, at=at, attempt=attempt, status=status, headers=shown_headers(headers)))

    def _chunk(self, phase: CapturePhase, time: float, data: bytes) -> None:
        body = self._bodies.get(phase)
        if body is None:
            body = self._bodies[phase] = _Body(self._redact)
        self._put_chunk(phase, time, body.feed(data))

    def _flush(self, phase: CapturePhase, time: float) -> None:
        """Add what was held back of a body."""
        body = self._bodies.pop(phase, None)
        if body is not None:
            self._put_chunk(phase, time, body.close())

    def _put_chunk(self, phase: CapturePhase, time: float, data: bytes) -> None:
        if data:
            line = Line(phase=phase, at=self._at(time), attempt=self._attempt_of(phase))
            self._put_body(line, data if self._mask is None else self._mask(data))

    def _attempt_of(self, phase: CapturePhase) -> int:
        return self._attempt if phase is CapturePhase.UPSTREAM_RESPONSE else 0

    def _clean(self, body: bytes) -> bytes:
        body = without_credentials(body)
        body = body if self._mask is None else self._mask(body)
        return redact_body(body) if self._redact else body

    def _at(self, time: float) -> float:
        return round(max(0.0, time - self._started), 6)

    def _put_body(self, line: Line, body: bytes) -> None:
        """Add a line with a body, or with the body's size if there is no room for it."""
        whole = Line(**{**_fields(line), **body_fields(body)})
        if not self._put(whole):
            self._omitted += len(body)
            self._put(Line(**{**_fields(line), "omitted": len(body)}))

    def _put(self, line: CaptureHead | Line) -> bool:
        data = dumps(line) + b"\n"
        if len(data) > self._room:
            return False
        self._room -= len(data)
        self._lines.append(data)
        return True


def _fields(line: Line) -> dict[str, Json]:
    return {name: getattr(line, name) for name in line.__struct_fields__}
