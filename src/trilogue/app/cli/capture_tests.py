"""Shared by `capture` and `replay`: a captured request as a test case for pytest."""

from __future__ import annotations

from pathlib import Path

import click

from trilogue.capture import SUFFIX, CaptureError, Replayed
from trilogue.capture.folder import file_name

TEST_FILE = "test_captures.py"
TEST = '''"""Replays captured requests, made by `--as-test` of `trilogue capture` or `trilogue replay`."""

from pathlib import Path

import pytest

from trilogue.capture import read_capture, replay

CAPTURES = sorted(Path(__file__).parent.glob("*.jsonl"))


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_capture(path: Path) -> None:
    replayed = replay(read_capture(path.read_bytes()))
    assert replayed.compared
    assert replayed.differences == []
'''


def make_test(name: str, data: bytes, replayed: Replayed, folder: Path) -> str:
    """Write a capture to a folder of tests, and return a line about it. `replayed`: its replay.

    Raises `CaptureError` if there is nothing to test, and UsageError if the folder is not writable.
    """
    if not replayed.compared:
        raise CaptureError(f"{name}: nothing in it can be compared, so a test would show nothing")
    target = folder / (file_name(name) + SUFFIX)
    make_folder(folder)
    try:
        target.write_bytes(data)
        if not (folder / TEST_FILE).exists():
            (folder / TEST_FILE).write_text(TEST, "utf-8")
    except OSError as error:
        raise _not_writable(folder, error) from None
    return f"{target}: {'fails now' if replayed.differences else 'passes now'}; run it with pytest {folder}"


def make_folder(folder: Path) -> None:
    """Make the folder of the tests if it does not exist. Raises UsageError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _not_writable(folder, error) from None


def _not_writable(folder: Path, error: OSError) -> click.UsageError:
    return click.UsageError(f"cannot write to {folder}: {error.strerror}")
