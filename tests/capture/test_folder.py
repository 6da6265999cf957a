"""The folder of captures: bounded, private, and never an error for a request."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trilogue.capture import CaptureFolder
from trilogue.capture.folder import file_name


def names(folder: CaptureFolder) -> list[str]:
    return [path.name for path in folder.files()]


def written(folder: CaptureFolder, name: str, data: bytes, age: int) -> None:
    path = folder.write(name, data)
    assert path is not None
    os.utime(path, (1_000_000 - age, 1_000_000 - age))


def test_the_oldest_files_make_room(tmp_path: Path) -> None:
    folder = CaptureFolder(tmp_path / "captures", most_files=3)
    for number in range(5):
        written(folder, f"r{number}", b"x", age=10 - number)
    assert names(folder) == ["r2.jsonl", "r3.jsonl", "r4.jsonl"]
    assert (folder.written, folder.dropped) == (5, 0)


def test_the_size_of_all_files_is_limited(tmp_path: Path) -> None:
    folder = CaptureFolder(tmp_path, most_bytes=100)
    written(folder, "a", b"x" * 60, age=3)
    written(folder, "b", b"x" * 60, age=2)
    assert names(folder) == ["b.jsonl"]
    assert folder.write("c", b"x" * 101) is None
    assert folder.dropped == 1
    assert names(folder) == ["b.jsonl"]


def test_only_the_owner_may_read(tmp_path: Path) -> None:
    folder = CaptureFolder(tmp_path / "new" / "captures")
    path = folder.write("a", b"x")
    assert path is not None
    assert path.stat().st_mode & 0o077 == 0
    assert path.parent.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b", "", "...", "x" * 500, "ü\n"])
def test_a_request_id_cannot_leave_the_folder(tmp_path: Path, name: str) -> None:
    """Clients may choose it."""
    path = CaptureFolder(tmp_path).write(name, b"x")
    assert path is not None
    assert path.parent == tmp_path
    assert len(file_name(name)) <= 100


def test_a_folder_that_cannot_be_written_drops_and_counts(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    folder = CaptureFolder(tmp_path / "file" / "captures")
    assert folder.write("a", b"x") is None
    assert folder.write("b", b"x") is None
    assert folder.dropped == 2
    assert folder.last_error == "Not a directory"


def test_a_full_disk_leaves_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = CaptureFolder(tmp_path)

    def full(_: Path, __: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    assert folder.write("a", b"x") is None
    assert list(tmp_path.iterdir()) == []
    assert folder.last_error == "No space left on device"
