"""`make` on a machine that lacks something: one line says what to do."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
RUN_STAMP = ".venv/.installed-to-run"
PAGE = "WARNING: Retrying (Retry(total=4)): NewConnectionError\\nERROR: Could not find a version (from versions: none)"


def make(folder: Path, python: str, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run `make` in its own folder, with nothing to install: `make setup`, or what is given."""
    shutil.copy(ROOT / "Makefile", folder)
    (folder / "website").mkdir()
    for name in ("requirements.lock", "requirements-run.lock", "pyproject.toml", "website/requirements.lock"):
        (folder / name).touch()
    command = [shutil.which("make") or "make", "-C", str(folder), *(arguments or ["setup"]), f"PYTHON={python}"]
    # `make test` tells what it starts that it is part of it.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(
        command, env={**inherited, **environ}, capture_output=True, text=True, timeout=60, check=False
    )


def fake_python(folder: Path, venv: str) -> str:
    """Return a Python that runs `-c`, and these commands instead of `-m venv .venv`."""
    python = folder / "python"
    python.write_text(f'#!/bin/sh\n[ "$1" = -c ] && exit 0\n{venv}\n')
    python.chmod(0o755)
    return str(python)


def only_line(done: subprocess.CompletedProcess[str]) -> str:
    """Return the only line about an error, beside that of make itself."""
    assert done.returncode != 0
    first, *others = done.stderr.splitlines()
    assert [line for line in others if not line.startswith("make: ***")] == []
    return first


def test_an_old_python_is_reported_and_leaves_nothing(tmp_path: Path) -> None:
    """An old Python is reported and leaves nothing behind.

    Otherwise the next attempt would find the old environment.
    """
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.version_info = (3, 10, 1); sys.version = '3.10.1 x'")
    line = only_line(make(tmp_path, sys.executable, PYTHONPATH=str(tmp_path)))
    assert line.startswith("Trilogue needs Python 3.11 or newer; this is 3.10.1. Name another one: make PYTHON=")
    assert not (tmp_path / ".venv").exists()


def test_a_python_without_venv_leaves_nothing(tmp_path: Path) -> None:
    """A Python without venv (Debian has it in another package) does not leave half an environment behind."""
    said = "echo The virtual environment was not created because ensurepip is not available."
    python = fake_python(tmp_path, f"mkdir -p .venv/bin; {said}; echo; echo apt install it; exit 1")
    line = only_line(make(tmp_path, python))
    assert (
        line
        == f"{python} cannot create a virtual environment: install its venv package (Debian: apt install python3-venv)"
    )
    assert not (tmp_path / ".venv").exists()


@pytest.mark.parametrize(("target", "venv"), [("setup", ".venv"), (RUN_STAMP, ".venv"), ("docs", ".venv-docs")])
@pytest.mark.parametrize(("page", "line"), [
    (PAGE, "pip finds no package index that has them. Connect to a network, or name a mirror: PIP_INDEX_URL="),
    ("note\\nERROR: No space left on device\\nmore", "ERROR: No space left on device (all that pip said is in"),
], ids=["no index", "full disk"])  # fmt: skip
def test_what_pip_says_becomes_one_line(tmp_path: Path, target: str, venv: str, page: str, line: str) -> None:
    """Without a package index pip prints a page. It is kept in a file."""
    pip = f"printf '#!/bin/sh\\nprintf \"{page}\" >&2; exit 1\\n' > {venv}/bin/python; chmod +x {venv}/bin/python"
    done = make(tmp_path, fake_python(tmp_path, f"mkdir -p {venv}/bin; {pip}"), target)
    assert only_line(done).startswith(f"Cannot install the packages: {line}")
    assert "ERROR" in (tmp_path / venv / "pip.log").read_text()


def test_running_from_the_source_leaves_a_command(tmp_path: Path) -> None:
    """`.venv/bin/trilogue` works from every folder, also if the name of its own has a space."""
    folder = tmp_path / "a folder"
    folder.mkdir()
    (folder / "src").symlink_to(ROOT / "src")
    python = fake_python(tmp_path, f'exec {sys.executable} -m venv --without-pip "$3"')
    done = make(folder, python, RUN_STAMP, "PIP=true")
    assert done.returncode == 0, done.stderr
    environ = {**os.environ, "PYTHONPATH": sysconfig.get_path("purelib")}
    command = [str(folder / ".venv" / "bin" / "trilogue"), "--version"]
    shown = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (shown.returncode, shown.stdout[:17]) == (0, "trilogue, version")
