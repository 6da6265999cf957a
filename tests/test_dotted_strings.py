"""Every dotted name of ours in a text can be imported: no type checker looks into `"trilogue.x.y"`.

This covers strings in Python (modules that are loaded by name, code that is started, targets of monkeypatch), comments
and docstrings apart, and all of pages, `pyproject.toml`, `Makefile`, `Dockerfile` and the files of deployment.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from tests.test_names_as_data import LOGGERS, words
from tests.test_repository import repository_files

ROOT = Path(__file__).resolve().parent.parent
DOTTED = re.compile(r"(?<![\w/.@-])trilogue(?:\.[A-Za-z_]\w*)+(?::[A-Za-z_]\w*)?(?![\w-])")
IMPORTED = re.compile(r"(?:\b|\\n)from (trilogue[\w.]*) import ([A-Za-z_]\w*(?:, [A-Za-z_]\w*)*)")
STARTED = re.compile(r"-m[\"', ]+((?:trilogue|tests|benchmarks)(?:\.[A-Za-z_]\w*)*)")
FILE = re.compile(r"(?<![\w/.-])src/trilogue/[\w/]+(?:\.\w+)?")
IMPORT_LINE = re.compile(r"^(?:from|import) .*$", re.MULTILINE)
HISTORY = "CHANGELOG.md"
"""says what things were called"""

FILES = {"crt", "example", "json", "key", "schema", "service", "yaml"}
"""names of files and hosts: `trilogue.yaml`, `trilogue.example.com`"""
ATTRIBUTES = words(
    """
    trilogue.account trilogue.action trilogue.attempts trilogue.client_protocol trilogue.content_dropped
    trilogue.content_truncated trilogue.error trilogue.key trilogue.losses trilogue.model trilogue.parent_request_id
    trilogue.provider trilogue.reason trilogue.request_id trilogue.source trilogue.target trilogue.time_to_first_token
    trilogue.upstream_protocol
    """
)
"""attributes of spans, which docs/tracing.md lists"""
TEMPLATES = {"trilogue.labels", "trilogue.name"}
"""parts of the Helm chart"""
MADE_UP = {"test_dotted_strings.py", "test_house.py", "test_layers.py", "test_public_surface.py"}
"""tests that make up sources"""


@cache
def problem(name: str) -> str:
    """Return why a dotted name leads nowhere, or "". What follows a colon must be in the module before it."""
    module, _, attribute = name.partition(":")
    parts = module.split(".")
    for length in range(len(parts), 0, -1):
        path = ".".join(parts[:length])
        try:
            found: object = import_module(path)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{path}.".startswith(f"{error.name}."):
                return f"{path} cannot be imported: {error}"
            continue
        for inner in [*parts[length:], *([attribute] if attribute else [])]:
            if not hasattr(found, inner):
                return f"{path} has no {'.'.join(parts[length:]) or attribute}"
            found = getattr(found, inner)
        return ""
    return f"there is no {parts[0]}"


def only_looks_dotted(name: str) -> bool:
    return name in LOGGERS | ATTRIBUTES | TEMPLATES or name.partition(".")[2].split(".")[0].partition(":")[0] in FILES


def names_in(text: str) -> Iterator[str]:
    """Yield the dotted names in a text: written out, imported from a module, or started with -m."""
    yield from DOTTED.findall(text)
    for module, names in IMPORTED.findall(text):
        yield from (f"{module}:{name}" for name in names.split(", "))
    for module in STARTED.findall(text):
        if not module.startswith("trilogue."):
            yield module


@cache
def texts_of(file: Path) -> list[str]:
    """Return the strings in a Python file without its docstrings, or all of another file; nothing for binary files."""
    try:
        text = file.read_text("utf-8")
    except UnicodeDecodeError:
        return []
    if file.suffix != ".py":
        return [text]
    if not any(one.search(IMPORT_LINE.sub("", text)) for one in (DOTTED, IMPORTED, STARTED, FILE)):
        return []  # most files: parsing all of them takes seconds
    tree = ast.parse(text)
    prose = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in prose
    ]


def named_files() -> list[Path]:
    """Return the files that may name a module: sources, tests, pages and what builds and starts us."""
    suffixes = ("", ".md", ".py", ".service", ".sh", ".toml", ".yaml", ".yml")
    without = {HISTORY, "LICENSE", *MADE_UP}
    return [file for file in repository_files() if file.suffix in suffixes and file.name not in without]


@cache
def found() -> dict[str, set[str]]:
    """Return the files that have each dotted name."""
    names: dict[str, set[str]] = {}
    for file in named_files():
        for text in texts_of(file):
            for name in names_in(text):
                names.setdefault(name, set()).add(str(file.relative_to(ROOT)))
    return names


def test_every_dotted_name_can_be_imported() -> None:
    problems = {
        name: (why, sorted(files))
        for name, files in found().items()
        if not only_looks_dotted(name) and (why := problem(name))
    }
    assert problems == {}


def test_every_place_is_looked_at() -> None:
    """Each kind of file that has such names is read, so that none of them is passed over."""
    places = {place for files in found().values() for file in files for place in (file, file.partition("/")[0])}
    assert {"src", "tests", "benchmarks", "docs", "README.md", "CONTRIBUTING.md"} <= places
    for file in ("pyproject.toml", "Makefile"):
        assert file in found()["trilogue.__main__:main"]


def test_every_path_of_a_source_exists() -> None:
    paths = {
        path: str(file.relative_to(ROOT))
        for file in named_files()
        for text in texts_of(file)
        for path in FILE.findall(text)
    }
    assert {path: file for path, file in paths.items() if not (ROOT / path).exists()} == {}


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("trilogue.model", ""),
        ("trilogue.model.Text.path", ""),
        ("trilogue.__main__:main", ""),
        ("trilogue.__main__:start", "trilogue.__main__ has no start"),
        ("trilogue.policies.nothing", "trilogue.policies has no nothing"),
        ("trilogue.model.Texts.path", "trilogue.model has no Texts.path"),
        ("trilogues.model", "there is no trilogues"),
    ],
)
def test_names_that_lead_nowhere_are_found(name: str, why: str) -> None:
    assert problem(name) == why


def test_a_module_that_lacks_a_package_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lacking.py").write_text("import trilogue_addition")
    monkeypatch.syspath_prepend(tmp_path)
    assert problem("lacking.x") == "lacking.x cannot be imported: No module named 'trilogue_addition'"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("see trilogue.model.Text, and trilogue.model", ["trilogue.model.Text", "trilogue.model"]),
        (
            "from trilogue.app.cli import main, app; main()",
            ["trilogue.app.cli", "trilogue.app.cli:main", "trilogue.app.cli:app"],
        ),
        ("from trilogue import codec", ["trilogue:codec"]),
        ('trilogue = "trilogue.__main__:main"', ["trilogue.__main__:main"]),
        ("python -m tests.repeat", ["tests.repeat"]),
        ('"-m", "benchmarks.core"', ["benchmarks.core"]),
        ("python -m trilogue.app.cli", ["trilogue.app.cli"]),
        ("see /etc/trilogue/trilogue.yaml, https://x/trilogue.model, a-trilogue.x", []),
    ],
)
def test_names_are_found_in_texts(text: str, names: list[str]) -> None:
    assert [*names_in(text)] == names


def test_strings_are_read_and_docstrings_are_not(tmp_path: Path) -> None:
    file = tmp_path / "made.py"
    file.write_text('"""About a.b."""\nx = "trilogue.d"\ny = f"e.f{x}"\n"""About x."""\n')
    assert sorted(texts_of(file)) == ["e.f", "trilogue.d"]
    plain = tmp_path / "plain.py"
    plain.write_text('from trilogue.model import Text\nx = "c.d"\n')
    assert texts_of(plain) == []
    (tmp_path / "made.bin").write_bytes(b"\xff\xfe")
    assert texts_of(tmp_path / "made.bin") == []
