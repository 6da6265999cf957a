"""The file that the log is written to. Writing never blocks.

A pipe without a reader accepts 64 KiB; then the next write would block the whole gateway. Lines for which there is no
room wait, up to a limit; further lines are dropped. A warning says how many as soon as there is room again.
"""

from __future__ import annotations

import os
import select
import struct
import time
from collections import deque
from math import inf
from stat import S_ISFIFO, S_ISREG
from typing import BinaryIO

import structlog

from trilogue.base.posix import fcntl, termios

MOST_BYTES = 1024 * 1024
"""Bytes that may wait for room."""
_PIPE_BYTES = 64 * 1024
_PAGE = 4096
_LINE_END = ord("\n")

log = structlog.get_logger("trilogue.log")


class _Dropped:
    """The lines that this process has lost so far, for metrics."""

    lines = 0


def dropped_lines() -> int:
    """Return how many lines this process could not write."""
    return _Dropped.lines


class LogOutput:
    """Writes pieces of whole lines, in order.

    It bypasses the buffer of the file. A buffer keeps what could not be written, and tries again with the next line
    and when the process exits, which then ends with an error.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file: BinaryIO = getattr(file, "raw", file)
        self._cut = False
        """whether the file ends with a part of a line: the disk became full in the middle of it"""
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._dropped = 0
        mode = _mode(file)
        self.is_pipe = S_ISFIFO(mode)
        self._never_waits = S_ISREG(mode) or not mode

    def put(self, data: bytes) -> None:
        """Write these lines, keep them until there is room, or drop them if too many wait already."""
        if self._waiting or self._dropped:
            self.drain()
        if not self._waiting and (self._never_waits or self._room() >= len(data)):
            self._write(data)
        elif self._size + len(data) <= MOST_BYTES:
            self._waiting.append(data)
            self._size += len(data)
        else:
            lines = data.count(b"\n")
            self._dropped += lines
            _Dropped.lines += lines

    def drain(self) -> None:
        """Write the waiting lines for which there is room now."""
        while self._waiting and self._room() >= len(self._waiting[0]):
            data = self._waiting.popleft()
            self._size -= len(data)
            self._write(data)
        if self._dropped and not self._waiting:
            dropped, self._dropped = self._dropped, 0
            log.warning("the log was not read fast enough: lines were dropped", lines=dropped)

    def finish(self, seconds: float) -> None:
        """Write the waiting lines, and wait up to `seconds` for room: the reader may only be slow."""
        until = time.monotonic() + seconds
        self.drain()
        while self._waiting and time.monotonic() < until:
            time.sleep(0.01)
            self.drain()

    def _write(self, data: bytes) -> None:
        rest = memoryview(b"\n" + data if self._cut else data)
        try:
            while rest and (written := self._file.write(rest)):
                self._cut = rest[written - 1] != _LINE_END
                rest = rest[written:]
        except (OSError, ValueError):
            pass
        if rest:
            _Dropped.lines += bytes(rest).count(b"\n")

    def _room(self) -> float:
        """Return how many bytes can be written without blocking. In a pipe, some room is left for other workers."""
        try:
            descriptor = self._file.fileno()
            if termios is None or not hasattr(select, "poll"):
                return inf  # the system does not say; a pipe that nobody reads blocks the gateway
            if self.is_pipe:
                held = struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, b"\0" * 4))[0]
                # Linux may leave pages of a pipe partly empty: its content takes twice its size at worst.
                return float(_capacity(descriptor) - 2 * held - 2 * _PAGE)
            poll = select.poll()
            poll.register(descriptor, select.POLLOUT)
            return inf if poll.poll(0) else 0
        except (OSError, ValueError):
            return inf  # the write will fail too, without blocking


def _capacity(descriptor: int) -> int:
    """Return the capacity of a pipe, or the usual one where the system does not say."""
    found: int = fcntl.fcntl(descriptor, fcntl.F_GETPIPE_SZ) if hasattr(fcntl, "F_GETPIPE_SZ") else _PIPE_BYTES
    return found


def _mode(file: BinaryIO) -> int:
    try:
        return os.fstat(file.fileno()).st_mode
    except (OSError, ValueError):
        return 0  # in memory, or closed
