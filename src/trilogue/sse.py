"""Server-sent events: bytes in, events out, and back.

In: any split of any byte stream; CR, LF and CRLF line ends, a BOM, comments, several data lines, missing `event:`.
Out: `SseEvent`s, each as soon as its blank line is there. Emission is strict: LF only, one line of data.
Two things outside the grammar are accepted because real upstreams send their errors that way: a line `error: {…}`
and a bare line of JSON. This module does not know what the data means.
"""

from __future__ import annotations

from msgspec import Struct

from trilogue.errors import UpstreamProtocolError

MAX_EVENT_BYTES = 8 * 1024 * 1024
"""Images and encrypted reasoning come in single events of several MiB; nothing honest is larger than this."""

_BOM = b"\xef\xbb\xbf"
_END = b"\n\n"
_CR = 13
_LF = 10


class SseEvent(Struct, frozen=True, gc=False):
    """One event. `event` is its name, empty if there was none; `data` the data lines, joined by LF."""

    event: str
    data: bytes


class SseParser:
    """Incremental and bounded. Feed it bytes as they come; how they were cut never shows in the events."""

    __slots__ = ("_buffer", "_limit", "_scanned", "_skip_lf", "_started", "_steady")

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._limit = max_event_bytes
        self._buffer = bytearray()
        self._scanned = 0
        self._skip_lf = False
        self._started = False
        self._steady = False
        """past the BOM, and no CR has been seen: reads of whole events need no further care"""

    @property
    def at_rest(self) -> bool:
        """Between two events, in a stream without surprises so far: what comes next is the start of an event."""
        return self._steady and not self._buffer

    def feed(self, data: bytes) -> list[SseEvent]:
        """All events that are complete with these bytes."""
        if self._steady and not self._buffer and data.endswith(_END) and _CR not in data:
            # The usual read: whole events with LF line ends.
            return _parse_all(data)
        return self._feed_any(data)

    def close(self) -> list[SseEvent]:
        """The event that the end of the stream cut off before its blank line, if there is one."""
        rest, self._buffer = bytes(self._buffer), bytearray()
        return self._events(rest)

    def _feed_any(self, data: bytes) -> list[SseEvent]:
        if not data:
            return []
        if self._skip_lf:
            # A CR ended the last read: this LF is the second half of a CRLF that was cut.
            self._skip_lf = False
            if data[0] == _LF:
                data = data[1:]
        if _CR in data:
            self._skip_lf = data.endswith(b"\r")
            self._steady = False
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if self._buffer:
            return self._feed_buffered(data)
        if data.endswith(_END):
            return self._events(data)
        end = data.rfind(_END)
        events = self._events(data[: end + 2]) if end >= 0 else []
        self._keep(data[end + 2 :] if end >= 0 else data)
        return events

    def _feed_buffered(self, data: bytes) -> list[SseEvent]:
        self._buffer += data
        # Start one byte early: the first LF of the pair may have come with the last read.
        end = self._buffer.rfind(_END, max(0, self._scanned - 1))
        if end < 0:
            self._scanned = len(self._buffer)
            self._check_size()
            return []
        complete = bytes(self._buffer[: end + 2])
        rest = bytes(self._buffer[end + 2 :])
        self._buffer = bytearray()
        self._keep(rest)
        return self._events(complete)

    def _keep(self, rest: bytes) -> None:
        self._buffer += rest
        self._scanned = len(rest)
        self._check_size()

    def _check_size(self) -> None:
        if len(self._buffer) > self._limit:
            raise UpstreamProtocolError(f"an event is larger than {self._limit} bytes")

    def _events(self, data: bytes) -> list[SseEvent]:
        if not self._started and data:
            self._started = self._steady = True
            data = data.removeprefix(_BOM)
        return _parse_all(data)


def _parse_all(data: bytes) -> list[SseEvent]:
    return [event for block in data.split(_END) if block and (event := _parse(block))]


def _parse(block: bytes) -> SseEvent | None:
    """One event's lines. The two usual forms first, everything else line by line."""
    if block.startswith(b"data: ") and b"\n" not in block:
        return SseEvent("", block[6:])
    if block.startswith(b"event: "):
        name, found, rest = block[7:].partition(b"\ndata: ")
        if found and b"\n" not in rest and b"\n" not in name:
            return SseEvent(name.decode("utf-8", "replace"), rest)
    return _parse_lines(block)


def _parse_lines(block: bytes) -> SseEvent | None:
    name = ""
    data: list[bytes] = []
    for line in block.split(b"\n"):
        field, colon, value = line.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.removeprefix(b" ").decode("utf-8", "replace")
        elif field == b"error" and colon:
            name, data = "error", [value.strip()]
        elif line.startswith(b"{"):
            data.append(line)
    return SseEvent(name, b"\n".join(data)) if data else None


def frame(name: str, data: bytes) -> bytes:
    """One event with a name. `data` must be one line."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), data)


def frame_data(data: bytes) -> bytes:
    """One event without a name. `data` must be one line."""
    return b"data: %b\n\n" % data


COMMENT = b": keepalive\n\n"
"""A keepalive that every client ignores."""
