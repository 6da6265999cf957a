"""A folder of capture files with a largest number and size. The oldest files make room for new ones.

A capture never breaks a request: if the disk is full or the folder is not writable, the capture is dropped and counted.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trilogue.base.posix import fcntl
from trilogue.capture.format import SUFFIX

MOST_FILES = 100
MOST_BYTES = 256 * 1024 * 1024

_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")
_LONGEST_NAME = 100
_PART = ".part"
_ABANDONED_SECONDS = 600.0
"""age of a part whose process must have been killed"""


class CaptureFolder:
    """A folder for captures, created when the first one is written; only its owner may read it."""

    def __init__(self, folder: Path, *, most_files: int = MOST_FILES, most_bytes: int = MOST_BYTES) -> None:
        self.folder = folder
        self.most_files = most_files
        self.most_bytes = most_bytes
        self.written = 0
        """captures that were written"""
        self.dropped = 0
        """captures that could not be written"""
        self.last_error = ""
        """why the last one could not"""

    def write(self, name: str, data: bytes) -> Path | None:
        """Write one capture and return its path, or None if it had to be dropped. Removes the oldest if need be.

        The file appears under its name when it is complete, so that a reader never sees half of it. Processes that
        share the folder write one after the other, so that they keep to its limits together.
        """
        if len(data) > self.most_bytes:
            self._drop("it is larger than the folder may be")
            return None
        path = self.folder / (file_name(name) + SUFFIX)
        part = path.with_suffix(_PART)
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _locked(self.folder):
                self._make_room(len(data))
                with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                    file.write(data)
                part.replace(path)
        except OSError as error:
            _remove(part)
            self._drop(error.strerror or type(error).__name__)
            return None
        self.written += 1
        return path

    def read(self, name: str) -> bytes | None:
        """Return the capture of this name, or None if there is none."""
        try:
            return (self.folder / (file_name(name) + SUFFIX)).read_bytes()
        except OSError:
            return None

    def files(self) -> list[Path]:
        """Return the captures in the folder, the oldest first."""
        found = []
        for path in self.folder.glob(f"*{SUFFIX}"):
            try:
                found.append((path.stat().st_mtime_ns, path))
            except OSError:  # another worker has removed it
                continue
        return [path for _, path in sorted(found)]

    def _make_room(self, size: int) -> None:
        for part in self.folder.glob(f"*{_PART}"):
            if time.time() - _modified(part) > _ABANDONED_SECONDS:
                _remove(part)
        files = self.files()
        sizes = {path: _size(path) for path in files}
        total = sum(sizes.values())
        for path in files:
            if len(sizes) < self.most_files and total + size <= self.most_bytes:
                return
            _remove(path)
            total -= sizes.pop(path)

    def _drop(self, reason: str) -> None:
        self.dropped += 1
        self.last_error = reason


def file_name(name: str) -> str:
    """Return a safe file name for a request id, which may come from the client."""
    return _UNSAFE.sub("_", name)[:_LONGEST_NAME].lstrip(".") or "capture"


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Wait until no other process writes to the folder."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return time.time()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return
