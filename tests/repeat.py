"""Run `make test` several times as a stranger would: fresh clones, an empty environment, several versions of Python.

    python -m tests.repeat                                  # six runs, the last three beside two busy processes
    python -m tests.repeat --runs 3 --busy-runs 0 --python 3.13
    python -m tests.repeat --target test-all --python /opt/python/bin/python3

What is committed is tested. Prints a line per step and a table in Markdown at the end; exits with 1 if a run failed.
"""

from __future__ import annotations

import argparse
import glob
import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from tests.recordings import ROOT, corpus_directory

VERSIONS = ("3.11", "3.12", "3.13")
MOST_SECONDS = 40 * 60.0
SPIN = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    sum(range(100_000))"
_SUMMARY = re.compile(r"^=* ?((?:\d+ [a-z]+(?: [a-z]+)?, )*\d+ [a-z]+(?: [a-z]+)? in \d[\d.]*s.*?) ?=*$", re.MULTILINE)
_PASSED = re.compile(r"(\d+) passed")
_FAILING = re.compile(r"^(?:FAILED|ERROR) (\S+(?: \S+\])?)", re.MULTILINE)


@dataclass
class Run:
    """One run: what was asked for, and what came of it."""

    number: int
    python: str
    version: str
    busy: int
    result: str = "not run"
    tests: int = 0
    setup: float = 0.0
    seconds: float = 0.0
    failing: list[str] = field(default_factory=list)

    def read(self, output: str) -> None:
        """Take the number of tests and the names of those that failed from what was printed."""
        self.tests = sum(int(found) for line in _SUMMARY.findall(output) for found in _PASSED.findall(line))
        self.failing = sorted(set(_FAILING.findall(output)))


def find_python(wanted: str) -> tuple[str, str] | None:
    """Return the path of a Python and its version. `wanted`: a version such as 3.12, or a path; None: not found."""
    pyenv = os.environ.get("PYENV_ROOT") or str(Path.home() / ".pyenv")
    installed = glob.glob(f"{glob.escape(pyenv)}/versions/{glob.escape(wanted)}.*/bin/python{glob.escape(wanted)}")
    for found in filter(None, (wanted, shutil.which(f"python{wanted}"), *sorted(installed))):
        if Path(found).is_file() and (version := _version(found)):
            return found, version
    return None


def _version(python: str) -> str:
    """Return the version of a Python, or "" if it does not run: pyenv leaves commands for versions that are not on."""
    command = [python, "-c", "import platform; print(platform.python_version())"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Keep the processor busy meanwhile."""
    spinning = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


def clone(source: Path, folder: Path) -> Path:
    """Return a fresh clone, with the recorded traffic beside it if there is any."""
    git, made = shutil.which("git") or "git", folder / "trilogue"
    subprocess.run([git, "clone", "--quiet", "--no-hardlinks", str(source), str(made)], check=True)
    if corpus_directory().is_dir():
        linked = folder / "shared" / "corpus"
        linked.mkdir(parents=True)
        (linked / "open").symlink_to(corpus_directory().resolve())
    return made


def make(folder: Path, target: str, python: str, log: IO[str]) -> tuple[int | None, float]:
    """Run a target of `make` in an environment with nothing but HOME and PATH. Return its exit code and seconds."""
    home = folder.parent / "home"
    home.mkdir(exist_ok=True)
    command = [shutil.which("make") or "make", "-C", str(folder), target, f"PYTHON={python}"]
    environ = {"HOME": str(home), "PATH": os.environ["PATH"]}
    began = time.monotonic()
    process = subprocess.Popen(command, env=environ, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        code: int | None = process.wait(MOST_SECONDS)
    except subprocess.TimeoutExpired:
        code = None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return code, time.monotonic() - began


def carry_out(run: Run, source: Path, folder: Path, target: str) -> None:
    """Do one run, and note in it what came of it. Its output stays in `folder`."""
    log_file = folder / "output.txt"
    with log_file.open("w") as log:
        made = clone(source, folder)
        code, run.setup = make(made, "setup", run.python, log)
        if code == 0:
            with busy(run.busy):
                code, run.seconds = make(made, target, run.python, log)
    run.read(log_file.read_text("utf-8", "replace"))
    if code != 0 and not run.failing:
        run.failing = [line for line in log_file.read_text("utf-8", "replace").splitlines() if line.strip()][-1:]
    run.result = {0: "green", None: f"no end after {MOST_SECONDS / 60:.0f} minutes"}.get(code, f"failed ({code})")
    shutil.rmtree(made)


def table(runs: Sequence[Run]) -> str:
    """Return all runs as a table in Markdown."""
    lines = [
        "| Run | Python | Busy processes | Result | Tests passed | Setup | Time | Failing tests |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for run in runs:
        failing = ", ".join(f"`{name}`" for name in run.failing) or "-"
        cells = [
            run.number,
            run.version,
            run.busy,
            run.result,
            run.tests,
            _clock(run.setup),
            _clock(run.seconds),
            failing,
        ]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def _clock(seconds: float) -> str:
    return f"{round(seconds) // 60}:{round(seconds) % 60:02d}"


def _plan(options: argparse.Namespace) -> list[Run]:
    """Return the runs, with each Python in turn. The last ones have busy processes beside them."""
    pythons = []
    for wanted in options.python or VERSIONS:
        found = find_python(wanted)
        if found is None:
            sys.exit(f"there is no Python {wanted}: name its path with --python")
        pythons.append(found)
    quiet = options.runs - options.busy_runs
    chosen = itertools.islice(itertools.cycle(pythons), options.runs)
    return [
        Run(number, python, version, options.busy if number > quiet else 0)
        for number, (python, version) in enumerate(chosen, 1)
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Do all runs, print what happens, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.repeat", description=__doc__, formatter_class=_Raw)
    parser.add_argument("--runs", type=int, default=6, help="how many, one after the other; default: 6")
    parser.add_argument(
        "--busy-runs", type=int, default=3, help="how many of them, the last, are disturbed; default: 3"
    )
    parser.add_argument("--busy", type=int, default=2, help="busy processes beside those; default: 2")
    parser.add_argument("--python", action="append", help=f"version or path; several in turn; default: {VERSIONS}")
    parser.add_argument("--target", default="test", help="of make; default: test")
    parser.add_argument("--source", type=Path, default=ROOT, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    runs = _plan(options)
    folder = Path(tempfile.mkdtemp(prefix="trilogue-runs-"))
    folder.chmod(0o755)  # the tests of root start PostgreSQL as another user, which reads the clone
    print(f"make {options.target}, {len(runs)} runs; what they print is in {folder}", flush=True)
    for run in runs:
        beside = f", {run.busy} busy processes" if run.busy else ""
        print(f"{time.strftime('%H:%M:%S')} run {run.number}: Python {run.version}{beside}", flush=True)
        place = folder / f"run-{run.number}"
        place.mkdir()
        carry_out(run, options.source, place, options.target)
        print(f"{time.strftime('%H:%M:%S')} run {run.number}: {run.result} in {_clock(run.seconds)}", flush=True)
    print(f"\n{table(runs)}", flush=True)
    return int(any(run.result != "green" for run in runs))


class _Raw(argparse.RawDescriptionHelpFormatter):
    """Keeps the lines of the description."""


if __name__ == "__main__":
    # Leave no tests behind that run on.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    sys.exit(main())
