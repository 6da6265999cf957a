"""Lints a whole event stream: framing, payloads, then the rules of the protocol.

In: bytes, chunks of bytes, or `SseEvent`s. Out: findings. Never raises because of what the stream holds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol as Interface

from trilogue.errors import UpstreamProtocolError
from trilogue.jsontext.surrogates import has_lone_surrogates
from trilogue.jsontext.text import parse
from trilogue.lint.chat import ChatStream
from trilogue.lint.expected import ExpectedResponse, asked
from trilogue.lint.findings import Finding, Report
from trilogue.lint.foreign import check_foreign_names
from trilogue.lint.framing import Framer, is_utf8
from trilogue.lint.messages import MessagesStream
from trilogue.lint.responses import ResponsesStream
from trilogue.model import Json, Protocol, protocol_of
from trilogue.sse import SseEvent

_KEEPALIVES = ("ping", "keepalive")


class _Checker(Interface):
    """The rules of one protocol."""

    def __init__(self, report: Report, asked: ExpectedResponse) -> None: ...

    def event(self, name: str, data: dict[str, Json]) -> None:
        """One event with a JSON object."""

    def done_marker(self) -> None:
        """An event whose data is `[DONE]`."""

    def close(self) -> None:
        """The stream has ended."""


_CHECKERS: dict[Protocol, type[_Checker]] = {
    Protocol.CHAT: ChatStream,
    Protocol.MESSAGES: MessagesStream,
    Protocol.RESPONSES: ResponsesStream,
}


class StreamLinter:
    """Incremental: feed bytes as they come, then close. `own` False leaves out the obligations of a gateway."""

    def __init__(self, protocol: Protocol | str, request: dict[str, Json] | None = None, *, own: bool = True) -> None:
        self._protocol = protocol = protocol_of(protocol)
        self._report = Report(own)
        self._framer = Framer(self._report)
        self._checker = _CHECKERS[protocol](self._report, asked(protocol, request))
        self._number = 0
        self._given = 0

    @property
    def findings(self) -> list[Finding]:
        """All findings so far."""
        return list(self._report.findings)

    def feed(self, data: bytes) -> list[Finding]:
        """The findings that these bytes give."""
        return self._events(self._framer.feed(data))

    def feed_event(self, event: SseEvent) -> list[Finding]:
        """As `feed`, for a stream that has been parsed already; the rules for bytes do not apply."""
        return self._events([event])

    def close(self) -> list[Finding]:
        """The stream has ended: the findings that only the end shows."""
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
        if not payload and self._protocol is not Protocol.MESSAGES:
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
                # The framer has said so already, unless the events came parsed.
                self._report.add("A08", "bytes that are not UTF-8")
            elif has_lone_surrogates(payload):
                self._report.add("A08", "half of a surrogate pair")
            else:
                self._report.add("A03", f"data is {error}")
            return None
        if not isinstance(value, dict):
            self._report.add("A03", "data is JSON but no object")
            return None
        return value

    def _object(self, name: str, data: dict[str, Json]) -> None:
        kind = data.get("type")
        is_keepalive = kind in _KEEPALIVES or (not kind and name in _KEEPALIVES)
        if is_keepalive and self._protocol is not Protocol.MESSAGES:
            self._report.add("A06", "a keepalive that is an event")
            if self._protocol is Protocol.CHAT:
                return
        check_foreign_names(self._protocol, data, self._report)
        self._checker.event(name, data)


def lint_stream(
    protocol: Protocol | str,
    data: bytes | Iterable[bytes] | Iterable[SseEvent],
    *,
    request: dict[str, Json] | None = None,
    own: bool = True,
) -> list[Finding]:
    """All findings of a recorded stream, in the order of its events."""
    linter = StreamLinter(protocol, request, own=own)
    for piece in [data] if isinstance(data, bytes) else data:
        if isinstance(piece, SseEvent):
            linter.feed_event(piece)
        else:
            linter.feed(piece)
    linter.close()
    return linter.findings
