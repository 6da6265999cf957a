"""Writing a capture while its request runs: calls in, lines out.

The writer does no I/O: `take` returns the bytes of all lines since the last call, and the caller decides when and
where they are written. The file has a largest size; what no longer fits is counted and left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct, to_builtins

from trilogue.base.json_text import dumps
from trilogue.capture.credentials import CredentialFilter, secrets_in, shown_headers, shown_url
from trilogue.capture.format import POLICY, CaptureHead, CapturePhase, End, Line, Plan, PolicyLine, body_fields
from trilogue.capture.redaction import StreamRedactor, redact_body
from trilogue.model import Json, Loss, Protocol
from trilogue.policies import Record
from trilogue.translate.learning.remedies import Remedy
from trilogue.vendors.profile import Profile

MOST_BYTES = 16 * 1024 * 1024
"""the default for the largest size of a file"""

Headers = Mapping[str, str] | Iterable[tuple[str, str]]
_DEFAULTS = to_builtins(Profile())


class Sent(Struct, frozen=True, kw_only=True):
    """What is captured of an attempt: the request to the upstream, and what its translation depended on.

    `input`: the request that was translated; empty if it is the client's body. `secrets`: credentials that the upstream
    may repeat; they are masked and never written. For the other fields see `Plan`.
    """

    protocol: Protocol
    url: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    input: bytes = b""
    secrets: tuple[str, ...] = ()
    provider: str = ""
    account: str = ""
    model: str = ""
    profile: Profile | None = None
    fit: Profile | None = None
    repair: bool = False
    losses: tuple[Loss, ...] = ()
    outside: tuple[Loss, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    recalled: bool = False
    echo: dict[str, Json] = {}
    stored: bool = False
    changed: bool = False
    judged: bool = False
    summary: bool = False
    searches: bool = False

    def __repr__(self) -> str:
        return f"Sent({self.provider}/{self.account})"

    def plan(self, continues: bool = False) -> Plan:
        """Return the part that a replay needs. `continues`: as in `Plan`."""
        return Plan(
            provider=self.provider,
            account=self.account,
            model=self.model,
            profile=changed_fields(self.profile) if self.profile is not None else {},
            fit=changed_fields(self.fit) if self.fit is not None else None,
            repair=self.repair,
            losses=self.losses,
            outside=self.outside,
            remedies=self.remedies,
            recalled=self.recalled,
            echo=self.echo,
            stored=self.stored,
            changed=self.changed,
            judged=self.judged,
            searches=self.searches,
            continues=continues,
            summary=self.summary,
        )


def changed_fields(profile: Profile) -> dict[str, Json]:
    """Return the fields of a profile that are not defaults, as plain data."""
    plain: dict[str, Json] = to_builtins(profile)
    return {name: value for name, value in plain.items() if value != _DEFAULTS[name]}


class _Body:
    """A body that arrives in pieces, on its way into the file."""

    def __init__(self, redact: bool, secrets: Iterable[str]) -> None:
        self._credentials = CredentialFilter(secrets)
        self._redactor = StreamRedactor() if redact else None

    def feed(self, data: bytes) -> bytes:
        data = self._credentials.feed(data)
        return data if self._redactor is None else self._redactor.feed(data)

    def close(self) -> bytes:
        rest = self._credentials.close()
        return rest if self._redactor is None else self._redactor.feed(rest) + self._redactor.close()


class CaptureWriter:
    """The capture of one request. Times are seconds on the clock that `head.started` was taken from.

    `redact`: replace texts by placeholders. `most_bytes`: the largest size of the file. Credentials in headers are
    masked in bodies as well, and so is everything that looks like a key.
    """

    def __init__(self, head: CaptureHead, *, redact: bool = False, most_bytes: int = MOST_BYTES) -> None:
        self._started = head.started
        self._redact = redact
        self._room = most_bytes
        self._secrets: set[str] = set()
        self._lines: list[bytes] = []
        self._omitted = 0
        self._attempt = 0
        self._bodies: dict[CapturePhase, _Body] = {}
        self._put(
            CaptureHead(
                version=head.version,
                request_id=head.request_id,
                started=head.started,
                redacted=redact,
                trilogue=head.trilogue,
            )
        )

    def take(self) -> bytes:
        """Return the lines since the last call."""
        lines, self._lines = self._lines, []
        return b"".join(lines)

    def inbound(self, time: float, protocol: Protocol, target: tuple[str, str], headers: Headers, body: bytes) -> None:
        """Add the client's request. `target`: its method and its path with query."""
        method, url = target
        self._secrets.update(secrets_in(headers))
        line = Line(
            phase=CapturePhase.INBOUND_REQUEST,
            at=self._at(time),
            protocol=protocol,
            method=method,
            url=shown_url(url),
            headers=shown_headers(headers),
        )
        self._put_whole(line, body)

    def attempt(self, time: float, sent: Sent, continues: bool = False) -> None:
        """Add the request of the next attempt. `continues`: it continues the response of the one before."""
        self._flush(CapturePhase.UPSTREAM_RESPONSE, time)
        self._attempt += 1
        self._secrets.update(sent.secrets, secrets_in(sent.headers))
        line = Line(
            phase=CapturePhase.PROVIDER_REQUEST,
            at=self._at(time),
            attempt=self._attempt,
            protocol=sent.protocol,
            method="POST",
            url=shown_url(sent.url),
            headers=shown_headers(sent.headers),
            plan=to_builtins(sent.plan(continues)),
        )
        self._put_whole(line, sent.body, sent.input)

    def upstream_start(self, time: float, status: int, headers: Headers) -> None:
        """Add the head of the upstream's response to the current attempt."""
        self._start(CapturePhase.UPSTREAM_RESPONSE, time, status, headers)

    def upstream_chunk(self, time: float, data: bytes) -> None:
        """Add bytes of the upstream's response."""
        self._chunk(CapturePhase.UPSTREAM_RESPONSE, time, data)

    def upstream_failed(self, time: float, error: str) -> None:
        """Add why there is no response, or why it ended early. The text must be safe to show."""
        self._flush(CapturePhase.UPSTREAM_RESPONSE, time)
        text = self._masked(error.encode("utf-8", "replace")).decode("utf-8", "replace")
        self._put(Line(phase=CapturePhase.UPSTREAM_RESPONSE, at=self._at(time), attempt=self._attempt, error=text))

    def outbound_start(self, time: float, status: int, headers: Headers) -> None:
        """Add the head of the response that the client gets."""
        self._start(CapturePhase.OUTBOUND_RESPONSE, time, status, headers)

    def outbound_chunk(self, time: float, data: bytes) -> None:
        """Add bytes that the client gets."""
        self._chunk(CapturePhase.OUTBOUND_RESPONSE, time, data)

    def left_out(self, time: float, phase: CapturePhase, size: int) -> None:
        """Count bytes of a body that were not kept."""
        self._omitted += size
        self._put(Line(phase=phase, at=self._at(time), attempt=self._attempt_of(phase), omitted=size))

    def policy(self, time: float, record: Record) -> None:
        """Add a decision of a policy, to a file of version 2. Its own `at` is not used: it may be of another clock."""
        reason = self._masked(record.reason.encode("utf-8", "replace")).decode("utf-8", "replace")
        self._put(
            PolicyLine(
                phase=POLICY,
                at=self._at(time),
                policy=record.policy,
                stage=record.stage,
                verdict=record.verdict,
                reason=reason,
                block=record.block,
                kind=record.kind,
                seconds=round(record.seconds, 6),
                matches=record.matches,
            )
        )

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
            body = self._bodies[phase] = _Body(self._redact, self._secrets)
        self._put_chunk(phase, time, body.feed(data))

    def _flush(self, phase: CapturePhase, time: float) -> None:
        """Add what was held back of a body."""
        body = self._bodies.pop(phase, None)
        if body is not None:
            self._put_chunk(phase, time, body.close())

    def _put_chunk(self, phase: CapturePhase, time: float, data: bytes) -> None:
        if data:
            line = Line(phase=phase, at=self._at(time), attempt=self._attempt_of(phase))
            self._put_body(line, data)

    def _attempt_of(self, phase: CapturePhase) -> int:
        return self._attempt if phase is CapturePhase.UPSTREAM_RESPONSE else 0

    def _masked(self, body: bytes) -> bytes:
        return CredentialFilter(self._secrets).whole(body)

    def _clean(self, body: bytes) -> bytes:
        body = self._masked(body)
        return redact_body(body) if self._redact else body

    def _at(self, time: float) -> float:
        return round(max(0.0, time - self._started), 6)

    def _put_whole(self, line: Line, body: bytes, source: bytes = b"") -> None:
        """Add a request. `source`: what it was translated from, if that is not the client's body."""
        if len(body) + len(source) > self._room:
            # Do not search what will not be written.
            self._put_without_body(line, len(body) + len(source))
            return
        if source:
            line = Line(**{**_fields(line), "input": self._clean(source).decode("utf-8", "replace")})
        self._put_body(line, self._clean(body))

    def _put_body(self, line: Line, body: bytes) -> None:
        """Add a line with a body, or with the body's size if there is no room for it."""
        whole = Line(**{**_fields(line), **body_fields(body)})
        if not self._put(whole):
            self._put_without_body(line, len(body) + len(line.input))

    def _put_without_body(self, line: Line, size: int) -> None:
        self._omitted += size
        self._put(Line(**{**_fields(line), "input": "", "omitted": size}))

    def _put(self, line: CaptureHead | Line | PolicyLine) -> bool:
        data = dumps(line) + b"\n"
        if len(data) > self._room:
            return False
        self._room -= len(data)
        self._lines.append(data)
        return True


def _fields(line: Line) -> dict[str, Json]:
    return {name: getattr(line, name) for name in line.__struct_fields__}
