"""The strict view of a stream's bytes: everything that the tolerant parser in `base.sse` forgives is a finding.

In: bytes in any split. Out: the events, and findings for A02, A03, A04 and A08. Where the fault is plain the events
are recovered (a missing blank line, a payload over several lines), so that one fault gives one finding.
It does not know what the data means.
"""

from __future__ import annotations

from trilogue.base.sse import SseEvent
from trilogue.lint.json_values import is_json
from trilogue.lint.rules import LintReport

_BOM = b"\xef\xbb\xbf"
_DONE = b"[DONE]"


class Framer:
    """Splits the bytes of one stream into events, and reports what strict clients do not accept."""

    def __init__(self, report: LintReport) -> None:
        self._report = report
        self._rest = b""
        self._skip_lf = False
        self._started = False
        self._name: str | None = None
        self._data: list[bytes] = []
        self._blank = True
        """the last line was blank, or there was none yet"""
        self._events: list[SseEvent] = []
        self._emitted = 0

    def feed(self, data: bytes) -> list[SseEvent]:
        """Return the events that these bytes complete."""
        data = self._without_bom(self._rest + self._line_feeds(data))
        *lines, self._rest = data.split(b"\n")
        for line in lines:
            self._line(line)
        return self._take()

    def close(self) -> list[SseEvent]:
        """Return the event that the end of the stream cut off, if there is one."""
        rest, self._rest = self._rest, b""
        if rest:
            self._add("A02", "the last line has no line end")
            self._line(rest)
        elif self._name is not None or self._data:
            self._add("A02", "the last event has no blank line")
        self._dispatch()
        return self._take()

    def _take(self) -> list[SseEvent]:
        events, self._events = self._events, []
        return events

    def _add(self, rule: str, message: str, *, note: bool = False) -> None:
        self._report.event = self._emitted
        self._report.add(rule, message, note=note)

    def _line_feeds(self, data: bytes) -> bytes:
        """Replace CR and CRLF by LF, as the SSE grammar has it. A CRLF may be split between two reads."""
        if self._skip_lf and data:
            self._skip_lf = False
            data = data.removeprefix(b"\n")
        if b"\r" in data:
            self._add("A02", "a line ends with CR")
            self._skip_lf = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return data

    def _without_bom(self, data: bytes) -> bytes:
        if self._started or len(data) < len(_BOM):
            return data
        self._started = True
        if data.startswith(_BOM):
            self._add("A02", "the stream starts with a BOM")
        return data.removeprefix(_BOM)

    def _line(self, line: bytes) -> None:
        if not line:
            if self._blank:
                self._add("A02", "more than one blank line in a row", note=True)
            self._dispatch()
            self._blank = True
            return
        self._blank = False
        if not line.isascii() and not is_utf8(line):
            self._add("A08", "bytes that are not UTF-8")
        field, _, value = line.partition(b":")
        handler = _FIELDS.get(field, Framer._on_other)
        handler(self, field, value.removeprefix(b" "))

    def _on_comment(self, _field: bytes, _value: bytes) -> None:
        """Accept a comment, which is allowed everywhere."""

    def _on_event(self, _field: bytes, value: bytes) -> None:
        if self._data:
            self._add("A02", "no blank line before an event: line (double newline missing)")
            self._dispatch()
        self._name = value.decode("utf-8", "replace")

    def _on_data(self, _field: bytes, value: bytes) -> None:
        self._data.append(value)

    def _on_forbidden(self, field: bytes, _value: bytes) -> None:
        self._add("A04", f"a field {field.decode()}:")

    def _on_other(self, _field: bytes, _value: bytes) -> None:
        self._add("A03", "a line that is not event:, data: or a comment")

    def _dispatch(self) -> None:
        """Make an event of the lines so far, if they hold a name or data."""
        name, data = self._name, self._data
        self._name, self._data = None, []
        if name is None and not data:
            return
        if len(data) > 1 and all(map(_is_whole, data)):
            self._add("A02", "no blank line between two data: lines (double newline missing)")
            for payload in data:
                self._emit(name, payload)
            return
        if len(data) > 1:
            self._add("A03", "a payload over several data: lines")
        self._emit(name, b"\n".join(data))

    def _emit(self, name: str | None, data: bytes) -> None:
        self._emitted += 1
        self._events.append(SseEvent(name or "", data))


_FIELDS = {
    b"": Framer._on_comment,
    b"event": Framer._on_event,
    b"data": Framer._on_data,
    b"id": Framer._on_forbidden,
    b"retry": Framer._on_forbidden,
}


def is_utf8(line: bytes) -> bool:
    """Return whether the bytes are valid UTF-8 with whole characters."""
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_whole(data: bytes) -> bool:
    """Return whether one data line is a payload by itself."""
    return data.strip() == _DONE or is_json(data)
