"""The live file of one worker: rows of counts in memory that is shared with a file, so that they survive `kill -9`.

The file has a place for each row, with its name and two copies of its counts. They are written in turn, and each begins
and ends with the number of requests: a copy that a killed process has left half written has two different numbers, and
the other one counts. A row is only counted in if it has requests, so a half written name does no harm.

All bytes of the file are written when it is made: a disk that is full later cannot fail a row. As with the index of
SQLite's write-ahead log, a program that truncates the file ends the process. Where no file can be made, rows are in
memory alone.

A lock says whether the worker lives: the kernel releases it with the process.
"""

from __future__ import annotations

import mmap
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from struct import Struct as Layout
from typing import NamedTuple

import msgspec
from msgspec import Struct

from trilogue.base.posix import fcntl

HOUR_SECONDS = 3_600
HOURS_PER_DAY = 24


class Counts(NamedTuple):
    """Sums over some requests, each of which can only grow. `requests` comes first: live files rely on that.

    `errors`: requests that ended with an error, or whose client disconnected. `unmetered`: those of which the upstream
    did not say what they used, though it began to respond. `unpriced`: those whose cost is unknown, the unmetered ones
    included. `cost`: of all others, in millionths of a millionth of a dollar. Tokens are split as in `Usage`: `fresh`
    input is not cached, and `reasoning` is a part of `output`. `reserved`: what budgets were charged for requests whose
    cost is unknown, in the unit of `cost`.
    """

    requests: int = 0
    errors: int = 0
    unmetered: int = 0
    unpriced: int = 0
    fresh: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cache_write_long: int = 0
    output: int = 0
    reasoning: int = 0
    searches: int = 0
    cost: int = 0
    reserved: int = 0

    @property
    def input(self) -> int:
        """The number of all input tokens, cached or not."""
        return self.fresh + self.cache_read + self.cache_write

    def plus(self, other: Counts) -> Counts:
        """Return the sum with other counts."""
        return Counts(*(a + b for a, b in zip(self, other, strict=True)))

    def since(self, earlier: Counts) -> Counts:
        """Return what was added since earlier counts of the same requests; nothing if these are the earlier ones."""
        if earlier.requests >= self.requests:
            return NO_COUNTS
        return Counts(*(a - b for a, b in zip(self, earlier, strict=True)))


NO_COUNTS = Counts()


class RowName(Struct, frozen=True, array_like=True, order=True):
    """What a row is about. `hour`: hours since the epoch, in UTC. `key`: the name of the client key.

    `owner`: whose key it is, if keys have owners. `model`: as the client named it. `upstream_model`: as the provider
    names it.
    """

    hour: int
    key: str
    owner: str
    model: str
    upstream_model: str
    provider: str
    account: str


SUFFIX = ".counts"
NEW_SUFFIX = ".new"
MAGIC = b"trilogue usage 2\n"
_FIRST_MAGIC = b"trilogue usage 1\n"
"""of files whose rows lack the last one of `Counts`"""
PLACE_BYTES = 1_024
PLACES = 256
FILE_BYTES = PLACE_BYTES * (PLACES + 1)
"""the first place has the magic number"""
_SECOND_COPY = 128
_NAME = 256
MAX_NAME_BYTES = PLACE_BYTES - _NAME - 2

_copy = Layout(f"@{len(Counts._fields) + 1}q")
_first_copy = Layout(f"@{len(Counts._fields)}q")
write_copy = _copy.pack_into
_name_size = Layout("@H")
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(RowName).decode

Place = tuple[int, RowName, Counts]
"""the number of a place in a file, with the name and the counts of its row"""


class LiveRow:
    """The counts of one row. Whoever changes `counts` writes a copy before the next change, as `save` does.

    `counts`: a list with the values of `Counts`, in order. `memory` and `copies`: where to write them; an odd number of
    requests goes to the second one.
    """

    __slots__ = ("copies", "counts", "memory", "name")

    def __init__(self, name: RowName, memory: mmap.mmap, offset: int) -> None:
        self.name = name
        self.counts: list[int] = [*Counts()]
        self.memory = memory
        self.copies = (offset, offset + _SECOND_COPY)

    def save(self) -> None:
        """Write the counts. Each change must be of one request."""
        requests = self.counts[0]
        write_copy(self.memory, self.copies[requests & 1], *self.counts, requests)

    def saved(self) -> Counts:
        """Return the counts as they were last written. Safe for threads."""
        return _read_place(self.memory, self.copies[0])


class LiveFile:
    """The places of one worker, in a file of this folder, or in memory if there is no folder. Raises OSError."""

    def __init__(self, folder: Path | None) -> None:
        self.id = secrets.token_hex(8)
        self.path = None if folder is None else folder / f"{self.id}{SUFFIX}"
        self._descriptor = -1 if self.path is None else _create(self.path)
        try:
            self._memory = mmap.mmap(self._descriptor, FILE_BYTES)
        except (OSError, ValueError):
            self.remove()
            raise
        self.rows: list[LiveRow] = []

    @property
    def is_full(self) -> bool:
        """Whether there is no place for another row."""
        return len(self.rows) >= PLACES

    def exists(self) -> bool:
        """Return whether there is a file that another process can find."""
        return self.path is not None and self.path.exists()

    def add(self, name: RowName) -> LiveRow:
        """Return a new row. Raises ValueError if the name does not fit."""
        data = _encode(name)
        if len(data) > MAX_NAME_BYTES or self.is_full:
            raise ValueError(f"no place for a name of {len(data)} bytes")
        offset = PLACE_BYTES * (len(self.rows) + 1)
        start = offset + _NAME
        _name_size.pack_into(self._memory, start, len(data))
        self._memory[start + 2 : start + 2 + len(data)] = data
        row = LiveRow(name, self._memory, offset)
        self.rows.append(row)
        return row

    def places(self) -> list[Place]:
        """Return all rows with requests, as they are in the file."""
        found = [(number, row.name, row.saved()) for number, row in enumerate(list(self.rows))]
        return [place for place in found if place[2].requests]

    def remove(self) -> None:
        """Delete the file. Rows can still be changed, but that has no effect any more."""
        if self.path is not None:
            with suppress(OSError):
                self.path.unlink()
            os.close(self._descriptor)
            self.path = None


def _create(path: Path) -> int:
    """Return the descriptor of a new file of zeros that only its owner can read, locked."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Under its name it would be taken for abandoned until it is locked.
    new = path.with_suffix(NEW_SUFFIX)
    descriptor = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        data = memoryview(MAGIC + bytes(FILE_BYTES - len(MAGIC)))
        while data:
            data = data[os.write(descriptor, data) :]
        new.rename(path)
    except OSError:
        os.close(descriptor)
        new.unlink(missing_ok=True)
        raise
    return descriptor


def live_files(folder: Path) -> list[Path]:
    """Return the live files in a folder, of running and of dead workers."""
    return sorted(folder.glob(f"*{SUFFIX}"))


@contextmanager
def abandoned(path: Path) -> Iterator[bool]:
    """Return whether the worker of a live file has died. If so, nobody else gets the same result inside the block."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        yield False
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_abandoned = os.fstat(descriptor).st_nlink > 0
        except OSError:
            is_abandoned = False
        yield is_abandoned
    finally:
        os.close(descriptor)


def read_places(path: Path) -> list[Place]:
    """Return the rows with requests in a live file. One that cannot be read, or is not one, has none.

    While the worker writes, a reader may see half of a change, so the file is read until two readings agree.
    """
    before, data = b"", _content(path)
    for _ in range(10):
        if data == before:
            break
        before, data = data, _content(path)
    layout = _layout_of(data)
    if layout is None:
        return []
    found = (_read_row(data, number, layout) for number in range(PLACES))
    return [place for place in found if place is not None]


def is_damaged(path: Path) -> bool:
    """Return whether a live file has rows with requests that cannot be read, or is none."""
    data = _content(path)
    layout = _layout_of(data)
    if layout is None:
        return True
    counted = [number for number in range(PLACES) if _read_place(data, PLACE_BYTES * (number + 1), layout).requests]
    return any(_read_row(data, number, layout) is None for number in counted)


def _layout_of(data: bytes) -> Layout | None:
    """Return how counts are written in a live file, also one of an earlier version; None if this is none."""
    if len(data) < FILE_BYTES:
        return None
    if data.startswith(_FIRST_MAGIC):
        return _first_copy
    return _copy if data.startswith(MAGIC) else None


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _read_row(data: bytes, number: int, layout: Layout) -> Place | None:
    offset = PLACE_BYTES * (number + 1)
    counts = _read_place(data, offset, layout)
    if not counts.requests:
        return None
    start = offset + _NAME
    (size,) = _name_size.unpack_from(data, start)
    try:
        return number, _decode(data[start + 2 : start + 2 + size]), counts
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _read_place(data: bytes | mmap.mmap, offset: int, layout: Layout = _copy) -> Counts:
    """Return the newer one of the two copies that is complete."""
    copies = (layout.unpack_from(data, offset), layout.unpack_from(data, offset + _SECOND_COPY))
    return max((Counts(*copy[:-1]) for copy in copies if copy[0] == copy[-1]), default=NO_COUNTS)
