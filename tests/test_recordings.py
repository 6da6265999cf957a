"""A run without recordings says so, in one line at its end."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.recordings import NO_CASES, NO_RECORDINGS, ROOT, untested

REASONS = [
    f"Skipped: {NO_RECORDINGS}",
    f"Skipped: {NO_CASES}",
    "Skipped: got empty parameter set for (name)",
    "Skipped: needs Linux's table of TCP sockets",
]


def test_only_missing_recordings_count() -> None:
    """A test that is skipped for another reason is not in the number."""
    assert untested(REASONS).startswith("NOT TESTED: 3 tests over recorded traffic (none in ")
    assert untested(REASONS[:1]).startswith("NOT TESTED: 1 test over ")
    assert untested(REASONS[3:]) == ""


@pytest.mark.parametrize("workers", ["0", "1"])
def test_the_line_is_printed(tmp_path: Path, workers: str) -> None:
    """With xdist the tests are skipped in another process than the one that prints."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        workers,
        "-p",
        "no:cacheprovider",
        "tests/shapes/test_lists.py",
    ]
    environment = {**os.environ, "TRILOGUE_CORPUS": str(tmp_path)}
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stdout
    (line,) = re.findall(r"^!.*NOT TESTED: \d+ tests? .*$", ran.stdout, re.MULTILINE)
    assert "TRILOGUE_CORPUS" in line
    assert str(tmp_path) in line
