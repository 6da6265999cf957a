"""The log: one line per event on standard error, as JSON for machines or as text for people.

Names come from clients, so every text is cut to a sane length and cannot hold a line break or a terminal's escape
codes. A log that cannot be written is lost; the traffic goes on.
"""

from __future__ import annotations

import asyncio
import logging
import re
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any, BinaryIO, TextIO

import msgspec
import structlog
from msgspec import Struct
from structlog.typing import EventDict, Processor, WrappedLogger

from trilogue.config import Log

MAX_TEXT = 300
MAX_LINE = 4000
JOURNAL_SECONDS = 0.05
PIPE_BYTES = 4096
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_LONG = frozenset({"exception", "problems"})


class Journal:
    """The lines that come with every request: put together in a moment, and written together a moment later.

    For fields that are made here, or were cut with `sane`; a line that is not plain ASCII or very long takes the way of
    all other lines.
    """

    def __init__(self) -> None:
        self._file: BinaryIO | None = None
        self._entries: list[tuple[structlog.typing.FilteringBoundLogger, str, Struct, float]] = []

    def open(self, file: BinaryIO | None) -> None:
        """Write to this file from now on; None: leave everything to the other way."""
        self.flush()
        self._file = file

    def write(self, log: structlog.typing.FilteringBoundLogger, event: str, fields: Struct) -> None:
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


def _line(log: structlog.typing.FilteringBoundLogger, event: str, fields: Struct, at: float) -> bytes:
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


class SafeWriter:
    """Writes lines, or does not: a full disk or a closed pipe is no reason to stop."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def msg(self, message: str) -> None:
        """One line, after those that came before it."""
        journal.flush()
        with suppress(OSError, ValueError):
            self._file.write(message + "\n")
            self._file.flush()

    log = debug = info = warning = error = critical = msg


class Forward(logging.Handler):
    """What libraries log, into the same log and the same form."""

    def emit(self, record: logging.LogRecord) -> None:
        """One record of the standard library's logging."""
        info = record.exc_info if record.levelno >= logging.ERROR else None
        structlog.get_logger(record.name).log(record.levelno, record.getMessage(), exc_info=info)


class Form:
    """Level and format as they are now. Loggers are made once, so these are looked up with every line."""

    def __init__(self) -> None:
        self.level = logging.INFO
        self._last: list[Processor] = []

    def take(self, settings: Log) -> None:
        """Other settings from now on."""
        self.level = _LEVELS[settings.level]
        self._last = [structlog.processors.JSONRenderer(separators=(",", ":"))]
        if settings.format == "text":
            self._last = [_printable, structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]

    def admit(self, _: WrappedLogger, name: str, event: EventDict) -> EventDict:
        """Nothing below the level."""
        if _LEVELS.get(name, logging.ERROR) < self.level:
            raise structlog.DropEvent
        return event

    def render(self, logger: WrappedLogger, name: str, event: EventDict) -> Any:
        """The line."""
        line: Any = event
        for processor in self._last:
            line = processor(logger, name, line)
        return line


_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_form = Form()


def configure_logging(settings: Log) -> None:
    """Set up logging for this process, or change what it was set up for."""
    _form.take(settings)
    structlog.configure(
        processors=[
            _form.admit,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _shortened,
            _form.render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        logger_factory=lambda *_: SafeWriter(sys.stderr),
        cache_logger_on_first_use=True,
    )
    journal.open(sys.stderr.buffer if settings.format == "json" and _form.level <= logging.INFO else None)
    # Libraries' remarks on every bad request are ours to make.
    logging.basicConfig(handlers=[Forward()], level=max(_form.level, logging.ERROR), force=True)


def _shortened(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    for name, value in event.items():
        if name not in _LONG:
            event[name] = _cut(value)
    return event


def _cut(value: object) -> object:
    """Texts of a sane length, also those inside of something."""
    if isinstance(value, str):
        return sane(value)
    if isinstance(value, list):
        return [_cut(item) for item in value]
    if isinstance(value, dict):
        return {name: _cut(item) for name, item in value.items()}
    return value


def _printable(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    for name, value in event.items():
        if isinstance(value, str) and name not in _LONG:
            event[name] = _CONTROL.sub(lambda found: ascii(found[0])[1:-1], value)
    return event
