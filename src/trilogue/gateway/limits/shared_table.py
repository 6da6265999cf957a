"""A table of limits in a file that all workers of a machine map into their memory.

The file survives workers and restarts; after a power failure it may lack the last seconds. A file that is damaged or
cut is begun anew, and a row that is damaged is empty: whoever asks for it has to find out elsewhere what was used. All
access is under one lock of the file, which the system releases when a process dies. Each worker has a seat: a lock that
it holds for life, and a copy of what it has added to running requests and reservations. Whoever finds a seat without
its worker takes that back: running requests have ended, and reserved money counts as spent, because the upstream may
have charged for it.

Layout, in 64-bit numbers after a header: for each slot the digest of its subject (2 numbers), its row, and a checksum
of the row; then for each seat the running requests and reservations of each slot. The file is sparse: unused seats and
slots take no space.
"""

from __future__ import annotations

import mmap
import os
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from zlib import crc32

import structlog

from trilogue.base.posix import fcntl
from trilogue.gateway.limits.counters import PERIODS, RESERVED, ROW, RUNNING, SPENT, Row, budget_at
from trilogue.storage.database import StoreUnavailable


class LimitTable(ABC):
    """Rows by the name of a subject. What a process adds to `RUNNING` and to reservations ends with the process."""

    @abstractmethod
    def rows(self, names: Sequence[str]) -> AbstractContextManager[list[Row]]:
        """Return the rows of subjects, to read and change until the block ends. No other process does meanwhile.

        Raise LimitsFull if there is no room for a new subject.
        """

    @abstractmethod
    def has(self, name: str) -> bool:
        """Return whether there is a row of this subject."""

    def reclaim(self) -> int:
        """Take back what dead processes held; return how many there were. Call it now and then."""
        return 0

    @property
    def lost(self) -> str:
        """What was found damaged, so that counts were lost: a file; "" if nothing was."""
        return ""

    @property
    def is_unknown(self) -> bool:
        """Whether counts were lost, and what was spent could not be found out elsewhere."""
        return False

    def stay_unknown(self) -> None:
        """Remember that it could not be found out: what is counted elsewhere from now on does not say it either."""
        return

    @abstractmethod
    def close(self) -> None:
        """Give back what this process holds: its running requests and reservations count as ended."""


class LimitsFull(Exception):
    """There are more subjects than a table has room for."""


class LazyTable(LimitTable):
    """A table that is made when the first request needs it: most gateways have no limits."""

    def __init__(self, make: Callable[[], LimitTable]) -> None:
        self._make = make
        self._table: LimitTable | None = None

    def rows(self, names: Sequence[str]) -> AbstractContextManager[list[Row]]:
        """Return the rows of subjects."""
        if self._table is None:
            self._table = self._make()
        return self._table.rows(names)

    def has(self, name: str) -> bool:
        """Return whether there is a row of this subject."""
        return self._table is not None and self._table.has(name)

    def reclaim(self) -> int:
        """Take back what dead processes held."""
        return 0 if self._table is None else self._table.reclaim()

    @property
    def lost(self) -> str:
        """What was found damaged."""
        return "" if self._table is None else self._table.lost

    @property
    def is_unknown(self) -> bool:
        """Whether it could not be found out what was spent."""
        return self._table is not None and self._table.is_unknown

    def stay_unknown(self) -> None:
        """Remember that it could not be found out."""
        if self._table is not None:
            self._table.stay_unknown()

    def close(self) -> None:
        """Close the table if there is one."""
        if self._table is not None:
            self._table.close()


class MemoryTable(LimitTable):
    """A table of one process."""

    def __init__(self) -> None:
        self._rows: dict[str, Row] = {}

    @contextmanager
    def rows(self, names: Sequence[str]) -> Iterator[list[Row]]:
        """Return the rows of subjects."""
        yield [self._rows.setdefault(name, [0] * ROW) for name in names]

    def has(self, name: str) -> bool:
        """Return whether there is a row of this subject."""
        return name in self._rows

    def close(self) -> None:
        """End all running requests."""
        for row in self._rows.values():
            row[RUNNING] = 0


class SpendingUnknown(StoreUnavailable):
    """Counts were lost, and nothing else says what was spent. It will not be found out later either."""


log = structlog.get_logger("trilogue.limits")

FILE_NAME = "limits.dat"
MAGIC = b"trilimit"
VERSION = 3
_EARLIER = (1, 2)
SLOTS = 65_536
SEATS = 257
"""one more than the most workers"""
_NUMBER = 8
_SEAT_MARKS = 64
"""one byte for each seat: whether its worker has held anything"""
_HEADER = 512
_DIGEST = 2 * _NUMBER
_ROW_BYTES = _DIGEST + (ROW + 1) * _NUMBER
_LOST = 32
"""where the header says that counts were lost because the file was damaged"""
_IS_LOST, _IS_UNKNOWN = 1, 2
"""the same, and that nobody knows what was spent"""
HELD = (RUNNING, *(budget_at(position) + RESERVED for position in range(len(PERIODS))))
"""the cells of a row that end with a process"""
_HELD_BYTES = len(HELD) * _NUMBER
_row = struct.Struct(f"<{ROW}qQ")
_cells = struct.Struct(f"<{ROW}q")
_LARGEST = 2**62
_held = struct.Struct(f"<{len(HELD)}q")
_header = struct.Struct("<8sIIII")
_LOCK_BYTE = 0
_SEAT_BYTES = 1
"""where the locks of the seats begin; locks are on bytes of the header and need no content"""


class SharedTable(LimitTable):
    """The table in a file. Made inside the worker process, after the fork. Raises StoreUnavailable."""

    def __init__(self, path: Path, slots: int = SLOTS) -> None:
        self._slots = slots
        self._places: dict[str, int] = {}
        """the slots of subjects that this process has used"""
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            size = _HEADER + slots * _ROW_BYTES + SEATS * slots * _HELD_BYTES
            with self._locked():
                found, head = os.fstat(self._file).st_size, os.pread(self._file, _header.size, 0)
                if found != size or head != self._head():
                    os.ftruncate(self._file, 0)
                    os.ftruncate(self._file, size)
                    os.pwrite(self._file, self._head(), 0)
                    if found and not _is_earlier(head):
                        os.pwrite(self._file, bytes([_IS_LOST]), _LOST)
                        log.error("the counts of limits are damaged and are begun anew", file=str(path))
            self._path = path
            self._memory = mmap.mmap(self._file, size)
        except (OSError, ValueError) as error:
            raise StoreUnavailable(f"cannot use {path}: {getattr(error, 'strerror', None) or error}") from None
        self._seat = self._take_seat()

    @contextmanager
    def rows(self, names: Sequence[str]) -> Iterator[list[Row]]:
        """Return the rows of subjects, to change until the block ends."""
        with self._locked():
            places = [self._place(name) for name in names]
            before = [self._read(place) for place in places]
            rows = [row.copy() for row in before]
            yield rows
            for place, old, row in zip(places, before, rows, strict=True):
                _write(self._memory, self._row_at(place), row)
                self._hold(place, [row[cell] - old[cell] for cell in HELD])

    def has(self, name: str) -> bool:
        """Return whether there is a row of this subject."""
        try:
            return name in self._places or not _find(self._memory, self._slots, _digest(name))[1]
        except LimitsFull:
            return False

    @property
    def lost(self) -> str:
        """The file, if it was found damaged."""
        return str(self._path) if self._memory[_LOST] else ""

    @property
    def is_unknown(self) -> bool:
        """Whether it could not be found out what was spent."""
        return self._memory[_LOST] == _IS_UNKNOWN

    def stay_unknown(self) -> None:
        """Remember that it could not be found out, until the file is deleted."""
        self._memory[_LOST] = _IS_UNKNOWN

    def close(self) -> None:
        """Leave the seat and unmap the file."""
        with suppress(OSError, ValueError):
            with self._locked():
                self._empty(self._seat)
            self._memory.close()
            os.close(self._file)

    def reclaim(self) -> int:
        """Take back what dead workers held; return how many there were. Call it now and then."""
        found = 0
        with self._locked():
            for seat in range(SEATS):
                if seat != self._seat and self._lock_seat(seat):
                    found += self._empty(seat)
                    fcntl.lockf(self._file, fcntl.LOCK_UN, 1, _SEAT_BYTES + seat)
        return found

    def _head(self) -> bytes:
        return _header.pack(MAGIC, VERSION, self._slots, ROW, SEATS)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        fcntl.lockf(self._file, fcntl.LOCK_EX, 1, _LOCK_BYTE)
        try:
            yield
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, _LOCK_BYTE)

    def _lock_seat(self, seat: int) -> bool:
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _SEAT_BYTES + seat)
        except OSError:
            return False
        return True

    def _read(self, place: int) -> Row:
        """Return a row; an empty one if it is damaged."""
        row = _checked(self._memory, self._row_at(place))
        if row is not None:
            return row
        self._memory[_LOST] = max(_IS_LOST, self._memory[_LOST])
        log.error("a count of limits is damaged and is begun anew", file=str(self._path))
        return [0] * ROW

    def _take_seat(self) -> int:
        with self._locked():
            for seat in range(SEATS):
                if self._lock_seat(seat):
                    self._empty(seat)
                    return seat
        raise StoreUnavailable("all seats of the table of limits are taken")

    def _row_at(self, place: int) -> int:
        return _HEADER + place * _ROW_BYTES + _DIGEST

    def _held_at(self, seat: int, place: int) -> int:
        return _HEADER + self._slots * _ROW_BYTES + (seat * self._slots + place) * _HELD_BYTES

    def _place(self, name: str) -> int:
        """Return the slot of a subject, which is its own from now on."""
        known = self._places.get(name)
        if known is not None:
            return known
        digest = _digest(name)
        place, is_new = _find(self._memory, self._slots, digest)
        if is_new:
            at = _HEADER + place * _ROW_BYTES
            self._memory[at : at + _DIGEST] = digest
            _write(self._memory, at + _DIGEST, [0] * ROW)
        self._places[name] = place
        return place

    def _hold(self, place: int, added: list[int]) -> None:
        """Note what this process has added to a row, for the case that it dies."""
        if any(added):
            self._memory[_SEAT_MARKS + self._seat] = 1
            at = self._held_at(self._seat, place)
            held = _held.unpack_from(self._memory, at)
            _held.pack_into(self._memory, at, *[one + more for one, more in zip(held, added, strict=True)])

    def _empty(self, seat: int) -> int:
        """Take back what the worker of a seat held. Return 1 if it held anything."""
        if not self._memory[_SEAT_MARKS + seat]:
            return 0
        start, length = self._held_at(seat, 0), self._slots * _HELD_BYTES
        content = self._memory[start : start + length]
        for place in range(self._slots):
            held = _held.unpack_from(content, place * _HELD_BYTES)
            row = _checked(self._memory, self._row_at(place)) if any(held) else None
            if row is not None:
                for cell, amount in zip(HELD, held, strict=True):
                    # What is held is part of the row, unless it is damaged.
                    taken = max(0, min(amount, row[cell]))
                    row[cell] -= taken
                    if cell != RUNNING:
                        row[cell - RESERVED + SPENT] += taken
                _write(self._memory, self._row_at(place), row)
        self._memory[start : start + length] = bytes(length)
        self._memory[_SEAT_MARKS + seat] = 0
        return 1


def _is_earlier(head: bytes) -> bool:
    """Return whether a file begins as one of an earlier version does."""
    return len(head) == _header.size and head[:8] == MAGIC and _header.unpack(head)[1] in _EARLIER


def _checked(memory: mmap.mmap, at: int) -> Row | None:
    """Return the row that begins here; None if it is damaged."""
    *row, checksum = _row.unpack_from(memory, at)
    return row if crc32(memory[at : at + _cells.size]) == checksum else None


def _write(memory: mmap.mmap, at: int, row: Row) -> None:
    try:
        cells = _cells.pack(*row)
    except struct.error:  # the prices are absurd
        row[:] = [max(-_LARGEST, min(cell, _LARGEST)) for cell in row]
        cells = _cells.pack(*row)
    _row.pack_into(memory, at, *row, crc32(cells))


def _digest(name: str) -> bytes:
    return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=_DIGEST).digest()


def _find(memory: mmap.mmap, slots: int, digest: bytes) -> tuple[int, bool]:
    """Return the slot of a subject, the first one from its digest on that is its own or free, and whether it is free.

    Raise LimitsFull if all slots are those of others.
    """
    start = int.from_bytes(digest[:4], "little")
    for step in range(slots):
        place = (start + step) % slots
        at = _HEADER + place * _ROW_BYTES
        found = memory[at : at + _DIGEST]
        if found == digest or found == bytes(_DIGEST):
            return place, found != digest
    raise LimitsFull


def read_rows(path: Path, names: Sequence[str]) -> dict[str, Row]:
    """Return the rows of those subjects that a file has, without changing it; none if it is not such a file."""
    found: dict[str, Row] = {}
    with suppress(OSError, ValueError, struct.error, LimitsFull), path.open("rb") as file:
        magic, version, slots, row, seats = _header.unpack(file.read(_header.size))
        if (magic, version, row, seats) != (MAGIC, VERSION, ROW, SEATS):
            return {}
        fcntl.lockf(file, fcntl.LOCK_SH, 1, _LOCK_BYTE)
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as memory:
            for name in names:
                place, is_new = _find(memory, slots, _digest(name))
                row = None if is_new else _checked(memory, _HEADER + place * _ROW_BYTES + _DIGEST)
                if row is not None:
                    found[name] = row
    return found
