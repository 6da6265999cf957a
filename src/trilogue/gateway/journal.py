"""The lines of the log that come with every request: gathered, and written together a moment later."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from datetime import UTC, datetime
from itertools import accumulate
from typing import BinaryIO

import msgspec
from msgspec import Struct
from structlog.typing import FilteringBoundLogger

MAX_TEXT = 300
MAX_LINE = 4000
JOURNAL_SECONDS = 0.05
PIPE_BYTES = 4096


class Journal:
    """For fields that are made here, or were cut with `sane`; a line that is not plain ASCII or very long takes the way
    of all other lines.
    """

    def __init__(self) -> None:
        self._file: BinaryIO | None = None
        self._entries: list[tuple[FilteringBoundLogger, str, Struct, float]] = []

    def open(self, file: BinaryIO | None) -> None:
        """Write to this file from now on; None: leave everything to the other way."""
        self.flush()
        self._file = file

    def write(self, log: FilteringBoundLogger, event: str, fields: Struct) -> None:
        """One line at level info. The fields must not change any more."""
        if self._file is None:
            log.info(event, **msgspec.to_builtins(fields))
            return
        self._entries.append((log, event, fields, time.time()))
        if len(self._entries) == 1:
            asyncio.get_running_loop().call_later(JOURNAL_SECONDS, self.flush)

    def flush(self) -> None:
        """Write what has gathered."""
        entries, self._entries = self._entries, []
        lines = [line for entry in entries if (line := _line(*entry))]
        while lines and self._file is not None:
            count = _fitting(lines)
            with suppress(OSError, ValueError):
                self._file.write(b"".join(lines[:count]))
                self._file.flush()
            lines = lines[count:]


def _fitting(lines: list[bytes]) -> int:
    """How many of these lines a pipe takes at once: workers share one, and more could be mixed with another's."""
    sizes = accumulate(map(len, lines))
    return max(1, sum(1 for size in sizes if size <= PIPE_BYTES))


def _line(log: FilteringBoundLogger, event: str, fields: Struct, at: float) -> bytes:
    data = _encode(fields)
    if len(data) > MAX_LINE or not data.isascii():
        log.info(event, **msgspec.to_builtins(fields))
        return b""
    stamp = datetime.fromtimestamp(at, UTC).isoformat()
    end = f',"event":"{event}","level":"info","timestamp":"{stamp[:-6]}Z"}}\n'
    return data[:-1] + end.encode()


def sane(text: str) -> str:
    """A text from outside, cut to a length that a log can bear."""
    return text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + "…"


_encode = msgspec.json.Encoder().encode
journal = Journal()
