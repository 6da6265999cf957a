"""The lines of the log that come with every request: gathered, and written together a moment later."""

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

MAX_TEXT = 300
JOURNAL_SECONDS = 0.05
JOURNAL_LINES = 32
"""that wait at most: more would keep the event loop for a noticeable time when they are written"""
PIPE_BYTES = 4096
MAX_BYTES = 256 * 1024
FINISH_SECONDS = 0.5


class LogLine(Struct, kw_only=True):
    """One line. What kinds of it add are texts that are made here or were cut with `sane`, numbers and the like."""

    event: str
    level: str = "info"
    timestamp: datetime | None = None
    """when it was written"""


class Journal:
    """`log`: the way of all other lines, which those take too that are not plain ASCII."""

    def __init__(self, log: FilteringBoundLogger) -> None:
        self._log = log
        self._sink: LogOutput | None = None
        self._most = MAX_BYTES
        self._lines: list[LogLine] = []
        self._due = False
        """a timer runs that will write what there is"""

    def open(self, file: BinaryIO | None) -> None:
        """Write to this file from now on; None: leave everything to the other way."""
        self.flush()
        self._sink, self._due = LogOutput(file) if file is not None else None, False
        # Workers share the file. Of a pipe only small writes are sure not to be mixed with another's.
        self._most = PIPE_BYTES if self._sink is not None and self._sink.is_pipe else MAX_BYTES

    def write(self, line: LogLine) -> None:
        """It must not change any more."""
        if self._sink is None:
            self._tell(line)
            return
        line.timestamp = datetime.now(UTC)
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_later(JOURNAL_SECONDS, self._look)
        self._lines.append(line)
        if len(self._lines) == JOURNAL_LINES:
            self.flush()

    def _look(self) -> None:
        self._due = False
        self.flush()

    def flush(self) -> None:
        """Write what has gathered."""
        lines, self._lines = self._lines, []
        data = _encode_lines(lines)
        if data.isascii() and len(data) <= self._most:
            self._put(data)
            return
        for piece in self._pieces(lines, data):
            self._put(piece)

    def _pieces(self, lines: Sequence[LogLine], data: bytes) -> Iterator[bytes]:
        """What is to be written at once, without the lines that take the other way."""
        piece = b""
        for line, written in zip(lines, data.splitlines(keepends=True), strict=True):
            if not written.isascii():
                self._tell(line)
                continue
            if len(piece) + len(written) > self._most:
                yield piece
                piece = b""
            piece += written
        yield piece

    def catch_up(self) -> None:
        """Write what found no room."""
        if self._sink is not None:
            self._sink.drain()

    def finish(self) -> None:
        """Write everything: there will be no more."""
        self.flush()
        if self._sink is not None:
            self._sink.finish(FINISH_SECONDS)

    def _put(self, data: bytes) -> None:
        if data and self._sink is not None:
            self._sink.put(data)

    def _tell(self, line: LogLine) -> None:
        """The other way, which has a clock of its own."""
        fields = msgspec.to_builtins(line)
        del fields["level"], fields["timestamp"]
        self._log.info(fields.pop("event"), **fields)


def sane(text: str) -> str:
    """A text from outside, cut to a length that a log can bear."""
    return text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + "…"


_encode_lines = msgspec.json.Encoder().encode_lines
journal = Journal(structlog.get_logger("trilogue.access"))
