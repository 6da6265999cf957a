"""The script that runs `make test` again and again, with a project that takes no time."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.repeat import Run, busy, find_python, main, table

GREEN = "=== 12 passed, 3 skipped, 26 subtests passed in 806.89s (0:13:26) ==="
MAKEFILE = """\
setup:
	@[ "$$(env | grep -c -v -E '^(HOME|PATH|MAKE.*|MFLAGS|PWD|SHLVL|_|OLDPWD|PYTHON)=')" = 0 ]
	@test -n "$(PYTHON)"
test:
	@echo '=== 2 passed in 0.01s ==='
broken:
	@echo 'FAILED tests/test_a.py::test_b[one two] - AssertionError: no'
	@echo 'ERROR tests/test_c.py::test_d'
	@echo '2 failed, 7 passed, 1 error in 1.50s'; exit 1
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a git repository with a Makefile."""
    git, folder = shutil.which("git"), tmp_path / "project"
    if git is None:
        pytest.skip("there is no git")
    folder.mkdir()
    (folder / "Makefile").write_text(MAKEFILE)
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for arguments in (["init", "-q"], ["add", "."], [*who, "commit", "-q", "-m", "a"]):
        subprocess.run([git, "-C", str(folder), *arguments], check=True)
    return folder


def test_runs_and_their_table(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each is a clone of its own in an empty environment; the last one has busy processes beside it."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    options = ["--runs", "2", "--busy-runs", "1", "--busy", "1", "--python", sys.executable, "--source", str(project)]
    assert main(options) == 0
    shown = capsys.readouterr().out
    version = sys.version.split()[0]
    assert f"| 1 | {version} | 0 | green | 2 | 0:0" in shown
    assert f"| 2 | {version} | 1 | green | 2 | 0:0" in shown
    assert len(re.findall(r"^\d\d:\d\d:\d\d run \d: ", shown, re.MULTILINE)) == 4


def test_a_run_that_fails(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    options = ["--runs", "1", "--busy-runs", "0", "--python", sys.executable, "--source", str(project)]
    assert main([*options, "--target", "broken"]) == 1
    [line] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| 1 |")]
    assert "| failed (2) | 7 |" in line
    assert line.endswith("| `tests/test_a.py::test_b[one two]`, `tests/test_c.py::test_d` |")


def test_what_was_printed_is_read() -> None:
    """A target may run pytest more than once."""
    run = Run(1, "python3", "3.11.7", 0)
    run.read(f"...\n{GREEN}\nmore\n=== 5 passed, 9 deselected in 2.00s ===\n")
    assert (run.tests, run.failing) == (17, [])
    run.read("make: *** [Makefile:2: setup] Error 1\n")
    assert (run.tests, run.failing) == (0, [])
    assert table([run]).count("\n") == 2


def test_pythons_are_found_by_path_and_version() -> None:
    version = ".".join(map(str, sys.version_info[:2]))
    assert find_python(sys.executable) == (sys.executable, sys.version.split()[0])
    found = find_python(version)
    assert found is None or found[1].startswith(version)
    assert find_python("2.99") is None


def test_busy_processes_end() -> None:
    with busy(1):
        pass
