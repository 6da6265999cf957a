"""`make setup` on a machine that lacks something."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

MAKEFILE = Path(__file__).resolve().parent.parent / "Makefile"


def make(folder: Path, python: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run `make setup` with nothing to install, in its own folder."""
    shutil.copy(MAKEFILE, folder)
    for name in ("requirements.lock", "pyproject.toml"):
        (folder / name).touch()
    command = [shutil.which("make") or "make", "-C", str(folder), "setup", f"PYTHON={python}"]
    return subprocess.run(
        command, env={**os.environ, **environ}, capture_output=True, text=True, timeout=60, check=False
    )


def test_an_old_python_is_reported_and_leaves_nothing(tmp_path: Path) -> None:
    """An old Python is reported and leaves nothing behind.

    Otherwise the next attempt would find the old environment.
    """
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.version_info = (3, 10, 1); sys.version = '3.10.1 x'")
    done = make(tmp_path, sys.executable, PYTHONPATH=str(tmp_path))
    assert done.returncode != 0
    assert "Trilogue needs Python 3.11 or newer; this is 3.10.1. Name another one: make PYTHON=" in done.stderr
    assert not (tmp_path / ".venv").exists()


def test_a_python_without_venv_leaves_nothing(tmp_path: Path) -> None:
    """A Python without venv (Debian has it in another package) does not leave half an environment behind."""
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\n[ "$1" = -c ] && exit 0\nmkdir -p .venv/bin; cp "$0" .venv/bin/python; exit 1\n')
    python.chmod(0o755)
    done = make(tmp_path, str(python))
    assert done.returncode != 0
    assert not (tmp_path / ".venv").exists()
