"""The access log: lines are collected and written together a moment later, because one write per request is slow.

Lines of text, for people at a terminal, are written at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import BinaryIO

import msgspec
import structlog
from msgspec import Struct
from structlog.typing import FilteringBoundLogger

from trilogue.gateway.log.output import LogOutput

JOURNAL_SECONDS = 0.05
JOURNAL_LINES = 32
"""Lines that may wait. Writing more than this at once would block the event loop for a noticeable time."""
PIPE_BYTES = 4096
"""Writes to a pipe are atomic up to this size (PIPE_BUF on Linux)."""
MAX_BYTES = 256 * 1024
FINISH_SECONDS = 0.5
CLOCK = "%H:%M:%S"
"""the time in lines of text; it is local, because people read them as they come"""
LEVELS: tuple[str, ...] = ("debug", "info", "warning", "error")


class LogLine(Struct, kw_only=True):
    """One line of the log. Subclasses add fields; texts from outside must be cut with `sane`."""

    event: str
    level: str = "info"
    timestamp: datetime | None = None
    """when it was written"""


class TextStyle(Struct, frozen=True):
    """How lines of text look."""

    colours: bool


class Journal:
    """Collects lines and writes them as JSON. `log`: the logger for other lines, and for lines that are not ASCII."""

    text: TextStyle | None = None
    """how to write lines of text, with `write_text`; None if the log is JSON"""

    def __init__(self, log: FilteringBoundLogger) -> None:
        self._log = log
        self._sink: LogOutput | None = None
        self._most = MAX_BYTES
        self._lines: list[LogLine] = []
        self._due = False
        """whether a timer is running that will write the lines"""
        self._admitted = LEVELS

    def open(self, file: BinaryIO | None, *, level: str = "debug", text: TextStyle | None = None) -> None:
        """Write to this file from now on; None: pass every line to the logger. `level`: the lowest that is written."""
        self.flush()
        self._sink, self._due = LogOutput(file) if file is not None else None, False
        self._admitted, self.text = LEVELS[LEVELS.index(level) :], text
        # Workers share the file. In a pipe, only small writes are never mixed with those of another worker.
        self._most = PIPE_BYTES if self._sink is not None and self._sink.is_pipe else MAX_BYTES

    def write(self, line: LogLine) -> None:
        """Write this line soon. It must not be changed afterwards."""
        if self._sink is None:
            self._log_line(line)
            return
        if line.level not in self._admitted:
            return
        line.timestamp = datetime.now(UTC)
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_later(JOURNAL_SECONDS, self._timer_fired)
        self._lines.append(line)
        if len(self._lines) == JOURNAL_LINES:
            self.flush()

    def write_text(self, level: str, text: str) -> None:
        """Write a line of text now."""
        if level in self._admitted:
            self._put(f"{text}\n".encode("utf-8", "backslashreplace"))

    def _timer_fired(self) -> None:
        self._due = False
        self.flush()

    def flush(self) -> None:
        """Write the collected lines now."""
        lines, self._lines = self._lines, []
        data = _encode_lines(lines)
        # msgspec does not escape other characters, such as a line separator in a model name; the logger does.
        if data.isascii() and len(data) <= self._most:
            self._put(data)
            return
        for piece in self._pieces(lines, data):
            self._put(piece)

    def _pieces(self, lines: Sequence[LogLine], data: bytes) -> Iterator[bytes]:
        """Yield what can be written at once. Lines that are not ASCII go to the logger instead, which escapes them."""
        piece = b""
        for line, written in zip(lines, data.splitlines(keepends=True), strict=True):
            if not written.isascii():
                self._log_line(line)
                continue
            if len(piece) + len(written) > self._most:
                yield piece
                piece = b""
            piece += written
        yield piece

    def catch_up(self) -> None:
        """Write what had to wait because the file was full."""
        if self._sink is not None:
            self._sink.drain()

    def finish(self) -> None:
        """Write everything that is left, at the end of the process."""
        self.flush()
        if self._sink is not None:
            self._sink.finish(FINISH_SECONDS)

    def _put(self, data: bytes) -> None:
        if data and self._sink is not None:
            self._sink.put(data)

    def _log_line(self, line: LogLine) -> None:
        """Pass a line to the logger, which adds level and time itself."""
        fields = msgspec.to_builtins(line)
        del fields["level"], fields["timestamp"]
        getattr(self._log, line.level)(fields.pop("event"), **fields)


_encode_lines = msgspec.json.Encoder().encode_lines
journal = Journal(structlog.get_logger("trilogue.access"))
