"""The Python that Python gateways run under: the one that runs the benchmark, or another in an environment of its own.

How an interpreter was built is worth a quarter of its speed, so figures mean little without it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.install import environment, environment_python
from benchmarks.plan import Progress
from benchmarks.where import CACHE, ROOT

OLDEST = (3, 11)
SYSTEM = "/usr/bin/"
"""where a distribution keeps its own"""

ASK = """
import json, os, platform, sys, sysconfig
print(json.dumps({
    "path": os.path.realpath(sys.executable),
    "name": platform.python_implementation(),
    "version": platform.python_version(),
    "compiler": platform.python_compiler(),
    "optimized": "--enable-optimizations" in (sysconfig.get_config_var("CONFIG_ARGS") or ""),
}))
"""


class NoInterpreter(Exception):
    """It cannot run the gateways; the message says why."""


@dataclass(frozen=True)
class Interpreter:
    """A Python, and what it says of itself."""

    program: str
    """what runs the gateways"""
    path: str
    """of the interpreter behind it; for our eyes only"""
    name: str
    version: str
    compiler: str
    optimized: bool
    """whether it says that it was built with profile-guided optimization; Debian's was, and does not say so"""

    @property
    def description(self) -> str:
        """For people, without the path."""
        parts = [f"{self.name} {self.version}", self.compiler.strip()]
        if self.path.startswith(SYSTEM):
            parts.append("system Python")
        if self.optimized:
            parts.append("built with --enable-optimizations")
        return ", ".join(parts)

    @property
    def notice(self) -> str | None:
        """What to know of its figures, if it was hardly built for speed."""
        if self.optimized or self.path.startswith(SYSTEM):
            return None
        return (
            "The Python of this run does not report a build with profile-guided optimization. Without it, Python "
            "gateways cost about a quarter more CPU than under a distribution's Python (--python /usr/bin/python3)."
        )

    @property
    def key(self) -> str:
        """For the names of folders: another interpreter has another."""
        return f"{self.version}-{hashlib.sha256(self.path.encode()).hexdigest()[:8]}"


def asked(program: str) -> Interpreter:
    """What this program says of itself."""
    try:
        done = subprocess.run([program, "-c", ASK], capture_output=True, text=True, timeout=60, check=True)
        return Interpreter(program, **json.loads(done.stdout))
    except (OSError, subprocess.SubprocessError, ValueError, TypeError) as error:
        raise NoInterpreter(f"{program} is no Python that runs: {type(error).__name__}") from error


def chosen(written: str | None, progress: Progress, cache: Path = CACHE) -> Interpreter:
    """The one that runs this, or the one that was asked for, with what Trilogue needs to run."""
    if written is None:
        return asked(sys.executable)
    program = shutil.which(written)
    if program is None:
        raise NoInterpreter(f"--python {written}: no such program")
    found = asked(program)
    if tuple(map(int, re.findall(r"\d+", found.version)[:2])) < OLDEST:
        raise NoInterpreter(f"--python {written} is {found.version}: Trilogue needs {OLDEST[0]}.{OLDEST[1]}")
    if Path(program).absolute() == Path(sys.executable).absolute():
        return found
    progress.say(f"preparing {found.description}")
    return replace(found, program=str(with_requirements(found, cache)))


def with_requirements(interpreter: Interpreter, cache: Path) -> Path:
    """The program of an environment that has what the lock file says; the checkout itself is found by PYTHONPATH."""
    wanted = "\n".join(
        locked((ROOT / "requirements.lock").read_text(), run_time((ROOT / "pyproject.toml").read_text()))
    )
    cache.mkdir(exist_ok=True)
    digest = hashlib.sha256(wanted.encode()).hexdigest()[:8]
    file = cache.resolve() / f"requirements-{digest}.txt"
    file.write_text(wanted)
    home = cache.resolve() / f"python-{interpreter.key}-{digest}"
    what = f"What Trilogue needs under {interpreter.name} {interpreter.version}"
    problem = environment(interpreter.program, home, ["--require-hashes", "-r", str(file)], what)
    if problem:
        raise NoInterpreter(problem)
    return environment_python(home)


def own_environ(bytecode: Path, state: Path) -> dict[str, str]:
    """For processes that run this checkout, whatever is installed: bytecode and state are kept in these folders."""
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    own = {"PYTHONPATH": ROOT / "src", "PYTHONPYCACHEPREFIX": bytecode, "XDG_STATE_HOME": state}
    return environ | {name: str(folder) for name, folder in own.items()}


def run_time(pyproject: str) -> list[str]:
    """The names of what the package itself asks for, as a lock file spells them."""
    names = [re.split(r"[^\w.-]", wish)[0] for wish in tomllib.loads(pyproject)["project"]["dependencies"]]
    return [re.sub(r"[-_.]+", "-", name).lower() for name in names]


def locked(lock: str, roots: Iterable[str]) -> list[str]:
    """The entries of a lock file that these packages need: themselves, what they need, what that needs, ..."""
    entries = dict(lock_entries(lock))
    needed: set[str] = set()
    more = set(roots)
    while more:
        needed |= more
        more = {name for name, entry in entries.items() if needed & asked_by(entry)} - needed
    missing = needed - set(entries)
    if missing:
        raise NoInterpreter(f"requirements.lock lacks {', '.join(sorted(missing))} (make lock writes it anew)")
    return [entry for name, entry in entries.items() if name in needed]


def lock_entries(lock: str) -> Iterator[tuple[str, str]]:
    """Name and lines of each package in a file of pip-compile."""
    for entry in re.split(r"\n(?=[a-z0-9])", lock):
        name, separator, _ = entry.partition("==")
        if separator and not name.startswith("#"):
            yield name, entry


def asked_by(entry: str) -> set[str]:
    """Those that need a package, from the comment after its hashes."""
    _, _, comment = entry.partition("# via")
    return set(re.findall(r"^[\s#]*([\w.-]+)$", comment, re.MULTILINE))
