"""Another Python for the gateways: its description, its packages, and errors."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import install
from benchmarks.install import environment, environment_python
from benchmarks.interpreter import NoInterpreter, asked, chosen, locked, own_environ, run_time
from benchmarks.paths import ROOT
from benchmarks.plan import Progress
from benchmarks.startup import import_seconds
from tests.benchmarks.sample import PYTHON

QUIET = Progress(io.StringIO())
LOCK = """\
# by a tool
asked-by-both==1.0 \\
    --hash=sha256:aa
    # via
    #   wanted-one
    #   tool
deeper==1.0 \\
    --hash=sha256:bb
    # via asked-by-both
tool==1.0 \\
    --hash=sha256:cc
    # via trilogue (pyproject.toml)
tools-own==1.0 \\
    --hash=sha256:dd
    # via tool
wanted-one==1.0 \\
    --hash=sha256:ee
    # via trilogue (pyproject.toml)
"""


def test_only_what_is_needed_to_run_is_taken_from_the_lock() -> None:
    """Only the packages for running Trilogue and their dependencies are taken from the lock file, with all hashes."""
    found = locked(LOCK, ["wanted-one"])
    assert [entry.partition("==")[0] for entry in found] == ["asked-by-both", "deeper", "wanted-one"]
    assert all("--hash=" in entry for entry in found)
    with pytest.raises(NoInterpreter, match="lacks nobody"):
        locked(LOCK, ["nobody"])


def test_names_are_spelled_as_in_the_lock() -> None:
    """Names have no versions and extras."""
    assert run_time('[project]\ndependencies = ["Wanted.One[more]>=1", "two ; x"]') == ["wanted-one", "two"]


def test_our_own_lock_has_what_we_need() -> None:
    """The lock file's development tools are left out, and dependencies of dependencies are included."""
    names = run_time((ROOT / "pyproject.toml").read_text())
    found = [entry.partition("==")[0] for entry in locked((ROOT / "requirements.lock").read_text(), names)]
    assert set(names) < set(found)
    assert "pycparser" in found
    assert not {"pytest", "mypy", "ruff", "hatchling"} & set(found)


def test_by_default_it_is_the_one_that_runs_this() -> None:
    """Nothing is installed for the current interpreter, even if it is requested by its path."""
    found = chosen(None, QUIET)
    assert found == chosen(sys.executable, QUIET)
    assert found.program == sys.executable
    assert found.version == ".".join(map(str, sys.version_info[:3]))


def test_it_is_described_without_its_path() -> None:
    """A missing optimization is not mentioned: Debian's Python is optimized but does not report it."""
    assert PYTHON.description == "CPython 3.99.1, GCC 1.2, system Python"
    own = replace(PYTHON, path="/opt/own/python", optimized=True)
    assert own.description == "CPython 3.99.1, GCC 1.2, built with --enable-optimizations"
    assert own.key != PYTHON.key


@pytest.mark.parametrize(
    ("says", "message"),
    [
        (None, "no such program"),
        ("exit 1", "is not a working Python"),
        ("echo hello", "is not a working Python"),
        ("""echo '{"path": "", "name": "", "version": "3.9.2", "compiler": "", "optimized": false}'""", "needs 3.11"),
    ],
)
def test_what_cannot_run_the_gateways_is_refused(tmp_path: Path, says: str | None, message: str) -> None:
    """The error has a reason."""
    program = tmp_path / "python"
    if says:
        program.write_text(f"#!/bin/sh\n{says}\n")
        program.chmod(0o755)
    with pytest.raises(NoInterpreter, match=message):
        chosen(str(program), QUIET)


def test_a_python_without_venv_gets_a_hint(tmp_path: Path) -> None:
    """The error says which package to install, as on Debian."""
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho 'No module named venv' >&2\nexit 1\n")
    program.chmod(0o755)
    problem = environment(str(program), tmp_path / "home", [], "Something")
    assert problem is not None
    assert re.search(r"Something .* No module named venv .*apt install python3-venv", problem)


def test_an_environment_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment runs this checkout, whatever is installed. pip is not tested, because it needs the network."""
    ran = []
    real = install.install

    def without_pip(command: list[str], folder: Path, what: str) -> str | None:
        ran.append(command)
        return None if "pip" in command else real(command, folder, what)

    monkeypatch.setattr(install, "install", without_pip)
    for _ in range(2):
        assert environment(sys.executable, tmp_path / "home", ["--require-hashes"], "Something") is None
    (_, pip) = ran
    python = str(environment_python(tmp_path / "home"))
    assert pip[:5] == [sys.executable, "-m", "pip", "--python", python]
    assert pip[-1] == "--require-hashes"
    assert asked(python).path == asked(sys.executable).path
    code = "import trilogue; print(trilogue.__file__)"
    environ = own_environ(tmp_path / "bytecode", tmp_path)
    said = subprocess.run([python, "-c", code], env=environ, capture_output=True, text=True, check=True).stdout
    assert Path(said.strip()) == ROOT / "src/trilogue/__init__.py"


def test_a_failed_environment_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed environment has no stamp, so it is made again."""
    monkeypatch.setattr(install, "install", lambda command, *_: "no network" if "pip" in command else None)
    assert environment(sys.executable, tmp_path / "home", [], "Something") == "no network"
    monkeypatch.setattr(install, "install", lambda *_: None)
    assert environment(sys.executable, tmp_path / "home", [], "Something") is None


def test_imports_are_measured_under_the_interpreter_that_was_asked_for(tmp_path: Path) -> None:
    """Both the import and the bare start are measured."""
    log = tmp_path / "log"
    program = tmp_path / "python"
    program.write_text(f'#!/bin/sh\necho run >> "{log}"\nexec "{sys.executable}" "$@"\n')
    program.chmod(0o755)
    assert import_seconds(1, "import json", str(program)) is not None
    assert log.read_text().count("run") == 3


def test_figures_of_a_slow_build_are_marked() -> None:
    """Figures of a slow build have a warning, because an installation would be faster."""
    built = replace(PYTHON, path="/opt/python/bin/python3", optimized=False)
    assert "--python /usr/bin/python3" in (built.notice or "")
    assert replace(built, optimized=True).notice is None
    assert replace(built, path="/usr/bin/python3.11").notice is None
