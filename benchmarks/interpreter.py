"""The interpreter for Python gateways: the one that runs the benchmark, or another one in its own environment.

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
from benchmarks.paths import CACHE, ROOT
from benchmarks.plan import Progress

OLDEST = (3, 11)
SYSTEM = "/usr/bin/"
"""folder of the interpreter of a distribution"""

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
    """The interpreter cannot run the gateways; the message says why."""


@dataclass(frozen=True)
class Interpreter:
    """A Python interpreter and what it reports about itself."""

    program: str
    """program that runs the gateways"""
    path: str
    """real path of the interpreter, which is never published"""
    name: str
    version: str
    compiler: str
    optimized: bool
    """whether it reports profile-guided optimization; Debian's has it but does not report it"""

    @property
    def description(self) -> str:
        """Return a description for the page, without the path."""
        parts = [f"{self.name} {self.version}", self.compiler.strip()]
        if self.path.startswith(SYSTEM):
            parts.append("system Python")
        if self.optimized:
            parts.append("built with --enable-optimizations")
        return ", ".join(parts)

    @property
    def notice(self) -> str | None:
        """Return a warning if it was probably not built for speed, or None."""
        if self.optimized or self.path.startswith(SYSTEM):
            return None
        return (
            "The Python of this run does not report a build with profile-guided optimization. Without it, Python "
            "gateways cost about a quarter more CPU than under a distribution's Python (--python /usr/bin/python3)."
        )

    @property
    def key(self) -> str:
        """Return a key for folder names that is different for every interpreter."""
        return f"{self.version}-{hashlib.sha256(self.path.encode()).hexdigest()[:8]}"


def asked(program: str) -> Interpreter:
    """Script a program which interpreter it is. Raises NoInterpreter."""
    try:
        done = subprocess.run([program, "-c", ASK], capture_output=True, text=True, timeout=60, check=True)
        return Interpreter(program, **json.loads(done.stdout))
    except (OSError, subprocess.SubprocessError, ValueError, TypeError) as error:
        raise NoInterpreter(f"{program} is not a working Python: {type(error).__name__}") from error


def chosen(written: str | None, progress: Progress, cache: Path = CACHE) -> Interpreter:
    """Return the current interpreter or the given one, with everything that Trilogue needs. Raises NoInterpreter."""
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
    """Return an interpreter whose environment has what the lock file says. It finds the checkout by PYTHONPATH."""
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
    """Return an environment for processes that run this checkout and keep bytecode and state in these folders."""
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    own = {"PYTHONPATH": ROOT / "src", "PYTHONPYCACHEPREFIX": bytecode, "XDG_STATE_HOME": state}
    return environ | {name: str(folder) for name, folder in own.items()}


def run_time(pyproject: str) -> list[str]:
    """Return the names of the package's own dependencies, as a lock file spells them."""
    names = [re.split(r"[^\w.-]", wish)[0] for wish in tomllib.loads(pyproject)["project"]["dependencies"]]
    return [re.sub(r"[-_.]+", "-", name).lower() for name in names]


def locked(lock: str, roots: Iterable[str]) -> list[str]:
    """Return the entries of a lock file for these packages and everything that they require."""
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
    """Yield the name and the lines of each package in a file of pip-compile."""
    for entry in re.split(r"\n(?=[a-z0-9])", lock):
        name, separator, _ = entry.partition("==")
        if separator and not name.startswith("#"):
            yield name, entry


def asked_by(entry: str) -> set[str]:
    """Return the packages that require a package, from the comment after its hashes."""
    _, _, comment = entry.partition("# via")
    return set(re.findall(r"^[\s#]*([\w.-]+)$", comment, re.MULTILINE))
