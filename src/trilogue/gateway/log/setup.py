"""The log: one line per event on standard error, as JSON for programs or as text for people at a terminal.

Clients choose names such as that of the model, so every text is cut, and in text form line breaks and terminal escape
codes are escaped. If the log cannot be written, its lines are dropped and requests go on.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Mapping
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from trilogue.base.text import printable, sane
from trilogue.gateway.log.lines import CLOCK, TextStyle, journal
from trilogue.gateway.log.output import LogOutput
from trilogue.gateway.log.settings import Log

_LONG = frozenset({"exception", "problems"})


class SafeWriter:
    """Writes lines. It drops them without an error if the disk is full, or the pipe is closed or not read."""

    def __init__(self, file: TextIO) -> None:
        self._sink = LogOutput(file.buffer)

    def msg(self, message: str) -> None:
        """Write one line, after those of the access log that came before it."""
        journal.flush()
        self._sink.put(f"{message}\n".encode("utf-8", "backslashreplace"))

    log = debug = info = warning = error = critical = msg


class Forward(logging.Handler):
    """Passes what libraries log to structlog, so that all lines have the same form."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log a record of the standard library's logging."""
        info = record.exc_info if record.levelno >= logging.ERROR else None
        structlog.get_logger(record.name).log(record.levelno, record.getMessage(), exc_info=info)


class LogFormat:
    """The level and format in use. Loggers are cached, so they look these up for every line: a reload changes them."""

    def __init__(self) -> None:
        self.level = logging.INFO
        self.text: TextStyle | None = None
        """None: lines are JSON"""
        self._last: list[Processor] = []

    def take(self, settings: Log) -> None:
        """Use these settings from now on."""
        self.level = _LEVELS[settings.level]
        terminal = sys.stderr.isatty()
        self.text = None
        self._last = [structlog.processors.JSONRenderer(separators=(",", ":"))]
        if settings.format == "text" or (settings.format == "auto" and terminal):
            self.text = TextStyle(terminal and wants_colours(os.environ))
            self._last = [_printable, structlog.dev.ConsoleRenderer(colors=self.text.colours)]

    def admit(self, _: WrappedLogger, name: str, event: EventDict) -> EventDict:
        """Return the event, or raise DropEvent if it is below the level."""
        if _LEVELS.get(name, logging.ERROR) < self.level:
            raise structlog.DropEvent
        return event

    def render(self, logger: WrappedLogger, name: str, event: EventDict) -> Any:
        """Return the line for an event."""
        line: Any = event
        for processor in self._last:
            line = processor(logger, name, line)
        return line


_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_format = LogFormat()


def configure_logging(settings: Log, file: TextIO | None = None) -> None:
    """Set up logging for this process, or change its settings. `file`: where to write; default: standard error."""
    _format.take(settings)
    target = file or sys.stderr
    structlog.configure(
        processors=[
            _format.admit,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _shortened,
            _format.render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        logger_factory=lambda *_: SafeWriter(target),
        cache_logger_on_first_use=True,
    )
    journal.open(target.buffer, level=settings.level, text=_format.text)
    # Libraries warn about every bad request, which the access log already has.
    logging.basicConfig(handlers=[Forward()], level=max(_format.level, logging.ERROR), force=True)


def log_to_standard_library() -> None:
    """Pass all lines to the standard library's `logging`, as JSON, unless the program has its own structlog setup."""
    if structlog.is_configured():
        return
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.processors.format_exc_info,
            _shortened,
            structlog.processors.JSONRenderer(separators=(",", ":")),
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        # The program may set up structlog later.
        cache_logger_on_first_use=False,
    )


def _shortened(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    for name, value in event.items():
        if name not in _LONG:
            event[name] = _cut(value)
    return event


def _cut(value: object) -> object:
    """Return a value with all texts in it cut with `sane`."""
    if isinstance(value, str):
        return sane(value)
    if isinstance(value, list):
        return [_cut(item) for item in value]
    if isinstance(value, dict):
        return {name: _cut(item) for name, item in value.items()}
    return value


def wants_colours(environ: Mapping[str, str]) -> bool:
    """Return whether a terminal should show colours: see https://no-color.org."""
    return not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def _printable(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    for name, value in event.items():
        if isinstance(value, str) and name not in _LONG:
            event[name] = printable(value)
    event["timestamp"] = time.strftime(CLOCK)
    return event
