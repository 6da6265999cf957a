"""The usage ledger of one worker: its live file, and the thread that adds it to the table of all rows.

`row` is for the event loop: it only uses memory. All files and the database are left to the thread, which also prepares
the next live file before one is full. If none can be made, rows are in memory alone until that works again: a full disk
never fails a request.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import structlog

from trilogue.gateway.features.usage.ledger.live_file import (
    HOUR_SECONDS,
    HOURS_PER_DAY,
    NEW_SUFFIX,
    PLACES,
    LiveFile,
    LiveRow,
    Place,
    RowName,
    abandoned,
    is_damaged,
    live_files,
    read_places,
)
from trilogue.gateway.features.usage.ledger.tables import LedgerTables, UsageLine, UsageQuery, read_usage
from trilogue.storage.database import StoreError
from trilogue.storage.private_files import last_set_aside, set_aside

log = structlog.get_logger("trilogue.usage")

ADD_SECONDS = 1.0
TIDY_SECONDS = 60.0
"""How often to look for live files of workers that have died, and for rows that are too old."""
CLOSE_SECONDS = 5.0
MIN_FREE_BYTES = 8 * 2**20
"""Below that, live files are not used: on file systems that write elsewhere (btrfs, ZFS) a full disk would end the
process."""


class UsageLedger:
    """The ledger of one worker. Make it in the worker, after the fork. `folder`: of the live files of all workers.

    `days`: how long rows are kept.
    """

    def __init__(self, tables: LedgerTables, folder: Path, days: float) -> None:
        self.failures = 0
        """how often the table could not be written"""
        self.on_new_file: Callable[[], None] = lambda: None
        """called by the thread when another hour or live file has begun: whoever keeps rows must ask for new ones"""
        self._tables = tables
        self._folder = folder
        self._days = days
        self._hour = _this_hour()
        self._is_failing = False
        self._in_memory = False
        self._tidied_at: float | None = None
        self._added: dict[str, dict[int, int]] = {}
        """how many requests of each place are in the table, by file"""
        self._lock = threading.Lock()
        """held while `row` or the thread changes the fields below, never while files or tables are used"""
        self._file = self._new_file()
        self._next: LiveFile | None = None
        self._full: list[LiveFile] = []
        """files without a place for another row, whose rows are still in use"""
        self._retired: list[LiveFile] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="trilogue-usage", daemon=True)

    def start(self) -> None:
        """Start the thread, unless it runs."""
        if not self._thread.is_alive():
            self._thread.start()

    @property
    def hour(self) -> int:
        """The current hour, in hours since the epoch. It changes up to a second late."""
        return self._hour

    def row(self, name: RowName) -> LiveRow:
        """Return a new row for what is used from now on. Raises ValueError if the name is too long."""
        with self._lock:
            if self._file.is_full:
                self._full.append(self._file)
                self._file, self._next = self._next or LiveFile(None), None
            return self._file.add(name)

    def read(self, query: UsageQuery) -> list[UsageLine]:
        """Return sums over all workers. May block. Raise StoreError."""
        return read_usage(self._tables, self._folder, query)

    def lost_at(self) -> float:
        """Return when a damaged ledger was set aside for the last time; 0 for never. May block. Raises OSError."""
        return last_set_aside(Path(self._tables.name)) if self._tables.is_file else 0.0

    def close(self) -> None:
        """Add what is left to the table, and remove the live files of this worker. No row may be used any more."""
        self._stopping.set()
        self.start()
        self._thread.join(CLOSE_SECONDS)

    # --- the thread ---

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._step()
            except Exception as error:  # the boundary of the thread: the next step may work
                log.error("bug", error=type(error).__name__, exc_info=True)
            self._stopping.wait(ADD_SECONDS)
        self._finish()

    def _step(self) -> None:
        # The event loop may be about to count in files that were retired just now, so they stay for one more step.
        retired = list(self._retired)
        hour, self._hour = self._hour, _this_hour()
        if hour // HOURS_PER_DAY != self._hour // HOURS_PER_DAY:
            # A file per day: what is added of it need not be remembered for long.
            self._replace_file(self._new_file())
        elif hour != self._hour:
            self.on_new_file()
            self._retire_full()
        self._prepare()
        if self._add_files():
            self._remove(retired)
            if self._tidied_at is None or time.monotonic() - self._tidied_at >= TIDY_SECONDS:
                self._tidied_at = time.monotonic()
                self._tidy()

    def _finish(self) -> None:
        self._retire_full()
        with self._lock:
            self._retired.append(self._file)
            if self._next is not None:
                self._retired.append(self._next)
        if self._add_files():
            self._remove(list(self._retired))
        left = [file for file in self._retired if file.path is None]
        if left:
            lost = sum(one[2].requests for file in left for one in file.places())
            log.error("usage that was counted in memory is lost, at most of so many requests", requests=lost)
        self._tables.close()

    def _prepare(self) -> None:
        """Replace a file that was deleted or may not fit on the disk. Have the next one ready before it is full."""
        current, has_room = self._file, self._has_room()
        if not has_room:
            if current.path is not None:
                self._replace_file(LiveFile(None))
                self._say_in_memory("the disk is full")
            return
        if not current.exists():
            new = self._new_file()
            if new.path is not None or current.path is not None:
                self._replace_file(new)
        if self._next is None and len(self._file.rows) > PLACES // 2:
            ready = self._new_file()
            with self._lock:
                self._next = ready if ready.path is not None else None

    def _replace_file(self, new: LiveFile) -> None:
        with self._lock:
            self._retired.append(self._file)
            self._file = new
        self.on_new_file()
        self._retire_full()

    def _retire_full(self) -> None:
        """Note that nobody uses rows of full files any more, except perhaps the event loop just now."""
        with self._lock:
            self._retired += self._full
            self._full = []

    def _has_room(self) -> bool:
        found = next(path for path in (self._folder, *self._folder.parents) if path.exists())
        return shutil.disk_usage(found).free >= MIN_FREE_BYTES

    def _new_file(self) -> LiveFile:
        try:
            made = LiveFile(self._folder)
        except (OSError, ValueError) as error:
            self._say_in_memory(getattr(error, "strerror", None) or type(error).__name__)
            return LiveFile(None)
        if self._in_memory:
            self._in_memory = False
            log.info("usage is protected from the end of a worker again", folder=str(self._folder))
        return made

    def _say_in_memory(self, reason: str) -> None:
        if not self._in_memory:
            self._in_memory = True
            log.warning(
                "usage is counted in memory: what is not stored yet is lost if the worker is killed",
                folder=str(self._folder),
                reason=reason,
            )

    def _add_files(self) -> bool:
        """Add what is new in all live files of this worker. Return False if that failed."""
        with self._lock:
            files = [*self._retired, *self._full, self._file]
        return all([self._write(file.id, file.places()) for file in files])

    def _remove(self, files: list[LiveFile]) -> None:
        """Remove live files of which everything is in the table."""
        for file in files:
            added = self._added.get(file.id, {})
            if all(counts.requests == added.get(number) for number, _, counts in file.places()):
                file.remove()
                self._added.pop(file.id, None)
                with self._lock:
                    self._retired.remove(file)

    def _write(self, file: str, places: list[Place]) -> bool:
        """Add what is new in a file. Return False if that failed."""
        added = self._added.setdefault(file, {})
        changed = [one for one in places if one[2].requests != added.get(one[0])]
        if not changed:
            return True
        try:
            self._tables.add(file, changed)
        except StoreError as error:
            self.failures += 1
            if not self._is_failing:
                self._is_failing = True
                log.error(
                    "usage cannot be stored; it is kept and tried again", store=self._tables.name, error=str(error)
                )
            return False
        added.update({number: counts.requests for number, _, counts in changed})
        if self._is_failing:
            self._is_failing = False
            log.info("usage is stored again", store=self._tables.name)
        return True

    def _tidy(self) -> None:
        """Add the live files of workers that have died, and delete rows that are too old."""
        for path in live_files(self._folder):
            with abandoned(path) as is_abandoned:
                if is_abandoned and self._write(path.stem, read_places(path)):
                    # What can be read of a damaged file counts. The rest is left to people.
                    if not set_aside(path, partial(is_damaged, path)):
                        path.unlink(missing_ok=True)
                    self._added.pop(path.stem, None)
                    log.info("usage of a worker that ended without adding it", file=path.name)
        for path in self._folder.glob(f"*{NEW_SUFFIX}"):
            with suppress(OSError):
                if time.time() - path.stat().st_mtime > HOUR_SECONDS:
                    path.unlink()
        with suppress(StoreError):
            while self._tables.prune(self._days):
                pass


def _this_hour() -> int:
    return int(time.time()) // HOUR_SECONDS
