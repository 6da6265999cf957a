"""Run installers, and create virtual environments for an interpreter that may have neither pip nor ensurepip."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

INSTALL_WITHIN = 1200.0
"""time limit in seconds"""
STAMP = "installed"


def install(command: Sequence[str], folder: Path, what: str) -> str | None:
    """Run an installer and return None, or why it failed. It gets the caller's environment, for mirrors and proxies."""
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_WITHIN, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{what} could not be installed: {type(error).__name__}."
    if done.returncode == 0:
        return None
    last = next((line.strip() for line in reversed(done.stderr.splitlines()) if line.strip()), "no message")
    return f"{what} could not be installed: {last[:300]}"


def environment_python(home: Path) -> Path:
    """Return the interpreter of the virtual environment in this folder."""
    return home / "venv" / "bin" / "python"


def environment(program: str, home: Path, packages: Sequence[str], what: str) -> str | None:
    """Create a virtual environment with these packages, unless it exists. Returns None, or why that failed.

    `packages` are arguments of pip. The pip of the caller installs them: without the package python3-venv, Debian's
    Python can create environments, but not with a pip.
    """
    stamp = home / STAMP
    if stamp.exists():
        return None
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    problem = install([program, "-m", "venv", "--without-pip", "venv"], home, what)
    if problem:
        return f"{problem} Does this Python have the module venv (Debian: apt install python3-venv)?"
    pip = [sys.executable, "-m", "pip", "--python", str(environment_python(home)), "install"]
    problem = install([*pip, "--quiet", "--disable-pip-version-check", *packages], home, what)
    if problem is None:
        stamp.touch()
    return problem
