"""The file of the log: what finds no room waits for it, and never holds anybody up."""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import pytest
from structlog.testing import capture_logs

from trilogue.gateway.log.output import MOST_BYTES, LogOutput, dropped_lines

Ends = tuple[int, BinaryIO]
UNLIMITED = resource.getrlimit(resource.RLIMIT_FSIZE)


@pytest.fixture(params=["pipe", "socket"])
def ends(request: pytest.FixtureRequest) -> Iterator[Ends]:
    """Where to read, without waiting, and where the log is written."""
    if request.param == "pipe":
        out, into = os.pipe()
    else:
        out, into = (one.detach() for one in socket.socketpair())
    os.set_blocking(out, False)
    with os.fdopen(into, "wb") as file:
        yield out, file
    os.close(out)


def taken(out: int) -> bytes:
    """All that is there to be read."""
    found = b""
    try:
        while piece := os.read(out, 65536):
            found += piece
    except BlockingIOError:
        pass
    return found


def lines(first: int, last: int) -> list[bytes]:
    return [b"line %d %b\n" % (number, b"x" * 1000) for number in range(first, last)]


def test_what_finds_no_room_comes_later(ends: Ends) -> None:
    """In order, and nothing is lost while there is not too much of it."""
    out, file = ends
    sink, said = LogOutput(file), lines(0, 600)
    for line in said:
        sink.put(line)
    found = b""
    while piece := taken(out):
        found += piece
        sink.drain()
    assert found == b"".join(said)


def test_too_many_lines_are_dropped_and_counted(ends: Ends) -> None:
    """Whole lines, the newest ones; as soon as there is room the log says how many."""
    out, file = ends
    sink, said, before = LogOutput(file), lines(0, 3 * MOST_BYTES // 1000), dropped_lines()
    for line in said:
        sink.put(line)
    dropped = dropped_lines() - before
    found = b""
    with capture_logs() as told:
        while piece := taken(out):
            found += piece
            sink.drain()
    kept = found.count(b"\n")
    assert dropped == len(said) - kept > 0
    assert found == b"".join(said[:kept])
    assert [line["lines"] for line in told] == [len(said) - kept]
    sink.put(b"next\n")
    assert taken(out) == b"next\n"


def test_the_last_lines_are_waited_for_only_so_long(ends: Ends) -> None:
    """Nobody reads: it gives up."""
    _, file = ends
    sink = LogOutput(file)
    for line in lines(0, 600):
        sink.put(line)
    sink.finish(0.05)


def test_lines_that_cannot_be_written_are_counted() -> None:
    """The disk is full, or the reader is gone."""
    out, into = os.pipe()
    os.close(out)
    with suppress(OSError), os.fdopen(into, "wb") as file:
        before = dropped_lines()
        LogOutput(file).put(b"a line\nanother\n")
        assert dropped_lines() - before == 2


def test_nothing_is_tried_again_at_the_end() -> None:
    """A line that did not fit on the disk is dropped. In a buffer it would be an error when the process exits."""
    with Path("/dev/full").open("wb") as file:
        before = dropped_lines()
        LogOutput(file).put(b"a line\n")
        assert dropped_lines() - before == 1
        file.flush()


def test_a_line_after_half_a_line_begins_at_its_start(tmp_path: Path) -> None:
    """The disk was full in the middle of a line, and has room again."""
    path = tmp_path / "log"
    with path.open("wb") as file, no_more_than(10):
        sink = LogOutput(file)
        sink.put(b"line 1\nline 2\n")
        sink.put(b"line 3\n")
        resource.setrlimit(resource.RLIMIT_FSIZE, UNLIMITED)
        sink.put(b"line 4\n")
    assert path.read_bytes() == b"line 1\nlin\nline 4\n"


@contextmanager
def no_more_than(size: int) -> Iterator[None]:
    """Let files of this process become no larger than `size` bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
