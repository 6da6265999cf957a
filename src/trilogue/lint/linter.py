"""The linter's entry: check a stream, a response, an error or a request of any protocol.

In: bytes, `SseEvent`s or parsed JSON. Out: findings. Streams go through three stages: framing, payloads, and then the
rules of the protocol. Nothing here raises because of the data it checks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trilogue.base.json_text import has_lone_surrogates, parse
from trilogue.base.sse import SseEvent
from trilogue.errors import UpstreamProtocolError
from trilogue.lint.definition import ExpectedResponse, ProtocolRules
from trilogue.lint.framing import Framer, is_utf8
from trilogue.lint.json_values import obj, objects
from trilogue.lint.registry import REQUEST_RULES, RULES, foreign_names, rules_of
from trilogue.lint.rules import Finding, LintReport
from trilogue.model import Json, Protocol

_KEEPALIVES = ("ping", "keepalive")


def lint_response(
    protocol: Protocol | str, body: dict[str, Json], *, request: dict[str, Json] | None = None, own: bool = True
) -> list[Finding]:
    """Return all findings of a response that was not streamed."""
    rules, report = rules_of(protocol), LintReport(RULES, own)
    _check_foreign_names(rules, body, report)
    rules.check_body(body, report, _expected(rules, request))
    return report.findings


def lint_error(protocol: Protocol | str, body: dict[str, Json], *, own: bool = True) -> list[Finding]:
    """Return all findings of the body of an HTTP error."""
    report = LintReport(RULES, own)
    rules_of(protocol).check_error(body, report)
    return report.findings


def lint_request(protocol: Protocol | str, body: dict[str, Json]) -> list[Finding]:
    """Return all findings of a request body."""
    report = LintReport(REQUEST_RULES)
    rules_of(protocol).check_request(body, report)
    return report.findings


def lint_stream(
    protocol: Protocol | str,
    data: bytes | Iterable[bytes] | Iterable[SseEvent],
    *,
    request: dict[str, Json] | None = None,
    own: bool = True,
) -> list[Finding]:
    """Return all findings of a recorded stream, in the order of its events."""
    linter = StreamLinter(protocol, request, own=own)
    for piece in [data] if isinstance(data, bytes) else data:
        if isinstance(piece, SseEvent):
            linter.feed_event(piece)
        else:
            linter.feed(piece)
    linter.close()
    return linter.findings


class StreamLinter:
    """Checks a live stream: feed bytes as they arrive, then close. `own` False leaves out the duties of a gateway."""

    def __init__(self, protocol: Protocol | str, request: dict[str, Json] | None = None, *, own: bool = True) -> None:
        self._rules = rules_of(protocol)
        self._report = LintReport(RULES, own)
        self._framer = Framer(self._report)
        self._checker = self._rules.stream_checker(self._report, _expected(self._rules, request))
        self._number = 0
        self._given = 0

    @property
    def findings(self) -> list[Finding]:
        """All findings so far, in the order of their events."""
        return list(self._report.findings)

    def feed(self, data: bytes) -> list[Finding]:
        """Check the next bytes, and return the new findings."""
        return self._events(self._framer.feed(data))

    def feed_event(self, event: SseEvent) -> list[Finding]:
        """Check the next event of a stream that is already parsed: like `feed`, without the rules for bytes."""
        return self._events([event])

    def close(self) -> list[Finding]:
        """Check what only the end of the stream shows, and return the new findings."""
        self._events(self._framer.close())
        self._report.event = max(self._number - 1, 0)
        self._checker.close()
        return self._new()

    def _new(self) -> list[Finding]:
        new = self._report.findings[self._given :]
        self._given += len(new)
        return new

    def _events(self, events: Iterable[SseEvent]) -> list[Finding]:
        for event in events:
            self._report.event = self._number
            self._number += 1
            self._event(event)
        return self._new()

    def _event(self, event: SseEvent) -> None:
        payload = event.data.strip()
        if not payload and not self._rules.has_pings:
            self._report.add("A05", "an event without data")
        elif payload == b"[DONE]":
            self._checker.done_marker()
        elif (data := self._parse(payload)) is not None:
            self._object(event.event, data)

    def _parse(self, payload: bytes) -> dict[str, Json] | None:
        try:
            value = parse(payload, UpstreamProtocolError)
        except UpstreamProtocolError as error:
            if not is_utf8(payload):
                # The framer has reported it already, unless the events came parsed.
                self._report.add("A08", "bytes that are not UTF-8")
            elif has_lone_surrogates(payload):
                self._report.add("A08", "half of a surrogate pair")
            else:
                self._report.add("A03", f"data is {error}")
            return None
        if not isinstance(value, dict):
            self._report.add("A03", "data is JSON but not an object")
            return None
        return value

    def _object(self, name: str, data: dict[str, Json]) -> None:
        kind = data.get("type")
        is_keepalive = kind in _KEEPALIVES or (not kind and name in _KEEPALIVES)
        if is_keepalive and not self._rules.has_pings:
            self._report.add("A06", "a keep-alive that is an event")
            if not self._rules.numbers_events:
                return
        _check_foreign_names(self._rules, data, self._report)
        self._checker.event(name, data)


def _expected(rules: ProtocolRules, request: dict[str, Json] | None) -> ExpectedResponse:
    return rules.expect(request) if isinstance(request, dict) else ExpectedResponse()


def _check_foreign_names(rules: ProtocolRules, data: dict[str, Json], report: LintReport) -> None:
    """Report each field name that only another protocol has, in an event or a body but never inside a payload."""
    foreign = foreign_names(rules)
    for path in rules.frames:
        for frame in _at(data, path):
            for name in sorted(foreign & frame.keys()):
                report.add("A11", f"{'.'.join((*path, name))} belongs to another protocol")


def _at(data: dict[str, Json], path: tuple[str, ...]) -> Iterator[dict[str, Json]]:
    """Yield the objects at a path of keys; * is every entry of an array."""
    if not path:
        yield data
    elif path[1:2] == ("*",):
        for entry in objects(data.get(path[0])):
            yield from _at(entry, path[2:])
    else:
        yield from _at(obj(data.get(path[0])), path[1:])
