"""Rules for the repository as a whole: no traces of a machine, small functions and files, no exemptions."""

import ast
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted((ROOT / "src").rglob("*.py"))

MAX_FUNCTION_LINES = 60
MAX_FILE_LINES = 600

# Written so that this file does not match itself.
MACHINE_PATH = re.compile(r"(?<![\w.-])/(?:(?:work|home|root)/|tmp/bash)")
REGISTRY = re.compile(r"py[p]i\.\w|pythonh[o]sted|\bnex[u]s\b|artif[a]ctory", re.IGNORECASE)
LOCK_OPTION = re.compile(r"^\s*--(?!hash=)\S+", re.MULTILINE)

NOQA = re.compile(r"#.*\bnoqa\b", re.IGNORECASE)
SLEEP = "sleep" + "("
BARE_IGNORE = re.compile(r"#\s*type:\s*ignore(?!\[[a-z])")


def repository_files() -> list[Path]:
    """Return all files that git tracks or would add."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    command = [git, "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    files = (ROOT / name for name in names.split("\0") if name)
    return [file for file in files if file.is_file()]


def machine_traces(text: str) -> list[str]:
    """Return the machine paths and registry hosts in a text."""
    return [match.group() for pattern in (MACHINE_PATH, REGISTRY) for match in pattern.finditer(text)]


def long_functions(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > MAX_FUNCTION_LINES:
                yield f"{node.name} has {lines} lines"


def exemptions(source: str) -> list[str]:
    """Return the lines that switch off a check: any noqa, and a type: ignore without a code."""
    return [line.strip() for line in source.splitlines() if NOQA.search(line) or BARE_IGNORE.search(line)]


def test_no_file_names_a_machine_path_or_a_registry() -> None:
    found = {
        str(file.relative_to(ROOT)): traces
        for file in repository_files()
        if file.name != "LICENSE" and (traces := machine_traces(file.read_text("utf-8", "replace")))
    }
    assert found == {}


def test_lock_file_has_no_installer_options() -> None:
    assert LOCK_OPTION.findall((ROOT / "requirements.lock").read_text("utf-8")) == []


def test_functions_are_short() -> None:
    found = [f"{file.relative_to(ROOT)}: {hit}" for file in SOURCES for hit in long_functions(file.read_text("utf-8"))]
    assert found == []


def test_files_are_short() -> None:
    lengths = {str(file.relative_to(ROOT)): len(file.read_text("utf-8").splitlines()) for file in SOURCES}
    assert {name: lines for name, lines in lengths.items() if lines > MAX_FILE_LINES} == {}


def test_tests_wait_for_facts() -> None:
    """Only `tests/timing.py` sleeps: other tests wait until something is so, or say that they are about time."""
    timing = ROOT / "tests" / "timing.py"
    files = [file for file in (ROOT / "tests").rglob("*.py") if file != timing and "node_modules" not in file.parts]
    found = [
        f"{file.relative_to(ROOT)}: {line.strip()}"
        for file in files
        for line in file.read_text("utf-8").splitlines()
        if SLEEP in line
    ]
    assert found == []


def test_clients_of_modules_keep_no_connections() -> None:
    """Nobody closes what a module makes for all its tests: a kept connection would be open at the end of the run."""
    made = re.compile(r"^[A-Z_]+ = httpx2\.(?:Async)?Client\((?!.*max_keepalive_connections=0)", re.MULTILINE)
    tests = (file for file in (ROOT / "tests").rglob("*.py") if "node_modules" not in file.parts)
    assert [str(file.relative_to(ROOT)) for file in tests if made.search(file.read_text("utf-8"))] == []


def test_sources_have_no_exemptions() -> None:
    found = [f"{file.relative_to(ROOT)}: {line}" for file in SOURCES for line in exemptions(file.read_text("utf-8"))]
    assert found == []


@pytest.mark.parametrize(
    "text",
    ["see /wo" + "rk/main", '"/ho' + 'me/me/x"', "/tm" + "p/bash_jobs", "https://pyp" + "i.org/simple", "Nex" + "us"],
)
def test_traces_are_found(text: str) -> None:
    assert machine_traces(text)


@pytest.mark.parametrize("text", ["docs/work/x.md", "https://example.org/home", "the PyPI name", "nexuses"])
def test_innocent_text_is_not_a_trace(text: str) -> None:
    assert machine_traces(text) == []


def test_long_function_is_found() -> None:
    body = "    x = 1\n" * MAX_FUNCTION_LINES
    assert list(long_functions(f"def f():\n{body}")) == ["f has 61 lines"]


def test_exemptions_are_found() -> None:
    lines = ["x = 1  # no" + "qa: E501", "y = 2  # type: ig" + "nore", "z = 3  # type: ig" + "nore[arg-type]"]
    assert exemptions("\n".join(lines)) == lines[:2]
