"""The lines of the log that come with every request: gathered, and written together a moment later."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from stat import S_ISFIFO
from typing import BinaryIO

import msgspec
from msgspec import Struct
from structlog.typing import FilteringBoundLogger

MAX_TEXT = 300
MAX_LINE = 4000
JOURNAL_SECONDS = 0.05
JOURNAL_LINES = 32
"""that wait at most: more would keep the event loop for a noticeable time when they are written"""
PIPE_BYTES = 4096
MAX_BYTES = 256 * 1024


class Journal:
    """For fields that are made here, or were cut with `sane`; a line that is not plain ASCII or very long takes the way
    of all other lines.
    """

    def __init__(self) -> None:
        self._file: BinaryIO | None = None
        self._most = MAX_BYTES
        self._entries: list[tuple[FilteringBoundLogger, str, Struct, float]] = []
        self._due = False
        """a timer runs that will write what there is"""

    def open(self, file: BinaryIO | None) -> None:
        """Write to this file from now on; None: leave everything to the other way."""
        self.flush()
        self._file, self._due = file, False
        # Workers share the file. Of a pipe only small writes are sure not to be mixed with another's.
        self._most = PIPE_BYTES if file is not None and _is_pipe(file) else MAX_BYTES

    def write(self, log: FilteringBoundLogger, event: str, fields: Struct) -> None:
        """One line at level info. The fields must not change any more."""
        if self._file is None:
            log.info(event, **msgspec.to_builtins(fields))
            return
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_later(JOURNAL_SECONDS, self._look)
        self._entries.append((log, event, fields, time.time()))
        if len(self._entries) == JOURNAL_LINES:
            self.flush()

    def _look(self) -> None:
        self._due = False
        self.flush()

    def flush(self) -> None:
        """Write what has gathered."""
        entries, self._entries = self._entries, []
        lines: list[bytes] = []
        size = 0
        for entry in entries:
            line = _line(*entry)
            size += len(line)
            if size > self._most:
                self._put(lines)
                lines, size = [], len(line)
            lines.append(line)
        self._put(lines)

    def _put(self, lines: list[bytes]) -> None:
        if self._file is not None:
            with suppress(OSError, ValueError):
                self._file.write(b"".join(lines))
                self._file.flush()


def _is_pipe(file: BinaryIO) -> bool:
    try:
        return S_ISFIFO(os.fstat(file.fileno()).st_mode)
    except OSError:
        return False  # in memory


def _line(log: FilteringBoundLogger, event: str, fields: Struct, at: float) -> bytes:
    data = _encode(fields)
    if len(data) > MAX_LINE or not data.isascii():
        log.info(event, **msgspec.to_builtins(fields))
        return b""
    second = int(at)
    return b'%b%b%06dZ"}\n' % (data[:-1], _end(event, second), (at - second) * 1_000_000)


@lru_cache(16)
def _end(event: str, second: int) -> bytes:
    """What follows the fields, up to the fraction of the second: the same in many lines."""
    at = datetime.fromtimestamp(second, UTC).isoformat()[:-6]
    return f',"event":"{event}","level":"info","timestamp":"{at}.'.encode()


def sane(text: str) -> str:
    """A text from outside, cut to a length that a log can bear."""
    return text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + "…"


_encode = msgspec.json.Encoder().encode
journal = Journal()
