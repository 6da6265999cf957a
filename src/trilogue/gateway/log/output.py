"""The file that the log is written to, without waiting for who reads it.

A pipe that nobody reads takes 64 KiB, and then holds up whoever writes to it: the whole gateway. So what finds no room
is kept for a while, up to a limit, and is lost then; how much was lost is told as soon as there is room again.
"""

from __future__ import annotations

import fcntl
import os
import select
import struct
import termios
import time
from collections import deque
from contextlib import suppress
from math import inf
from stat import S_ISFIFO, S_ISREG
from typing import BinaryIO

import structlog

MOST_BYTES = 1024 * 1024
"""what may wait for room"""
_PIPE_BYTES = 64 * 1024
_PAGE = 4096

log = structlog.get_logger("trilogue.log")


class LogOutput:
    """Writes pieces of whole lines, in order."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._lost = 0
        mode = _mode(file)
        self.is_pipe = S_ISFIFO(mode)
        self._never_waits = S_ISREG(mode) or not mode

    def put(self, data: bytes) -> None:
        """Write this, or keep it until there is room."""
        if self._waiting or self._lost:
            self.drain()
        if not self._waiting and (self._never_waits or self._room() >= len(data)):
            self._write(data)
        elif self._size + len(data) <= MOST_BYTES:
            self._waiting.append(data)
            self._size += len(data)
        else:
            self._lost += data.count(b"\n")

    def drain(self) -> None:
        """Write what waits, as far as there is room."""
        while self._waiting and self._room() >= len(self._waiting[0]):
            data = self._waiting.popleft()
            self._size -= len(data)
            self._write(data)
        if self._lost and not self._waiting:
            lost, self._lost = self._lost, 0
            log.warning("nobody has read the log for a while: lines are lost", lines=lost)

    def finish(self, seconds: float) -> None:
        """The last chance for what waits: who reads may only be slow."""
        until = time.monotonic() + seconds
        self.drain()
        while self._waiting and time.monotonic() < until:
            time.sleep(0.01)
            self.drain()

    def _write(self, data: bytes) -> None:
        with suppress(OSError, ValueError):
            self._file.write(data)
            self._file.flush()

    def _room(self) -> float:
        """How much can be written at once. Of a pipe a little is left for other workers, who look at the same time."""
        try:
            descriptor = self._file.fileno()
            if self.is_pipe:
                held = struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, b"\0" * 4))[0]
                # A page that is not full may be followed by the next one: what is held takes twice as much at worst.
                return float(_capacity(descriptor) - 2 * held - 2 * _PAGE)
            poll = select.poll()
            poll.register(descriptor, select.POLLOUT)
            return inf if poll.poll(0) else 0
        except (OSError, ValueError):
            return inf  # it cannot be written to either, which takes no time


def _capacity(descriptor: int) -> int:
    """What a pipe takes, where the system tells it."""
    return fcntl.fcntl(descriptor, fcntl.F_GETPIPE_SZ) if hasattr(fcntl, "F_GETPIPE_SZ") else _PIPE_BYTES


def _mode(file: BinaryIO) -> int:
    try:
        return os.fstat(file.fileno()).st_mode
    except (OSError, ValueError):
        return 0  # in memory, or closed
